//! A consumer of a stream's group.

use super::answers::{self, StreamLag, TakenOver};
use super::entry::StreamEntry;
use super::error::RedisStreamError;
use super::options::RedisStreamOptions;
use crate::cluster::servers::Servers;
use crate::options::RedisOptions;
use crate::resp::commands::Commands;
use crate::resp::reply::Reply;
use hapax_store::StoreError;
use hapax_stream::{Source, retry_for};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// The time that a read waits, after which the entries of dead consumers are looked for.
const BLOCK: Duration = Duration::from_millis(250);
/// The beginning of the names of our fields in dead letters.
const OURS: &str = "dead-letter-";
/// The largest number of bytes of a reason in dead letters.
const REASON_MAX: usize = 1_024;

/// A consumer of a stream's group, for a [`Consumer`](hapax_stream::Consumer) or a
/// [`LogConsumer`](hapax_stream::LogConsumer): Redis 6.2 or later, or Valkey.
///
/// ```no_run
/// use hapax_redis::{RedisOptions, RedisStore, RedisStream, RedisStreamOptions, StreamEntry};
/// use hapax_store::TieredDedup;
/// use hapax_stream::{Consumer, Delivery};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let redis = RedisOptions::single("redis://127.0.0.1/", "billing");
/// let orders = RedisStreamOptions::new("orders", "billing", "billing-1");
/// let orders = RedisStream::connect(redis.clone(), orders).await?;
///
/// let billed = TieredDedup::builder(RedisStore::connect(redis).await?).build().await?;
/// let consumer = Consumer::builder("billing", billed, |order: &StreamEntry| order.field("id").map(<[u8]>::to_vec)).build()?;
/// let bill = |order: Delivery<StreamEntry>| async move {
///     println!("{} is billed, with fencing token {:?}", order.entry_id(), order.token());
///     Ok::<(), std::io::Error>(())
/// };
/// let until_told = std::future::pending(); // Ctrl-C, for example
/// println!("{:?}", consumer.run(&orders, bill, until_told).await?);
/// # Ok(())
/// # }
/// ```
///
/// # Servers
///
/// One server, the master that Sentinels watch, or a cluster, with credentials and encryption: all
/// that [`RedisOptions`] says but the namespace, since a stream has the name that it has. Reads
/// have connections of their own, since one that waits delays what comes after it: with a
/// [`RedisStore`](crate::RedisStore) of the same servers a process has up to six to each.
///
/// # Guarantees
///
/// - The group is created if it does not exist, from the stream's beginning, and the stream with
///   it.
/// - An entry that was received stays with the group until it is acknowledged. If its consumer is
///   silent for [`idle`](RedisStreamOptions::idle), another one takes it over, or this one after a
///   restart. Meanwhile the server is told that entries are worked on.
/// - A lost connection, a fail-over or a server that loads its data is waited for, for as long as
///   [`retry_for`](RedisStreamOptions::retry_for). A master that takes over may lack the last
///   entries, those in the stream of dead letters among them, and the last acknowledgements, whose
///   entries come again. `min-replicas-to-write` bounds that.
/// - An entry that is put aside is added to the stream of
///   [dead letters](RedisStreamOptions::dead_letters) with its fields, and with the fields
///   `dead-letter-reason` (up to 1,024 bytes of it), `-stream`, `-entry` and `-group`, and then
///   acknowledged. If the connection is lost between the two, or before the answer, it is there
///   twice. `XADD` of its fields to the stream has it handled again; ours may be among them.
/// - The first delivery of an entry is told from others: entries that kill their consumers are put
///   aside after [`max_attempts`](hapax_stream::ConsumerBuilder::max_attempts).
///
/// *Trimming* (`MAXLEN`, `MINID`) asks nobody: entries that no consumer has read are lost without a
/// word, and those that were pending are [counted](Self::trimmed) when they would be taken over.
/// Trim by the age that no consumer may lag behind, or let this
/// [delete](RedisStreamOptions::delete_acknowledged) what is done. A server that evicts or keeps
/// nothing on disk loses streams, too: [`RedisOptions::require_durable`].
///
/// # Cost
///
/// A read for as many entries as there is room for; while there are none, four reads in a second.
/// One search for idle entries at every eighth of the idle time, but no more than four in a second,
/// and no less than one.
pub struct RedisStream {
    options: RedisStreamOptions,
    reading: Arc<Servers>,
    writing: Arc<Servers>,
    takeover: Mutex<Takeover>,
    trimmed: AtomicU64,
}

/// The search for idle entries.
struct Takeover {
    /// The entry where the last step ended.
    from: String,
    next: Instant,
}

impl RedisStream {
    /// Connects, and creates the group if it does not exist.
    ///
    /// # Errors
    ///
    /// [`RedisStreamError::Misconfigured`] names an option; [`RedisStreamError::Server`] if no
    /// server answers, or it refuses.
    pub async fn connect(redis: RedisOptions, options: RedisStreamOptions) -> Result<Self, RedisStreamError> {
        options.validate()?;
        let failed = |cause| RedisStreamError::Server { doing: "connecting", cause };
        let mut waits = redis.clone();
        waits.timing.response_timeout = waits.timing.response_timeout.saturating_add(BLOCK);
        let (writing, reading) =
            tokio::try_join!(Servers::connect(&redis), Servers::connect(&waits)).map_err(failed)?;
        let takeover = Mutex::new(Takeover { from: "0-0".into(), next: Instant::now() });
        let stream = RedisStream { options, reading, writing, takeover, trimmed: AtomicU64::new(0) };
        stream.create().await.map_err(failed)?;
        Ok(stream)
    }

    async fn create(&self) -> Result<(), StoreError> {
        let RedisStreamOptions { stream, group, from_end, .. } = &self.options;
        let from = if *from_end { "$" } else { "0" };
        let create = self.commands(&[&["XGROUP", "CREATE", stream, group, from, "MKSTREAM"]]);
        match ask(&self.writing, create, |_| Ok(())).await {
            Err(error) if RedisStreamError::has_code(&error, "BUSYGROUP") => Ok(()),
            created => created.map(drop),
        }
    }

    /// Returns the number of entries so far that were pending and are gone: they were trimmed or
    /// deleted before they were done. (Of a server before Redis 7.0 they are not known.)
    pub fn trimmed(&self) -> u64 {
        self.trimmed.load(Ordering::Relaxed)
    }

    /// Asks for the number of entries of the group that are not done.
    ///
    /// # Errors
    ///
    /// [`RedisStreamError::NoGroup`], and those of the server, at once.
    pub async fn lag(&self) -> Result<StreamLag, RedisStreamError> {
        let RedisStreamOptions { stream, group, .. } = &self.options;
        let commands = self.commands(&[&["XINFO", "GROUPS", stream]]);
        let lags = ask(&self.writing, commands, |answer| answers::lag_of(answer, group)).await;
        let lags = lags.map_err(|cause| self.failed("asking for the lag", cause))?;
        let lag = lags.into_iter().next().flatten();
        lag.ok_or_else(|| RedisStreamError::NoGroup { stream: stream.clone(), group: group.clone() })
    }

    /// Returns commands whose key is the stream.
    fn commands(&self, all: &[&[&str]]) -> Commands {
        let (mut commands, slot) = (Commands::default(), self.writing.slot(self.options.stream.as_bytes()));
        for words in all {
            commands.begin(words.len());
            words.iter().for_each(|word| commands.text(word));
            commands.end(slot);
        }
        commands
    }

    fn failed(&self, doing: &'static str, cause: StoreError) -> RedisStreamError {
        // (A stream that does not exist is "ERR no such key" for `XINFO`.)
        if RedisStreamError::has_code(&cause, "NOGROUP") || cause.to_string().contains("no such key") {
            let RedisStreamOptions { stream, group, .. } = self.options.clone();
            return RedisStreamError::NoGroup { stream, group };
        }
        RedisStreamError::Server { doing, cause }
    }

    /// Asks again as long as that may help.
    async fn asked<A: Send>(
        &self,
        doing: &'static str,
        servers: &Arc<Servers>,
        commands: impl Fn() -> Commands + Send + Sync,
        read: impl Fn(Reply<'_>) -> Result<A, StoreError> + Send + Sync,
    ) -> Result<Vec<A>, RedisStreamError> {
        let call = || ask(servers, commands(), &read);
        let answers = retry_for(self.options.retry_for, |error| error.kind().is_transient(), call).await;
        answers.map_err(|cause| self.failed(doing, cause))
    }

    /// Takes over entries that were idle for too long: their consumer is dead, or has given them
    /// back.
    async fn idle(&self, max: usize) -> Result<Vec<StreamEntry>, RedisStreamError> {
        let mut takeover = self.takeover.lock().await;
        if Instant::now() < takeover.next {
            return Ok(Vec::new());
        }
        let RedisStreamOptions { stream, group, consumer, idle, .. } = &self.options;
        let (idle_ms, count, from) = (idle.as_millis().to_string(), max.to_string(), takeover.from.clone());
        let words = ["XAUTOCLAIM", stream, group, consumer, &idle_ms, &from, "COUNT", &count];
        let commands = || self.commands(&[&words]);
        let found = self.asked("taking over", &self.writing, commands, answers::taken_over).await?;
        let TakenOver { next, entries, gone } = found.into_iter().next().unwrap_or_default();
        if next == "0-0" {
            takeover.next = Instant::now() + (*idle / 8).clamp(BLOCK, Duration::from_secs(1));
        }
        takeover.from = next;
        if gone > 0 {
            #[cfg(feature = "tracing")]
            tracing::error!(stream, gone, "entries of a stream were trimmed before they were done");
            self.trimmed.fetch_add(gone, Ordering::Relaxed);
        }
        Ok(entries)
    }

    async fn unread(&self, max: usize) -> Result<Vec<StreamEntry>, RedisStreamError> {
        let RedisStreamOptions { stream, group, consumer, .. } = &self.options;
        let (count, block) = (max.to_string(), BLOCK.as_millis().to_string());
        let words = ["XREADGROUP", "GROUP", group, consumer, "COUNT", &count, "BLOCK", &block, "STREAMS", stream, ">"];
        let read = self.asked("reading", &self.reading, || self.commands(&[&words]), answers::read).await?;
        Ok(read.into_iter().flatten().collect())
    }

    /// Returns the command that adds a copy of an entry to the stream of dead letters.
    fn put_aside(&self, entry: &StreamEntry, why: &str) -> Commands {
        let RedisStreamOptions { stream, group, dead_letters, .. } = &self.options;
        let end = (0..=why.len().min(REASON_MAX)).rev().find(|end| why.is_char_boundary(*end));
        let why = &why[..end.unwrap_or(0)];
        let ours = [("reason", why), ("stream", stream), ("entry", &entry.id), ("group", group)];
        // (Those of an earlier time are replaced.)
        let theirs: Vec<_> = entry.fields().filter(|(name, _)| !name.starts_with(OURS.as_bytes())).collect();
        let mut commands = Commands::default();
        commands.begin(3 + 2 * (theirs.len() + ours.len()));
        for word in ["XADD", dead_letters, "*"] {
            commands.text(word);
        }
        for (name, value) in theirs {
            commands.word(name);
            commands.word(value);
        }
        for (name, value) in ours {
            commands.parts([OURS.as_bytes(), name.as_bytes()]);
            commands.text(value);
        }
        commands.end(self.writing.slot(dead_letters.as_bytes()));
        commands
    }
}

/// Asks once. Any error is that of all.
async fn ask<A: Send>(
    servers: &Arc<Servers>,
    commands: Commands,
    read: impl Fn(Reply<'_>) -> Result<A, StoreError> + Send,
) -> Result<Vec<A>, StoreError> {
    servers.ask(commands, None, move |_, reply| read(reply)).await?.into_iter().collect()
}

impl Source for RedisStream {
    type Message = StreamEntry;
    type Error = RedisStreamError;

    async fn receive(&self, max: usize) -> Result<Option<Vec<StreamEntry>>, RedisStreamError> {
        let idle = self.idle(max).await?;
        if !idle.is_empty() {
            return Ok(Some(idle));
        }
        Ok(Some(self.unread(max).await?))
    }

    async fn acknowledge(&self, entries: &[Arc<StreamEntry>]) -> Result<(), RedisStreamError> {
        let RedisStreamOptions { stream, group, deletes, .. } = &self.options;
        let ids = || entries.iter().map(|entry| entry.id.as_str());
        let commands = || {
            let done: Vec<&str> = ["XACK", stream, group].into_iter().chain(ids()).collect();
            let gone: Vec<&str> = ["XDEL", stream].into_iter().chain(ids()).collect();
            if *deletes { self.commands(&[&done, &gone]) } else { self.commands(&[&done]) }
        };
        self.asked("acknowledging", &self.writing, commands, |_| Ok(())).await.map(drop)
    }

    /// Sets the entry's idle time so that it will be taken over in time, which is after
    /// [`idle`](RedisStreamOptions::idle) at the latest.
    async fn retry(&self, entry: &Arc<StreamEntry>, after: Duration) -> Result<(), RedisStreamError> {
        let RedisStreamOptions { stream, group, consumer, idle, .. } = &self.options;
        let idle_ms = idle.saturating_sub(after).as_millis().to_string();
        let words = ["XCLAIM", stream, group, consumer, "0", &entry.id, "IDLE", &idle_ms, "JUSTID"];
        let commands = || self.commands(&[&words]);
        self.asked("giving an entry back", &self.writing, commands, |_| Ok(())).await.map(drop)
    }

    async fn dead_letter(&self, entry: &Arc<StreamEntry>, why: &str) -> Result<(), RedisStreamError> {
        let commands = || self.put_aside(entry, why);
        self.asked("putting an entry aside", &self.writing, commands, |_| Ok(())).await.map(drop)
    }

    /// Returns one at the first delivery of an entry, and otherwise two: the server counts, and
    /// does not say with the entry how often.
    fn deliveries(&self, entry: &StreamEntry) -> Option<u32> {
        Some(if entry.is_again { 2 } else { 1 })
    }

    fn sent_as(&self, entry: &StreamEntry) -> Option<Vec<u8>> {
        Some([self.options.stream.as_str(), entry.entry_id()].join("/").into())
    }

    fn heartbeat(&self) -> Option<Duration> {
        Some(self.options.idle / 3)
    }

    /// Resets the idle time of entries. An acknowledged entry is not pending, and is left alone.
    /// One that another consumer has taken over, since this process stood still, comes back, and
    /// its id is in progress there.
    async fn extend(&self, entries: &[Arc<StreamEntry>]) -> Result<(), RedisStreamError> {
        let RedisStreamOptions { stream, group, consumer, .. } = &self.options;
        let mut words = vec!["XCLAIM", stream, group, consumer, "0"];
        words.extend(entries.iter().map(|entry| entry.id.as_str()));
        words.extend(["IDLE", "0", "JUSTID"]);
        // (Once: the next heartbeat is the next try.)
        let extended = ask(&self.writing, self.commands(&[&words]), |_| Ok(())).await;
        extended.map(drop).map_err(|cause| self.failed("extending", cause))
    }
}

impl fmt::Debug for RedisStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStream").field("options", &self.options).finish_non_exhaustive()
    }
}
