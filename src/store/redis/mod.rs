//! Records in Redis or Valkey.

mod answers;
mod compact;
mod compact_marks;
mod connection;
mod errors;
mod keys;
mod options;
mod records;
mod role;
mod scan;
mod scripts;
mod sentinel;
mod servers;
#[cfg(feature = "tls")]
mod tls;
mod topology;
mod value;

#[cfg(any(fuzzing, all(test, not(modelled))))]
pub(super) mod fuzzing;

pub use compact::CompactOptions;
pub use options::RedisOptions;

use super::contract::Store;
use super::error::{ErrorKind, StoreError};
use super::key::RecordKey;
use super::request::*;
use answers::{major_version, unexpected};
use compact::Layout;
use errors::{error, refused};
use keys::Keys;
use redis::{Cmd, Pipeline, Value, cmd};
use scripts::{Script, Scripts};
use servers::{Command, Servers};
use std::time::Duration;

/// Records in a Redis (6.0 or later) or Valkey server, or in a cluster of them.
///
/// ```no_run
/// use hapax::store::{Mark, Marked, RecordKey, RedisOptions, RedisStore, Scope, Store};
/// use std::time::Duration;
///
/// # async fn example() -> Result<(), hapax::store::StoreError> {
/// let store = RedisStore::connect(RedisOptions::single("redis://127.0.0.1/")).await?;
/// let key = RecordKey::new(&Scope::new("orders")?, "order-17");
/// let mark = Mark { key, attempt: 4711, retention: Duration::from_secs(86_400) };
/// assert_eq!(store.mark(&[mark]).await?.remove(0)?, Marked::Fresh);
/// # Ok(())
/// # }
/// ```
///
/// # What is guaranteed
///
/// - *Atomicity.* A plain mark is one `SET … NX PX`. Claims, and what ends them, are one script, called by its digest and loaded again by
///   whoever finds that the server has lost it.
/// - *Time* is the server's: retention, lease and the time after a failure are the expiry of a key, in milliseconds; tokens are its
///   microseconds. If its clock is set back, a later claim may get a smaller token; the store itself goes by equality, so fencing holds here.
/// - *Durability* is the server's configuration: without append-only file, nothing survives it; with `appendfsync everysec`, it may
///   forget a second, and with `always` nothing that was acknowledged. **A replica that takes over may lack the last acknowledged
///   writes**, since Redis replicates asynchronously: an id may then be fresh twice.
/// - **Eviction forgets.** Set `maxmemory-policy noeviction`; when memory is full, requests then fail as unavailable.
/// - *Nothing is repeated* unless the server said that it was not done (script not known, slot moved). Whoever got no answer may ask
///   again with the same attempt or token.
/// - *Connections*: two to each server, made anew when they break or owe an answer, with waits that double and are jittered. Meanwhile,
///   requests fail at once.
/// - *Who is the master* is asked once for each connection (`ROLE`, one round trip). A replica is
///   refused as unavailable, a Sentinel's port as misconfigured; one that refuses to write since it
///   was demoted is left, and its address resolved anew. With [`RedisOptions::sentinel`] the
///   Sentinels are asked where the master is, each time that a connection is made. A master that
///   was cut off and does not know of its successor takes writes that are lost, unless
///   `min-replicas-to-write` forbids it.
/// - *A server that comes back empty* where its data was not kept cannot be told from one that was
///   meant to be empty; it is [counted](RedisStore::emptied).
/// - *A cluster*: each batch goes to all nodes concerned at once; moved slots are followed. One node that is down fails its own requests only.
///   While slots move, a scan may miss records.
///
/// # Errors
///
/// [`ErrorKind::Unavailable`]: no connection, or the server is loading, a replica, out of memory, or unable to write.
/// [`ErrorKind::Timeout`]: no answer within [`response_timeout`](RedisOptions::response_timeout). [`ErrorKind::Misconfigured`]: address,
/// password, permissions, version. [`ErrorKind::Corrupt`]: something else is kept under a key.
///
/// # Cost
///
/// One round trip a batch; marks take a second one for those ids that are no longer fresh, to learn by whom and how long. Memory of the
/// server: 129 bytes a mark (ids of 16 bytes), or 10 with [`RedisOptions::compact`].
///
/// Ideas: Redis' own pattern of locks with random tokens (`SET NX PX`); effects of scripts rather than scripts are replicated.
pub struct RedisStore {
    servers: Servers,
    keys: Keys,
    scripts: Scripts,
    compact: Option<Layout>,
}

/// Keys in a call to a script, where they may lie in different slots: the server does nothing else meanwhile, for some 100 µs.
const KEYS_IN_A_CALL: usize = 64;

impl RedisStore {
    /// A store on a server that answers.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if an option is wrong, the password is, or the server is older than Redis 6.0;
    /// [`ErrorKind::Unavailable`] if nobody answers.
    pub async fn connect(options: RedisOptions) -> Result<Self, StoreError> {
        let keys = Keys::new(&options.namespace, options.in_cluster)?;
        let compact = options.compact.map(Layout::new).transpose()?;
        let store = RedisStore { servers: Servers::connect(&options).await?, keys, scripts: Scripts::new(), compact };
        store.check_version().await?;
        Ok(store)
    }

    /// Returns how often a server was met without a key that had restarted or been replaced since
    /// this store met it first.
    ///
    /// Everything that it knew is fresh again: it keeps nothing on disk (see *Durability*), or
    /// somebody has flushed it. With the feature `tracing` each time is an event of level WARN.
    pub fn emptied(&self) -> u64 {
        self.servers.nodes().iter().map(|node| node.emptied()).sum()
    }

    /// Whether the servers know all that they will be asked: `SCAN … TYPE` is the youngest.
    async fn check_version(&self) -> Result<(), StoreError> {
        let mut pipeline = Pipeline::new();
        pipeline.add_command(cmd("INFO").arg("server").take());
        for node in self.servers.nodes() {
            let info = match node.send(&pipeline).await?.remove(0) {
                Value::BulkString(info) => String::from_utf8_lossy(&info).into_owned(),
                Value::VerbatimString { text, .. } => text,
                // Not everybody may ask; who may not finds out with the first mark.
                Value::ServerError(refusal) if refusal.code() == "NOPERM" => continue,
                Value::ServerError(refusal) => return Err(refused(&refusal)),
                other => return Err(unexpected("INFO", &other)),
            };
            match major_version(&info) {
                Some(..6) => {
                    let wrong = format!("Redis 6.0 or later is needed; {} is older", node.address());
                    return Err(error(ErrorKind::Misconfigured, wrong));
                }
                _ => continue,
            }
        }
        Ok(())
    }

    fn command(&self, key: &[u8], cmd: Cmd) -> Command {
        Command { slot: if self.servers.in_cluster() { keys::slot(key) } else { 0 }, cmd }
    }

    /// One command for each request.
    async fn each<R, A>(
        &self,
        requests: &[R],
        command: impl Fn(&R) -> Command,
        answer: impl Fn(Value) -> Result<A, StoreError>,
    ) -> Answers<A> {
        if requests.is_empty() {
            return Ok(vec![]);
        }
        let answers = self.servers.ask(requests.iter().map(command).collect(), None).await?;
        Ok(answers.into_iter().map(|value| value.and_then(&answer)).collect())
    }

    /// One script for all requests, in as few calls as may be.
    async fn scripted<R, A>(
        &self,
        script: &Script,
        requests: &[R],
        key: impl Fn(&R) -> Vec<u8>,
        arguments: impl Fn(&[R], &mut Cmd),
        answer: impl Fn(&R, Value) -> Result<A, StoreError>,
    ) -> Answers<A> {
        if requests.is_empty() {
            return Ok(vec![]);
        }
        let keys_in_a_call = if self.servers.in_cluster() { 1 } else { KEYS_IN_A_CALL };
        let calls = requests.chunks(keys_in_a_call).map(|requests| {
            let keys: Vec<Vec<u8>> = requests.iter().map(&key).collect();
            let mut call = script.call(keys.iter().map(Vec::as_slice));
            arguments(requests, &mut call);
            self.command(&keys[0], call)
        });
        let answers = self.servers.ask(calls.collect(), Some(script)).await?;
        let mut each = Vec::with_capacity(requests.len());
        for (requests, values) in requests.chunks(keys_in_a_call).zip(answers) {
            match values {
                Ok(Value::Array(values)) if values.len() == requests.len() => {
                    each.extend(requests.iter().zip(values).map(|(request, value)| match value {
                        Value::ServerError(refusal) => Err(refused(&refusal)),
                        value => answer(request, value),
                    }));
                }
                Ok(other) => each.extend(requests.iter().map(|_| Err(unexpected("a script", &other)))),
                Err(failure) => each.extend(requests.iter().map(|_| Err(failure.clone()))),
            }
        }
        Ok(each)
    }
}

impl std::fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let nodes: Vec<String> = self.servers.nodes().iter().map(|node| node.address().to_owned()).collect();
        f.debug_struct("RedisStore").field("nodes", &nodes).field("keys", &self.keys).finish_non_exhaustive()
    }
}

impl Store for RedisStore {
    fn backend(&self) -> &'static str {
        errors::BACKEND
    }

    fn limits(&self) -> Limits {
        Limits { batch: 1_024, under_way: 4 }
    }

    async fn mark(&self, marks: &[Mark]) -> Answers<Marked> {
        match &self.compact {
            Some(layout) => self.mark_compactly(layout, marks).await,
            None => self.mark_each(marks).await,
        }
    }

    async fn unmark(&self, marks: &[Unmark]) -> Answers<Unmarked> {
        match &self.compact {
            Some(_) => Ok(marks.iter().map(|_| Ok(Unmarked::Unknown)).collect()),
            None => self.unmark_each(marks).await,
        }
    }

    async fn claim(&self, claims: &[ClaimRequest]) -> Answers<Claimed> {
        match &self.compact {
            Some(layout) => self.claim_unmarked(layout, claims).await,
            None => self.claim_each(claims).await,
        }
    }

    async fn complete(&self, completions: &[Completion]) -> Answers<Held> {
        let rest = |completion: &Completion| {
            (value::expiry_ms(completion.retention), value::result_tail(completion.result.as_deref()))
        };
        self.hold("complete", completions, |completion| &completion.hold, rest).await
    }

    async fn release(&self, holds: &[Hold]) -> Answers<Held> {
        self.hold("release", holds, |hold| hold, |_| (0, vec![])).await
    }

    async fn fail(&self, failures: &[Failure]) -> Answers<Held> {
        let retry_after_ms = |failure: &Failure| match failure.retry_after {
            Duration::ZERO => 0, // the script releases it
            retry_after => value::expiry_ms(retry_after),
        };
        self.hold("fail", failures, |failure| &failure.hold, |failure| (retry_after_ms(failure), vec![])).await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Answers<Held> {
        self.hold("renew", renewals, |renewal| &renewal.hold, |renewal| (value::expiry_ms(renewal.lease), vec![])).await
    }

    async fn look_up(&self, keys: &[RecordKey]) -> Answers<Known> {
        match &self.compact {
            Some(layout) => self.look_up_marks(layout, keys).await,
            None => self.look_up_each(keys).await,
        }
    }

    async fn record(&self, records: &[Record]) -> Answers<()> {
        match &self.compact {
            Some(layout) => self.record_compactly(layout, records).await,
            None => self.record_each(records).await,
        }
    }

    async fn forget(&self, keys: &[RecordKey]) -> Answers<bool> {
        match &self.compact {
            Some(layout) => self.forget_marks(layout, keys).await,
            None => self.forget_each(keys).await,
        }
    }

    /// Nothing to do: the server removes what has expired by itself.
    async fn expire(&self, _limit: usize) -> Result<Expired, StoreError> {
        Ok(Expired::default())
    }

    async fn scan(&self, from: Option<&Cursor>, limit: usize) -> Result<Page, StoreError> {
        self.page(from, limit).await
    }
}
