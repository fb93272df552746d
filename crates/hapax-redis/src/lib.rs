#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod batch;
mod cluster;
mod options;
mod records;
mod resp;
mod scan;
mod server;
#[cfg(feature = "streams")]
mod streams;

#[cfg(any(fuzzing, test))]
#[doc(hidden)]
pub mod fuzzing;
mod transport;

pub use options::RedisOptions;
pub use server::warning::{RedisRisk, RedisWarning};
#[cfg(feature = "streams")]
pub use streams::{RedisStream, RedisStreamError, RedisStreamOptions, StreamEntry, StreamLag};

use cluster::keys::Keys;
use cluster::servers::Servers;
use hapax_store::*;
use resp::scripts::Scripts;
use std::sync::Arc;

/// Records in a Redis (6.0 or later) or Valkey server, or in a cluster of them.
///
/// ```no_run
/// use hapax_redis::{RedisOptions, RedisStore};
/// use hapax_store::TieredDedup;
/// use std::time::Duration;
///
/// # async fn example() -> Result<(), hapax_store::StoreError> {
/// let store = RedisStore::connect(RedisOptions::single("redis://127.0.0.1/", "orders")).await?;
/// let dedup = TieredDedup::builder(store).retention(Duration::from_secs(86_400)).build().await?;
/// if dedup.check("order-17").await?.is_fresh() {
///     println!("handle it");
/// }
/// # Ok(())
/// # }
/// ```
///
/// # What is guaranteed
///
/// - *Atomicity.* A plain mark is one `SET … NX PX`. Claims, and the requests that end them,
///   are one script each, called by its digest and loaded again when the server has lost it.
/// - *Time* is the server's: retention, lease and the time after a failure are the expiry of a key,
///   in milliseconds, and that of a claim comes later by the time for which it is then in doubt: as
///   long as a completion would be kept. Tokens are its microseconds. If its clock is set back, a
///   later claim may get a smaller token; the store itself compares tokens for equality, so fencing
///   holds here.
/// - *Durability* is the server's configuration: without append-only file, nothing survives it;
///   with `appendfsync everysec`, it may forget a second, and with `always` nothing that was
///   acknowledged. **A replica that takes over may lack the last acknowledged writes**, since Redis
///   replicates asynchronously: an id may then be fresh twice.
/// - **Eviction forgets.** Set `maxmemory-policy noeviction`; when memory is full, requests then
///   fail as unavailable.
/// - *Nothing is repeated* unless the server reported that it was not done (script not known, slot
///   moved). A caller that got no answer may ask again with the same attempt or token.
/// - *Connections*: two to each server. A connection that breaks is made anew, with waits that
///   double and are jittered; meanwhile, requests fail at once. So is a connection that fell
///   silent: if nothing is answered for [`response_timeout`](RedisOptions::response_timeout), also
///   if the caller has given up long before.
/// - *What was given up* with a connection that ended, and has not arrived, is never carried out:
///   the next connection to that server has it end the last one first (`CLIENT KILL ID`), wherever
///   requests are kept on the way. For a user who may not do that (`CLIENT ID`, `CLIENT KILL`, and
///   `INFO` for the server's run id), it may be carried out late; with the feature `tracing` a
///   refusal is an event of level WARN. So it may be if this process dies before it has connected
///   anew.
/// - *The master* is verified with each connection (`ROLE`). A replica is refused as unavailable, a
///   Sentinel's port as misconfigured; the connection to a server that refuses to write since it
///   was demoted is closed, and its address resolved anew. With [`RedisOptions::sentinel`] the
///   Sentinels are asked for the master each time that a connection is made. A master that was cut
///   off and does not know of its successor takes writes that are lost, unless
///   `min-replicas-to-write` forbids it. (Redis 6.0 does not enforce that in scripts, so it takes
///   claims and completions all the same.)
/// - *A server that may forget* (it evicts, or keeps nothing on disk) is reported by
///   [warnings](RedisStore::warnings), and refused with [`RedisOptions::require_durable`]. A server
///   that has forgotten is counted: [`restarted`](RedisStore::restarted),
///   [`emptied`](RedisStore::emptied), [`evicted`](RedisStore::evicted). Forgotten ids are fresh
///   again.
/// - *A cluster*: each batch goes to all nodes concerned at once; moved slots are followed. A node
///   that is down fails its own requests only, and so does one that hangs: once another node has
///   answered, the store waits for it a quarter of
///   [`response_timeout`](RedisOptions::response_timeout) longer. An engine queues requests for
///   each master separately (see [`node_of`](Store::node_of)). A store connects if one node
///   answers. While slots move, a scan may miss records.
///
/// # Errors
///
/// [`ErrorKind::Unavailable`]: no connection, or the server
/// is loading, a replica, out of memory, or unable to write.
/// [`ErrorKind::Timeout`]: no answer within
/// [`response_timeout`](RedisOptions::response_timeout).
/// [`ErrorKind::Misconfigured`]: address, password,
/// permissions, version. [`ErrorKind::Corrupt`]: a key has a
/// value that is not hapax's.
///
/// # Cost
///
/// One round trip a batch; marks take a second one for the ids that are no longer fresh, to read
/// the attempt and the remaining time of each. Memory of the server: 129 bytes a mark (ids of 16
/// bytes).
///
/// Ideas: Redis' own pattern of locks with random tokens (`SET NX PX`); effects of scripts rather
/// than scripts are replicated.
pub struct RedisStore {
    servers: Arc<Servers>,
    keys: Keys,
    scripts: Scripts,
}

impl RedisStore {
    /// Connects to a server, and waits until it answers. A connection that fails is tried again,
    /// for up to [`connect_timeout`](RedisOptions::connect_timeout).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`], at once, if an option or the
    /// password is wrong, or the server is older than Redis 6.0;
    /// [`ErrorKind::Unavailable`] if no server answers by then.
    pub async fn connect(options: RedisOptions) -> Result<Self, StoreError> {
        let keys = Keys::new(&options.namespace, options.in_cluster)?;
        Ok(RedisStore { servers: Servers::connect(&options).await?, keys, scripts: Scripts::new() })
    }

    /// Returns the ways in which the servers may forget acknowledged ids, by their configuration
    /// when it was last read: it is read with each connection, and each time that
    /// [`expire`](Store::expire) is called.
    ///
    /// ```no_run
    /// # use hapax_redis::{RedisOptions, RedisStore};
    /// # async fn example() -> Result<(), hapax_store::StoreError> {
    /// let store = RedisStore::connect(RedisOptions::single("redis://127.0.0.1/", "orders")).await?;
    /// for warning in store.warnings() {
    ///     eprintln!("{warning}"); // 127.0.0.1:6379: it evicts ids when its memory is full …
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// With the feature `tracing`, each new warning is an event of level WARN. To refuse such
    /// servers, see [`RedisOptions::require_durable`].
    pub fn warnings(&self) -> Vec<RedisWarning> {
        self.servers.warnings()
    }

    /// Returns the number of times that a server had restarted or been replaced since this store
    /// met it before: its run id was another one.
    ///
    /// It then knows what it had on disk, or what a replica had received; see *Durability*.
    pub fn restarted(&self) -> u64 {
        self.servers.lost(|losses| &losses.restarted)
    }

    /// Returns the number of times that a server had been emptied since this store met it before:
    /// it had restarted and come back without a key, or a client had called `FLUSHALL` or `FLUSHDB`
    /// (for any database).
    ///
    /// All ids that it knew are fresh again. Servers are checked with each connection, and each
    /// time that [`expire`](Store::expire) is called: by an engine every ten seconds. With the
    /// feature `tracing` each time is an event of level WARN.
    pub fn emptied(&self) -> u64 {
        self.servers.lost(|losses| &losses.emptied)
    }

    /// Returns the number of keys that the servers have evicted for lack of memory since this store
    /// met them, of any application; see [`emptied`](RedisStore::emptied) for the times at which
    /// they are checked.
    pub fn evicted(&self) -> u64 {
        self.servers.lost(|losses| &losses.evicted)
    }
}

impl std::fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nodes: Vec<String> = self.servers.nodes().iter().map(|node| node.address().to_owned()).collect();
        f.debug_struct("RedisStore").field("nodes", &nodes).field("keys", &self.keys).finish_non_exhaustive()
    }
}
