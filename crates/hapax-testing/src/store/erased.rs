//! Stores and fixtures of any backend as one type.

use super::fixture::Fixture;
use hapax_store::erased::{Answering, Erased};
use hapax_store::*;
use std::time::Duration;

/// A store of any backend as one type: code that is generic over stores need not be compiled for
/// each.
///
/// ```
/// use hapax_store::TieredDedup;
/// use hapax_store::InMemoryStore;
/// use hapax_testing::store::AnyStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let store = AnyStore::new(InMemoryStore::new()); // or another one, as an option says
/// let engine = TieredDedup::builder(store).build().await?;
/// assert!(engine.check("a").await?.is_fresh());
/// # Ok::<(), hapax_store::StoreError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// It acts like the store, with an allocation for each call.
pub struct AnyStore(Box<dyn Erased>);

impl AnyStore {
    /// Wraps this store.
    pub fn new(store: impl Store) -> Self {
        AnyStore(Box::new(store))
    }
}

impl std::fmt::Debug for AnyStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("AnyStore").field(&self.0.backend()).finish()
    }
}

impl Store for AnyStore {
    fn backend(&self) -> &'static str {
        self.0.backend()
    }

    fn limits(&self) -> Limits {
        self.0.limits()
    }

    fn is_private(&self) -> bool {
        self.0.is_private()
    }

    fn answers_at_once(&self) -> bool {
        self.0.answers_at_once()
    }

    fn node_of(&self, key: &RecordKey) -> u32 {
        self.0.node_of(key)
    }

    async fn mark(&self, marks: &[Mark]) -> Answers<Marked> {
        self.0.mark(marks).await
    }

    async fn unmark(&self, marks: &[Unmark]) -> Answers<Unmarked> {
        self.0.unmark(marks).await
    }

    async fn claim(&self, claims: &[ClaimRequest]) -> Answers<Claimed> {
        self.0.claim(claims).await
    }

    async fn complete(&self, completions: &[Completion]) -> Answers<Held> {
        self.0.complete(completions).await
    }

    async fn release(&self, holds: &[Hold]) -> Answers<Held> {
        self.0.release(holds).await
    }

    async fn fail(&self, failures: &[Failure]) -> Answers<Held> {
        self.0.fail(failures).await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Answers<Held> {
        self.0.renew(renewals).await
    }

    async fn look_up(&self, keys: &[RecordKey]) -> Answers<Known> {
        self.0.look_up(keys).await
    }

    async fn record(&self, records: &[Record]) -> Answers<()> {
        self.0.record(records).await
    }

    async fn forget(&self, keys: &[RecordKey]) -> Answers<bool> {
        self.0.forget(keys).await
    }

    async fn expire(&self, limit: usize) -> Result<Expired, StoreError> {
        self.0.expire(limit).await
    }

    async fn scan(&self, from: Option<&Cursor>, limit: usize) -> Result<Page, StoreError> {
        self.0.scan(from, limit).await
    }
}

/// A [`Fixture`] of any type.
pub(super) trait AnyFixture: Sync {
    fn open(&self) -> Answering<'_, Box<dyn Erased>>;
    fn advance(&self, by: Duration) -> Answering<'_, ()>;
    fn expires_by_record(&self) -> bool;
}

impl<F: Fixture> AnyFixture for F {
    fn open(&self) -> Answering<'_, Box<dyn Erased>> {
        Box::pin(async { Box::new(Fixture::open(self).await) as Box<dyn Erased> })
    }

    fn advance(&self, by: Duration) -> Answering<'_, ()> {
        Box::pin(Fixture::advance(self, by))
    }

    fn expires_by_record(&self) -> bool {
        Fixture::expires_by_record(self)
    }
}
