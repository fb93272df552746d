//! The futures that a consumer awaits: one call of each kind at most, its handlers, and a timer.

use crate::handling::handle::{Dying, Handled};
use crate::handling::handler::cut;
use crate::order::Ticket;
use crate::source::{Partition, Source};
use hapax_store::attempt_count::AttemptCount;
use hapax_store::{NotCompleted, Store, StoreError, TieredAttempt};
use std::collections::HashSet;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, Sleep};

/// A call under way, with the event of its answer.
type Call<'r, S, Src> = Option<Pin<Box<dyn Future<Output = Happened<S, Src>> + Send + 'r>>>;
type Received<Src> = Result<Option<Vec<<Src as Source>::Message>>, <Src as Source>::Error>;

/// The source's answer to a call.
pub(crate) type Told<Src> = Result<(), <Src as Source>::Error>;
/// The result of an acknowledgement; the outer error is that of the flush before it.
type Acknowledged<Src> = Result<Told<Src>, StoreError>;
type Attempts<S> = Vec<Result<TieredAttempt<S>, StoreError>>;
/// A claim that was to be completed: its message, a flag that it was verified, and the result.
pub(crate) type Completed<S> = (Ticket, bool, Result<(), NotCompleted<S>>);

/// A message that is to be put aside.
pub(crate) struct Dead<S: Store> {
    pub(crate) ticket: Ticket,
    pub(crate) dying: Box<Dying<S>>,
}

impl<S: Store> Dead<S> {
    /// Returns one that nobody has claimed.
    pub(crate) fn unclaimed(ticket: Ticket, mut why: String) -> Self {
        cut(&mut why);
        let dying = Dying { why, claim: None, count: AttemptCount::default(), again: false };
        Dead { ticket, dying: Box::new(dying) }
    }
}

/// An event of a run.
pub(crate) enum Happened<S: Store, Src: Source> {
    Shutdown,
    Due,
    Revoked(Vec<Partition>),
    Released,
    Handled(Result<(tokio::task::Id, Handled<S, Src::Message>), JoinError>),
    Completed(Vec<Completed<S>>),
    /// A completion that was tried by itself.
    CompletedLate(Result<Completed<S>, JoinError>),
    /// Acknowledged these messages, unless the engine's flush failed.
    Acknowledged(Vec<Ticket>, Acknowledged<Src>),
    Retried(Vec<Ticket>, Told<Src>),
    /// The errors of telling the broker which messages are still worked on.
    Extended(Vec<String>),
    DeadLettered(Vec<Dead<S>>, Told<Src>),
    Claimed(Vec<Ticket>, Attempts<S>),
    Received(Received<Src>),
}

/// The calls under way.
pub(crate) struct Calls<'r, S: Store, Src: Source> {
    pub(crate) shutdown: Call<'r, S, Src>,
    pub(crate) revoked: Call<'r, S, Src>,
    /// Waits until the consumer is paused, or goes on.
    pub(crate) switched: Call<'r, S, Src>,
    pub(crate) released: Call<'r, S, Src>,
    pub(crate) complete: Call<'r, S, Src>,
    pub(crate) completing_since: Instant,
    /// Completions that are tried by themselves.
    pub(crate) late: JoinSet<Completed<S>>,
    /// The messages of the acknowledgement under way.
    pub(crate) acknowledging: Vec<Ticket>,
    pub(crate) acknowledge: Call<'r, S, Src>,
    pub(crate) retry: Call<'r, S, Src>,
    pub(crate) extend: Call<'r, S, Src>,
    pub(crate) dead_letter: Call<'r, S, Src>,
    pub(crate) claim: Call<'r, S, Src>,
    pub(crate) receive: Call<'r, S, Src>,
    pub(crate) handlers: JoinSet<Handled<S, Src::Message>>,
    timer: Pin<Box<Sleep>>,
}

impl<'r, S: Store, Src: Source> Calls<'r, S, Src> {
    pub(crate) fn new(shutdown: impl Future<Output = ()> + Send + 'r) -> Self {
        Calls {
            shutdown: call(async move {
                shutdown.await;
                Happened::Shutdown
            }),
            revoked: None,
            switched: None,
            released: None,
            complete: None,
            completing_since: Instant::now(),
            late: JoinSet::new(),
            acknowledging: Vec::new(),
            acknowledge: None,
            retry: None,
            extend: None,
            dead_letter: None,
            claim: None,
            receive: None,
            handlers: JoinSet::new(),
            timer: Box::pin(tokio::time::sleep_until(Instant::now())),
        }
    }

    /// Cancels the acknowledgement of these messages. If one of them was about to be acknowledged,
    /// returns the others of that call, which are still to be acknowledged.
    pub(crate) fn cancel_acknowledging(&mut self, gone: &HashSet<Ticket>) -> Vec<Ticket> {
        if self.acknowledge.is_none() || !self.acknowledging.iter().any(|ticket| gone.contains(ticket)) {
            return Vec::new();
        }
        self.acknowledge = None;
        let acknowledging = std::mem::take(&mut self.acknowledging);
        acknowledging.into_iter().filter(|ticket| !gone.contains(ticket)).collect()
    }

    /// Waits for the next event, or until this time.
    pub(crate) async fn next(&mut self, until: Option<Instant>) -> Happened<S, Src> {
        if let Some(until) = until
            && self.timer.deadline() != until
        {
            self.timer.as_mut().reset(until);
        }
        std::future::poll_fn(|cx| self.poll_next(cx, until.is_some())).await
    }

    /// Polls calls that make room before those that fill it.
    fn poll_next(&mut self, cx: &mut Context<'_>, timed: bool) -> Poll<Happened<S, Src>> {
        let ends = [&mut self.shutdown, &mut self.revoked, &mut self.released, &mut self.switched];
        if let Some(happened) = first(ends, cx) {
            return Poll::Ready(happened);
        }
        if timed && self.timer.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Happened::Due);
        }
        if let Some(happened) = first([&mut self.extend, &mut self.acknowledge, &mut self.complete], cx) {
            return Poll::Ready(happened);
        }
        if let Poll::Ready(Some(completed)) = self.late.poll_join_next(cx) {
            return Poll::Ready(Happened::CompletedLate(completed));
        }
        if let Some(happened) = first([&mut self.retry, &mut self.dead_letter], cx) {
            return Poll::Ready(happened);
        }
        if let Poll::Ready(Some(handled)) = self.handlers.poll_join_next_with_id(cx) {
            return Poll::Ready(Happened::Handled(handled));
        }
        first([&mut self.claim, &mut self.receive], cx).map_or(Poll::Pending, Poll::Ready)
    }
}

/// Returns a call that is under way.
pub(crate) fn call<'r, S: Store, Src: Source>(
    answer: impl Future<Output = Happened<S, Src>> + Send + 'r,
) -> Call<'r, S, Src> {
    Some(Box::pin(answer))
}

/// Polls calls, and removes the first one that answers; an absent call never answers.
fn first<S: Store, Src: Source, const N: usize>(
    calls: [&mut Call<'_, S, Src>; N],
    cx: &mut Context<'_>,
) -> Option<Happened<S, Src>> {
    calls.into_iter().find_map(|call| match call.as_mut()?.as_mut().poll(cx) {
        Poll::Ready(happened) => {
            *call = None;
            Some(happened)
        }
        Poll::Pending => None,
    })
}
