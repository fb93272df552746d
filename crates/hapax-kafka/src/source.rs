//! The source: all partitions of a member, for one consumer.

use crate::error::KafkaSourceError;
use crate::group::{Assigned, Assignment, Begin, LOOK, Member};
use crate::lag::PartitionLag;
use crate::message::KafkaMessage;
use crate::options::KafkaOptions;
use hapax_store::sync::lock;
use hapax_stream::{Acks, Partition, Source};
use rdkafka::consumer::Consumer;
use rdkafka::{ClientConfig, Message};
use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex as StdMutex};
use std::time::Duration;
use tokio::sync::{Mutex, Notify, mpsc};

/// A member of a consumer group: the partitions of some topics that are assigned to it, for a
/// [`Consumer`](hapax_stream::Consumer) or a [`LogConsumer`](hapax_stream::LogConsumer).
///
/// ```no_run
/// use hapax_kafka::rdkafka::ClientConfig;
/// use hapax_kafka::{KafkaOptions, KafkaSource};
///
/// # fn example() -> Result<(), hapax_kafka::KafkaSourceError> {
/// let mut config = ClientConfig::new();
/// config.set("bootstrap.servers", "10.0.0.1:9092,10.0.0.2:9092").set("group.id", "billing");
/// config.set("partition.assignment.strategy", "cooperative-sticky");
/// let orders = KafkaSource::subscribe(&config, &["orders", "returns"], KafkaOptions::new())?;
/// # drop(orders);
/// # Ok(())
/// # }
/// ```
///
/// # Settings
///
/// Those of the client, with its names, credentials and encryption. Some are checked, and refused
/// by their names ([`KafkaSourceError::Setting`]):
///
/// - `group.id` and `bootstrap.servers` must be there.
/// - `enable.auto.offset.store` must not be true: messages would be committed when they are
///   received. `enable.auto.commit` is set to true, whatever it says: the client commits, every
///   `auto.commit.interval.ms`, the offsets that this source stores, those of messages that are
///   done. That interval must not be zero.
/// - `auto.offset.reset` is `earliest` unless it is set. With `latest` a group begins at the end;
///   messages of a partition that came before the group saw it are not received, and a group whose
///   next messages the broker has deleted by age or size goes on at the end. With `error` the run
///   ends with [`KafkaSourceError::NoOffset`].
/// - `group.protocol` must be `classic`, `offset.store.method` not a file.
/// - `max.poll.interval.ms` must exceed the time that a rebalance may take here:
///   [`release_within`](KafkaOptions::release_within) and
///   [`offsets_within`](KafkaOptions::offsets_within).
///
/// # Guarantees
///
/// - An offset is committed only when its message, and all before it in its partition, were
///   acknowledged.
/// - The member stays in its group however long handlers take, and however full the consumer is: a
///   thread of its own polls. Nothing is paused; the client fetches ahead, for each partition, up
///   to its `queued.min.messages` and `queued.max.messages.kbytes`, which is 64 MiB by default: set
///   less if a member may have many partitions, and less than a second as `fetch.queue.backoff.ms`.
/// - A rebalance revokes partitions only when nothing of them is handled any more, and what is done
///   is committed, except for handlers that take longer than
///   [`release_within`](KafkaOptions::release_within). Both protocols are served: with
///   `cooperative-sticky` only partitions that move are revoked, otherwise all of them.
/// - A commit that brokers refuse, as while a group's partitions are handed out, is
///   [counted](Self::recovered) and made again with the next one, as long as the partition stays
///   here. Otherwise its messages come again, to whoever has the partition then.
/// - Committed offsets are read with tries, so that no assigned partition is left unread. If they
///   cannot be read in time, the run ends with [`KafkaSourceError::Offsets`].
/// - An error from which the client cannot recover, or that leaves messages out, ends the run.
///   Others are [counted](Self::recovered).
///
/// A message that is put aside goes to a topic of dead letters, by an idempotent producer, and is
/// acknowledged when that has stored it. It has its key, payload and headers (those whose names are
/// UTF-8), and the headers `dead-letter-reason` (up to 1,024 bytes of it), `-topic`, `-partition`,
/// `-offset` and `-group`. If this process dies between the two, it is there twice.
///
/// Kafka does not count deliveries, so a message that kills its process comes again each time.
///
/// Drop the source when its run has ended: until then it keeps its partitions.
pub struct KafkaSource {
    held: StdMutex<Held>,
    arrived: Arc<Notify>,
    revoked: Mutex<mpsc::UnboundedReceiver<Vec<Partition>>>,
    member: Member,
}

struct Held {
    assigned: Assigned,
    assignments: Vec<Arc<Assignment>>,
    /// The number of receipts, which decides whose turn it is.
    turn: usize,
}

impl Held {
    /// Returns the partitions whose messages may be received now, the first one another each time.
    fn readable(&mut self) -> Vec<Arc<Assignment>> {
        self.assignments.extend(std::iter::from_fn(|| self.assigned.try_recv().ok()));
        let revoked = self.assignments.iter().filter(|one| one.is_revoked());
        // Also if a partition is assigned again before the consumer has released it.
        let revoked: HashSet<&Partition> = revoked.map(|one| &one.partition).collect();
        let readable = self.assignments.iter().filter(|one| !revoked.contains(&one.partition));
        let mut readable: Vec<_> = readable.cloned().collect();
        self.turn = self.turn.wrapping_add(1);
        let first = self.turn.checked_rem(readable.len()).unwrap_or(0);
        readable.rotate_left(first);
        readable
    }
}

impl KafkaSource {
    /// Joins a group. Nothing is received before the consumer runs.
    ///
    /// # Errors
    ///
    /// [`KafkaSourceError::Setting`] names a setting that does not work; others are the client's.
    /// Brokers that are away are no error: the client tries for ever to reach them.
    pub fn subscribe(config: &ClientConfig, topics: &[&str], options: KafkaOptions) -> Result<Self, KafkaSourceError> {
        let (arrived, (sender, revoked)) = (Arc::default(), mpsc::unbounded_channel());
        let begin = Begin::Committed { arrived: Arc::clone(&arrived), revoked: sender };
        let (member, assigned) = Member::join(config, topics, options, begin)?;
        let held = StdMutex::new(Held { assigned, assignments: Vec::new(), turn: 0 });
        Ok(KafkaSource { held, arrived, revoked: Mutex::new(revoked), member })
    }

    /// Leaves the group, and waits until that is done, for `session.timeout.ms` and five seconds at
    /// most: what was acknowledged is committed, unless brokers refuse that, or are away or silent
    /// for longer: then it comes again. (A drop does the same, and blocks its thread meanwhile.)
    pub async fn close(self) {
        let _ = tokio::task::spawn_blocking(move || drop(self)).await;
    }

    /// Returns the number of errors so far from which the client recovers by itself. With the
    /// feature `tracing` each is an event of level WARN.
    pub fn recovered(&self) -> u64 {
        self.member.recovered()
    }

    /// Returns the lag of each assigned partition, as the client knew it when it last gathered
    /// statistics: every `statistics.interval.ms`, which is never by default. A partition of which
    /// nothing was acknowledged yet is left out.
    pub fn lag(&self) -> Vec<PartitionLag> {
        self.member.lag()
    }

    /// Takes messages that are here. Does not wait.
    fn take(&self, max: usize) -> Result<Vec<KafkaMessage>, KafkaSourceError> {
        let consumer = self.member.consumer()?;
        let mut messages = Vec::new();
        for assignment in lock(&self.held).readable() {
            assignment.take(&mut messages, max);
        }
        consumer.context().health.check()?;
        Ok(messages)
    }
}

impl Source for KafkaSource {
    type Message = KafkaMessage;
    type Error = KafkaSourceError;

    async fn receive(&self, max: usize) -> Result<Option<Vec<KafkaMessage>>, KafkaSourceError> {
        loop {
            let messages = self.take(max)?;
            if !messages.is_empty() {
                return Ok(Some(messages));
            }
            let _ = tokio::time::timeout(LOOK, self.arrived.notified()).await;
        }
    }

    async fn acknowledge(&self, messages: &[Arc<KafkaMessage>]) -> Result<(), KafkaSourceError> {
        let (consumer, mut stored) = (self.member.consumer()?, HashSet::new());
        // The last one of a partition stands for all before it.
        for message in messages.iter().rev() {
            if stored.insert((message.topic(), message.as_rdkafka().partition())) {
                Member::store(consumer, message);
            }
        }
        Ok(())
    }

    /// Fails. It is not called, since acknowledgements are cumulative.
    async fn retry(&self, _: &Arc<KafkaMessage>, _: Duration) -> Result<(), KafkaSourceError> {
        Err(KafkaSourceError::NoRetry)
    }

    fn sent_as(&self, message: &KafkaMessage) -> Option<Vec<u8>> {
        Some(format!("{}/{}", message.partition(), message.offset()).into())
    }

    async fn dead_letter(&self, message: &Arc<KafkaMessage>, why: &str) -> Result<(), KafkaSourceError> {
        self.member.dead_letters.put(message, why).await
    }

    fn acks(&self) -> Acks {
        Acks::Cumulative
    }

    fn partition(&self, message: &KafkaMessage) -> Partition {
        message.partition()
    }

    async fn revoked(&self) -> Vec<Partition> {
        match self.revoked.lock().await.recv().await {
            Some(partitions) => partitions,
            None => std::future::pending().await,
        }
    }

    async fn released(&self, partitions: &[Partition]) {
        let mut held = lock(&self.held);
        let Held { assigned, assignments, .. } = &mut *held;
        assignments.extend(std::iter::from_fn(|| assigned.try_recv().ok()));
        assignments.retain(|one| !(one.is_revoked() && partitions.contains(&one.partition)));
    }
}

impl Drop for KafkaSource {
    /// Leaves the group, which commits the stored offsets.
    fn drop(&mut self) {
        let held = self.held.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        // A rebalance waits for nothing any more.
        held.assigned.close();
        while held.assigned.try_recv().is_ok() {}
        held.assignments.clear();
        self.member.stop();
    }
}

impl fmt::Debug for KafkaSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaSource").finish_non_exhaustive()
    }
}
