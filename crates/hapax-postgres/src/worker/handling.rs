//! Runs of messages, by one handler, on a connection of its own.
//!
//! A batch has the next message of each run, and takes one transaction, which locks the messages,
//! has the handler's effect, and removes them. Where some of a claim's lease has passed, or a claim
//! of the message was lost, one of ours comes before it, which renews leases, and counts the
//! attempt. A batch that fails is taken apart, half by half: it is unknown which message is to
//! blame.

use super::case::{Case, Ended, Running, Session};
use super::lane::{Columns, Lane};
use super::work::Work;
use crate::claims::attempt::{Cause, Failed};
use crate::claims::queue::{Fate, Outcome, Tried};
use crate::schema::statements;
use crate::telemetry::meters::Event;
use crate::telemetry::spans;
use crate::transaction::Value;
use hapax_store::StoreError;
use hapax_store::sync::Ordering;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

/// The time by which a run is put off that could not be begun.
const PUT_OFF: Duration = Duration::from_millis(500);

/// The end of a run.
pub(super) struct Handled {
    pub outcome: Outcome,
    /// Messages that were begun.
    pub begun: usize,
    /// The error for which the run did not go on, if no message is at fault.
    pub error: Option<StoreError>,
}

impl<H: Send + Sync + 'static> Work<H> {
    /// Handles runs, as many together as a batch may have, as long as some wait.
    pub(super) async fn work_off<S: Session<H>>(self: Arc<Self>, ended: UnboundedSender<Handled>) {
        let (mut session, mut lanes) = (None::<S>, Vec::new());
        loop {
            lanes.extend(self.waiting.next(lanes.len(), &self.is_stopping).into_iter().map(Lane::of));
            if lanes.is_empty() {
                break;
            }
            let mut error = self.round(&mut session, &mut lanes).await.err();
            let (ends, is_broken) = (self.is_stopping.load(Ordering::Relaxed), error.is_some());
            let over;
            (over, lanes) =
                lanes.into_iter().partition::<Vec<Lane>, _>(|lane| ends || is_broken || lane.head().is_none());
            for mut lane in over {
                if is_broken && !lane.left.is_empty() {
                    lane.outcome.put_off = PUT_OFF;
                }
                if ended.send(self.ended(lane, error.take())).is_err() {
                    return;
                }
            }
        }
        if let Some(session) = session {
            session.finish();
        }
    }

    /// Handles the next message of each run: together, but for those that have failed or were lost
    /// before, each of which might fail the others, or take them with it. Fails if no message is at
    /// fault; nothing is open on the session then.
    async fn round<S: Session<H>>(&self, session: &mut Option<S>, lanes: &mut [Lane]) -> Result<(), StoreError> {
        for lane in &mut *lanes {
            while let Some(tried) = lane.head().and_then(|head| self.meters.unfit(head, "handled")) {
                lane.left.pop_front();
                lane.outcome.fates.push(tried);
            }
        }
        let is_alone = |at: &usize| lanes[*at].head().is_some_and(|head| head.was_lost);
        let (alone, together): (Vec<_>, Vec<_>) =
            (0..lanes.len()).filter(|at| lanes[*at].head().is_some()).partition(is_alone);
        let mut parts: Vec<Vec<usize>> = alone.into_iter().map(|at| vec![at]).collect();
        parts.push(together);
        while let Some(mut part) = parts.pop().filter(|_| !self.is_stopping.load(Ordering::Relaxed)) {
            if part.is_empty() {
                continue;
            }
            match self.attempt(session, lanes, &part).await? {
                Ended::Answered(failures) => {
                    for (at, failed) in part.into_iter().zip(failures) {
                        self.tried(&mut lanes[at], failed.as_ref());
                    }
                }
                Ended::Lost(places) => {
                    for at in places.into_iter().rev().map(|place| part.remove(place)) {
                        let lane = &mut lanes[at];
                        (lane.is_over, lane.outcome.put_off) = (true, PUT_OFF);
                        self.meters
                            .happened(Event::Lost, lane.left.iter().take(1).map(|head| head.message.kind.as_deref()));
                    }
                    parts.push(part);
                }
                Ended::Failed(failed) | Ended::Broken(failed, _) => {
                    if part.len() > 1 && !matches!(failed.cause, Cause::Later(_)) {
                        parts.push(part.split_off(part.len().div_ceil(2)));
                        parts.push(part);
                        continue;
                    }
                    part.into_iter().for_each(|at| self.tried(&mut lanes[at], Some(&failed)));
                }
                Ended::NotBegun(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Handles the next messages of these runs in one transaction. The leases of the others are
    /// renewed with theirs.
    async fn attempt<S: Session<H>>(
        &self,
        session: &mut Option<S>,
        lanes: &mut [Lane],
        part: &[usize],
    ) -> Result<Ended, StoreError> {
        let mut current = match session.take() {
            Some(session) => session,
            None => S::connect(&self.database).await?,
        };
        let began = Instant::now();
        let is_late = |lane: &Lane| lane.head().is_some() && lane.leased_at.elapsed() >= self.to_settle() / 2;
        let renews = lanes.iter().any(is_late);
        if renews {
            lanes.iter_mut().for_each(|lane| lane.leased_at = began);
        }
        let (mut columns, mut heads) = (Columns::default(), Vec::with_capacity(part.len()));
        for lane in part.iter().map(|&at| &lanes[at]) {
            heads.extend(lane.head().inspect(|head| columns.message(lane, head)));
        }
        if renews {
            let others = lanes.iter().enumerate().filter(|(at, lane)| lane.head().is_some() && !part.contains(at));
            others.for_each(|(_, lane)| columns.lease(lane));
        }
        let case = Case::new(self, &lanes[part[0]].outcome.name, &heads, &columns, renews);
        let handling = current.handle(&case);
        let ended = spans::handling(&case.messages, self.processor.as_deref(), handling).await;
        self.meters.took(case.messages.iter().copied(), began.elapsed());
        match &ended {
            Ended::Broken(_, Some(running)) => self.discard(current, running).await,
            // It is closed, since nobody knows what is open on it.
            Ended::Broken(_, None) | Ended::NotBegun(_) => {}
            _ => *session = Some(current),
        }
        Ok(ended)
    }

    /// Records how the attempt at the next message of a run has ended.
    fn tried(&self, lane: &mut Lane, failed: Option<&Failed>) {
        let Some(claimed) = lane.left.pop_front() else { return };
        let (position, message) = (claimed.position, &claimed.message);
        // For a message that is given up untried no attempt is counted.
        let attempts = message.attempts.saturating_add((!self.is_hopeless(message)).into());
        lane.outcome.fates.push(self.meters.tried(&self.retry, position, message, attempts, failed));
        lane.is_over = failed.is_some();
    }

    /// Ends a run: what was not tried is given back.
    fn ended(&self, Lane { mut outcome, left, began, .. }: Lane, error: Option<StoreError>) -> Handled {
        self.waiting.took(began.elapsed());
        self.meters.happened(Event::Released, left.iter().map(|claimed| claimed.message.kind.as_deref()));
        let begun = outcome.fates.len();
        // Each was removed together with its effect. If a failover has undone both, it is there
        // again, under the same claim, and is not done.
        outcome.fates.retain(|Tried { fate, .. }| *fate != Fate::Done);
        if left.is_empty() && outcome.fates.is_empty() {
            outcome.first = None;
        }
        Handled { outcome, begun, error }
    }

    /// Ends a transaction in which a handler was interrupted, so that its messages are locked by
    /// nobody when they are settled, and closes the connection. Statements of the handler that
    /// still run are cancelled first: a server does not notice that nobody waits for them.
    async fn discard(&self, mut session: impl Session<H>, &Running { pid, began }: &Running) {
        let named = [pid, began].map(Value::Number);
        // If the cancellation does not arrive, or does not help, the safety net ends the
        // transaction.
        let _ = self.database.call("cancel a statement", &statements::cancel(), &named).await;
        let _ = self.database.in_time("roll back", session.roll_back()).await;
    }
}
