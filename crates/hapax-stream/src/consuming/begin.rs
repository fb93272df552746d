//! The actions that a run of a consumer begins, and their conditions.

use super::calls::{Dead, Happened, call};
use super::messages::{Message, Stage};
use super::run::Run;
use crate::error::ConsumerError;
use crate::order::Ticket;
use crate::source::Source;
use hapax_store::attempt_count::Sent;
use hapax_store::{Fingerprint, SideRecord, Store, StoreError, TieredDedup, join_all};
use std::sync::Arc;
use tokio::time::Instant;

impl<S: Store, Src: Source> Run<'_, S, Src> {
    /// Begins every action that can be begun.
    pub(crate) fn begin(&mut self) {
        let now = Instant::now();
        self.messages.wake(now);
        self.unflushed = self.unflushed.filter(|&at| now < at);
        self.begin_acknowledging();
        self.begin_completing();
        self.begin_retrying();
        self.begin_putting_aside();
        self.begin_claiming();
        let source = self.source;
        if self.calls.revoked.is_none() {
            self.calls.revoked = call(async move { Happened::Revoked(source.revoked().await) });
        }
        if self.calls.switched.is_none() {
            let mut paused = self.shared.standing.paused.subscribe();
            self.calls.switched = call(async move {
                // (Its other end is there as long as this run.)
                let _ = paused.changed().await;
                Happened::Due
            });
        }
        self.begin_receiving();
        if let Some(heartbeat) = &mut self.heartbeat {
            heartbeat.begin(now, source, &self.messages, self.shared.options.batch, &mut self.calls);
        }
    }

    /// Flushes the engine first: also a duplicate may be one of a check that is not durable yet.
    fn begin_acknowledging(&mut self) {
        if self.calls.acknowledge.is_some() || !self.order.has_ready() || self.unflushed.is_some() {
            return;
        }
        let mut tickets = self.order.take_ready();
        tickets.retain(|&ticket| self.set_busy(ticket, true));
        tickets.iter().for_each(|&ticket| self.messages.set_stage(Stage::Leaving, ticket));
        if tickets.is_empty() {
            return;
        }
        self.calls.acknowledging.clone_from(&tickets);
        let (engine, source, messages) = (&self.shared.engine, self.source, self.messages.of(&tickets));
        // A message that is done needs no count of attempts any more.
        let notes = tickets.iter().filter_map(|&ticket| self.messages.get(ticket)?.note.clone()).collect();
        self.calls.acknowledge = call(async move {
            match engine.flush().await {
                Ok(()) => {
                    let acknowledged = source.acknowledge(&messages).await;
                    SideRecord::forget(notes).await;
                    Happened::Acknowledged(tickets, Ok(acknowledged))
                }
                Err(error) => Happened::Acknowledged(tickets, Err(error)),
            }
        });
    }

    fn begin_retrying(&mut self) {
        if self.calls.retry.is_some() || self.retries.is_empty() {
            return;
        }
        let retries = std::mem::take(&mut self.retries);
        let tickets: Vec<Ticket> = retries.iter().map(|(ticket, _)| *ticket).collect();
        let held = retries.iter().filter_map(|(ticket, after)| Some((self.messages.get(*ticket)?, *after)));
        let messages: Vec<_> = held.map(|(held, after)| (Arc::clone(&held.message), after)).collect();
        let source = self.source;
        self.calls.retry = call(async move {
            for (message, after) in &messages {
                if let Err(error) = source.retry(message, *after).await {
                    return Happened::Retried(tickets, Err(error));
                }
            }
            Happened::Retried(tickets, Ok(()))
        });
    }

    fn begin_putting_aside(&mut self) {
        if self.calls.dead_letter.is_some() || self.dead.is_empty() {
            return;
        }
        let mut dead: Vec<Dead<S>> = std::mem::take(&mut self.dead);
        // A message that is no longer held is not put aside here.
        dead.retain(|dead| self.messages.get(dead.ticket).is_some());
        let messages = self.messages.of(&dead.iter().map(|dead| dead.ticket).collect::<Vec<Ticket>>());
        let sent: Vec<Sent> = dead.iter().filter_map(|dead| Some(self.messages.get(dead.ticket)?.sent)).collect();
        let (source, kept_for) = (self.source, self.shared.options.back_off(self.acks).max.saturating_mul(2));
        self.calls.dead_letter = call(async move {
            for (dying, message) in dead.iter().map(|dead| &dead.dying).zip(&messages) {
                if let Err(error) = source.dead_letter(message, &dying.why).await {
                    return Happened::DeadLettered(dead, Err(error));
                }
            }
            join_all(dead.iter_mut().zip(sent).map(|(dead, sent)| dead.dying.is_put_aside(sent, kept_for))).await;
            Happened::DeadLettered(dead, Ok(()))
        });
    }

    /// Claims as many messages as there are free handlers, so that no lease passes while its
    /// message waits.
    fn begin_claiming(&mut self) {
        let room = self.room_for_claims();
        self.gathering = None;
        if self.calls.claim.is_some() || room == 0 || !self.messages.has_waiting() {
            return;
        }
        let room = self.gathered(room.min(self.shared.options.batch.max(self.batches.0)));
        let tickets = self.messages.take_waiting(room);
        self.probe = tickets.first().copied().filter(|_| self.shared.standing.outage().since().is_some());
        let (mut claimed, mut ids, mut unclaimed) = (Vec::new(), Vec::new(), Vec::new());
        let content_of = self.shared.content_of.as_ref();
        for ticket in tickets {
            let Some(held) = self.messages.get(ticket) else { continue };
            let Some(id) = held.id.clone() else {
                unclaimed.push((ticket, None));
                continue;
            };
            claimed.push(ticket);
            ids.push((id, content_of.and_then(|content_of| content_of(&held.message)).map(Fingerprint::of)));
        }
        self.handle(unclaimed);
        let Some(first) = claimed.first().and_then(|&first| self.messages.get(first)) else { return };
        match self.engine_of(first) {
            Ok(engine) => {
                self.calls.claim = call(async move {
                    let attempts = engine.claim_batch_by(ids).await;
                    Happened::Claimed(claimed, attempts)
                });
            }
            Err(error) => {
                claimed.into_iter().for_each(|ticket| self.give_back(ticket));
                self.fail(ConsumerError::Store(error));
            }
        }
    }

    /// Returns the number of messages to claim now, of those for which there is room: those of full
    /// batches, or all if the first one that waits has waited for others long enough, or none will
    /// come. Otherwise notes the time until which they wait.
    fn gathered(&mut self, room: usize) -> usize {
        let (size, within) = self.batches;
        if room < size || !self.is_receiving {
            return room;
        }
        let first = self.messages.first_waiting();
        let Some(first) = first.and_then(|first| self.messages.get(first)) else { return room };
        let until = first.received + within;
        if Instant::now() >= until {
            return room;
        }
        let full = self.messages.waiting().min(room) / size * size;
        self.gathering = (full == 0).then_some(until);
        full
    }

    /// Returns the number of messages that may be claimed: in an outage one at a time, now and
    /// then, and first of all one that was never tried.
    fn room_for_claims(&mut self) -> usize {
        if self.is_paused() {
            return 0;
        }
        let Some(next) = self.shared.standing.outage().next() else {
            return self.capacity().saturating_sub(self.tasks.len().saturating_mul(self.batches.0));
        };
        if self.is_probing() || Instant::now() < next {
            return 0;
        }
        self.messages.new_ones_first();
        1
    }

    /// Returns the number of messages that handlers may have at a time.
    pub(crate) fn capacity(&self) -> usize {
        self.shared.options.max_in_flight().saturating_mul(self.batches.0)
    }

    /// Returns the engine with the scope of a message's partition.
    fn engine_of(&self, message: &Message<Src::Message>) -> Result<TieredDedup<S>, StoreError> {
        match &self.shared.options.scope_of {
            Some(scope_of) => self.shared.engine.with_subscope(&scope_of(&message.partition)),
            None => Ok(self.shared.engine.clone()),
        }
    }
}
