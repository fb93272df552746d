//! Messages in their handler, as a task: their attempts are counted, their leases renewed, a panic
//! is a failure, and a stop ends it. A batch that fails is taken apart, part by part.

use super::attempt::{Failure, Task, Terms, Worked, work};
use super::handler::FailureKind;
use crate::order::Ticket;
use hapax_store::attempt_count::{AttemptCount, Sent};
use hapax_store::{Store, StoreError, TieredClaim, join_all};
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::sync::oneshot;

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
pub(crate) struct Item<S: Store, M> {
    pub(crate) ticket: Ticket,
    pub(crate) task: Task<M>,
    pub(crate) claim: Option<TieredClaim<S>>,
    pub(crate) stop: oneshot::Receiver<()>,
}

/// Messages to be handled, in parts: the last part now, together, and the others after it.
pub(crate) struct Work<S: Store, M> {
    pub(crate) terms: Arc<Terms<M>>,
    pub(crate) parts: Vec<Vec<Item<S, M>>>,
}

/// The consequences of handling one part.
pub(crate) struct Handled<S: Store, M> {
    pub(crate) ended: Vec<(Ticket, Ended<S>)>,
    /// The parts to be handled next, whose claims are held.
    pub(crate) rest: Vec<Vec<Item<S, M>>>,
    /// The reason for which several messages have failed together, which are to be told apart.
    pub(crate) split: Option<String>,
}

/// The event that ends a message's handling before that ends by itself.
#[derive(Clone, Copy)]
enum Interrupted {
    Stopped,
    Lost,
}

impl<S: Store, M: Send + Sync + 'static> Work<S, M> {
    /// Handles the last part. When a message is interrupted, of whatever part, the handler is
    /// dropped, and the other messages are to be handled again.
    pub(crate) async fn run(mut self) -> Handled<S, M> {
        let (split, interrupted) = self.handle().await;
        let (mut interrupted, mut ending) = (interrupted.into_iter(), Vec::new());
        for part in &mut self.parts {
            for item in std::mem::take(part) {
                let interrupted = interrupted.next().flatten();
                let has_ended = item.task.has_worked() || interrupted.is_some();
                if has_ended { ending.push((item, interrupted)) } else { part.push(item) }
            }
        }
        if let Some(part) = self.parts.pop() {
            self.parts.extend(taken_apart(part, split.is_some()));
        }
        self.parts.retain(|part| !part.is_empty());
        let ended = join_all(ending.into_iter().map(|(item, interrupted)| item.end(&self.terms, interrupted))).await;
        Handled { ended, rest: self.parts, split }
    }

    /// Returns the reason for which the messages of the last part have failed together, if they
    /// have, and the interruption of each message of all parts.
    async fn handle(&mut self) -> (Option<String>, Vec<Option<Interrupted>>) {
        let (last, mut n) = (self.parts.len().saturating_sub(1), 0);
        let (mut now, mut stops, mut claims, mut places) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (part, items) in self.parts.iter_mut().enumerate() {
            for Item { task, claim, stop, .. } in items {
                stops.push(stop);
                if let Some(claim) = claim {
                    claims.push(claim);
                    places.push(n);
                }
                if part == last {
                    now.push(task);
                }
                n += 1;
            }
        }
        let mut interrupted = vec![None; n];
        // The handler is dropped before the claims end.
        let mut working = pin!(work(&self.terms, now));
        let mut lost = pin!(TieredClaim::keep_all(claims));
        let worked = poll_fn(|cx| {
            // First, since a task that must not begin any more is told so before its handler is
            // called.
            let mut ends = false;
            for (stop, interrupted) in stops.iter_mut().zip(&mut interrupted) {
                if Pin::new(stop).poll(cx).is_ready() {
                    (*interrupted, ends) = (Some(Interrupted::Stopped), true);
                }
            }
            if !ends && let Poll::Ready(lost) = lost.as_mut().poll(cx) {
                ends = true;
                lost.into_iter().for_each(|at| interrupted[places[at]] = Some(Interrupted::Lost));
            }
            if ends { Poll::Ready(None) } else { working.as_mut().poll(cx) }
        });
        let split = worked.await;
        (split, interrupted)
    }
}

/// Returns the parts in which the rest of a part is to be handled, the first one last.
fn taken_apart<S: Store, M>(part: Vec<Item<S, M>>, is_split: bool) -> Vec<Vec<Item<S, M>>> {
    let (alone, mut others): (Vec<_>, Vec<_>) = part.into_iter().partition(|item| item.task.is_alone());
    let mut parts: Vec<Vec<_>> = alone.into_iter().rev().map(|item| vec![item]).collect();
    if is_split {
        parts.push(others.split_off(others.len().div_ceil(2)));
    }
    parts.push(others);
    parts
}

impl<S: Store, M: Send + Sync + 'static> Item<S, M> {
    async fn end(mut self, terms: &Terms<M>, interrupted: Option<Interrupted>) -> (Ticket, Ended<S>) {
        let mut claim = self.claim.take();
        let ended = match (self.task.worked(), interrupted) {
            (Some(Worked::Failed(failure)), _) => self.failed(*failure, claim, terms).await,
            (Some(Worked::Handled), _) => {
                // Even if this task's end is not taken any more, the work is not done again at
                // once.
                claim.iter_mut().for_each(TieredClaim::work_is_done);
                Ended::Done(claim)
            }
            (Some(Worked::Overdue(count)), _) => {
                let (again, began, max) = (count.is_put_aside(self.task.sent), count.began, terms.max_attempts);
                let why = if again {
                    "it was put aside before, and its broker has missed that".to_owned()
                } else {
                    format!("{began} of {max} attempts have begun, and none has handled it")
                };
                Ended::Overdue(Box::new(Dying { why, claim, count, again }))
            }
            (Some(Worked::Uncounted(error)), _) => released(claim, Ended::Uncounted(error)).await,
            (None, Some(Interrupted::Stopped)) => {
                self.task.take_back(terms).await;
                released(claim, Ended::Stopped).await
            }
            // The new holder of the id also has its count: this attempt stays in it.
            (None, _) => released(claim, Ended::Lost).await,
        };
        (self.ticket, ended)
    }

    async fn failed(&self, failure: Failure, claim: Option<TieredClaim<S>>, terms: &Terms<M>) -> Ended<S> {
        let Failure { why, how, attempt, is_last, counts, again, count } = failure;
        if is_last {
            return Ended::Exhausted { how, dead: Box::new(Dying { why, claim, count, again }) };
        }
        // One wait for both: a message that came before its claim has ended would find it in
        // progress. (Where its attempts stay as many as they are, the deliveries say how long it
        // has been so.)
        let deliveries = self.task.sent.deliveries.unwrap_or(0);
        let failures = if counts { attempt } else { attempt.max(deliveries) };
        let after = how.after(|| terms.back_off.after(failures, self.task.random));
        if let Some(claim) = claim {
            // If that fails, the lease ends by itself, and the message comes again all the same.
            let _ = claim.fail(after).await;
        }
        Ended::Failed { why, how, counts, after }
    }
}

async fn released<S: Store>(claim: Option<TieredClaim<S>>, ended: Ended<S>) -> Ended<S> {
    if let Some(claim) = claim {
        // The same; and a claim that was lost needs no release.
        let _ = claim.release().await;
    }
    ended
}
