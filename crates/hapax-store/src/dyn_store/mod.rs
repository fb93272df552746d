//! Stores behind pointers: one whose type is chosen while the program runs, and one that is shared.

use crate::contract::Store;
use crate::error::StoreError;
use crate::key::RecordKey;
use crate::request::*;
use std::fmt;
use std::pin::Pin;
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

/// A call that is under way.
pub(crate) type Answering<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Passes on what a store says of itself.
macro_rules! speaks_for_itself {
    ($this:ident, $by:ident, $store:expr) => {
        fn backend(&$this) -> &'static str {
            $by::backend($store)
        }

        fn limits(&$this) -> Limits {
            $by::limits($store)
        }

        fn is_private(&$this) -> bool {
            $by::is_private($store)
        }

        fn answers_at_once(&$this) -> bool {
            $by::answers_at_once($store)
        }

        fn node_of(&$this, key: &RecordKey) -> u32 {
            $by::node_of($store, key)
        }
    };
}

/// Implements [`Store`] for what points to a store, given the request and the answer of each call
/// for a batch.
macro_rules! behind_pointers {
    ($($call:ident: $request:ty => $answer:ty,)*) => {
        /// A [`Store`] of any type, so that the code that uses it is compiled once.
        pub(crate) trait Erased: Send + Sync + 'static {
            fn backend(&self) -> &'static str;
            fn limits(&self) -> Limits;
            fn is_private(&self) -> bool;
            fn answers_at_once(&self) -> bool;
            fn node_of(&self, key: &RecordKey) -> u32;
            $(fn $call<'a>(&'a self, requests: &'a [$request]) -> Answering<'a, Answers<$answer>>;)*
            fn expire(&self, limit: usize) -> Answering<'_, Result<Expired, StoreError>>;
            fn scan<'a>(&'a self, from: Option<&'a Cursor>, limit: usize) -> Answering<'a, Result<Page, StoreError>>;
        }

        impl<S: Store> Erased for S {
            speaks_for_itself!(self, Store, self);
            $(fn $call<'a>(&'a self, requests: &'a [$request]) -> Answering<'a, Answers<$answer>> {
                Box::pin(Store::$call(self, requests))
            })*

            fn expire(&self, limit: usize) -> Answering<'_, Result<Expired, StoreError>> {
                Box::pin(Store::expire(self, limit))
            }

            fn scan<'a>(&'a self, from: Option<&'a Cursor>, limit: usize) -> Answering<'a, Result<Page, StoreError>> {
                Box::pin(Store::scan(self, from, limit))
            }
        }

        impl Store for DynStore {
            speaks_for_itself!(self, Erased, &*self.0);
            $(async fn $call(&self, requests: &[$request]) -> Answers<$answer> {
                self.0.$call(requests).await
            })*

            async fn expire(&self, limit: usize) -> Result<Expired, StoreError> {
                self.0.expire(limit).await
            }

            async fn scan(&self, from: Option<&Cursor>, limit: usize) -> Result<Page, StoreError> {
                self.0.scan(from, limit).await
            }
        }

        /// A store that is shared, for example with a test that injects its faults.
        impl<S: Store> Store for Arc<S> {
            speaks_for_itself!(self, Store, &**self);
            $(fn $call(&self, requests: &[$request]) -> impl Future<Output = Answers<$answer>> + Send {
                S::$call(self, requests)
            })*

            fn expire(&self, limit: usize) -> impl Future<Output = Result<Expired, StoreError>> + Send {
                S::expire(self, limit)
            }

            fn scan(
                &self,
                from: Option<&Cursor>,
                limit: usize,
            ) -> impl Future<Output = Result<Page, StoreError>> + Send {
                S::scan(self, from, limit)
            }
        }
    };
}

/// Passes the calls for batches to a macro: the request and the answer of each.
macro_rules! calls {
    ($to:ident) => {
        $to! {
            mark: Mark => Marked,
            unmark: Unmark => Unmarked,
            claim: ClaimRequest => Claimed,
            complete: Completion => Held,
            release: Hold => Held,
            fail: ClaimFailure => Held,
            renew: Renewal => Held,
            look_up: RecordKey => Known,
            record: Record => (),
            forget: RecordKey => bool,
        }
    };
}

calls!(behind_pointers);

#[cfg(test)]
mod tests;
