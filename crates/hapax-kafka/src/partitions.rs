//! A member of a group that has a consumer for each partition.

use crate::dead_letters::DeadLetters;
use crate::error::KafkaSourceError;
use crate::group::{Assigned, Assignment, Begin, LOOK, Member};
use crate::lag::PartitionLag;
use crate::message::KafkaMessage;
use crate::options::KafkaOptions;
use hapax_stream::{Acks, Partition, Source};
use rdkafka::consumer::Consumer;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time after which a partition is given up that its client does not begin to fetch.
const SEEKING: Duration = Duration::from_secs(10);

/// A member of a consumer group that has a consumer for each partition: for memories that follow
/// their partitions, as those of `hapax-handover` do.
///
/// ```no_run
/// use hapax::{Dedup, JournalOptions};
/// use hapax_kafka::rdkafka::ClientConfig;
/// use hapax_kafka::{AssignedPartition, KafkaMessage, KafkaOptions, KafkaPartitions};
/// use hapax_message::Described;
/// use hapax_stream::{Delivery, LogConsumer};
/// use tokio::task::JoinSet;
///
/// # type Failed = Box<dyn std::error::Error + Send + Sync>;
/// async fn consume(mut orders: AssignedPartition) -> Result<(), Failed> {
///     let journal = format!("/var/lib/shipping/{}", orders.partition().number);
///     let seen = Dedup::builder().journal(journal, JournalOptions::new().checkpoints(true)).build()?;
///     orders.start(None).await?; // with a memory that follows: the position that it has
///     let id_of = |order: &KafkaMessage| order.id().map(|id| id.into_owned());
///     let ship = |order: Delivery<KafkaMessage>| async move {
///         println!("shipped: {:?}", order.key());
///         Ok::<(), std::io::Error>(())
///     };
///     LogConsumer::builder("billing", seen, id_of).build()?.run(&orders, ship, orders.revoked()).await?;
///     Ok(())
/// }
///
/// # async fn example() -> Result<(), Failed> {
/// let mut config = ClientConfig::new();
/// config.set("bootstrap.servers", "127.0.0.1:9092").set("group.id", "shipping");
/// config.set("partition.assignment.strategy", "cooperative-sticky");
/// let mut group = KafkaPartitions::subscribe(&config, &["orders"], KafkaOptions::new())?;
/// let mut consumers = JoinSet::new();
/// loop {
///     tokio::select! {
///         orders = group.assigned() => drop(consumers.spawn(consume(orders?))),
///         // An error ends this process: until the next rebalance nobody would read that
///         // partition.
///         Some(ended) = consumers.join_next() => ended??,
///     }
/// }
/// # }
/// ```
///
/// Settings and guarantees are those of a [`KafkaSource`](crate::KafkaSource). A partition begins
/// where [`start`](AssignedPartition::start) says, and the rebalance that revokes it waits until
/// its [`AssignedPartition`] is dropped. With `cooperative-sticky` the others go on meanwhile.
pub struct KafkaPartitions {
    assigned: Assigned,
    member: Member,
}

/// A partition that was assigned to this member: a source of its own. The rebalance that revokes it
/// waits until this is dropped. If it is dropped before, nobody reads the partition until the next
/// rebalance.
pub struct AssignedPartition {
    assignment: Arc<Assignment>,
    dead_letters: DeadLetters,
    is_started: bool,
}

impl KafkaPartitions {
    /// Joins a group.
    ///
    /// # Errors
    ///
    /// [`KafkaSourceError::Setting`] names a setting that does not work; others are the client's.
    pub fn subscribe(config: &ClientConfig, topics: &[&str], options: KafkaOptions) -> Result<Self, KafkaSourceError> {
        let (member, assigned) = Member::join(config, topics, options, Begin::Sought)?;
        Ok(KafkaPartitions { assigned, member })
    }

    /// Waits for the next partition that is assigned. Ask again at once: a rebalance waits for
    /// partitions that nobody takes, too.
    ///
    /// # Errors
    ///
    /// The error for which this member cannot go on.
    pub async fn assigned(&mut self) -> Result<AssignedPartition, KafkaSourceError> {
        let consumer = self.member.consumer()?;
        let assignment = tokio::select! {
            biased;
            error = consumer.context().health.failed() => return Err(error),
            assignment = self.assigned.recv() => assignment.ok_or(KafkaSourceError::Stopped)?,
        };
        let dead_letters = self.member.dead_letters.clone();
        Ok(AssignedPartition { assignment, dead_letters, is_started: false })
    }

    /// Begins to leave the group: all partitions are revoked. [Close](KafkaPartitions::close) this
    /// when their consumers have ended.
    pub fn leave(&self) {
        if let Ok(consumer) = self.member.consumer() {
            consumer.unsubscribe();
        }
    }

    /// Leaves the group, and waits until that is done, for `session.timeout.ms` and five seconds at
    /// most: what was acknowledged is committed, unless brokers refuse that, or are away or silent
    /// for longer: then it comes again. (A drop does the same, and blocks its thread meanwhile.)
    ///
    /// The group is left when the last [`AssignedPartition`] is dropped, too: if one is consumed
    /// still, this does not wait for that.
    pub async fn close(self) {
        let _ = tokio::task::spawn_blocking(move || drop(self)).await;
    }

    /// Returns the number of errors so far from which the client recovers by itself.
    pub fn recovered(&self) -> u64 {
        self.member.recovered()
    }

    /// Returns the lag of each assigned partition; see
    /// [`KafkaSource::lag`](crate::KafkaSource::lag).
    pub fn lag(&self) -> Vec<PartitionLag> {
        self.member.lag()
    }
}

impl AssignedPartition {
    /// Returns the partition. Its name is that of its positions in checkpoints.
    pub fn partition(&self) -> &Partition {
        &self.assignment.partition
    }

    /// Waits until the partition is revoked.
    pub fn revoked(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut revoked = self.assignment.revoked.clone();
        async move {
            // (An error: the member has been dropped.)
            let _ = revoked.wait_for(|revoked| *revoked).await;
        }
    }

    /// Begins to receive, from a position of a checkpoint, which is committed; without one, from
    /// the offset that is committed, or where `auto.offset.reset` says. May be called again: what
    /// was fetched before is forgotten. Nothing is received before the first call.
    ///
    /// A position behind the end of the partition is one of another log: then it is read from where
    /// `auto.offset.reset` says, which is its beginning unless it is set, and that position is not
    /// committed. A log that was deleted, created again, and is longer by now is not recognized:
    /// forget the memory with the topic.
    ///
    /// # Errors
    ///
    /// [`KafkaSourceError::Position`] if the position is none of this source;
    /// [`KafkaSourceError::Offsets`] if the committed offset could not be read in time;
    /// [`KafkaSourceError::NotStarted`] if the client does not begin within ten seconds, or the
    /// partition is revoked meanwhile. It may be tried again after all of them.
    pub async fn start(&mut self, position: Option<&[u8]>) -> Result<(), KafkaSourceError> {
        let wrong = |got: &[u8]| KafkaSourceError::Position { partition: self.partition().clone(), got: got.len() };
        let position = position.map(|bytes| <[u8; 8]>::try_from(bytes).map_err(|_| wrong(bytes)));
        let position = position.transpose()?.map(i64::from_be_bytes).map(|offset| offset.max(0));
        let assignment = Arc::clone(&self.assignment);
        self.is_started = false;
        let started = tokio::task::spawn_blocking(move || start(&assignment, position));
        let ended = |cause| KafkaSourceError::NotStarted {
            partition: self.partition().clone(),
            cause: format!("its task has ended: {cause}"),
        };
        started.await.map_err(ended)??;
        self.is_started = true;
        Ok(())
    }
}

/// Seeks.
fn start(assignment: &Assignment, position: Option<i64>) -> Result<(), KafkaSourceError> {
    let Assignment { partition, client: consumer, .. } = assignment;
    let (topic, number) = (&*partition.topic, i32::try_from(partition.number).unwrap_or(-1));
    let not_started = |cause: String| KafkaSourceError::NotStarted { partition: partition.clone(), cause };
    let mut list = TopicPartitionList::new();
    list.add_partition(topic, number);
    let offset = match position {
        Some(position) => Offset::Offset(position),
        None => {
            consumer.context().offsets(consumer, &mut list)?;
            list.elements().first().map_or(Offset::Beginning, |one| one.offset())
        }
    };
    let began = Instant::now();
    while let Err(error) = consumer.seek(topic, number, offset, Duration::from_secs(5)) {
        // The client has not begun to fetch it yet.
        if assignment.is_revoked() || began.elapsed() > SEEKING {
            return Err(not_started(error.to_string()));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    if let Some(last) = position.and_then(|position| position.checked_sub(1)).filter(|last| *last >= 0) {
        // It was published, and perhaps its owner had no time to commit it. If nothing comes after
        // it, nobody else will. One behind the end is of another log: once this one is that long,
        // whoever began there would leave out the messages between.
        let ends = consumer.fetch_watermarks(topic, number, Duration::from_secs(5));
        if ends.is_ok_and(|(_, end)| last < end) {
            let _ = consumer.store_offset(topic, number, last);
        }
    }
    Ok(())
}

impl Source for AssignedPartition {
    type Message = KafkaMessage;
    type Error = KafkaSourceError;

    async fn receive(&self, max: usize) -> Result<Option<Vec<KafkaMessage>>, KafkaSourceError> {
        loop {
            let mut messages = Vec::new();
            if self.is_started {
                self.assignment.take(&mut messages, max);
            }
            self.assignment.client.context().health.check()?;
            if !messages.is_empty() {
                return Ok(Some(messages));
            }
            let _ = tokio::time::timeout(LOOK, self.assignment.arrived.notified()).await;
        }
    }

    async fn acknowledge(&self, messages: &[Arc<KafkaMessage>]) -> Result<(), KafkaSourceError> {
        if let Some(last) = messages.last() {
            // If the partition was taken away meanwhile, its next owner goes on from the position
            // that was published.
            Member::store(&self.assignment.client, last);
        }
        Ok(())
    }

    /// Fails. It is not called, since acknowledgements are cumulative.
    async fn retry(&self, _: &Arc<KafkaMessage>, _: Duration) -> Result<(), KafkaSourceError> {
        Err(KafkaSourceError::NoRetry)
    }

    async fn dead_letter(&self, message: &Arc<KafkaMessage>, why: &str) -> Result<(), KafkaSourceError> {
        self.dead_letters.put(message, why).await
    }

    fn acks(&self) -> Acks {
        Acks::Cumulative
    }

    fn partition(&self, _: &KafkaMessage) -> Partition {
        self.assignment.partition.clone()
    }

    /// Returns the offset behind the message, as eight bytes, the highest one first.
    fn position(&self, message: &KafkaMessage) -> Option<Vec<u8>> {
        Some((message.offset() + 1).to_be_bytes().into())
    }
}

impl Drop for KafkaPartitions {
    /// Leaves the group, when the last partition is dropped: that commits the stored offsets. It
    /// blocks its thread meanwhile, for `session.timeout.ms` and five seconds at most.
    fn drop(&mut self) {
        // Partitions that nobody has taken are released.
        self.assigned.close();
        while self.assigned.try_recv().is_ok() {}
        self.member.stop();
    }
}

impl fmt::Debug for KafkaPartitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaPartitions").finish_non_exhaustive()
    }
}

impl fmt::Debug for AssignedPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AssignedPartition").field("partition", self.partition()).finish_non_exhaustive()
    }
}
