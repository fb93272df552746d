//! The store's answers to claims, and its failures.

use super::calls::Dead;
use super::run::Run;
use crate::error::ConsumerError;
use crate::options::ANOTHER_CONTENT;
use crate::order::Ticket;
use crate::source::Source;
use crate::telemetry::event::Event;
use hapax_message::OnMismatch;
use hapax_store::{ErrorKind, Store, StoreError, TieredAttempt};
use std::time::Duration;

impl<S: Store, Src: Source> Run<'_, S, Src> {
    pub(crate) fn claimed(&mut self, tickets: Vec<Ticket>, attempts: Vec<Result<TieredAttempt<S>, StoreError>>) {
        self.store_answered(attempts.iter().any(Result::is_ok));
        let mut batch = Vec::new();
        for (ticket, attempt) in tickets.into_iter().zip(attempts) {
            // A claim of a message that is no longer held is dropped, which releases it.
            let Some(held) = self.messages.get(ticket) else { continue };
            let tries = held.sent.deliveries.unwrap_or(held.failures.saturating_add(1));
            match attempt {
                Ok(TieredAttempt::Claimed(claim)) => {
                    if let Some(before) = claim.before() {
                        self.shared.standing.is_in_doubt(held.whose(ticket), before.begun_at());
                        self.count_of(ticket, Event::TakenOver);
                    }
                    batch.push((ticket, Some(claim)));
                }
                Ok(TieredAttempt::Duplicate(_)) => {
                    self.shared.standing.is_done(held.whose(ticket));
                    self.count_of(ticket, Event::Duplicate);
                    self.done(ticket);
                }
                Ok(TieredAttempt::InProgress { lease_left, .. }) => {
                    self.count_of(ticket, Event::InProgress);
                    let back_off = self.shared.options.back_off(self.acks);
                    let longest = if self.is_kept(ticket) {
                        // Others wait for it here, so it asks again soon.
                        back_off.first
                    } else {
                        back_off.max
                    };
                    // An id that is in progress with no time left is not asked about at once: the
                    // store may repeat the answer again and again, and this would spin.
                    let after = if lease_left < Duration::from_millis(1) { self.back_off(tries) } else { lease_left };
                    self.again(ticket, after.min(longest));
                }
                Ok(TieredAttempt::TooMany) => {
                    self.count_of(ticket, Event::Refused);
                    self.again(ticket, self.back_off(tries));
                }
                Ok(TieredAttempt::Mismatch) => {
                    self.count_of(ticket, Event::Mismatch);
                    match self.shared.options.on_mismatch {
                        OnMismatch::Handle => batch.push((ticket, None)),
                        OnMismatch::Drop => self.done(ticket),
                        OnMismatch::DeadLetter => {
                            self.put_aside(Dead::unclaimed(ticket, ANOTHER_CONTENT.to_owned()));
                        }
                    }
                }
                Err(error) => self.store_failed(ticket, error),
            }
        }
        self.handle(batch);
    }

    /// Handles a failure of the store. A store that fails does so for all messages: they wait here,
    /// and no more are received when there are enough, since giving them back would empty the whole
    /// queue into retries.
    pub(crate) fn store_failed(&mut self, ticket: Ticket, error: StoreError) {
        self.count_of(ticket, Event::StoreError);
        self.shared.met(&error.to_string());
        if error.kind() == ErrorKind::Corrupt {
            return self.unusable(ticket, format!("its record in the store cannot be used: {error}"));
        }
        let back_off = self.shared.options.store_back_off(self.acks);
        self.later(ticket, back_off.after(self.store_failures, self.shared.engine.random()));
        if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Misconfigured) {
            self.fail(ConsumerError::Store(error));
        }
    }

    /// Handles what is wrong with one message's record, and would be so for ever: an attempt has
    /// failed, and the last one puts the message aside.
    fn unusable(&mut self, ticket: Ticket, why: String) {
        let Some(held) = self.messages.get_mut(ticket) else { return };
        held.failures = held.failures.saturating_add(1);
        let failures = held.failures;
        let is_last = failures >= self.shared.options.max_attempts(self.acks);
        self.shared.counts.failed(&why, is_last);
        if is_last { self.put_aside(Dead::unclaimed(ticket, why)) } else { self.later(ticket, self.back_off(failures)) }
    }

    /// Returns the wait after this many failures, which is jittered.
    pub(crate) fn back_off(&self, failures: u32) -> Duration {
        self.shared.options.back_off(self.acks).after(failures, self.shared.engine.random())
    }

    /// Counts calls without a result.
    pub(crate) fn store_answered(&mut self, has_answered: bool) {
        self.store_failures = if has_answered { 0 } else { self.store_failures.saturating_add(1) };
    }
}
