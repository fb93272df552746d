//! A store of hapax, as a process reaches it.

use super::world::{CallError, World};
use hapax_store::*;

/// A [`Store`] whose calls go through a [`World`]: they fail, are answered late or not at all, and
/// the process dies before and after them. See [`World::store`].
#[derive(Debug)]
pub struct SimulatedStore<S> {
    inner: S,
    world: World,
}

impl World {
    /// Returns a store of hapax that is reached through this world: each of its calls is a
    /// [place](World::call), such as "store: claim".
    pub fn store<S: Store>(&self, store: S) -> SimulatedStore<S> {
        SimulatedStore { inner: store, world: self.clone() }
    }
}

impl<S: Store> SimulatedStore<S> {
    async fn reach<T>(
        &self,
        place: &'static str,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.world.call_async(place, call).await.unwrap_or_else(|error| {
            let kind = match error {
                CallError::Unavailable { .. } => ErrorKind::Unavailable,
                CallError::NoAnswer { .. } => ErrorKind::Timeout,
            };
            Err(StoreError::new(kind, "simulated", error.to_string()))
        })
    }
}

impl<S: Store> Store for SimulatedStore<S> {
    fn backend(&self) -> &'static str {
        self.inner.backend()
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn is_private(&self) -> bool {
        self.inner.is_private()
    }

    fn node_of(&self, key: &RecordKey) -> u32 {
        self.inner.node_of(key)
    }

    async fn mark(&self, marks: &[Mark]) -> Answers<Marked> {
        self.reach("store: mark", self.inner.mark(marks)).await
    }

    async fn unmark(&self, marks: &[Unmark]) -> Answers<Unmarked> {
        self.reach("store: unmark", self.inner.unmark(marks)).await
    }

    async fn claim(&self, claims: &[ClaimRequest]) -> Answers<Claimed> {
        self.reach("store: claim", self.inner.claim(claims)).await
    }

    async fn complete(&self, completions: &[Completion]) -> Answers<Held> {
        self.reach("store: complete", self.inner.complete(completions)).await
    }

    async fn release(&self, holds: &[Hold]) -> Answers<Held> {
        self.reach("store: release", self.inner.release(holds)).await
    }

    async fn fail(&self, failures: &[ClaimFailure]) -> Answers<Held> {
        self.reach("store: fail", self.inner.fail(failures)).await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Answers<Held> {
        self.reach("store: renew", self.inner.renew(renewals)).await
    }

    async fn look_up(&self, keys: &[RecordKey]) -> Answers<Known> {
        self.reach("store: look up", self.inner.look_up(keys)).await
    }

    async fn record(&self, records: &[Record]) -> Answers<()> {
        self.reach("store: record", self.inner.record(records)).await
    }

    async fn forget(&self, keys: &[RecordKey]) -> Answers<bool> {
        self.reach("store: forget", self.inner.forget(keys)).await
    }

    async fn expire(&self, limit: usize) -> Result<Expired, StoreError> {
        self.reach("store: expire", self.inner.expire(limit)).await
    }

    async fn scan(&self, from: Option<&Cursor>, limit: usize) -> Result<Page, StoreError> {
        self.reach("store: scan", self.inner.scan(from, limit)).await
    }
}
