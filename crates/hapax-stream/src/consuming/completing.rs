//! Completions of handled messages: together, and if the store cannot record one, by itself, for as
//! long as its lease. Its message waits for that: it is neither acknowledged nor tried again.

use super::calls::{Completed, Happened, call};
use super::messages::Stage;
use super::run::Run;
use crate::order::Ticket;
use crate::source::Source;
use crate::telemetry::event::Event;
use hapax_store::{ClaimError, Store, TieredClaim};
use std::time::Duration;
use tokio::task::JoinError;
use tokio::time::Instant;

/// The time that messages that were handled meanwhile wait for a completion that is under way. Then
/// they are completed beside it, since their leases are not renewed while they wait.
const SLOW: Duration = Duration::from_millis(250);

impl<S: Store, Src: Source> Run<'_, S, Src> {
    /// Queues the completion of a claim whose work is done: from here on it is not released,
    /// whatever becomes of this run.
    pub(crate) fn queue_completion(&mut self, ticket: Ticket, mut claim: TieredClaim<S>) {
        claim.work_is_done();
        self.messages.set_stage(Stage::Handled, ticket);
        self.handled.push((ticket, claim));
    }

    pub(crate) fn begin_completing(&mut self) {
        if self.handled.is_empty() {
            return;
        }
        if self.calls.complete.is_some() {
            if self.completions_wait_until().is_some_and(|until| Instant::now() >= until) {
                for (ticket, claim) in std::mem::take(&mut self.handled) {
                    let is_verified = claim.is_verified();
                    self.calls.late.spawn(async move { (ticket, is_verified, claim.complete().await) });
                }
            }
            return;
        }
        let handled = std::mem::take(&mut self.handled);
        let engine = &self.shared.engine;
        self.calls.completing_since = Instant::now();
        self.calls.complete = call(async move {
            let (mut whose, mut claims) = (Vec::new(), Vec::new());
            for (ticket, claim) in handled {
                whose.push((ticket, claim.is_verified()));
                claims.push(claim);
            }
            let completed = engine.complete_batch_once(claims).await;
            let whose = whose.into_iter().zip(completed);
            Happened::Completed(whose.map(|((ticket, verified), completed)| (ticket, verified, completed)).collect())
        });
    }

    /// Returns the time until which handled messages wait for the completion that is under way.
    pub(crate) fn completions_wait_until(&self) -> Option<Instant> {
        let is_waiting = !self.handled.is_empty() && self.calls.complete.is_some();
        is_waiting.then(|| self.calls.completing_since + SLOW)
    }

    pub(crate) fn completed(&mut self, completed: Vec<Completed<S>>) {
        self.store_answered(completed.iter().any(|(.., completed)| match completed {
            Ok(()) => true,
            Err(not_completed) => matches!(not_completed.error(), ClaimError::LostLease(_)),
        }));
        for (ticket, is_verified, completed) in completed {
            match completed {
                // The claim is held: a new claim would do the work again.
                Err(not_completed) if is_verified && is_transient(not_completed.error()) => {
                    self.count_of(ticket, Event::StoreError);
                    self.calls.late.spawn(async move { (ticket, is_verified, not_completed.retry().await) });
                }
                completed => self.settled(ticket, is_verified, completed.map_err(ClaimError::from)),
            }
        }
    }

    pub(crate) fn completed_late(&mut self, completed: Result<Completed<S>, JoinError>) {
        match completed {
            Ok((ticket, is_verified, completed)) => {
                self.settled(ticket, is_verified, completed.map_err(ClaimError::from));
            }
            // Handled like a panic in this task.
            Err(error) => {
                if let Ok(panic) = error.try_into_panic() {
                    std::panic::resume_unwind(panic);
                }
            }
        }
    }

    fn settled(&mut self, ticket: Ticket, is_verified: bool, completed: Result<(), ClaimError>) {
        let Some(held) = self.messages.get(ticket) else { return };
        match completed {
            Ok(()) => {
                self.shared.standing.is_done(held.whose(ticket));
                self.done(ticket);
            }
            Err(ClaimError::LostLease(_)) => {
                self.count_of(ticket, Event::Lost);
                self.again(ticket, self.back_off(1));
            }
            Err(ClaimError::Store(error)) if !is_verified && error.kind().is_transient() => {
                self.count_of(ticket, Event::Unrecorded);
                self.done(ticket);
            }
            Err(ClaimError::Store(error)) => self.store_failed(ticket, error),
            // Not known to be recorded, whatever the reason will be one day.
            Err(_) => self.again(ticket, self.back_off(1)),
        }
    }
}

fn is_transient(error: &ClaimError) -> bool {
    matches!(error, ClaimError::Store(error) if error.kind().is_transient())
}
