//! The layer.

use super::builder::{LayerBuilder, ScopeFn, Unscoped};
use super::options::Options;
#[cfg(doc)]
use super::problem::Problem;
use super::room::Room;
use super::service::IdempotencyService;
use super::stats::{Counters, HttpStats};
use super::tab::Tabs;
use super::usual::Usual;
use hapax_store::{Store, TieredDedup};
use std::sync::Arc;
use tokio::runtime::Handle;
use tower_layer::Layer;

/// The treatment of a request without a key, where one is expected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMissing {
    /// It is refused: [`Problem::KeyMissing`].
    #[default]
    Reject,
    /// It is handled, as often as it comes.
    Pass,
}

/// A tower layer that handles a request once, however often it comes: for axum, or any service of
/// `http` types.
#[doc = include_str!("layer.md")]
pub struct IdempotencyLayer<S: Store>(pub(super) Arc<Shared<S>>);

/// The state that all clones of a layer and its services share.
pub(super) struct Shared<S: Store> {
    pub(super) dedup: TieredDedup<S>,
    pub(super) scope: Option<ScopeFn>,
    pub(super) options: Options,
    pub(super) room: Arc<Room>,
    /// `None` if scopes may store any number.
    pub(super) tabs: Option<Arc<Tabs>>,
    pub(super) usual: Usual,
    pub(super) counters: Counters,
    pub(super) runtime: Handle,
}

impl<S: Store> IdempotencyLayer<S> {
    /// Starts configuring a layer over an engine. The engine's own scope is the namespace of the
    /// keys, so that other ids are never taken for one; its retention is the time for which keys
    /// are remembered.
    pub fn builder(dedup: TieredDedup<S>) -> LayerBuilder<S, Unscoped> {
        LayerBuilder::new(dedup)
    }

    /// Waits until no covered request is being read or in flight, and refuses new ones meanwhile
    /// ([`Problem::Busy`]): for the end of a server, after it has closed its connections, which no
    /// longer include handlers whose clients are gone.
    pub async fn idle(&self) {
        self.0.room.until_idle().await;
    }

    /// Returns counts of the requests so far, and of the current ones.
    pub fn stats(&self) -> HttpStats {
        self.0.counters.stats(self.0.room.used())
    }
}

impl<S: Store> Clone for IdempotencyLayer<S> {
    fn clone(&self) -> Self {
        IdempotencyLayer(Arc::clone(&self.0))
    }
}

impl<S: Store> std::fmt::Debug for IdempotencyLayer<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IdempotencyLayer").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl<Inner, S: Store> Layer<Inner> for IdempotencyLayer<S> {
    type Service = IdempotencyService<Inner, S>;

    fn layer(&self, inner: Inner) -> IdempotencyService<Inner, S> {
        IdempotencyService::new(inner, Arc::clone(&self.0))
    }
}
