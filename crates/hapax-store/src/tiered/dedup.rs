//! The asynchronous engine as its users see it: checks, and what concerns the engine as a whole.

use super::config::TieredBuilder;
use super::engine::{Engine, Name};
use super::stats::{ScopeStats, TieredStats};
#[cfg(doc)]
use crate::OnStoreError;
use crate::{Store, StoreError};
use std::sync::Arc;
use std::time::Duration;

/// Tells whether an id was seen before, also by other processes and before a restart: memory in front of a [`Store`].
///
/// ```
/// use hapax_store::TieredDedup;
/// use hapax_store::InMemoryStore;
/// use std::{sync::Arc, time::Duration};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let store = Arc::new(InMemoryStore::new()); // a real one would be Redis, say
/// let here = TieredDedup::builder(Arc::clone(&store)).retention(Duration::from_secs(3600)).build().await?;
/// let there = TieredDedup::builder(store).retention(Duration::from_secs(3600)).build().await?;
///
/// assert!(here.check("order-17").await?.is_fresh());
/// assert!(there.check("order-17").await?.is_duplicate()); // by the store
/// assert!(there.check("order-17").await?.is_duplicate()); // by memory
/// assert_eq!(there.stats().store_requests, 1);
/// # Ok::<(), hapax_store::StoreError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A handle is cheap to clone, and its calls take `&self`, from any task of the runtime on which it was built, or another.
///
/// # Guarantees
///
/// - Of any number of callers that check one id within the retention, in any number of processes, one is told that it is fresh.
/// - An id is a duplicate for its retention, and longer by at most the window's two ticks and what the store counts in.
/// - If the store cannot be asked, the caller gets an error, unless the policy [admits](OnStoreError::Admit) the message; then its verdict says that
///   nobody verified it. Never a silent fresh, never a silent drop.
/// - Memory learns that an id is done only after the store has said so, and of what is in progress, nothing. (An exclusive engine's
///   [`check`](TieredDedup::check) is the exception: this process is the authority, and [`flush`](TieredDedup::flush) is its barrier.)
/// - Memory takes no id for another one, but for once in 4 x 10^26 checks, and the store never
///   does.
/// - A caller that is dropped while it waits harms no other, and the id that it may have been granted is given back.
///
/// # Cost
///
/// A window hit costs what it does in a [`Dedup`](hapax::Dedup) and asks nobody. Anything else is a request to the store, unless the engine is
/// [exclusive](crate::Ownership::Exclusive) and its history knows that the id is new. Requests that come while one is under way are the next batch: no timer, no delay when idle, one round
/// trip for up to a thousand ids when busy. Those of one id share one question. All queues are bounded.
///
/// # Metrics and spans
///
/// With the features `metrics` and `tracing` it tells of itself:
/// [the table](https://github.com/hapax-rs/hapax/blob/main/docs/metrics.md).
pub struct TieredDedup<S: Store> {
    store: Arc<S>,
    pub(super) engine: Engine,
}

impl<S: Store> Clone for TieredDedup<S> {
    fn clone(&self) -> Self {
        TieredDedup { store: Arc::clone(&self.store), engine: self.engine.clone() }
    }
}

impl<S: Store> TieredDedup<S> {
    /// Starts configuring an engine over a store.
    pub fn builder(store: S) -> TieredBuilder<S> {
        TieredBuilder::new(store)
    }

    pub(super) fn new(store: Arc<S>, engine: Engine) -> Self {
        TieredDedup { store, engine }
    }

    /// A handle to the same engine for another scope, with the policy that it was given: the same id there is another id.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`](crate::ErrorKind::Misconfigured) if the name cannot be that of a [`Scope`](crate::Scope).
    pub fn with_scope(&self, scope: &str) -> Result<Self, StoreError> {
        Ok(Self::new(Arc::clone(&self.store), self.engine.with_scope(scope)?))
    }

    /// A number for a pause, the same in a simulation that is repeated.
    #[doc(hidden)]
    pub fn random(&self) -> u64 {
        self.engine.inner.random()
    }

    /// Ids as the engine knows them, so that they need not be copied before they are asked about later.
    #[doc(hidden)]
    pub fn names(&self, ids: impl IntoIterator<Item: AsRef<[u8]>>) -> Vec<Name> {
        self.engine.names(ids)
    }

    /// Forgets an id, in memory and in the store, also if it is in progress, and how often
    /// consumers have tried it; whether the store knew it.
    ///
    /// Other instances whose memory knows the id say "duplicate" until their
    /// [window](crate::TieredBuilder::window) has passed since they learned it, and two ticks of
    /// it: nothing tells them earlier. A scope whose ids are forgotten now and then should have a
    /// short one ([`Policy::window`](crate::Policy::window)); what is older is asked of the store.
    ///
    /// # Errors
    ///
    /// The store's. Memory has then forgotten it, and the store perhaps not.
    pub fn forget(&self, id: impl AsRef<[u8]>) -> impl Future<Output = Result<bool, StoreError>> + Send {
        let name = self.engine.name(id);
        async move { self.engine.forget(name).await }
    }

    /// Returns when everything that was accepted before the call is durable in the store: what a consumer of an exclusive engine awaits
    /// before it acknowledges its messages. (A shared engine has asked the store already.)
    ///
    /// # Errors
    ///
    /// The store's, after one failed try, or when it has not answered in time. What is not durable is kept and tried again: flush again.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.engine.flush().await
    }

    /// Reads what the store knows, so that an exclusive engine's history knows it as well, and need not ask about every id. Until then it does,
    /// and no answer is wrong. Says how many ids there were. (A shared engine's window learns them.)
    ///
    /// # Errors
    ///
    /// The store's; nothing is lost, and it may be called again.
    pub async fn warm(&self) -> Result<u64, StoreError> {
        self.engine.warm().await
    }

    /// Ends the engine: nothing new is accepted, what is under way is finished, what is not durable is written, the store is given up.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Timeout`](crate::ErrorKind::Timeout) if that was not done by the deadline, with what is left; or why the last records could not be written.
    pub async fn shutdown(&self, deadline: Duration) -> Result<(), StoreError> {
        self.engine.shutdown(deadline).await
    }

    /// What the engine has counted, and what it holds. (It reads the whole window for that: 10 to 20 ms for ten million ids.)
    pub fn stats(&self) -> TieredStats {
        self.engine.stats()
    }

    /// What was decided in the scopes of this handle's policy.
    pub fn scope_stats(&self) -> ScopeStats {
        ScopeStats::of(&self.engine.policy)
    }

    /// Returns the retention of this handle's policy, and true if the engine is exclusive.
    #[doc(hidden)]
    pub fn remembers(&self) -> (Duration, bool) {
        let is_exclusive = matches!(self.engine.inner.ownership, super::inner::Ownership::Exclusive);
        (self.engine.policy.retention, is_exclusive)
    }

    /// The store.
    pub fn store(&self) -> &S {
        &self.store
    }
}

impl<S: Store> std::fmt::Debug for TieredDedup<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TieredDedup")
            .field("backend", &self.store.backend())
            .field("ownership", &self.engine.inner.ownership)
            .field("scope", &self.engine.scope.as_str())
            .finish_non_exhaustive()
    }
}
