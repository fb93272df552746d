//! A member of a Kafka consumer group that has a consumer for each partition, whose memory follows
//! the partition.

use crate::BrokerError;
use crate::kafka::{member, numbered, put_aside};
use hapax_stream::{Acks, Partition, Source};
use rdkafka::consumer::base_consumer::PartitionQueue;
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::KafkaResult;
use rdkafka::message::OwnedMessage;
use rdkafka::producer::FutureProducer;
use rdkafka::{ClientConfig, ClientContext, Message, Offset, TopicPartitionList};
use std::collections::HashMap;
use std::sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError, mpsc as blocking};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};

/// The time for which a rebalance waits until revoked partitions are released: longer than handlers
/// and a publication may take, shorter than `max.poll.interval.ms`.
const RELEASE: Duration = Duration::from_secs(30);
/// The time after which a partition is given up that its client does not begin to fetch.
const SEEKING: Duration = Duration::from_secs(10);

/// A member of a group. Partitions that move are revoked, the others stay (cooperative rebalances).
pub struct Partitions {
    consumer: Option<Arc<BaseConsumer<Rebalances>>>,
    producer: FutureProducer,
    assigned: mpsc::UnboundedReceiver<Assignment>,
    polling: Option<JoinHandle<()>>,
}

/// A partition that was assigned to this member. The rebalance that revokes it waits until this is
/// dropped.
pub struct Assigned {
    consumer: Arc<BaseConsumer<Rebalances>>,
    producer: FutureProducer,
    queue: Queue,
    /// (Last, since its drop is the release.)
    assignment: Assignment,
}

/// The queue of a start, for one thread at a time: none before, and none after the next start. A
/// thread that still polls for somebody who has gone takes no message that is meant for another.
type Queue = Arc<StdMutex<Option<PartitionQueue<Rebalances>>>>;

/// A partition until it is released: when the last clone is dropped. Threads that poll or seek have
/// one, so they are done by then.
#[derive(Clone)]
struct Assignment {
    partition: Partition,
    revoked: watch::Receiver<bool>,
    _release: blocking::Sender<()>,
}

/// The partitions that are assigned: what revokes each, and what says that it is released.
type Tenures = HashMap<Partition, (watch::Sender<bool>, blocking::Receiver<()>)>;

struct Rebalances {
    assigned: mpsc::UnboundedSender<Assignment>,
    tenures: StdMutex<Tenures>,
}

impl ClientContext for Rebalances {}

impl ConsumerContext for Rebalances {
    fn post_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let Rebalance::Assign(partitions) = rebalance else { return };
        eprintln!("kafka: partitions assigned: {}", partitions.count());
        let mut tenures = locked(&self.tenures);
        for partition in numbered(partitions) {
            let ((revoke, revoked), (release, released)) = (watch::channel(false), blocking::channel());
            tenures.insert(partition.clone(), (revoke, released));
            let _ = self.assigned.send(Assignment { partition, revoked, _release: release });
        }
    }

    fn pre_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let Rebalance::Revoke(partitions) = rebalance else { return };
        let mut tenures = locked(&self.tenures);
        let gone: Vec<_> = numbered(partitions).iter().filter_map(|partition| tenures.remove(partition)).collect();
        drop(tenures);
        for (revoke, _) in &gone {
            let _ = revoke.send(true);
        }
        // If that takes too long, the next owners fence those who still are at it.
        let deadline = Instant::now() + RELEASE;
        for (_, released) in gone {
            let _ = released.recv_timeout(deadline.saturating_duration_since(Instant::now()));
        }
    }
}

impl Partitions {
    /// Joins a group.
    ///
    /// # Errors
    ///
    /// Those of the client.
    pub fn join(brokers: &str, topic: &str, group: &str, session: Duration) -> Result<Self, BrokerError> {
        let joining = BrokerError::when("joining the group");
        let (sender, assigned) = mpsc::unbounded_channel();
        let context = Rebalances { assigned: sender, tenures: StdMutex::default() };
        let mut config = member(brokers, group, session);
        config.set("partition.assignment.strategy", "cooperative-sticky");
        let consumer: BaseConsumer<Rebalances> = config.create_with_context(context).map_err(&joining)?;
        consumer.subscribe(&[topic]).map_err(&joining)?;
        let producer = ClientConfig::new().set("bootstrap.servers", brokers).create().map_err(&joining)?;
        let consumer = Arc::new(consumer);
        let polled = Arc::clone(&consumer);
        let polling = std::thread::Builder::new().name("kafka".into()).spawn(move || poll(&polled));
        let polling = Some(polling.map_err(BrokerError::when("starting a thread"))?);
        Ok(Partitions { consumer: Some(consumer), producer, assigned, polling })
    }

    /// Waits for the next partition that is assigned. Ask again at once: a rebalance waits for
    /// partitions that nobody takes, too.
    pub async fn assigned(&mut self) -> Option<Assigned> {
        let assignment = self.assigned.recv().await?;
        let consumer = Arc::clone(self.consumer.as_ref()?);
        Some(Assigned { consumer, producer: self.producer.clone(), queue: Queue::default(), assignment })
    }

    /// Begins to leave the group: all partitions are revoked.
    pub fn leave(&self) {
        self.consumer.iter().for_each(|consumer| consumer.unsubscribe());
    }
}

/// Polls for rebalances, until the member is dropped. What comes here was fetched before its
/// partition has been started, and is fetched again then.
fn poll(consumer: &BaseConsumer<Rebalances>) {
    while !consumer.context().assigned.is_closed() {
        if let Some(Err(error)) = consumer.poll(Duration::from_millis(50)) {
            eprintln!("kafka: {error}");
        }
    }
}

impl Assigned {
    /// Returns the partition.
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
    /// the offset that is committed, or the beginning.
    ///
    /// # Errors
    ///
    /// Those of the client, and of a position that is not one of this source.
    pub async fn start(&mut self, position: Option<&[u8]>) -> Result<(), BrokerError> {
        let position = position
            .map(<[u8; 8]>::try_from)
            .transpose()
            .map_err(BrokerError::when("reading a position"))?
            .map(i64::from_be_bytes);
        let (consumer, assignment) = (Arc::clone(&self.consumer), self.assignment.clone());
        let (before, queue) = (std::mem::take(&mut self.queue), Arc::clone(&self.queue));
        let started = tokio::task::spawn_blocking(move || {
            *locked(&before) = None;
            *locked(&queue) = Some(start(&consumer, &assignment, position)?);
            Ok(())
        });
        started.await.map_err(BrokerError::when("starting a partition"))?
    }
}

fn locked<T>(mutex: &StdMutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Splits a partition off, and seeks.
fn start(
    consumer: &Arc<BaseConsumer<Rebalances>>,
    assignment: &Assignment,
    position: Option<i64>,
) -> Result<PartitionQueue<Rebalances>, BrokerError> {
    let (seeking, partition) = (BrokerError::when("seeking"), &assignment.partition);
    let (topic, number) = (&*partition.topic, i32::try_from(partition.number).unwrap_or(-1));
    let unknown = || BrokerError::when("splitting a partition off")("it is unknown");
    let queue = consumer.split_partition_queue(topic, number).ok_or_else(unknown)?;
    let from = match position {
        Some(position) => position,
        None => {
            let mut asked = TopicPartitionList::new();
            asked.add_partition(topic, number);
            let committed = consumer.committed_offsets(asked, Duration::from_secs(10)).map_err(&seeking)?;
            let committed = committed.find_partition(topic, number).and_then(|one| one.offset().to_raw());
            committed.unwrap_or(-1)
        }
    };
    let offset = if from < 0 { Offset::Beginning } else { Offset::Offset(from) };
    let began = Instant::now();
    while let Err(error) = consumer.seek(topic, number, offset, Duration::from_secs(5)) {
        // The client has not begun to fetch it yet.
        if *assignment.revoked.borrow() || began.elapsed() > SEEKING {
            return Err(seeking(error));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    if let Some(last) = position.and_then(|position| position.checked_sub(1)) {
        // It was published, and perhaps its owner had no time to commit it. If nothing comes after
        // it, nobody else will.
        let _: KafkaResult<()> = consumer.store_offset(topic, number, last);
    }
    Ok(queue)
}

impl Source for Assigned {
    type Message = OwnedMessage;
    type Error = BrokerError;

    async fn receive(&self, max: usize) -> Result<Option<Vec<OwnedMessage>>, BrokerError> {
        let (queue, consumer) = (Arc::clone(&self.queue), Arc::clone(&self.consumer));
        let assignment = self.assignment.clone();
        let polling = tokio::task::spawn_blocking(move || {
            let _releases = assignment;
            let queue = locked(&queue);
            let Some(queue) = &*queue else { return Ok(None) };
            let (mut batch, mut wait) = (Vec::new(), Duration::from_millis(100));
            while batch.len() < max
                && let Some(polled) = queue.poll(std::mem::take(&mut wait))
            {
                match polled {
                    Ok(message) => batch.push(message.detach()),
                    // The client recovers from other errors by itself.
                    Err(error) if consumer.client().fatal_error().is_some() => {
                        return Err(BrokerError::when("receiving")(error));
                    }
                    Err(error) => eprintln!("kafka: {error}"),
                }
            }
            Ok(Some(batch))
        });
        polling.await.map_err(BrokerError::when("receiving"))?
    }

    async fn acknowledge(&self, messages: &[Arc<OwnedMessage>]) -> Result<(), BrokerError> {
        if let Some(last) = messages.last() {
            // It is refused if the partition was taken away meanwhile. Then its next owner goes on
            // from the position that was published.
            let _: KafkaResult<()> = self.consumer.store_offset(last.topic(), last.partition(), last.offset());
        }
        Ok(())
    }

    /// Fails. It is not called, since acknowledgements are cumulative.
    async fn retry(&self, _: &Arc<OwnedMessage>, _: Duration) -> Result<(), BrokerError> {
        Err(BrokerError::when("giving a message back")("Kafka takes nothing back"))
    }

    async fn dead_letter(&self, message: &Arc<OwnedMessage>, why: &str) -> Result<(), BrokerError> {
        put_aside(&self.producer, message, why).await
    }

    fn acks(&self) -> Acks {
        Acks::Cumulative
    }

    fn partition(&self, _: &OwnedMessage) -> Partition {
        self.assignment.partition.clone()
    }

    fn position(&self, message: &OwnedMessage) -> Option<Vec<u8>> {
        Some((message.offset() + 1).to_be_bytes().into())
    }
}

impl Drop for Partitions {
    /// Leaves the group, when the last partition is dropped: that commits the stored offsets.
    fn drop(&mut self) {
        // The thread ends when its receiver is closed, and partitions that nobody has taken are
        // released.
        self.assigned.close();
        while self.assigned.try_recv().is_ok() {}
        if let Some(polling) = self.polling.take() {
            let _ = polling.join();
        }
        self.consumer = None;
    }
}
