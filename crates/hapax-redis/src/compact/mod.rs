//! Marks as members of sets of integers: a tenth of the memory, and fewer promises.

mod layout;

use super::answers::ttl_of_member;
use super::batch::Calls;
use super::commands::Commands;
use super::keys::Keys;
use super::options::RedisOptions;
use super::reply::Reply;
use super::scripts::Script;
use super::servers::Servers;
use super::warning::RedisWarning;
use hapax_store::{Answers, RecordKey, StoreError};
use layout::{Layout, Place};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Marks of ids in a tenth of the memory that a [`RedisStore`](super::RedisStore) takes for them:
/// 9 to 10 bytes an id.
///
/// ```no_run
/// use hapax_redis::{CompactMarks, CompactOptions, RedisOptions};
/// use hapax_store::{RecordKey, Scope};
/// use std::time::Duration;
///
/// # async fn example() -> Result<(), hapax_store::StoreError> {
/// let retention = Duration::from_secs(86_400);
/// let options = CompactOptions { retention, expected_ids: 50_000_000 };
/// let marks = CompactMarks::connect(RedisOptions::single("redis://127.0.0.1/", "orders"), options).await?;
/// # let poll = || Vec::<String>::new();
/// # let handle = |order: &str| drop(order.len());
/// let scope = Scope::new("orders")?;
/// let orders: Vec<String> = poll();
/// let keys: Vec<RecordKey> = orders.iter().map(|order| RecordKey::new(&scope, order)).collect();
/// match marks.mark(&keys).await {
///     Ok(answers) => for (order, answer) in orders.iter().zip(answers) {
///         match answer {
///             Ok(known) if !known.is_fresh() => {} // a duplicate
///             // Also one whose answer was lost: once too often, rather than never.
///             Ok(_) | Err(_) => handle(order),
///         }
///     },
///     Err(_) => orders.iter().for_each(|order| handle(order)),
/// }
/// # Ok(())
/// # }
/// ```
///
/// A mark is made at sight: if this process dies after it, and before the message is handled, the
/// message is lost.
///
/// They are no [`Store`](hapax_store::Store), so no `TieredDedup` stands in front of them: attempts
/// are not kept, there are no claims and no results, and nothing can be scanned. Each call is one
/// batch of requests: hand over what a poll of the broker has brought, up to some thousand ids.
///
/// # What is guaranteed
///
/// - *Atomicity.* A mark is one script: of any number of concurrent marks of an id, one is fresh.
/// - *Retention*: an id is known for at least [`CompactOptions::retention`], and for up to half of
///   it longer, by the server's clock.
/// - *Nothing is repeated* unless the server reported that it was not done. Reconnection, clusters,
///   Sentinels and durability are those of [`RedisStore`](super::RedisStore).
///
/// # A lost answer loses a message
///
/// An error of [`ErrorKind::Timeout`](hapax_store::ErrorKind::Timeout) or
/// [`ErrorKind::Unavailable`](hapax_store::ErrorKind::Unavailable) leaves open whether the id was
/// marked. A caller that asks again, here or in another instance, may be told "duplicate" by its
/// own mark, and the message is lost. A caller that handles the message without asking again may
/// handle it twice. Use compact marks where one of both is bearable for one message in many, and
/// `RedisStore` otherwise: it recognizes a repeated attempt.
///
/// # False duplicates
///
/// A new id is taken for a duplicate if it agrees with a known one in all of 64 bits and the set,
/// at odds of 1 to 10^16 (the set's 1,000 members in 2^64), however many ids there are. If there
/// are more ids than expected, the odds rise in proportion.
///
/// # Cost
///
/// A script of one round trip for up to 64 ids, in a cluster for one; a batch is one pipeline. Per
/// id, 9 to 10 bytes: a mark is a 64-bit member of a set of about 300 integers, which the server
/// keeps sorted in one piece of memory. SHA-256 of scope and id determines the set and the member.
/// There is one generation of sets for each half of the retention, and each expires as a whole; a
/// mark adds to the newest and looks at the others. If there are more than 1.6 times as many ids as
/// expected, the server turns sets into hash tables, which take five times as much memory. (It also
/// does if its `set-max-intset-entries` is less than the usual 512.)
pub struct CompactMarks {
    servers: Arc<Servers>,
    keys: Keys,
    layout: Layout,
    script: Script,
}

/// Options for [`CompactMarks`]. All processes must have the same: with other ones, nothing is
/// known of earlier marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct CompactOptions {
    /// The time for which marks are known, at least a second.
    pub retention: Duration,
    /// The number of ids that are marked within a retention.
    pub expected_ids: u64,
}

/// The answer to a compact mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompactMarked {
    /// The id was not known; it is now.
    Fresh,
    /// The id was known, and is for this long.
    Duplicate {
        /// The time until it is forgotten.
        expires_in: Duration,
    },
}

impl CompactMarked {
    /// Returns true if the id was not known.
    pub fn is_fresh(&self) -> bool {
        *self == CompactMarked::Fresh
    }
}

impl CompactMarks {
    /// Connects to the servers, and waits until one answers.
    ///
    /// # Errors
    ///
    /// Those of [`RedisStore::connect`](super::RedisStore::connect);
    /// [`ErrorKind::Misconfigured`](hapax_store::ErrorKind::Misconfigured) also if the retention is
    /// less than a second or more than 100 years.
    pub async fn connect(servers: RedisOptions, options: CompactOptions) -> Result<Self, StoreError> {
        let keys = Keys::new(&servers.namespace, servers.in_cluster)?;
        let layout = Layout::new(options)?;
        let servers = Servers::connect(&servers).await?;
        Ok(CompactMarks { servers, keys, layout, script: Script::new(include_str!("marks.lua")) })
    }

    /// Marks ids. Of several equal ones in a batch, the first may be fresh.
    ///
    /// # Errors
    ///
    /// Those of [`RedisStore`](super::RedisStore). The id may be marked nevertheless: see above.
    pub async fn mark(&self, ids: &[RecordKey]) -> Answers<CompactMarked> {
        self.call("mark", ids, |ttl| match ttl {
            None => CompactMarked::Fresh,
            Some(expires_in) => CompactMarked::Duplicate { expires_in },
        })
        .await
    }

    /// Returns true for ids that are marked, and changes nothing.
    ///
    /// # Errors
    ///
    /// Those of [`RedisStore`](super::RedisStore).
    pub async fn contains(&self, ids: &[RecordKey]) -> Answers<bool> {
        self.call("look", ids, |ttl| ttl.is_some()).await
    }

    /// Removes marks, so that their ids are fresh again. Returns true for those that were there.
    ///
    /// # Errors
    ///
    /// Those of [`RedisStore`](super::RedisStore).
    pub async fn forget(&self, ids: &[RecordKey]) -> Answers<bool> {
        self.call("forget", ids, |ttl| ttl.is_some()).await
    }

    /// Returns the ways in which the servers may forget acknowledged ids, as
    /// [`RedisStore::warnings`](super::RedisStore::warnings) does.
    pub fn warnings(&self) -> Vec<RedisWarning> {
        self.servers.warnings()
    }

    /// Returns the number of restarts, as [`RedisStore::restarted`](super::RedisStore::restarted)
    /// does.
    pub fn restarted(&self) -> u64 {
        self.servers.lost(|losses| &losses.restarted)
    }

    /// Returns the number of times that a server was emptied, as
    /// [`RedisStore::emptied`](super::RedisStore::emptied) does.
    pub fn emptied(&self) -> u64 {
        self.servers.lost(|losses| &losses.emptied)
    }

    /// Returns the number of evicted keys, as [`RedisStore::evicted`](super::RedisStore::evicted)
    /// does.
    pub fn evicted(&self) -> u64 {
        self.servers.lost(|losses| &losses.evicted)
    }

    /// Checks the servers, so that losses are noticed. Call it from time to time: otherwise only a
    /// new connection finds them.
    pub async fn check_servers(&self) {
        self.servers.check().await;
    }

    /// Calls the script for all ids: `what` it does, and what a mark's remaining time means.
    async fn call<A: Send>(
        &self,
        what: &'static str,
        ids: &[RecordKey],
        answer: impl Fn(Option<Duration>) -> A + Send + Sync,
    ) -> Answers<A> {
        let places: Vec<Place> = ids.iter().map(|id| self.layout.place(id)).collect();
        let calls = Calls {
            key: |place: &Place, commands: &mut Commands| commands.parts(self.keys.of_set(&place.set)),
            first: (3, |commands: &mut Commands| {
                commands.text(what);
                commands.number(self.layout.width_ms());
                commands.number(self.layout.older());
            }),
            each: (1, |place: &Place, commands: &mut Commands| commands.signed(place.member)),
        };
        let read = |_: &Place, reply: Reply<'_>| ttl_of_member(reply).map(&answer);
        self.servers.scripted(&self.script, &places, calls, read).await
    }
}

impl fmt::Debug for CompactMarks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompactMarks").field("keys", &self.keys).field("layout", &self.layout).finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "serde"))]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_as_they_were_written() {
        let options = CompactOptions { retention: Duration::from_millis(1_500), expected_ids: 7 };
        let written = serde_json::to_string(&options).unwrap();
        assert_eq!(serde_json::from_str::<CompactOptions>(&written).unwrap(), options);
        let unknown = written.replace("expected_ids", "ids");
        assert!(serde_json::from_str::<CompactOptions>(&unknown).is_err(), "{unknown}");
    }
}
