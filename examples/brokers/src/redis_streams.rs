//! A consumer group of Redis Streams.

use crate::BrokerError;
use hapax_stream::Source;
use redis::aio::MultiplexedConnection;
use redis::streams::{StreamAutoClaimReply, StreamId, StreamReadReply};
use redis::{AsyncConnectionConfig, Client, FromRedisValue, RedisResult, cmd};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// The time that a read waits, after which the entries of dead consumers are looked for.
const BLOCK: Duration = Duration::from_millis(250);

/// One consumer of a group. Redis gives an entry to one of them, and never again by itself: another
/// consumer must take over an entry that was read and not acknowledged, after it was idle for long
/// enough.
pub struct RedisStreams {
    group: Group,
    /// A connection of its own for reads, since a blocking read delays all other commands of its
    /// connection.
    reading: MultiplexedConnection,
    writing: MultiplexedConnection,
    takeover: Mutex<Takeover>,
}

/// The stream, the group, and this process in it.
#[derive(Clone, Debug)]
pub struct Group {
    /// The key of the stream.
    pub stream: String,
    /// The group.
    pub group: String,
    /// The name of this process in it. Use the same name after a restart, or the group collects
    /// names.
    pub consumer: String,
    /// The time after which an entry goes to another consumer if it is neither acknowledged nor
    /// reported as worked on.
    pub idle: Duration,
}

struct Takeover {
    /// The entry where the last search for idle ones ended.
    from: String,
    next: Instant,
}

/// Returns the field `id` of an entry. An entry without it is put aside.
pub fn field_id(entry: &StreamId) -> Option<String> {
    entry.get("id")
}

impl RedisStreams {
    /// Connects, and creates the group if it does not exist, from the stream's beginning.
    ///
    /// # Errors
    ///
    /// Those of the client.
    pub async fn connect(url: &str, group: Group) -> Result<Self, BrokerError> {
        let connecting = BrokerError::when("connecting");
        let client = Client::open(url).map_err(&connecting)?;
        // By default, the client gives up after half a second.
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(BLOCK + Duration::from_secs(5)));
        let reading = client.get_multiplexed_async_connection_with_config(&config).await.map_err(&connecting)?;
        let mut writing = client.get_multiplexed_async_connection_with_config(&config).await.map_err(&connecting)?;
        let mut create = cmd("XGROUP");
        create.arg(&["CREATE", &group.stream, &group.group, "0", "MKSTREAM"]);
        match create.query_async::<()>(&mut writing).await {
            Err(error) if error.code() != Some("BUSYGROUP") => return Err(connecting(error)),
            _ => {}
        }
        let takeover = Mutex::new(Takeover { from: "0-0".into(), next: Instant::now() });
        Ok(RedisStreams { group, reading, writing, takeover })
    }

    async fn ask<A: FromRedisValue>(&self, words: &[&str]) -> RedisResult<A> {
        cmd(words[0]).arg(&words[1..]).query_async(&mut self.writing.clone()).await
    }

    /// Takes over entries that were idle for too long: their consumer is dead, or has given them
    /// back.
    async fn idle(&self, max: usize) -> RedisResult<Vec<StreamId>> {
        let mut takeover = self.takeover.lock().await;
        if Instant::now() < takeover.next {
            return Ok(Vec::new());
        }
        let Group { stream, group, consumer, idle } = &self.group;
        let (idle_ms, count) = (idle.as_millis().to_string(), max.to_string());
        let words = ["XAUTOCLAIM", stream, group, consumer, &idle_ms, &takeover.from, "COUNT", &count];
        let found: StreamAutoClaimReply = self.ask(&words).await?;
        if found.next_stream_id == "0-0" {
            takeover.next = Instant::now() + BLOCK;
        }
        takeover.from = found.next_stream_id;
        Ok(found.claimed)
    }

    async fn unread(&self, max: usize) -> RedisResult<Vec<StreamId>> {
        let Group { stream, group, consumer, .. } = &self.group;
        let mut read = cmd("XREADGROUP");
        read.arg(&["GROUP", group, consumer]).arg("COUNT").arg(max).arg("BLOCK").arg(BLOCK.as_millis() as u64);
        let read = read.arg(&["STREAMS", stream, ">"]).query_async(&mut self.reading.clone()).await?;
        let read: Option<StreamReadReply> = read;
        Ok(read.into_iter().flat_map(|read| read.keys).flat_map(|key| key.ids).collect())
    }
}

impl Source for RedisStreams {
    type Message = StreamId;
    type Error = BrokerError;

    async fn receive(&self, max: usize) -> Result<Option<Vec<StreamId>>, BrokerError> {
        loop {
            let idle = self.idle(max).await.map_err(BrokerError::when("taking over"))?;
            if !idle.is_empty() {
                return Ok(Some(idle));
            }
            let unread = self.unread(max).await.map_err(BrokerError::when("reading"))?;
            if !unread.is_empty() {
                return Ok(Some(unread));
            }
        }
    }

    async fn acknowledge(&self, entries: &[Arc<StreamId>]) -> Result<(), BrokerError> {
        let mut words = vec!["XACK", &self.group.stream, &self.group.group];
        words.extend(entries.iter().map(|entry| entry.id.as_str()));
        self.ask(&words).await.map_err(BrokerError::when("acknowledging"))
    }

    /// Sets the entry's idle time so that it will be taken over in time, which is after
    /// [`Group::idle`] at the latest: Redis has no delayed delivery.
    async fn retry(&self, entry: &Arc<StreamId>, after: Duration) -> Result<(), BrokerError> {
        let Group { stream, group, consumer, idle } = &self.group;
        let idle_ms = idle.saturating_sub(after).as_millis().to_string();
        let words = ["XCLAIM", stream, group, consumer, "0", &entry.id, "IDLE", &idle_ms, "JUSTID"];
        self.ask(&words).await.map_err(BrokerError::when("giving an entry back"))
    }

    fn heartbeat(&self) -> Option<Duration> {
        Some(self.group.idle / 3)
    }

    /// Resets the idle time of entries. An acknowledged entry is not pending, and is left alone.
    /// One that another consumer has taken over, since this process stood still, comes back, and
    /// its id is in progress there.
    async fn extend(&self, entries: &[Arc<StreamId>]) -> Result<(), BrokerError> {
        let Group { stream, group, consumer, .. } = &self.group;
        let mut words = vec!["XCLAIM", stream, group, consumer, "0"];
        words.extend(entries.iter().map(|entry| entry.id.as_str()));
        words.extend(["IDLE", "0", "JUSTID"]);
        self.ask(&words).await.map_err(BrokerError::when("extending"))
    }

    async fn dead_letter(&self, entry: &Arc<StreamId>, why: &str) -> Result<(), BrokerError> {
        let mut add = cmd("XADD");
        add.arg(format!("{}:dead", self.group.stream)).arg(&[
            "*",
            "dead_letter_entry",
            &entry.id,
            "dead_letter_reason",
            why,
        ]);
        for field in entry.map.keys() {
            add.arg(field).arg(entry.get::<Vec<u8>>(field).unwrap_or_default());
        }
        let added: RedisResult<String> = add.query_async(&mut self.writing.clone()).await;
        added.map(drop).map_err(BrokerError::when("putting an entry aside"))
    }
}
