//! A store whose type is chosen while the program runs.

#[cfg(test)]
mod tests;

use crate::contract::Store;
use crate::erased::Erased;
use crate::error::StoreError;
use crate::key::RecordKey;
use crate::request::*;
use std::fmt;
use std::sync::Arc;

/// A store of any backend, which is chosen while the program runs: by a setting, say.
///
/// ```
/// use hapax_fjall::FjallStore;
/// use hapax_redis::{RedisOptions, RedisStore};
/// use hapax_store::{DynStore, ErrorKind, InMemoryStore, StoreError, TieredDedup};
/// use std::time::Duration;
///
/// /// Opens the store that a setting names: `memory`, `fjall:PATH` or `redis://HOST`.
/// async fn open(setting: &str) -> Result<DynStore, StoreError> {
///     match setting.split_once(':') {
///         None if setting == "memory" => Ok(DynStore::new(InMemoryStore::new())),
///         Some(("fjall", path)) => Ok(DynStore::new(FjallStore::open(path).await?)),
///         Some(("redis", _)) => Ok(DynStore::new(RedisStore::connect(RedisOptions::single(setting, "orders")).await?)),
///         _ => Err(StoreError::new(ErrorKind::Misconfigured, "store", format!("no such store: {setting}"))),
///     }
/// }
///
/// #[tokio::main(flavor = "current_thread")]
/// async fn main() -> Result<(), StoreError> {
///     let setting = std::env::var("DEDUP_STORE").unwrap_or("memory".into());
///     let dedup: TieredDedup<DynStore> = TieredDedup::builder(open(&setting).await?).build().await?;
///     assert!(dedup.check("order-17").await?.is_fresh());
///     dedup.shutdown(Duration::from_secs(5)).await
/// }
/// ```
///
/// A clone is another handle to the same store. A `DynStore` answers as the store inside does, and
/// keeps each of its promises. What only one backend has, such as
/// [`InMemoryStore::len`](crate::InMemoryStore::len), stays within reach through an [`Arc`]:
///
/// ```
/// use hapax_store::{DynStore, InMemoryStore};
/// use std::sync::Arc;
///
/// let in_memory = Arc::new(InMemoryStore::new());
/// let store = DynStore::from(Arc::clone(&in_memory));
/// assert_eq!(in_memory.len(), 0);
/// # drop(store);
/// ```
///
/// # Cost
///
/// One more allocation a call, which is a whole batch. An engine is compiled once for all stores.
#[derive(Clone)]
pub struct DynStore(Arc<dyn Erased>);

impl DynStore {
    /// Wraps a store.
    ///
    /// ```
    /// use hapax_store::{DynStore, InMemoryStore, Store};
    ///
    /// let store = DynStore::new(InMemoryStore::new());
    /// assert_eq!(store.backend(), InMemoryStore::new().backend());
    /// ```
    pub fn new(store: impl Store) -> Self {
        DynStore(Arc::new(store))
    }
}

impl<S: Store> From<Arc<S>> for DynStore {
    /// Wraps a store that is shared.
    fn from(store: Arc<S>) -> Self {
        DynStore(store)
    }
}

impl fmt::Debug for DynStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DynStore").field(&self.0.backend()).finish()
    }
}

impl Store for DynStore {
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

    async fn fail(&self, failures: &[ClaimFailure]) -> Answers<Held> {
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
