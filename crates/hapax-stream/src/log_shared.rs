//! The parts of a consumer of a log that all its runs share.

use super::event::Event;
use super::handler::Shown;
use super::marks::Marks;
use super::meters::KindMeters;
use super::options::{IdOf, Options};
use super::standing::Standing;
use super::stats::Counts;
use std::sync::Arc;
use tokio::sync::Semaphore;

pub(super) struct LogShared<M, K> {
    pub(super) memory: K,
    pub(super) marks: Arc<Marks>,
    pub(super) id_of: IdOf<M>,
    pub(super) options: Options,
    pub(super) counts: Arc<Counts>,
    pub(super) standing: Arc<Standing>,
    /// A permit for the one message that is tried in an outage.
    pub(super) alone: Semaphore,
    pub(super) shown: Arc<Shown<M>>,
}

/// A message, and the metrics of its kind, if it is told apart.
pub(super) struct Held<M> {
    pub(super) message: Arc<M>,
    pub(super) kind: Option<Arc<KindMeters>>,
}

impl<M> Clone for Held<M> {
    fn clone(&self) -> Self {
        Held { message: Arc::clone(&self.message), kind: self.kind.clone() }
    }
}

impl<M, K> LogShared<M, K> {
    /// Returns a message with its kind, which is asked for once.
    pub(super) fn held(&self, message: M) -> Held<M> {
        let kind = self.shown.kind(&message, &self.counts.meters);
        Held { message: Arc::new(message), kind }
    }

    /// Counts what happened to a message.
    pub(super) fn count(&self, held: &Held<M>, event: Event) {
        self.counts.add_of(held.kind.as_deref(), event, 1);
    }
}
