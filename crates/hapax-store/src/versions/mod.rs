//! Versions in a store: the highest one of each id, which only grows.
//!
//! [`record`] decides, purely, what a version does to a record; this is what callers and backends
//! say to one another.

#[doc(hidden)]
pub mod record;

use crate::contract::Store;
use crate::error::StoreError;
use crate::key::RecordKey;
use crate::request::{Answers, Known};
use crate::times::{self, Timed};
use std::sync::Arc;
use std::time::Duration;

/// A request that records a version of an id, if it is higher than the one that is known.
#[derive(Clone, Debug)]
pub struct Advance {
    /// The id, in a scope that has versions only.
    pub key: RecordKey,
    /// The version.
    pub version: u64,
    /// The caller's attempt, in 63 random bits: if the same one is repeated, the store gives the
    /// same answer.
    pub attempt: u64,
    /// The time for which the version is then known.
    pub retention: Duration,
}

/// The result of an [`Advance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advanced {
    /// The version is higher than any that is known, or none is. Now it is known.
    Newer,
    /// This very version is known, from another attempt.
    Duplicate,
    /// A higher version is known.
    Stale {
        /// The highest version that is known.
        known: u64,
    },
}

impl Timed for Advance {
    fn check(&self) -> Result<(), StoreError> {
        times::check("retention", self.retention)
    }
}

/// A store that knows the highest version of each id: what [`Latest`](hapax::Latest) is in memory,
/// durable, and for any number of processes.
///
/// ```
/// use hapax_store::{Advance, Advanced, InMemoryStore, RecordKey, Scope, VersionStore};
/// use std::time::Duration;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let store = InMemoryStore::new();
/// let key = RecordKey::new(&Scope::new("prices")?, "article-17");
/// let six = Advance { key, version: 6, attempt: 4711, retention: Duration::from_secs(86_400) };
/// assert_eq!(store.advance(&[six.clone()]).await?.remove(0)?, Advanced::Newer);
/// assert_eq!(store.advance(&[six.clone()]).await?.remove(0)?, Advanced::Newer); // its answer was lost, say
///
/// let again = Advance { attempt: 4712, ..six.clone() };
/// assert_eq!(store.advance(&[again]).await?.remove(0)?, Advanced::Duplicate);
/// let five = Advance { version: 5, attempt: 4713, ..six };
/// assert_eq!(store.advance(&[five]).await?.remove(0)?, Advanced::Stale { known: 6 });
/// # Ok::<(), hapax_store::StoreError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Implemented by [`InMemoryStore`](crate::InMemoryStore), `RedisStore`, `PostgresStore`,
/// `SqliteStore` and `FjallStore`.
///
/// # What a backend promises
///
/// - *Atomicity.* Of any number of callers, in any number of processes, each version of an id
///   passes once at most, and none after a higher one. In a batch, as if one after the other.
/// - *Attempts.* A version that is repeated with the attempt that has advanced the id to it is
///   newer again: a caller that got no answer may ask again. If a higher version has come
///   meanwhile, it is stale: there is nothing left to do.
/// - *Retention.* A version is known for its retention, from when it was accepted; what is not
///   newer extends nothing. Then any version passes.
/// - *A version is a completed record* of its key, so all of [`Store`] holds for it: durability,
///   time, limits, [`forget`](Store::forget), [`expire`](Store::expire). Its result is the
///   backend's affair. Conversely, a key that was marked, claimed or recorded has no version: to
///   advance it is an error of kind [`Misconfigured`](crate::ErrorKind::Misconfigured), which
///   changes nothing. Versions belong into a scope of their own.
///
/// The suite `hapax_testing::store::verify_versions` checks all of that.
///
/// # What a version that passes means
///
/// That a caller was told to handle it; not that it has. A caller that dies between the answer and
/// the effect has lost the message: its redelivery, under another attempt, is a duplicate, and the
/// effect is missing until a higher version comes. That is right for messages of which the next
/// one replaces the last (positions, prices, presence). Where it is not, the version has to advance
/// together with the effect:
///
/// - *The effect is in PostgreSQL or SQLite:* compare in its own transaction, in its own row:
///   `UPDATE articles SET price = $1, version = $2 WHERE id = $3 AND version < $2`. No row changed
///   means that it is late. (Where there is no such row, `SqliteTable::advance` of `hapax-sqlite`
///   does that in the caller's transaction, beside the effect.)
/// - *The effect is elsewhere and idempotent:* ask [`versions`](VersionStore::versions), have the
///   effect unless the version is known, and advance after it. A crash in between repeats the
///   effect. Two callers may then have the effects of two versions in either order, so the target
///   must compare, or one id's messages be handled one after another.
///
/// Ideas: the last writer wins (Thomas, 1979), by versions that the writers give; conditional
/// writes of key-value stores.
pub trait VersionStore: Store {
    /// Records versions that are higher than those that are known.
    fn advance(&self, advances: &[Advance]) -> impl Future<Output = Answers<Advanced>> + Send;

    /// Returns the highest versions of ids that are known. Changes nothing.
    fn versions(&self, keys: &[RecordKey]) -> impl Future<Output = Answers<Option<u64>>> + Send {
        async {
            let answers = self.look_up(keys).await?;
            let version = |(key, known): (&RecordKey, Result<Known, StoreError>)| match known? {
                Known::Unknown => Ok(None),
                Known::Completed(completed) => match record::Version::decode(completed.result.as_deref()) {
                    Some(version) => Ok(Some(version.number)),
                    None => Err(record::foreign(self.backend(), key)),
                },
                Known::InProgress { .. } => Err(record::foreign(self.backend(), key)),
            };
            Ok(keys.iter().zip(answers).map(version).collect())
        }
    }
}

impl<S: VersionStore> VersionStore for Arc<S> {
    fn advance(&self, advances: &[Advance]) -> impl Future<Output = Answers<Advanced>> + Send {
        S::advance(self, advances)
    }

    fn versions(&self, keys: &[RecordKey]) -> impl Future<Output = Answers<Option<u64>>> + Send {
        S::versions(self, keys)
    }
}
