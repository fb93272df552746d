//! Received messages: each gets its id, its partition, and a place in the queue.

use super::calls::{Dead, Happened, call};
use super::messages::{Message, Stage};
use super::run::Run;
use crate::error::ConsumerError;
use crate::options::OnMissing;
use crate::order::Ticket;
use crate::source::Source;
use crate::telemetry::event::Event;
use hapax_store::attempt_count::Sent;
use hapax_store::{Store, StoredId};
use std::sync::Arc;
use tokio::time::Instant;

impl<'r, S: Store, Src: Source> Run<'r, S, Src> {
    pub(crate) fn begin_receiving(&mut self) {
        if !self.is_receiving || self.calls.receive.is_some() || self.is_paused() {
            return;
        }
        let (options, source) = (&self.shared.options, self.source);
        let mut room = options.max_unacknowledged().saturating_sub(self.messages.len()).min(options.batch);
        if !self.keeps_received {
            // Messages that wait here may be delivered to another consumer.
            room = room.min(self.capacity().saturating_sub(self.messages.unhandled()));
        }
        if self.shared.standing.outage().since().is_some() {
            // One that may succeed, if none is here; and no more than one at all, if it may be
            // delivered again while it waits.
            let is_here =
                if self.keeps_received { self.messages.new_ones_first() } else { self.messages.unhandled() > 0 };
            room = room.min(usize::from(!is_here));
        }
        if room > 0 {
            self.calls.receive = call(async move {
                loop {
                    match source.receive(room).await {
                        // Other tasks get their turn, even if the broker does not wait at all.
                        Ok(Some(messages)) if messages.is_empty() => tokio::task::yield_now().await,
                        received => return Happened::Received(received),
                    }
                }
            });
        }
    }

    pub(crate) fn received(&mut self, received: Result<Option<Vec<Src::Message>>, Src::Error>) {
        let messages = match received {
            Ok(Some(messages)) => messages,
            Ok(None) => return self.is_receiving = false,
            Err(error) => return self.fail(ConsumerError::Source(error)),
        };
        let now = Instant::now();
        for message in messages {
            let partition = self.source.partition(&message);
            if self.drains.covers(&partition) {
                continue;
            }
            let kind = self.shared.kind(&message);
            self.shared.counts.add_of(kind.as_deref(), Event::Received, 1);
            let id = (self.shared.id_of)(&message);
            let deliveries = self.source.deliveries(&message);
            let sent = Sent::new(deliveries, self.source.sent_as(&message).as_deref());
            let failures = match &id {
                Some(id) => self.attempts.failures(&StoredId::new(id)),
                // There is nothing by which the store could count.
                None => deliveries.unwrap_or(1).saturating_sub(1),
            };
            let is_missing = id.is_none();
            let lane = self.shared.key_of.as_ref().and_then(|key_of| key_of(&message)).map(Arc::from);
            let held = Message {
                message: Arc::new(message),
                received: now,
                partition: partition.clone(),
                id,
                lane,
                kind,
                sent,
                failures,
                counts_here: true,
                was_tried: false,
                note: None,
                is_busy: false,
                is_done: false,
                stage: Stage::Here,
                stop: None,
            };
            let ticket = self.messages.insert(held);
            self.order.received(&partition, ticket);
            if is_missing { self.missing(ticket) } else { self.messages.wait(ticket) }
        }
    }

    fn missing(&mut self, ticket: Ticket) {
        self.count_of(ticket, Event::Missing);
        if let Some(held) = self.messages.get(ticket) {
            self.shared.counts.missing(&held.partition);
        }
        match self.shared.options.on_missing {
            OnMissing::Pass => self.messages.wait(ticket),
            OnMissing::Drop => self.done(ticket),
            OnMissing::DeadLetter => self.put_aside(Dead::unclaimed(ticket, "it has no id, or a blank one".to_owned())),
            OnMissing::Error => {
                if let Some(held) = self.messages.remove(ticket) {
                    self.fail(ConsumerError::MissingId { partition: held.partition });
                }
            }
        }
    }
}
