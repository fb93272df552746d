//! The durable, authoritative tier: what is kept of ids where a crash does not reach it, and where instances share it.
//!
//! A [`Store`] is what `TieredDedup` asks when its memory cannot answer. Backends:
//!
//! | | feature | for |
//! |---|---|---|
//! | [`InMemoryStore`] | `store` | tests, and several engines in one process |
//! | [`RedisStore`] | `redis` | many instances, and little latency; Redis or Valkey, single or cluster |
//!
//! To write another one, implement [`Store`], which says what is promised, and run the suite in `hapax::testing::store` on it.

mod error;
mod key;
mod request;

mod contract;
mod record;

mod in_memory;
#[cfg(feature = "redis")]
mod redis;

#[cfg(feature = "redis")]
pub use self::redis::{CompactOptions, RedisOptions, RedisStore};
pub use contract::Store;
pub use error::{ErrorKind, StoreError};
pub use in_memory::InMemoryStore;
pub use key::{RecordKey, Scope, StoredId};
pub use request::*;
