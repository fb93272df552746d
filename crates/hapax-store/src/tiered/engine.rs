//! An engine with its store behind a pointer, so that it is compiled once: here, and not for each
//! store in each program.
//!
//! A call of the store is a future behind a pointer for the same reason, one allocation for a round
//! trip. An answer from memory is not.

use super::driver::ended;
use super::inner::Inner;
use super::note;
use super::observe::{Asked, Verdicts};
use super::operation::Forgets;
use super::stats::TieredStats;
use crate::erased::Answering;
use crate::sync::Ordering;
use crate::{ErrorKind, OnStoreError, RecordKey, Scope, StoreError, StoredId, times};
use hapax::tier::Memory;
use hapax::{Digest, Digester};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The content of [`TieredDedup`](super::TieredDedup) without the type of its store.
#[derive(Clone)]
pub(super) struct Engine {
    pub(super) inner: Arc<Inner>,
    policies: Arc<HashMap<String, Arc<PolicyState>>>,
    pub(super) scope: Scope,
    pub(super) digester: Digester,
    pub(super) policy: Arc<PolicyState>,
}

/// An id as the store knows it, and as memory does.
#[doc(hidden)]
pub type Name = (RecordKey, Digest);

/// The state that the scopes of one policy share.
pub(super) struct PolicyState {
    pub(super) memory: Arc<Memory>,
    pub(super) retention: Duration,
    pub(super) lease: Duration,
    pub(super) on_store_error: OnStoreError,
    pub(super) shadow: bool,
    pub(super) verdicts: Verdicts,
}

impl PolicyState {
    /// Returns true if messages are let through when the store cannot be asked.
    pub(super) fn admits(&self) -> bool {
        self.on_store_error == OnStoreError::Admit
    }
}

impl Engine {
    pub(super) fn new(
        inner: Arc<Inner>,
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
        Ok(Engine { inner, policies, scope, digester, policy })
    }

    pub(super) fn with_scope(&self, scope: &str) -> Result<Self, StoreError> {
        Self::new(Arc::clone(&self.inner), Arc::clone(&self.policies), scope)
    }

    pub(super) fn name(&self, id: impl AsRef<[u8]>) -> Name {
        let key = RecordKey::new(&self.scope, id);
        let digest = digest(&self.digester, &key.id);
        (key, digest)
    }

    pub(super) fn names(&self, ids: impl IntoIterator<Item: AsRef<[u8]>>) -> Vec<Name> {
        hapax::tier::collect(ids.into_iter().map(|id| self.name(id)))
    }

    pub(super) fn stats(&self) -> TieredStats {
        TieredStats::of(&self.inner, self.policies.values())
    }

    pub(super) fn forget(&self, (key, id): Name) -> Answering<'_, Result<bool, StoreError>> {
        Box::pin(async move {
            self.inner.admit()?;
            self.inner.settle(self.inner.node(&key)).await?;
            let noted = note::key_of(&key);
            let note = (noted.clone(), self.inner.id(&self.policy.memory, &noted));
            let mut answers = self.inner.ask::<Forgets>(&self.policy.memory, vec![(key, id), note]).await.into_iter();
            // After the store, since memory may have learned of it in between.
            self.policy.memory.forget(id);
            let forgotten = answers.next().unwrap_or_else(|| Err(ended()));
            answers.next().unwrap_or_else(|| Err(ended())).and(forgotten)
        })
    }

    pub(super) fn flush(&self) -> Answering<'_, Result<(), StoreError>> {
        Box::pin(self.inner.patiently(self.inner.nodes.settle()))
    }

    pub(super) fn warm(&self) -> Answering<'_, Result<u64, StoreError>> {
        Box::pin(self.read_all())
    }

    pub(super) fn shutdown(&self, deadline: Duration) -> Answering<'_, Result<(), StoreError>> {
        Box::pin(self.end(deadline))
    }

    async fn read_all(&self) -> Result<u64, StoreError> {
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
                // Release: pairs with the Acquire of `is_warm`: a thread that sees it finds the
                // histories complete.
                self.inner.is_warm.store(true, Ordering::Release);
                self.inner.observer.warm(ids);
                return Ok(ids);
            }
        }
    }

    async fn end(&self, deadline: Duration) -> Result<(), StoreError> {
        times::check_or_none("deadline", deadline)?;
        let until = Instant::now() + deadline;
        let shut = StoreError::new(ErrorKind::Unavailable, "hapax", "the engine was shut down");
        self.inner.refuse(shut);
        // Marks that no caller was told of are taken back first, while the lanes are open.
        while self.inner.doubts().open() > 0 && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.inner.nodes.close();
        let mut last = None;
        loop {
            let waiting = self.inner.nodes.len() + self.inner.giving_back();
            let behind = self.inner.nodes.len_behind();
            if waiting == 0 && behind == 0 {
                break;
            }
            if Instant::now() >= until {
                let left = format!(
                    "after {deadline:?}, {waiting} requests are under way, and {behind} records are not durable"
                );
                return Err(match last {
                    Some(error) => StoreError::caused(ErrorKind::Timeout, "hapax", left, error),
                    None => StoreError::new(ErrorKind::Timeout, "hapax", left),
                });
            }
            match tokio::time::timeout_at(until, self.inner.nodes.settle()).await {
                Ok(Err(error)) => last = Some(error),
                _ => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
        self.inner.nodes.iter().for_each(|node| node.behind.close());
        if let Some(owned) = self.inner.owned.get() {
            let released = tokio::time::timeout_at(
                until.max(Instant::now() + self.inner.calls.timeout),
                owned.release(&*self.inner.store),
            );
            if let Ok(released) = released.await {
                released?;
            }
        }
        match self.inner.doubts().open() {
            0 => Ok(()),
            open => {
                let left = format!("after {deadline:?}, {open} marks of which nobody was told are not taken back");
                Err(StoreError::new(ErrorKind::Timeout, "hapax", left))
            }
        }
    }
}

/// The digest of an id as stores keep it, so that what a store has kept has the same.
#[inline]
pub(super) fn digest(digester: &Digester, id: &StoredId) -> Digest {
    digester.digest(id.as_bytes())
}
