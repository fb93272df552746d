//! The parts of a consumer of a log that all its runs share.

use super::event::Event;
use super::handler::Spans;
use super::kinds::Description;
use super::marks::Marks;
use super::meters::KindMeters;
use super::options::{IdOf, Options};
use super::stats::Counts;
use std::sync::Arc;

pub(super) struct LogShared<M, K> {
    pub(super) memory: K,
    pub(super) marks: Arc<Marks>,
    pub(super) id_of: IdOf<M>,
    pub(super) options: Options,
    pub(super) counts: Arc<Counts>,
    pub(super) description: Option<Arc<Description<M>>>,
    pub(super) spans: Arc<Spans<M>>,
}

impl<M, K> LogShared<M, K> {
    /// Returns the metrics of a message's kind, if it is told apart.
    pub(super) fn kind(&self, message: &M) -> Option<Arc<KindMeters>> {
        self.description.as_ref()?.meters(message, &self.counts.meters)
    }

    /// Counts what happened to a message.
    pub(super) fn count(&self, message: &M, event: Event) {
        self.counts.add_of(self.kind(message).as_deref(), event, 1);
    }
}
