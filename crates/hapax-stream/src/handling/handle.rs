//! One message in its handler, as a task: its attempt is counted, the lease is renewed, a panic is
//! a failure, and a stop ends it.

use super::counting::Counting;
use super::delivery::Delivery;
use super::handler::{FailureKind, Handler, call};
use crate::telemetry::counts::Counts;
use crate::telemetry::event::Event;
use crate::telemetry::health::Standing;
use crate::telemetry::meters::KindMeters;
use hapax::Token;
use hapax::seam::random::mix;
use hapax_store::attempt_count::{AttemptCount, Sent};
use hapax_store::back_off::BackOff;
use hapax_store::{SideRecord, Store, StoreError, StoredId, TieredClaim};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, SemaphorePermit, oneshot};

/// The end of a message's handling.
pub(crate) enum Ended<S: Store> {
    /// It is handled, and its claim is to be completed.
    Done(Option<TieredClaim<S>>),
    /// It failed, and its claim was failed, for this long.
    Failed { why: String, how: FailureKind, counts: bool, after: Duration },
    /// It failed for the last time. The claim is held until the message is put aside.
    Exhausted { how: FailureKind, dead: Box<Dying<S>> },
    /// It was not handled: all its attempts have begun before, or it was put aside already. The
    /// claim is held until it is put aside.
    Overdue(Box<Dying<S>>),
    /// It was not handled: the store does not report the number of the attempt, and a further call
    /// would not help soon.
    Uncounted(StoreError),
    /// Another caller has the id.
    Lost,
    /// It was told to stop, and the claim is released.
    Stopped,
}

/// The end of a message that is to be put aside.
pub(crate) struct Dying<S: Store> {
    pub(crate) why: String,
    pub(crate) claim: Option<TieredClaim<S>>,
    pub(crate) count: AttemptCount,
    /// True if it was put aside already, and the broker has missed it.
    pub(crate) again: bool,
}

impl<S: Store> Dying<S> {
    /// Notes in the store that this delivery was put aside, and gives the id free: what is put
    /// aside is not done, and whoever sends it anew has it handled. If the store cannot be told, a
    /// repetition of this delivery is tried again.
    pub(crate) async fn is_put_aside(&mut self, sent: Sent, kept_for: Duration) {
        let Some(claim) = self.claim.take() else { return };
        if let Some(note) = claim.side_record() {
            let _ = note.write(self.count.put_aside(sent).encode(), kept_for).await;
        }
        let _ = claim.release().await;
    }
}

/// A message to be handled, its claim and its stop.
pub(crate) struct Work<S: Store, M> {
    pub(crate) task: Task<M>,
    pub(crate) claim: Option<TieredClaim<S>>,
    pub(crate) stop: oneshot::Receiver<()>,
}

/// The message and the parameters of its handling, without its end.
pub(crate) struct Task<M> {
    pub(crate) handler: Handler<M>,
    pub(crate) message: Arc<M>,
    /// The id, or another name of the message, if it has none.
    pub(crate) id: StoredId,
    pub(crate) sent: Sent,
    pub(crate) token: Token,
    pub(crate) counting: Counting,
    pub(crate) max_attempts: u32,
    /// The handler's time-out.
    pub(crate) timeout: Duration,
    pub(crate) back_off: BackOff,
    pub(crate) store_back_off: BackOff,
    /// This message's number for waits, which differ from those of others.
    pub(crate) random: u64,
    /// A permit for one: an attempt that may be the one that has killed its process is the only
    /// last attempt under way.
    pub(crate) alone: Arc<Semaphore>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) standing: Arc<Standing>,
    /// The metrics of the message's kind, if it is told apart.
    pub(crate) kind: Option<Arc<KindMeters>>,
}

/// The progress of an attempt, which is known even if it was stopped.
#[derive(Default)]
struct Progress {
    /// The count of attempts that the store has, or perhaps has, since this attempt began.
    begun: Option<AttemptCount>,
    /// The time since which the handler runs.
    since: Option<Instant>,
    failure: Option<Failure>,
}

struct Failure {
    why: String,
    how: FailureKind,
    attempt: u32,
    is_last: bool,
    /// True if it was an attempt.
    counts: bool,
    /// True if the message was put aside before.
    again: bool,
    count: AttemptCount,
}

/// The end that the task came to by itself.
enum Worked {
    /// Its handler has ended, and has failed if there is a failure.
    Handled,
    Overdue(AttemptCount),
    Uncounted(StoreError),
}

/// The event that ends it before.
enum Interrupted {
    Stopped,
    Lost,
}

impl<S: Store, M: Send + Sync + 'static> Work<S, M> {
    pub(crate) async fn run(self) -> Ended<S> {
        let Work { task, mut claim, stop } = self;
        let mut progress = Progress::default();
        let worked = {
            // The handler is dropped before the claim ends.
            let mut working = pin!(task.work(&mut progress));
            let mut lost = pin!(lost(claim.as_mut()));
            let mut stop = pin!(stop);
            std::future::poll_fn(move |cx| {
                // First, since a task that must not begin any more is told so before its handler is
                // called.
                if stop.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Err(Interrupted::Stopped));
                }
                if lost.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(Err(Interrupted::Lost));
                }
                working.as_mut().poll(cx).map(Ok)
            })
            .await
        };
        if let Some(since) = progress.since {
            task.counts.of(task.kind.as_deref()).handled(since.elapsed());
        }
        if let Some(failure) = progress.failure {
            let deliveries = task.sent.deliveries.unwrap_or(0);
            return failed(failure, claim, deliveries, |failures| task.back_off.after(failures, task.random)).await;
        }
        match worked {
            Ok(Worked::Handled) => {
                // Even if this task's end is not taken any more, the work is not done again at
                // once.
                claim.iter_mut().for_each(TieredClaim::work_is_done);
                Ended::Done(claim)
            }
            Ok(Worked::Overdue(count)) => {
                let (again, began, max) = (count.is_put_aside(task.sent), count.began, task.max_attempts);
                let why = if again {
                    "it was put aside before, and its broker has missed that".to_owned()
                } else {
                    format!("{began} of {max} attempts have begun, and none has handled it")
                };
                Ended::Overdue(Box::new(Dying { why, claim, count, again }))
            }
            Ok(Worked::Uncounted(error)) => released(claim, Ended::Uncounted(error)).await,
            Err(Interrupted::Stopped) => {
                task.take_back(progress.begun).await;
                released(claim, Ended::Stopped).await
            }
            // The new holder of the id also has its count: this attempt stays in it.
            Err(Interrupted::Lost) => released(claim, Ended::Lost).await,
        }
    }
}

async fn failed<S: Store>(
    failure: Failure,
    claim: Option<TieredClaim<S>>,
    deliveries: u32,
    back_off: impl Fn(u32) -> Duration,
) -> Ended<S> {
    let Failure { why, how, attempt, is_last, counts, again, count } = failure;
    if is_last {
        return Ended::Exhausted { how, dead: Box::new(Dying { why, claim, count, again }) };
    }
    // One wait for both: a message that came before its claim has ended would find it in progress.
    // (Where its attempts stay as many as they are, the deliveries say how long it has been so.)
    let after = how.after(|| back_off(if counts { attempt } else { attempt.max(deliveries) }));
    if let Some(claim) = claim {
        // If that fails, the lease ends by itself, and the message comes again all the same.
        let _ = claim.fail(after).await;
    }
    Ended::Failed { why, how, counts, after }
}

async fn released<S: Store>(claim: Option<TieredClaim<S>>, ended: Ended<S>) -> Ended<S> {
    if let Some(claim) = claim {
        // The same; and a claim that was lost needs no release.
        let _ = claim.release().await;
    }
    ended
}

impl<M: Send + Sync + 'static> Task<M> {
    async fn work(&self, progress: &mut Progress) -> Worked {
        let (attempt, _alone) = match self.begin(progress).await {
            Ok(begun) => begun,
            Err(worked) => return worked,
        };
        let is_last = attempt >= self.max_attempts;
        let (message, token) = (Arc::clone(&self.message), self.token);
        let delivery = Delivery { message, token, attempt, is_last };
        let since = Instant::now();
        progress.since = Some(since);
        let handled = call(&self.handler, delivery, self.timeout).await;
        progress.since = None;
        self.counts.of(self.kind.as_deref()).handled(since.elapsed());
        let Err((why, how)) = handled else {
            self.standing.outage().succeeded();
            return Worked::Handled;
        };
        let begun = progress.begun;
        let count = begun.unwrap_or_default();
        let counts = how.is_attempt(&self.standing, self.id, self.random);
        let failed = Failure { why, how, attempt, is_last: false, counts, again: false, count };
        let failure = progress.failure.insert(failed);
        if !counts {
            self.take_back(begun).await;
            return Worked::Handled;
        }
        failure.is_last = is_last || how == FailureKind::GaveUp;
        (failure.count, failure.again) = self.count_failed(begun, attempt).await;
        failure.is_last |= failure.again || failure.count.began >= self.max_attempts;
        Worked::Handled
    }

    /// Returns the number of the attempt, once it is known, and the store knows that the attempt
    /// has begun.
    async fn begin(&self, progress: &mut Progress) -> Result<(u32, Option<SemaphorePermit<'_>>), Worked> {
        let note = match &self.counting {
            Counting::Here(failures, _) => return Ok((failures.saturating_add(1), None)),
            Counting::WhenFailed(_) => return Ok((1, None)),
            Counting::Before(note) => note,
        };
        let tally = self.read(note).await.map_err(Worked::Uncounted)?.of(self.sent);
        if tally.is_put_aside(self.sent) || tally.began >= self.max_attempts {
            return Err(Worked::Overdue(tally));
        }
        let begun = tally.with_one_begun();
        // Of the messages that were in progress when a process died, one may have killed it, and
        // would take the others with it: they must not all be convicted.
        let is_tried = tally.is_suspect() && begun.began >= self.max_attempts;
        let alone = if is_tried { self.alone.acquire().await.ok() } else { None };
        progress.begun = Some(begun);
        self.write(note, begun).await.map_err(Worked::Uncounted)?;
        Ok((begun.began, alone))
    }

    /// Counts a failure, in the store if that is done there. Returns the count, and true if the
    /// message was put aside before.
    async fn count_failed(&self, begun: Option<AttemptCount>, attempt: u32) -> (AttemptCount, bool) {
        let known = AttemptCount::failures(attempt);
        match (&self.counting, begun) {
            (Counting::WhenFailed(note), _) => {
                // Copies of the message may have been tried, which the broker counts apart.
                let Ok(tally) = self.read(note).await else { return (known, false) };
                let failed = tally.of(self.sent).with_one_begun().with_one_failed();
                // If the store cannot be told, there is one attempt more.
                let _ = self.write(note, failed).await;
                (failed, false)
            }
            (Counting::Before(note), Some(begun)) => {
                // It is counted already; this only notes that it has not killed its process.
                let failed = begun.with_one_failed();
                let _ = note.write(failed.encode(), self.at_least()).await;
                (failed, false)
            }
            // The first failure here may be of what was put aside.
            (Counting::Here(0, Some(note)), _) => {
                let again = self.read(note).await.is_ok_and(|kept| kept.is_put_aside(self.sent));
                (known, again)
            }
            _ => (known, false),
        }
    }

    /// Takes back the count of an attempt that was stopped, if the store can be told.
    async fn take_back(&self, begun: Option<AttemptCount>) {
        if let (Counting::Before(note), Some(begun)) = (&self.counting, begun) {
            let _ = note.write(begun.with_one_taken_back().encode(), self.at_least()).await;
        }
    }

    async fn read(&self, note: &SideRecord) -> Result<AttemptCount, StoreError> {
        self.patiently(move || note.read()).await.map(AttemptCount::decode)
    }

    async fn write(&self, note: &SideRecord, tally: AttemptCount) -> Result<(), StoreError> {
        self.patiently(move || note.write(tally.encode(), self.at_least())).await
    }

    /// Returns the least time that a count is kept: until the attempt after the next one that this
    /// consumer itself delays.
    fn at_least(&self) -> Duration {
        self.back_off.max.saturating_mul(2)
    }

    /// Asks the store until it answers: the claim is renewed meanwhile, and a stop or its loss ends
    /// the wait.
    async fn patiently<T, F>(&self, ask: impl Fn() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        for failures in 1.. {
            match ask().await {
                Err(error) if error.kind().is_transient() => {
                    self.counts.add_of(self.kind.as_deref(), Event::StoreError, 1);
                    let wait = self.store_back_off.after(failures, mix(self.random ^ u64::from(failures)));
                    tokio::time::sleep(wait).await;
                }
                answer => return answer,
            }
        }
        unreachable!("there is always one more")
    }
}

/// Waits until the claim, if there is one, is lost.
async fn lost<S: Store>(claim: Option<&mut TieredClaim<S>>) {
    match claim {
        Some(claim) => claim.keep().await,
        None => std::future::pending().await,
    }
}
