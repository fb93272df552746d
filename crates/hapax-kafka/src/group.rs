//! A member of a group: the thread that polls, and what a rebalance does.
//!
//! Each partition has a queue of its own, which its reader polls; the thread polls what is left:
//! rebalances and errors. So the member stays alive however long handlers take and however full a
//! consumer is, and nothing is paused, which would make the client fetch again what it has.

use crate::client::{self, WeakClient};
use crate::dead_letters::DeadLetters;
use crate::error::KafkaSourceError;
use crate::health::Health;
use crate::lag::{Lags, PartitionLag};
use crate::message::{KafkaMessage, partition};
use crate::offsets;
use crate::options::KafkaOptions;
use crate::settings::{Reset, Settings};
use hapax_store::sync::lock;
use hapax_stream::Partition;
use rdkafka::consumer::base_consumer::PartitionQueue;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, RebalanceProtocol};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{ClientConfig, ClientContext, Message, Statistics, TopicPartitionList};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc as blocking};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, mpsc, watch};

pub(crate) type Client = client::Client<Group>;

/// The time that the thread waits for rebalances, and readers for messages, before they look again.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// The place where assigned partitions begin, and who reads them.
pub(crate) enum Begin {
    /// At the committed offset. One reader has all of them, and is told of each rebalance.
    Committed { arrived: Arc<Notify>, revoked: mpsc::UnboundedSender<Vec<Partition>> },
    /// The place that its reader seeks. Each has a reader of its own.
    Sought,
}

/// A partition that is assigned to this member. The rebalance that revokes it waits until this is
/// dropped.
pub(crate) struct Assignment {
    pub(crate) partition: Partition,
    pub(crate) revoked: watch::Receiver<bool>,
    /// Is notified when messages have arrived.
    pub(crate) arrived: Arc<Notify>,
    /// (Before the client, whose end waits for this; so is the queue, which has it, too.)
    _release: blocking::Sender<()>,
    queue: PartitionQueue<Group>,
    pub(crate) client: Client,
}

impl Assignment {
    pub(crate) fn is_revoked(&self) -> bool {
        *self.revoked.borrow()
    }

    /// Takes messages that are here, up to a number. Does not wait.
    pub(crate) fn take(&self, messages: &mut Vec<KafkaMessage>, max: usize) {
        while messages.len() < max
            && let Some(polled) = self.queue.poll(Duration::ZERO)
        {
            match polled {
                Ok(message) => messages.push(KafkaMessage::from(message.detach())),
                Err(error) => {
                    self.client.context().health.note(error, self.client.client().fatal_error().is_some());
                }
            }
        }
    }
}

/// The partitions that are assigned: what revokes each, and what says that it is released.
type Tenures = HashMap<Partition, (watch::Sender<bool>, blocking::Receiver<()>)>;

/// The context of a client: all that its callbacks need.
pub(crate) struct Group {
    pub(crate) health: Health,
    begin: Begin,
    reset: Reset,
    options: KafkaOptions,
    assigned: mpsc::UnboundedSender<Arc<Assignment>>,
    tenures: Mutex<Tenures>,
    lags: Lags,
    is_stopping: AtomicBool,
    /// The consumer itself, whose queues are split.
    consumer: OnceLock<WeakClient<Group>>,
}

impl ClientContext for Group {
    fn stats(&self, statistics: Statistics) {
        self.lags.learn(&statistics);
    }

    fn error(&self, _: KafkaError, _reason: &str) {
        // (The thread that polls gets the same error.)
        #[cfg(feature = "tracing")]
        tracing::debug!("the client of Kafka says: {_reason}");
    }
}

impl ConsumerContext for Group {
    fn rebalance(&self, consumer: &BaseConsumer<Group>, what: RDKafkaRespErr, list: &mut TopicPartitionList) {
        let done = match what {
            RDKafkaRespErr::RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS => self.assign(consumer, list),
            _ => self.revoke(consumer, list),
        };
        if let Err(error) = done {
            self.health.fail(error);
        }
    }

    fn commit_callback(&self, result: KafkaResult<()>, _: &TopicPartitionList) {
        if let Err(error) = result {
            // The offsets stay stored, and the next commit has them.
            self.health.note(error, false);
        }
    }
}

impl Group {
    fn assign(&self, consumer: &BaseConsumer<Group>, list: &mut TopicPartitionList) -> Result<(), KafkaSourceError> {
        let begun = self.offsets(consumer, list);
        // Before they are assigned, so that nothing is ever in the common queue. A member that
        // cannot go on has no reader.
        let split = begun.and_then(|()| self.split(list));
        let taken = match consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => consumer.incremental_assign(list),
            _ => consumer.assign(list),
        };
        let split = split?;
        taken.map_err(KafkaSourceError::when("assigning partitions"))?;
        #[cfg(feature = "tracing")]
        tracing::info!(partitions = split.len(), "partitions of Kafka are assigned");
        // (Nobody takes them if the member is being dropped.)
        split.into_iter().for_each(|assignment| drop(self.assigned.send(assignment)));
        Ok(())
    }

    /// Sets the offset of each partition in a list to that at which it begins.
    ///
    /// The offset is a number if its reader seeks. For the beginning or the end the client would
    /// ask a broker, and if it seeks before that has answered, it takes the answer for outdated,
    /// asks again, and goes there after all: messages between would be lost.
    pub(crate) fn offsets(
        &self,
        consumer: &BaseConsumer<Group>,
        list: &mut TopicPartitionList,
    ) -> Result<(), KafkaSourceError> {
        let (absolute, within) = (matches!(self.begin, Begin::Sought), self.options.offsets_within);
        let failed = |error| self.health.note(error, false);
        offsets::begin(consumer, list, self.reset, absolute, within, &self.is_stopping, failed)
    }

    /// Gives each partition a queue of its own.
    fn split(&self, list: &TopicPartitionList) -> Result<Vec<Arc<Assignment>>, KafkaSourceError> {
        let Some(consumer) = self.consumer.get().and_then(WeakClient::upgrade) else { return Ok(Vec::new()) };
        let mut tenures = lock(&self.tenures);
        let mut split = Vec::new();
        for one in list.elements() {
            let partition = partition(one.topic(), one.partition());
            let queue = consumer.split_partition_queue(one.topic(), one.partition());
            let unknown = || KafkaSourceError::NotStarted {
                partition: partition.clone(),
                cause: "the client does not know it".into(),
            };
            let mut queue = queue.ok_or_else(unknown)?;
            let arrived = match &self.begin {
                Begin::Committed { arrived, .. } => Arc::clone(arrived),
                Begin::Sought => Arc::default(),
            };
            let notified = Arc::clone(&arrived);
            queue.set_nonempty_callback(move || notified.notify_one());
            let ((revoke, revoked), (release, released)) = (watch::channel(false), blocking::channel());
            tenures.insert(partition.clone(), (revoke, released));
            split.push(Arc::new(Assignment {
                partition,
                revoked,
                arrived,
                _release: release,
                queue,
                client: consumer.clone(),
            }));
        }
        Ok(split)
    }

    fn revoke(&self, consumer: &BaseConsumer<Group>, list: &TopicPartitionList) -> Result<(), KafkaSourceError> {
        let partitions: Vec<Partition> =
            list.elements().iter().map(|one| partition(one.topic(), one.partition())).collect();
        let mut tenures = lock(&self.tenures);
        let gone: Vec<_> = partitions.iter().filter_map(|partition| tenures.remove(partition)).collect();
        drop(tenures);
        #[cfg(feature = "tracing")]
        tracing::info!(partitions = gone.len(), lost = consumer.assignment_lost(), "partitions of Kafka are revoked");
        for (revoke, _) in &gone {
            let _ = revoke.send(true);
        }
        if let Begin::Committed { revoked, .. } = &self.begin
            && !gone.is_empty()
        {
            let _ = revoked.send(partitions);
        }
        let deadline = Instant::now() + self.options.release_within;
        for (_, released) in gone {
            let released = released.recv_timeout(deadline.saturating_duration_since(Instant::now()));
            if released == Err(blocking::RecvTimeoutError::Timeout) {
                // The next owners begin, while claims are held here, or fence those who are at it.
                #[cfg(feature = "tracing")]
                tracing::warn!("a partition of Kafka was revoked, and not released in time");
            }
        }
        let given = match consumer.rebalance_protocol() {
            RebalanceProtocol::Cooperative => consumer.incremental_unassign(list),
            _ => consumer.unassign(),
        };
        given.map_err(KafkaSourceError::when("giving partitions back"))
    }
}

/// A member of a group, until it is dropped.
pub(crate) struct Member {
    /// `None` while it is dropped.
    consumer: Option<Client>,
    pub(crate) dead_letters: DeadLetters,
    polling: Option<JoinHandle<()>>,
}

/// The partitions that are assigned to a member, one after the other.
pub(crate) type Assigned = mpsc::UnboundedReceiver<Arc<Assignment>>;

impl Member {
    /// Joins a group.
    pub(crate) fn join(
        config: &ClientConfig,
        topics: &[&str],
        options: KafkaOptions,
        begin: Begin,
    ) -> Result<(Self, Assigned), KafkaSourceError> {
        let Settings { consumer: config, producer, group, reset, session } = Settings::of(config, &options)?;
        if topics.is_empty() || topics.iter().any(|topic| topic.trim().is_empty()) {
            let (expected, got) = ("at least one name of a topic, none of them blank", topics.join(", "));
            return Err(KafkaSourceError::Setting { name: "topics", expected, got });
        }
        if let Some(aside) = options.dead_letter_topic.clone().filter(|aside| topics.contains(&aside.as_str())) {
            let expected = "another topic than those that are read: a message that is put aside would come again";
            return Err(KafkaSourceError::Setting { name: "dead_letter_topic", expected, got: aside });
        }
        let dead_letters = DeadLetters::new(&producer, &options, group)?;
        let (sender, assigned) = mpsc::unbounded_channel();
        let context = Group {
            health: Health::default(),
            begin,
            reset,
            options,
            assigned: sender,
            tenures: Mutex::default(),
            lags: Lags::default(),
            is_stopping: AtomicBool::new(false),
            consumer: OnceLock::new(),
        };
        let joining = KafkaSourceError::when("joining the group");
        let consumer = Client::new(config.create_with_context(context).map_err(&joining)?, session);
        let _ = consumer.context().consumer.set(consumer.downgrade());
        consumer.subscribe(topics).map_err(&joining)?;
        let polled = consumer.clone();
        let polling = std::thread::Builder::new().name("hapax-kafka".into()).spawn(move || poll(polled));
        let polling = polling.map_err(|cause| KafkaSourceError::Thread(Arc::new(cause)))?;
        Ok((Member { consumer: Some(consumer), dead_letters, polling: Some(polling) }, assigned))
    }

    /// Returns the client.
    pub(crate) fn consumer(&self) -> Result<&Client, KafkaSourceError> {
        self.consumer.as_ref().ok_or(KafkaSourceError::Stopped)
    }

    pub(crate) fn recovered(&self) -> u64 {
        self.consumer.as_ref().map_or(0, |consumer| consumer.context().health.recovered())
    }

    pub(crate) fn lag(&self) -> Vec<PartitionLag> {
        self.consumer.as_ref().map_or(Vec::new(), |consumer| consumer.context().lags.of_all())
    }

    /// Stores the offset behind a message, which is committed with the next commit.
    pub(crate) fn store(consumer: &Client, message: &KafkaMessage) {
        let message = message.as_rdkafka();
        let stored = consumer.store_offset(message.topic(), message.partition(), message.offset());
        if let Err(_error) = stored {
            // The partition was taken away meanwhile. Its next owner finds a duplicate.
            #[cfg(feature = "tracing")]
            tracing::debug!(topic = message.topic(), partition = message.partition(), "not stored: {_error}");
        }
    }

    /// Leaves the group: stored offsets are committed. All assignments must be dropped before.
    pub(crate) fn stop(&mut self) {
        if let Some(consumer) = &self.consumer {
            consumer.context().is_stopping.store(true, Ordering::Relaxed);
        }
        if let Some(polling) = self.polling.take() {
            let _ = polling.join();
        }
        self.consumer = None;
    }
}

/// Polls for rebalances and errors, until the member stops.
fn poll(consumer: Client) {
    struct Ended(Client);
    impl Drop for Ended {
        fn drop(&mut self) {
            let group = self.0.context();
            if !group.is_stopping.load(Ordering::Relaxed) {
                group.health.fail(KafkaSourceError::Stopped);
            }
        }
    }
    let Ended(consumer) = &Ended(consumer);
    let group = consumer.context();
    while !group.is_stopping.load(Ordering::Relaxed) {
        match consumer.poll(LOOK) {
            None => {}
            Some(Err(error)) => group.health.note(error, consumer.client().fatal_error().is_some()),
            Some(Ok(message)) => {
                let (partition, offset) = (partition(message.topic(), message.partition()), message.offset());
                // (A member that cannot go on has partitions, and no queues.)
                if lock(&group.tenures).contains_key(&partition) {
                    group.health.fail(KafkaSourceError::OutOfPlace { partition, offset });
                }
            }
        }
    }
}
