//! The parts of a consumer of a log that all its runs share, and the messages that a run holds.

use super::marks::Marks;
use crate::shared::Shared;
use crate::telemetry::event::Event;
use crate::telemetry::meters::KindMeters;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// The memory of a log, in the place of an engine with a store.
pub(crate) struct LogMemory<K> {
    pub(crate) memory: K,
    pub(crate) marks: Arc<Marks>,
    /// A permit for the one message that is tried in an outage.
    pub(crate) alone: Semaphore,
}

pub(crate) type LogShared<M, K> = Shared<LogMemory<K>, M>;

/// A message, and the metrics of its kind, if it is told apart.
pub(crate) struct Held<M> {
    pub(crate) message: Arc<M>,
    pub(crate) kind: Option<Arc<KindMeters>>,
}

impl<M> Clone for Held<M> {
    fn clone(&self) -> Self {
        Held { message: Arc::clone(&self.message), kind: self.kind.clone() }
    }
}

impl<M, K> LogShared<M, K> {
    /// Returns a message with its kind, which is asked for once.
    pub(crate) fn held(&self, message: M) -> Held<M> {
        Held { kind: self.kind(&message), message: Arc::new(message) }
    }

    /// Counts what happened to a message.
    pub(crate) fn count(&self, held: &Held<M>, event: Event) {
        self.counts.add_of(held.kind.as_deref(), event, 1);
    }
}
