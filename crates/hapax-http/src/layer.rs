//! The layer.

use super::service::IdempotencyService;
use super::shared::Shared;
use super::stats::HttpStats;
#[cfg(doc)]
use crate::response::problem::Problem;
use hapax_store::Store;
use std::sync::Arc;
use tower_layer::Layer;

/// A tower layer that handles a request once, however often it comes: for axum, or any service of
/// `http` types.
#[doc = include_str!("layer.md")]
pub struct IdempotencyLayer<S: Store>(pub(super) Arc<Shared<S>>);

impl<S: Store> IdempotencyLayer<S> {
    /// Waits until no covered request is being read or in flight, and refuses new ones meanwhile
    /// ([`Problem::Busy`]): for the end of a server, after it has closed its connections, which no
    /// longer include handlers whose clients are gone.
    pub async fn idle(&self) {
        self.0.permits.until_idle().await;
    }

    /// Returns counts of the requests so far, and of the current ones.
    pub fn stats(&self) -> HttpStats {
        let now = self.0.permits.used();
        HttpStats {
            reading: now.reading as u64,
            in_flight: now.in_flight as u64,
            buffered_bytes: now.bytes as u64,
            ..self.0.counters.stats()
        }
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
