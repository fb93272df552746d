//! Strategies that survive a crash, or ask a server: stores of others as one would use them, and
//! this crate in front of them.
//!
//! All keep every id of a run: retentions are far longer than one, on the clock of the store. So
//! their figures contain no expiry, which favours the stores of others: the code that deletes old
//! ids there, and the column that says how old they are, are left out. (Redis expires by itself,
//! once the run is over.)

#[cfg(feature = "fjall")]
mod fjall;
#[cfg(any(feature = "fjall", feature = "sqlite", rocksdb))]
mod group;
mod lasting;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod pool;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
#[cfg(rocksdb)]
mod rocksdb;
#[cfg(feature = "sqlite")]
mod rusqlite;
#[cfg(test)]
mod tests;
#[cfg(any(feature = "fjall", feature = "postgres", feature = "redis"))]
mod tiered;

pub use self::lasting::Lasting;

#[cfg(feature = "fjall")]
pub use self::fjall::Fjall;
#[cfg(feature = "postgres")]
pub use self::postgres::Postgres;
#[cfg(feature = "redis")]
pub use self::redis::Redis;
#[cfg(rocksdb)]
pub use self::rocksdb::RocksDb;
#[cfg(feature = "sqlite")]
pub use self::rusqlite::Rusqlite;
#[cfg(any(feature = "fjall", feature = "postgres", feature = "redis"))]
pub use self::tiered::HapaxOver;
