//! The consequences of the end of a handler, and of the broker's answers.

use super::calls::{Dead, Told};
use super::messages::Stage;
use super::run::Run;
use crate::error::ConsumerError;
use crate::handling::handle::{Ended, Handled};
use crate::handling::handler::FailureKind;
use crate::order::Ticket;
use crate::source::{Acks, Source};
use crate::telemetry::event::Event;
use hapax_store::{ErrorKind, Store, StoreError, StoredId};
use tokio::time::Instant;

type TaskResult<T> = Result<(tokio::task::Id, T), tokio::task::JoinError>;

impl<S: Store, Src: Source> Run<'_, S, Src> {
    pub(crate) fn handled(&mut self, handled: TaskResult<Handled<S, Src::Message>>) {
        let (task, handled) = match handled {
            Ok((task, handled)) => (task, Ok(handled)),
            Err(error) => (error.id(), Err(error)),
        };
        let Some(tickets) = self.tasks.remove(&task) else { return };
        let Handled { ended, rest, split } = handled.unwrap_or_else(|error| {
            // A value that the handler holds has panicked while it was dropped.
            let how = if error.is_panic() { FailureKind::Panicked } else { FailureKind::Failed };
            let failed = || Ended::Failed { why: error.to_string(), how, counts: true, after: self.back_off(1) };
            let ended = tickets.iter().map(|&ticket| (ticket, failed())).collect();
            Handled { ended, rest: Vec::new(), split: None }
        });
        let is_done = ended.iter().any(|(_, ended)| matches!(ended, Ended::Done(_)));
        if self.probe.take_if(|probe| tickets.contains(probe)).is_some() && !is_done {
            self.shared.standing.outage().tried_in_vain(Instant::now(), self.shared.engine.random());
        }
        if let Some(why) = split {
            self.shared.counts.failed(&why, false);
            self.shared.met(&why);
            self.count(Event::Split, 1);
        }
        for (ticket, ended) in ended {
            self.ended(ticket, ended);
        }
        if !rest.is_empty() {
            self.handle_parts(rest);
        }
    }

    fn ended(&mut self, ticket: Ticket, ended: Ended<S>) {
        let Some(held) = self.messages.get_mut(ticket) else {
            // Too late to be acknowledged. If the claim is still good, the work is recorded, so
            // that the next owner does not do it again.
            if let Ended::Done(Some(claim)) = ended {
                self.queue_completion(ticket, claim);
            }
            return;
        };
        held.stop = None;
        match ended {
            Ended::Done(claim) => {
                self.count_of(ticket, Event::Handled);
                match claim {
                    Some(claim) => self.queue_completion(ticket, claim),
                    None => self.done(ticket),
                }
            }
            Ended::Failed { why, how, counts, after } => {
                self.shared.counts.failed(&why, false);
                self.failed(ticket, &why, how, counts);
                self.again(ticket, after);
            }
            Ended::Exhausted { how, dead: dying } => {
                self.shared.counts.failed(&dying.why, true);
                self.failed(ticket, &dying.why, how, true);
                self.put_aside(Dead { ticket, dying });
            }
            Ended::Overdue(dying) => {
                self.shared.counts.failed(&dying.why, true);
                self.put_aside(Dead { ticket, dying });
            }
            Ended::Uncounted(error) => self.store_failed(ticket, error),
            Ended::Lost => {
                self.count_of(ticket, Event::Lost);
                self.again(ticket, self.back_off(1));
            }
            Ended::Stopped => {
                self.count_of(ticket, Event::Abandoned);
                self.give_back(ticket);
            }
        }
    }

    /// Counts a failure, and as an attempt if it counts as one.
    fn failed(&mut self, ticket: Ticket, why: &str, how: FailureKind, counts: bool) {
        self.shared.met(why);
        how.events().iter().for_each(|&event| self.count_of(ticket, event));
        let Some(held) = self.messages.get_mut(ticket).filter(|_| counts) else { return };
        held.failures = held.failures.saturating_add(1);
        if let Some(id) = &held.id
            && held.counts_here
            && self.acks == Acks::Each
        {
            self.attempts.failed(StoredId::new(id));
        }
    }

    pub(crate) fn acknowledged(&mut self, tickets: Vec<Ticket>, acknowledged: Result<Told<Src>, StoreError>) {
        match acknowledged {
            Ok(Ok(())) => {
                for message in tickets.into_iter().filter_map(|ticket| self.messages.remove(ticket)) {
                    self.shared.counts.add_of(message.kind.as_deref(), Event::Acknowledged, 1);
                }
                self.shared.standing.went_on();
            }
            Ok(Err(error)) => {
                tickets.into_iter().for_each(|ticket| drop(self.messages.remove(ticket)));
                self.fail(ConsumerError::Source(error));
            }
            Err(error) => {
                self.count(Event::StoreError, 1);
                self.shared.met(&error.to_string());
                tickets.iter().for_each(|&ticket| self.messages.set_stage(Stage::Handled, ticket));
                self.order.again(tickets);
                self.unflushed = Some(Instant::now() + self.shared.options.back_off(self.acks).first);
                if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Misconfigured) {
                    self.fail(ConsumerError::Store(error));
                }
            }
        }
    }

    pub(crate) fn retried(&mut self, tickets: Vec<Ticket>, retried: Told<Src>) {
        tickets.into_iter().for_each(|ticket| drop(self.messages.remove(ticket)));
        if let Err(error) = retried {
            self.fail(ConsumerError::Source(error));
        }
    }

    pub(crate) fn dead_lettered(&mut self, dead: Vec<Dead<S>>, put_aside: Told<Src>) {
        if let Err(error) = put_aside {
            // Some may have been put aside; all come again.
            dead.iter().for_each(|dead| drop(self.messages.remove(dead.ticket)));
            return self.fail(ConsumerError::Source(error));
        }
        for Dead { ticket, dying } in dead {
            self.count_of(ticket, Event::DeadLettered);
            if dying.again {
                self.count_of(ticket, Event::AsideAgain);
            }
            self.is_put_aside(ticket);
        }
    }
}
