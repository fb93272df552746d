//! The durable, authoritative tier: what is kept of ids where a crash does not reach it, and where instances share it.
//!
//! A [`Store`] is what `TieredDedup` asks when its memory cannot answer. Backends:
//!
//! | | feature | for |
//! |---|---|---|
//! | [`InMemoryStore`] | `store` | tests, and several engines in one process |
//! | [`PostgresStore`] | `postgres` | instances that share a PostgreSQL server |
//!
//! To write another one, implement [`Store`], which says what is promised, and run the suite in `hapax::testing::store` on it.

mod error;
mod key;
mod request;

mod contract;
mod record;

mod in_memory;
#[cfg(feature = "postgres")]
mod postgres;

pub use contract::Store;
pub use error::{ErrorKind, StoreError};
pub use in_memory::InMemoryStore;
pub use key::{RecordKey, Scope, StoredId};
#[cfg(feature = "postgres")]
pub use postgres::{Layout, PostgresOptions, PostgresStore};
pub use request::*;
