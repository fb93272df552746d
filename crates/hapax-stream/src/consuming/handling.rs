//! Claimed messages go to their handlers, one by one or in batches.

use super::run::Run;
use crate::handling::attempt::{Progress, Task};
use crate::handling::counting::Counting;
use crate::handling::handle::{Item, Work};
use crate::order::Ticket;
use crate::source::Source;
use hapax_store::{Store, TieredClaim};
use std::sync::Arc;
use tokio::sync::oneshot;

impl<S: Store, Src: Source> Run<'_, S, Src> {
    /// Handles messages, as many together as a handler may get.
    pub(crate) fn handle(&mut self, messages: Vec<(Ticket, Option<TieredClaim<S>>)>) {
        let mut part = Vec::new();
        for (ticket, claim) in messages {
            part.extend(self.item(ticket, claim));
            if part.len() == self.batches.0 {
                self.handle_parts(vec![std::mem::take(&mut part)]);
            }
        }
        if !part.is_empty() {
            self.handle_parts(vec![part]);
        }
    }

    /// Handles messages in parts, the last one first.
    pub(crate) fn handle_parts(&mut self, mut parts: Vec<Vec<Item<S, Src::Message>>>) {
        let mut tickets = Vec::new();
        for item in parts.iter_mut().flatten() {
            let (stop, stopped) = oneshot::channel();
            item.stop = stopped;
            tickets.push(item.ticket);
            // A message that must not be handled any more, or is not held, is stopped before a
            // handler is called.
            if let Some(held) = self.messages.get_mut(item.ticket) {
                held.stop = (!self.drains.covers(&held.partition)).then_some(stop);
            }
        }
        let work = Work { terms: Arc::clone(&self.terms), parts };
        self.tasks.insert(self.calls.handlers.spawn(work.run()).id(), tickets);
    }

    fn item(&mut self, ticket: Ticket, claim: Option<TieredClaim<S>>) -> Option<Item<S, Src::Message>> {
        let held = self.messages.get_mut(ticket)?;
        let note = claim.as_ref().and_then(TieredClaim::side_record);
        let counting = match (held.sent.deliveries, note) {
            (Some(..=1), Some(note)) if held.failures == 0 => Counting::WhenFailed(note),
            (Some(_), Some(note)) => Counting::Before(note),
            (_, note) => Counting::Here(held.failures, note),
        };
        held.counts_here = matches!(counting, Counting::Here(..));
        if let Counting::Before(note) = &counting {
            held.note = Some(note.clone());
        }
        held.is_busy = true;
        held.was_tried = true;
        let task = Task {
            message: Arc::clone(&held.message),
            id: held.whose(ticket),
            sent: held.sent,
            token: claim.as_ref().map_or(hapax::Token::from_u64(0), TieredClaim::token),
            before: claim.as_ref().and_then(TieredClaim::before).cloned(),
            counting,
            random: self.shared.engine.random(),
            kind: held.kind.clone(),
            progress: Progress::default(),
        };
        let (_, stop) = oneshot::channel();
        Some(Item { ticket, task, claim, stop })
    }
}
