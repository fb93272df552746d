//! The asynchronous engine as its users see it: checks, and operations on the engine as a whole.

use super::engine::{Engine, Name, ScopeStats, TieredStats};
#[cfg(doc)]
use crate::OnStoreError;
use crate::{Store, StoreError};
use std::sync::Arc;
use std::time::Duration;

/// An engine that tells whether an id was seen before, also by other processes and before a
/// restart: memory in front of a [`Store`].
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
/// A handle is cheap to clone, and its calls take `&self`, from any task of the runtime on which it
/// was built, or another.
///
/// # Guarantees
///
/// - Of any number of callers that check one id within the retention, in any number of processes,
///   one is told that it is fresh.
/// - An id is a duplicate for its retention, and longer by at most the window's two ticks and the
///   unit in which the store counts.
/// - If the store cannot be asked, the caller gets an error, unless the policy
///   [admits](OnStoreError::Admit) the message; then its verdict is marked as unverified. Never a
///   silent fresh, never a silent drop.
/// - Memory learns that an id is done only after the store has said so, and learns nothing of ids
///   in progress. (An exclusive engine's [`check`](TieredDedup::check) is the exception: this
///   process is the authority, and [`flush`](TieredDedup::flush) is its barrier.)
/// - Memory takes an id for another one once in 4 x 10^26 checks, and the store never does.
/// - A caller that is dropped while it waits harms no other, and the id that it may have been
///   granted is given back.
///
/// # Cost
///
/// A window hit costs as much as in a [`Dedup`](hapax::Dedup), and needs no request. Every other
/// check is a request to the store, unless the engine is [exclusive](crate::Ownership::Exclusive)
/// and its history knows that the id is new. Requests that come while one is under way are the next
/// batch: no timer, no delay when idle, one round trip for up to a thousand ids when busy.
/// Concurrent requests for one id are a single flight. All queues are bounded.
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
    pub(super) fn new(store: Arc<S>, engine: Engine) -> Self {
        TieredDedup { store, engine }
    }

    /// Returns a handle to the same engine for another scope, with the policy that was configured
    /// for it: the same id there is another id.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`](crate::ErrorKind::Misconfigured) if the name cannot be
    /// that of a [`Scope`](crate::Scope).
    pub fn with_scope(&self, scope: &str) -> Result<Self, StoreError> {
        Ok(Self::new(Arc::clone(&self.store), self.engine.with_scope(scope)?))
    }

    /// Returns a handle to the same engine for the scope of this name beneath this handle's:
    /// `shop/billing`, if that is `shop`; `billing`, if it is the one without a name.
    ///
    /// # Errors
    ///
    /// Those of [`with_scope`](Self::with_scope).
    pub fn with_subscope(&self, name: &str) -> Result<Self, StoreError> {
        Ok(Self::new(Arc::clone(&self.store), self.engine.with_subscope(name)?))
    }

    /// Lets everything pass undecided from now on, or no more: for the night in which messages must
    /// go through, and something is wrong with the store, or with what is taken for a duplicate.
    ///
    /// ```
    /// # use hapax_store::{InMemoryStore, TieredDedup};
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let dedup = TieredDedup::builder(InMemoryStore::new()).build().await?;
    /// assert!(dedup.check("a").await?.is_fresh());
    /// dedup.bypass(true);
    /// assert!(dedup.check("a").await?.is_fresh() && dedup.check("b").await?.is_fresh());
    /// dedup.bypass(false);
    /// assert!(dedup.check("a").await?.is_duplicate());
    /// assert!(dedup.check("b").await?.is_fresh()); // nothing was remembered of it
    /// assert_eq!(dedup.stats().decided.bypassed, 2);
    /// # Ok::<(), hapax_store::StoreError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Checks are fresh, and [unverified](hapax::Verdict::is_certain); every claim is granted, to
    /// any number of callers at a time, with token zero; functions run each time. The store is not
    /// asked, and neither it nor memory learns anything. Claims that were made before end as ever.
    /// An engine that was shut down, or is no longer the owner of its store, lets all pass, too.
    ///
    /// It concerns this handle, its clones, and those that were made of them: a
    /// [`Consumer`](https://docs.rs/hapax-stream) has a switch of its own beneath its engine's. It
    /// is [counted](crate::ScopeStats::bypassed), and an alert of its own says that it is on.
    pub fn bypass(&self, on: bool) {
        self.engine.bypass.turn(on);
        #[cfg(feature = "tracing")]
        tracing::error!(
            scope = self.engine.scope.as_str(),
            on,
            "the engine lets everything pass undecided, or no more"
        );
    }

    /// Returns true if everything passes: [`bypass`](Self::bypass).
    pub fn is_bypassed(&self) -> bool {
        self.engine.bypass.is_on()
    }

    /// Returns this handle with a switch of its own beneath those of this one.
    #[doc(hidden)]
    #[must_use]
    pub fn with_own_bypass(&self) -> Self {
        Self::new(Arc::clone(&self.store), self.engine.with_own_bypass())
    }

    /// Returns a number for a pause, the same in a simulation that is repeated.
    #[doc(hidden)]
    pub fn random(&self) -> u64 {
        self.engine.client.caller.random.next()
    }

    /// Returns ids as the engine names them, so that they need not be copied before they are used
    /// later.
    #[doc(hidden)]
    pub fn names(&self, ids: impl IntoIterator<Item: AsRef<[u8]>>) -> Vec<Name> {
        self.engine.names(ids)
    }

    /// Forgets an id, in memory and in the store, also if it is in progress, and the number of
    /// times that consumers have tried it. Returns true if the store knew it.
    ///
    /// Other instances whose memory knows the id answer "duplicate" until their
    /// [window](crate::TieredBuilder::window), and two ticks of it, have passed since they learned
    /// it: nothing tells them earlier. A scope whose ids are forgotten now and then should have a
    /// short window ([`Policy::window`](crate::Policy::window)); for older ids the store is asked.
    ///
    /// # Errors
    ///
    /// The store's. Then memory has forgotten the id, and the store perhaps not.
    pub fn forget(&self, id: impl AsRef<[u8]>) -> impl Future<Output = Result<bool, StoreError>> + Send {
        let name = self.engine.name(id);
        async move { self.engine.forget(name).await }
    }

    /// Has an id that a consumer has put aside handled again, whatever delivery of it comes next.
    /// Returns true if it was put aside. Ids that are done or in progress are left alone.
    ///
    /// A message that is sent anew is handled without this. It is for what reaches a consumer as
    /// the same delivery once more, since it was moved back by hand, and would be put aside again.
    ///
    /// # Errors
    ///
    /// The store's.
    pub fn redrive(&self, id: impl AsRef<[u8]>) -> impl Future<Output = Result<bool, StoreError>> + Send {
        let name = self.engine.name(id);
        async move { self.engine.redrive(name).await }
    }

    /// Waits until everything that was accepted before the call is durable in the store: a consumer
    /// of an exclusive engine awaits this before it acknowledges its messages. (A shared engine has
    /// asked the store already.)
    ///
    /// # Errors
    ///
    /// The store's, after one failed try, or when it has not answered in time. Records that are not
    /// durable are kept and tried again: flush again.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.engine.flush().await
    }

    /// Reads the ids that the store knows, so that an exclusive engine's history knows them as
    /// well, and need not ask about every id. Until then it asks, and no answer is wrong. Returns
    /// the number of ids. (A shared engine's window learns them.)
    ///
    /// # Errors
    ///
    /// The store's; nothing is lost, and it may be called again.
    pub async fn warm(&self) -> Result<u64, StoreError> {
        self.engine.warm().await
    }

    /// Shuts the engine down: nothing new is accepted, calls under way are finished, records that
    /// are not durable are written, and the ownership of the store is given up.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Timeout`](crate::ErrorKind::Timeout) if that was not done by the
    /// deadline, which counts the remaining requests, records or marks; or the error of writing the
    /// last records.
    pub async fn shutdown(&self, deadline: Duration) -> Result<(), StoreError> {
        self.engine.shutdown(deadline).await
    }

    /// Returns the engine's counts and sizes. (It reads the whole window for that: 10 to 20 ms for
    /// ten million ids.)
    pub fn stats(&self) -> TieredStats {
        self.engine.stats()
    }

    /// Returns the counts of decisions in the scopes of this handle's policy.
    pub fn scope_stats(&self) -> ScopeStats {
        ScopeStats::of(std::iter::once(&self.engine.policy))
    }

    /// Returns the retention of this handle's policy, and true if the engine is exclusive.
    #[doc(hidden)]
    pub fn remembers(&self) -> (Duration, bool) {
        (self.engine.policy.retention, self.engine.ownership().is_exclusive)
    }

    /// Returns the store.
    pub fn store(&self) -> &S {
        &self.store
    }
}

impl<S: Store> std::fmt::Debug for TieredDedup<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TieredDedup")
            .field("backend", &self.store.backend())
            .field("is_exclusive", &self.engine.ownership().is_exclusive)
            .field("scope", &self.engine.scope.as_str())
            .finish_non_exhaustive()
    }
}
