//! The parts of a consumer of a log that all its runs share.

use super::marks::Marks;
use crate::handling::handler::Shown;
use crate::options::{IdOf, Options};
use crate::telemetry::health::Standing;
use crate::telemetry::meters::KindMeters;
use crate::telemetry::stats::Counts;
use crate::telemetry::stats::Event;
use std::sync::Arc;
use tokio::sync::Semaphore;

pub(crate) struct LogShared<M, K> {
    pub(crate) memory: K,
    pub(crate) marks: Arc<Marks>,
    pub(crate) id_of: IdOf<M>,
    pub(crate) options: Options,
    pub(crate) counts: Arc<Counts>,
    pub(crate) standing: Arc<Standing>,
    /// A permit for the one message that is tried in an outage.
    pub(crate) alone: Semaphore,
    pub(crate) shown: Arc<Shown<M>>,
}

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
        let kind = self.shown.kind(&message, &self.counts.meters);
        Held { message: Arc::new(message), kind }
    }

    /// Counts what happened to a message.
    pub(crate) fn count(&self, held: &Held<M>, event: Event) {
        self.counts.add_of(held.kind.as_deref(), event, 1);
    }
}
