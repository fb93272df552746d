//! Stores and fixtures behind pointers, so that what uses them is compiled once and not for each backend.

use super::fixture::Fixture;
use crate::store::*;
use std::pin::Pin;
use std::time::Duration;

type Answering<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A [`Store`], whichever.
pub(super) trait Erased: Send + Sync {
    fn backend(&self) -> &'static str;
    fn limits(&self) -> Limits;
    fn is_private(&self) -> bool;
    fn answers_at_once(&self) -> bool;
    fn mark<'a>(&'a self, marks: &'a [Mark]) -> Answering<'a, Answers<Marked>>;
    fn claim<'a>(&'a self, claims: &'a [ClaimRequest]) -> Answering<'a, Answers<Claimed>>;
    fn complete<'a>(&'a self, completions: &'a [Completion]) -> Answering<'a, Answers<Held>>;
    fn release<'a>(&'a self, holds: &'a [Hold]) -> Answering<'a, Answers<Held>>;
    fn fail<'a>(&'a self, failures: &'a [Failure]) -> Answering<'a, Answers<Held>>;
    fn renew<'a>(&'a self, renewals: &'a [Renewal]) -> Answering<'a, Answers<Held>>;
    fn look_up<'a>(&'a self, keys: &'a [RecordKey]) -> Answering<'a, Answers<Known>>;
    fn record<'a>(&'a self, records: &'a [Record]) -> Answering<'a, Answers<()>>;
    fn forget<'a>(&'a self, keys: &'a [RecordKey]) -> Answering<'a, Answers<bool>>;
    fn expire(&self, limit: usize) -> Answering<'_, Result<Expired, StoreError>>;
    fn scan<'a>(&'a self, from: Option<&'a Cursor>, limit: usize) -> Answering<'a, Result<Page, StoreError>>;
}

impl<S: Store> Erased for S {
    fn backend(&self) -> &'static str {
        Store::backend(self)
    }

    fn is_private(&self) -> bool {
        Store::is_private(self)
    }

    fn answers_at_once(&self) -> bool {
        Store::answers_at_once(self)
    }

    fn limits(&self) -> Limits {
        Store::limits(self)
    }

    fn mark<'a>(&'a self, marks: &'a [Mark]) -> Answering<'a, Answers<Marked>> {
        Box::pin(Store::mark(self, marks))
    }

    fn claim<'a>(&'a self, claims: &'a [ClaimRequest]) -> Answering<'a, Answers<Claimed>> {
        Box::pin(Store::claim(self, claims))
    }

    fn complete<'a>(&'a self, completions: &'a [Completion]) -> Answering<'a, Answers<Held>> {
        Box::pin(Store::complete(self, completions))
    }

    fn release<'a>(&'a self, holds: &'a [Hold]) -> Answering<'a, Answers<Held>> {
        Box::pin(Store::release(self, holds))
    }

    fn fail<'a>(&'a self, failures: &'a [Failure]) -> Answering<'a, Answers<Held>> {
        Box::pin(Store::fail(self, failures))
    }

    fn renew<'a>(&'a self, renewals: &'a [Renewal]) -> Answering<'a, Answers<Held>> {
        Box::pin(Store::renew(self, renewals))
    }

    fn look_up<'a>(&'a self, keys: &'a [RecordKey]) -> Answering<'a, Answers<Known>> {
        Box::pin(Store::look_up(self, keys))
    }

    fn record<'a>(&'a self, records: &'a [Record]) -> Answering<'a, Answers<()>> {
        Box::pin(Store::record(self, records))
    }

    fn forget<'a>(&'a self, keys: &'a [RecordKey]) -> Answering<'a, Answers<bool>> {
        Box::pin(Store::forget(self, keys))
    }

    fn expire(&self, limit: usize) -> Answering<'_, Result<Expired, StoreError>> {
        Box::pin(Store::expire(self, limit))
    }

    fn scan<'a>(&'a self, from: Option<&'a Cursor>, limit: usize) -> Answering<'a, Result<Page, StoreError>> {
        Box::pin(Store::scan(self, from, limit))
    }
}

/// A store of any backend as one type: what is generic over stores need not be compiled for each.
///
/// ```
/// use hapax::TieredDedup;
/// use hapax::store::InMemoryStore;
/// use hapax::testing::store::AnyStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let store = AnyStore::new(InMemoryStore::new()); // or another one, as an option says
/// let engine = TieredDedup::builder(store).build().await?;
/// assert!(engine.check("a").await?.is_fresh());
/// # Ok::<(), hapax::store::StoreError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// It does what the store does, with an allocation for each call.
pub struct AnyStore(Box<dyn Erased>);

impl AnyStore {
    /// This store.
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

    async fn mark(&self, marks: &[Mark]) -> Answers<Marked> {
        self.0.mark(marks).await
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

/// A [`Fixture`], whichever.
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
