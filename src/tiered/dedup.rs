//! The asynchronous engine as its users see it: checks, and what concerns the engine as a whole.

use super::config::TieredBuilder;
use super::inner::Inner;
use super::memory::{Memory, digest};
use super::observe::{Asked, Verdicts};
use super::operation::Forgets;
use super::stats::{ScopeStats, TieredStats};
use crate::OnStoreError;
use crate::digest::{Digest, Digester};
use crate::store::{ErrorKind, RecordKey, Scope, Store, StoreError};
use crate::sync::Ordering;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Tells whether an id was seen before, also by other processes and before a restart: memory in front of a [`Store`].
///
/// ```
/// use hapax::TieredDedup;
/// use hapax::store::InMemoryStore;
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
/// # Ok::<(), hapax::store::StoreError>(())
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
/// - A caller that is dropped while it waits harms no other, and the id that it may have been granted is given back.
///
/// # Cost
///
/// A window hit costs what it does in a [`Dedup`](crate::Dedup) and asks nobody. Anything else is a request to the store, unless the engine is
/// [exclusive](crate::Ownership::Exclusive) and its history knows that the id is new. Requests that come while one is under way are the next batch: no timer, no delay when idle, one round
/// trip for up to a thousand ids when busy. Those of one id share one question. All queues are bounded.
#[cfg_attr(any(feature = "metrics", feature = "tracing"), doc = "")]
#[cfg_attr(any(feature = "metrics", feature = "tracing"), doc = include_str!("../../docs/metrics.md"))]
pub struct TieredDedup<S: Store> {
    pub(super) inner: Arc<Inner<S>>,
    policies: Arc<HashMap<String, Arc<PolicyState>>>,
    pub(super) scope: Scope,
    pub(super) digester: Digester,
    pub(super) policy: Arc<PolicyState>,
}

/// An id as the store knows it, and as memory does.
pub(crate) type Name = (RecordKey, Digest);

/// What the scopes of one policy share.
pub(super) struct PolicyState {
    pub(super) memory: Arc<Memory>,
    pub(super) retention: Duration,
    pub(super) lease: Duration,
    pub(super) on_store_error: OnStoreError,
    pub(super) shadow: bool,
    pub(super) verdicts: Verdicts,
}

impl<S: Store> Clone for TieredDedup<S> {
    fn clone(&self) -> Self {
        TieredDedup {
            inner: Arc::clone(&self.inner),
            policies: Arc::clone(&self.policies),
            scope: self.scope.clone(),
            digester: self.digester.clone(),
            policy: Arc::clone(&self.policy),
        }
    }
}

impl<S: Store> TieredDedup<S> {
    /// Starts configuring an engine over a store.
    pub fn builder(store: S) -> TieredBuilder<S> {
        TieredBuilder::new(store)
    }

    pub(super) fn new(
        inner: Arc<Inner<S>>,
        policies: Arc<HashMap<String, Arc<PolicyState>>>,
        scope: &str,
    ) -> Result<Self, StoreError> {
        let scope = Scope::new(scope)?;
        let policy = policies
            .get(scope.as_str())
            .or_else(|| policies.get("*"))
            .cloned()
            .ok_or_else(|| StoreError::new(ErrorKind::Misconfigured, "hapax", "an engine without policies"))?;
        let digester = policy.memory.digester(scope.as_str());
        Ok(TieredDedup { inner, policies, scope, digester, policy })
    }

    /// A handle to the same engine for another scope, with the policy that it was given: the same id there is another id.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if the name cannot be that of a [`Scope`].
    pub fn with_scope(&self, scope: &str) -> Result<Self, StoreError> {
        Self::new(Arc::clone(&self.inner), Arc::clone(&self.policies), scope)
    }

    /// The id as the store knows it, and as memory does.
    pub(super) fn name(&self, id: impl AsRef<[u8]>) -> Name {
        let key = RecordKey::new(&self.scope, id);
        let digest = digest(&self.digester, &key.id);
        (key, digest)
    }

    /// The same for many, so that they need not be copied before they are asked about later.
    pub(crate) fn names(&self, ids: impl IntoIterator<Item: AsRef<[u8]>>) -> Vec<Name> {
        ids.into_iter().map(|id| self.name(id)).collect()
    }

    /// Forgets an id, in memory and in the store, also if it is in progress; whether the store knew it. Other instances' memory remembers it
    /// until their window has passed.
    ///
    /// # Errors
    ///
    /// The store's. Memory has then forgotten it, and the store perhaps not.
    pub fn forget(&self, id: impl AsRef<[u8]>) -> impl Future<Output = Result<bool, StoreError>> + Send {
        let (key, id) = self.name(id);
        async move {
            self.inner.admit()?;
            self.settle().await?;
            let forgotten = self.inner.ask_one::<Forgets>(&self.policy.memory, key, id).await;
            // After the store, since somebody may have learned of it in between.
            self.policy.memory.forget(id);
            forgotten
        }
    }

    /// Returns when everything that was accepted before the call is durable in the store: what a consumer of an exclusive engine awaits
    /// before it acknowledges its messages. (A shared engine has asked the store already.)
    ///
    /// # Errors
    ///
    /// The store's, after one failed try, or when it has not answered in time. What is not durable is kept and tried again: flush again.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.inner.patiently(self.inner.behind.settle()).await
    }

    /// Reads what the store knows, so that an exclusive engine's history knows it as well, and need not ask about every id. Until then it does,
    /// and no answer is wrong. Says how many ids there were. (A shared engine's window learns them.)
    ///
    /// # Errors
    ///
    /// The store's; nothing is lost, and it may be called again.
    pub async fn warm(&self) -> Result<u64, StoreError> {
        const PAGE: usize = 10_000;
        let (mut ids, mut cursor) = (0, None);
        loop {
            self.inner.admit()?;
            let call = self.inner.observer.begin(Asked::Scan, PAGE);
            let page = self.inner.patiently(call.under_way(self.inner.store.scan(cursor.as_ref(), PAGE))).await;
            call.ended(page.as_ref().err().map(StoreError::kind));
            let page = page?;
            let before = ids;
            let mut digesters: HashMap<Scope, (Digester, Arc<PolicyState>)> = HashMap::new();
            for found in page.found {
                let scope = &found.key.scope;
                if scope.is_reserved() {
                    continue;
                }
                let (digester, policy) = match digesters.get(scope) {
                    Some(known) => known,
                    None => {
                        let handle = self.with_scope(scope.as_str())?;
                        digesters.entry(scope.clone()).or_insert((handle.digester, handle.policy))
                    }
                };
                let id = digest(digester, &found.key.id);
                if policy.memory.has_history() || policy.memory.may_learn(found.expires_in) {
                    policy.memory.warm(&[id]);
                }
                ids += 1;
            }
            self.inner.observer.meters.warmed(ids - before);
            cursor = page.next;
            if cursor.is_none() {
                // Release: pairs with the Acquire of `is_warm`: whoever sees it finds the histories complete.
                self.inner.is_warm.store(true, Ordering::Release);
                self.inner.observer.warm(ids);
                return Ok(ids);
            }
        }
    }

    /// Ends the engine: nothing new is accepted, what is under way is finished, what is not durable is written, the store is given up.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Timeout`] if that was not done by the deadline, with what is left; or why the last records could not be written.
    pub async fn shutdown(&self, deadline: Duration) -> Result<(), StoreError> {
        let until = Instant::now() + deadline;
        let shut = StoreError::new(ErrorKind::Unavailable, "hapax", "the engine was shut down");
        self.inner.refuse(shut);
        self.inner.lanes.close();
        let mut last = None;
        while self.inner.lanes.len() > 0 || self.inner.behind.len() > 0 {
            if Instant::now() >= until {
                let (waiting, behind) = (self.inner.lanes.len(), self.inner.behind.len());
                let left = format!(
                    "after {deadline:?}, {waiting} requests are under way, and {behind} records are not durable"
                );
                return Err(match last {
                    Some(error) => StoreError::caused(ErrorKind::Timeout, "hapax", left, error),
                    None => StoreError::new(ErrorKind::Timeout, "hapax", left),
                });
            }
            match tokio::time::timeout_at(until, self.inner.behind.settle()).await {
                Ok(Err(error)) => last = Some(error),
                _ => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
        self.inner.behind.close();
        if let Some(owned) = self.inner.owned.get() {
            let released = tokio::time::timeout_at(
                until.max(Instant::now() + self.inner.calls.timeout),
                owned.release(&self.inner.store),
            );
            if let Ok(released) = released.await {
                released?;
            }
        }
        Ok(())
    }

    /// What the engine has counted, and what it holds. (It reads the whole window for that: 10 to 20 ms for ten million ids.)
    pub fn stats(&self) -> TieredStats {
        TieredStats::of(&self.inner, self.policies.values())
    }

    /// What was decided in the scopes of this handle's policy.
    pub fn scope_stats(&self) -> ScopeStats {
        ScopeStats::of(&self.policy)
    }

    /// The store.
    pub fn store(&self) -> &S {
        &self.inner.store
    }
}

impl<S: Store> std::fmt::Debug for TieredDedup<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TieredDedup")
            .field("backend", &self.inner.store.backend())
            .field("ownership", &self.inner.ownership)
            .field("scope", &self.scope.as_str())
            .finish_non_exhaustive()
    }
}
