//! The parts of a consumer that all its runs share.

use super::handler::Spans;
use super::kinds::Description;
use super::meters::KindMeters;
use super::options::{IdOf, Options};
use super::stats::Counts;
use hapax_store::{Store, TieredDedup};
use std::sync::Arc;

pub(super) struct Shared<S: Store, M> {
    pub(super) engine: TieredDedup<S>,
    pub(super) id_of: IdOf<M>,
    /// A function that returns the key within which messages are handled in order.
    pub(super) key_of: Option<IdOf<M>>,
    pub(super) options: Options,
    pub(super) counts: Arc<Counts>,
    pub(super) description: Option<Arc<Description<M>>>,
    pub(super) spans: Arc<Spans<M>>,
}

impl<S: Store, M> Shared<S, M> {
    /// Returns the metrics of a message's kind, if it is told apart.
    pub(super) fn kind(&self, message: &M) -> Option<Arc<KindMeters>> {
        self.description.as_ref()?.meters(message, &self.counts.meters)
    }
}
