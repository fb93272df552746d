//! The durable, authoritative tier: it keeps records of ids where a crash does not reach them, and
//! where instances share them.
//!
//! A [`Store`] answers [`TieredDedup`](crate::TieredDedup) when its memory cannot. Backends:
//!
//! | | feature | for |
//! |---|---|---|
//! | [`InMemoryStore`] | `store` | tests, and several engines in one process |
#![cfg_attr(
    feature = "budget",
    doc = "| [`BudgetStore`] | `budget` | one process, a budget of bytes, and nothing that has to survive it |"
)]
#![cfg_attr(
    feature = "redis",
    doc = "| [`RedisStore`] | `redis` | many instances, and little latency; Redis or Valkey, single or cluster |"
)]
#![cfg_attr(
    feature = "fjall",
    doc = "| [`FjallStore`] | `fjall` | one process that owns its ids: a directory, in Rust alone |"
)]
#![cfg_attr(
    feature = "sqlite",
    doc = "| [`SqliteStore`] | `sqlite` | tools with one file, and marks in a user's own transaction |"
)]
#![cfg_attr(
    feature = "postgres",
    doc = "| [`PostgresStore`] | `postgres` | instances that share a PostgreSQL server |"
)]
//!
//! To write another backend, implement [`Store`], which documents the promises, and run the suite
//! in `hapax::testing::store` on it.

mod error;
mod key;
mod request;

mod contract;
pub(crate) mod erased;
mod record;
pub(crate) mod times;

mod in_memory;

#[cfg(any(fuzzing, all(test, not(modelled))))]
pub(crate) mod fuzzing;

#[cfg(feature = "budget")]
mod budgeted;

#[cfg(any(feature = "fjall", feature = "sqlite", fuzzing, miri))]
#[cfg_attr(any(fuzzing, miri), allow(dead_code, reason = "without a store it is only tested"))]
mod codec;
#[cfg(any(feature = "fjall", feature = "sqlite"))]
mod committer;
#[cfg(feature = "fjall")]
mod fjall;
#[cfg(feature = "postgres")]
pub(crate) mod postgres;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "sqlite")]
mod sqlite;

#[cfg(feature = "fjall")]
pub use self::fjall::{FjallOptions, FjallStore};
#[cfg(feature = "redis")]
pub use self::redis::{CompactOptions, RedisOptions, RedisRisk, RedisStore, RedisWarning};
#[cfg(any(feature = "fjall", feature = "sqlite"))]
pub use committer::Durability;
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteOptions, SqliteStore, SqliteTable};

#[cfg(feature = "budget")]
pub use budgeted::BudgetStore;
pub use contract::{MAX_NODES, Store};
pub use error::{ErrorKind, StoreError};
pub use in_memory::InMemoryStore;
pub use key::{RecordKey, Scope, StoredId};
#[cfg(feature = "postgres")]
pub use postgres::{Layout, PostgresOptions, PostgresStore};
pub use request::*;
