//! The parts of a consumer that all its runs share.

use crate::handling::delivery::Delivery;
use crate::handling::failure::BoxError;
use crate::handling::handler::{Handle, Handler, Shown, batch_handler, handler};
use crate::handling::takeover::OnTakeover;
use crate::options::{IdOf, Options};
use crate::telemetry::counts::Counts;
use crate::telemetry::health::{Health, Standing};
use crate::telemetry::meters::KindMeters;
use hapax_message::Answers;
use std::sync::Arc;
use tokio::time::Instant;

/// The parts of a consumer with an engine, or of one with the memory of a log.
pub(super) struct Shared<E, M> {
    pub(super) engine: E,
    pub(super) id_of: IdOf<M>,
    /// A function that returns the key within which messages are handled in order.
    pub(super) key_of: Option<IdOf<M>>,
    /// A function that returns the content of a message, which all its copies have.
    pub(super) content_of: Option<IdOf<M>>,
    pub(super) on_takeover: OnTakeover<M>,
    pub(super) options: Options,
    pub(super) counts: Arc<Counts>,
    pub(super) standing: Arc<Standing>,
    shown: Arc<Shown<M>>,
}

impl<E, M> Shared<E, M> {
    pub(super) fn new(engine: E, id_of: IdOf<M>, shown: Shown<M>, options: Options) -> Self {
        let (shown, counts) = (shown.under(&options.name), Arc::new(Counts::new(&options.name)));
        let standing = Arc::new(Standing::new());
        let on_takeover = OnTakeover::Run;
        Shared { engine, id_of, key_of: None, content_of: None, on_takeover, options, counts, standing, shown }
    }

    /// Returns a handler of any type as one of this consumer's.
    pub(super) fn handler<H, F, R>(&self, handle: H) -> Handler<Delivery<M>>
    where
        M: Send + Sync + 'static,
        H: Fn(Delivery<M>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), R>> + Send + 'static,
        R: Into<BoxError>,
    {
        handler(handle, Arc::clone(&self.shown), self.options.on_error.clone())
    }

    /// Returns a handler of batches as one of this consumer's.
    pub(super) fn batch_handler<H, F, A, R>(&self, handle: H) -> Handle<M>
    where
        M: Send + Sync + 'static,
        H: Fn(Vec<Delivery<M>>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<A, R>> + Send + 'static,
        A: Into<Answers>,
        R: Into<BoxError>,
    {
        batch_handler(handle, Arc::clone(&self.shown), self.options.on_error.clone())
    }

    /// Returns the metrics of a message's kind, if it is told apart.
    pub(super) fn kind(&self, message: &M) -> Option<Arc<KindMeters>> {
        self.shown.kind(message, &self.counts.meters)
    }

    /// Notes an error of this consumer's, for its health.
    pub(super) fn met(&self, why: &str) {
        if let Some(since) = self.standing.met(why, Instant::now()) {
            self.counts.stalled(since, why);
        }
    }

    pub(super) fn health(&self) -> Health {
        self.standing.health(Instant::now())
    }
}
