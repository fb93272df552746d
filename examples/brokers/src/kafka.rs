//! A member of a Kafka consumer group.

use crate::BrokerError;
use hapax_stream::{Acks, Partition, Source};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext, Rebalance};
use rdkafka::error::KafkaResult;
use rdkafka::message::{Headers, OwnedMessage};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{ClientConfig, ClientContext, Message, TopicPartitionList};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex as StdMutex, PoisonError, mpsc as blocking};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::{Mutex, mpsc};

/// The time for which a rebalance waits until no message of the old assignment is being handled:
/// longer than handlers may take, shorter than `max.poll.interval.ms`.
const RELEASE: Duration = Duration::from_secs(30);
const AHEAD: usize = 256;

/// A received message, and its assignment's number.
type Received = (u64, Result<OwnedMessage, BrokerError>);

/// The partitions of a topic that are assigned to this member.
///
/// Offsets are stored when messages are done, and committed every now and then by the client, and
/// when partitions are revoked. A thread of its own polls: so the member stays alive however long
/// handlers take, and a rebalance can wait for them.
pub struct Kafka {
    consumer: Arc<BaseConsumer<Rebalances>>,
    producer: FutureProducer,
    messages: Mutex<mpsc::Receiver<Received>>,
    revoked: Mutex<mpsc::UnboundedReceiver<Vec<Partition>>>,
    released: blocking::Sender<()>,
    polling: Option<JoinHandle<()>>,
}

/// Returns the header `id`, which the producer gave it: its offset differs each time that the
/// producer sends. A message without it is put aside.
pub fn header_id(message: &OwnedMessage) -> Option<&[u8]> {
    message.headers()?.iter().find(|header| header.key == "id")?.value
}

/// Returns the configuration of a member of a group. Acknowledged messages are committed, not
/// received ones.
pub(crate) fn member(brokers: &str, group: &str, session: Duration) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("group.id", group).set("auto.offset.reset", "earliest");
    config.set("session.timeout.ms", session.as_millis().to_string());
    config.set("heartbeat.interval.ms", (session / 5).as_millis().to_string());
    config.set("enable.auto.offset.store", "false").set("auto.commit.interval.ms", "200");
    config
}

/// Returns partitions as those of messages.
pub(crate) fn numbered(partitions: &TopicPartitionList) -> Vec<Partition> {
    let elements = partitions.elements();
    elements.iter().map(|part| numbered_one(part.topic(), part.partition())).collect()
}

fn numbered_one(topic: &str, partition: i32) -> Partition {
    Partition::new(topic, u32::try_from(partition).unwrap_or_default())
}

/// Sends a message that is put aside to the topic of dead letters.
pub(crate) async fn put_aside(producer: &FutureProducer, message: &OwnedMessage, why: &str) -> Result<(), BrokerError> {
    let topic = format!("{}.dead", message.topic());
    let mut headers = message.headers().map_or_else(rdkafka::message::OwnedHeaders::new, Clone::clone);
    headers = headers.insert(rdkafka::message::Header { key: "dead-letter-reason", value: Some(why) });
    let mut record = FutureRecord::<[u8], [u8]>::to(&topic).headers(headers);
    record.key = message.key();
    record.payload = message.payload();
    let sent = producer.send(record, Duration::from_secs(10)).await;
    sent.map(drop).map_err(|(error, _)| BrokerError::when("putting a message aside")(error))
}

/// The state that a rebalance needs.
struct Rebalances {
    /// The number of assignments.
    assignment: AtomicU64,
    revoked: mpsc::UnboundedSender<Vec<Partition>>,
    released: StdMutex<blocking::Receiver<()>>,
}

impl ClientContext for Rebalances {}

impl ConsumerContext for Rebalances {
    fn post_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        if let Rebalance::Assign(partitions) = rebalance {
            eprintln!("kafka: partitions assigned: {}", partitions.count());
        }
    }

    fn pre_rebalance(&self, _: &BaseConsumer<Self>, rebalance: &Rebalance<'_>) {
        let Rebalance::Revoke(partitions) = rebalance else { return };
        // Messages that were received before are not ours any more.
        self.assignment.fetch_add(1, Ordering::SeqCst);
        let partitions = numbered(partitions);
        let released = self.released.lock().unwrap_or_else(PoisonError::into_inner);
        while released.try_recv().is_ok() {}
        if !partitions.is_empty() && self.revoked.send(partitions).is_ok() {
            // If that takes too long, other members begin with messages that were not committed,
            // while their claims are held.
            let _ = released.recv_timeout(RELEASE);
        }
    }
}

impl Kafka {
    /// Joins a group.
    ///
    /// # Errors
    ///
    /// Those of the client.
    pub fn join(brokers: &str, topic: &str, group: &str, session: Duration) -> Result<Self, BrokerError> {
        let joining = BrokerError::when("joining the group");
        let (revoked_sender, revoked) = mpsc::unbounded_channel();
        let (released, released_receiver) = blocking::channel();
        let context = Rebalances {
            assignment: AtomicU64::new(0),
            revoked: revoked_sender,
            released: StdMutex::new(released_receiver),
        };
        let consumer: BaseConsumer<Rebalances> =
            member(brokers, group, session).create_with_context(context).map_err(&joining)?;
        consumer.subscribe(&[topic]).map_err(&joining)?;
        let producer = ClientConfig::new().set("bootstrap.servers", brokers).create().map_err(&joining)?;

        let (sender, messages) = mpsc::channel(AHEAD);
        let consumer = Arc::new(consumer);
        let polled = Arc::clone(&consumer);
        let polling = std::thread::Builder::new().name("kafka".into()).spawn(move || poll(&polled, &sender));
        Ok(Kafka {
            consumer,
            producer,
            messages: Mutex::new(messages),
            revoked: Mutex::new(revoked),
            released,
            polling: Some(polling.map_err(BrokerError::when("starting a thread"))?),
        })
    }

    fn is_current(&self, assignment: u64) -> bool {
        assignment == self.consumer.context().assignment.load(Ordering::SeqCst)
    }
}

/// Polls until the receiver is gone.
fn poll(consumer: &BaseConsumer<Rebalances>, messages: &mpsc::Sender<Received>) {
    // Messages that found no room: while there are any, partitions are paused, and polled only for
    // rebalances.
    let mut ahead: VecDeque<Received> = VecDeque::new();
    let mut is_paused = false;
    while !messages.is_closed() {
        while let Some(first) = ahead.pop_front() {
            if let Err(refused) = messages.try_send(first) {
                ahead.push_front(refused.into_inner());
                break;
            }
        }
        // This is repeated, since a rebalance resumes partitions.
        let paused = consumer.assignment().and_then(|all| match (ahead.is_empty(), is_paused) {
            (false, _) => consumer.pause(&all),
            (true, true) => consumer.resume(&all),
            (true, false) => Ok(()),
        });
        is_paused = !ahead.is_empty();
        let wait = Duration::from_millis(if is_paused { 5 } else { 50 });
        let polled = consumer.poll(wait).map(|polled| polled.map(|message| message.detach()));
        let assignment = consumer.context().assignment.load(Ordering::SeqCst);
        match polled {
            Some(Ok(message)) => ahead.push_back((assignment, Ok(message))),
            // The client recovers from other errors by itself.
            Some(Err(error)) if consumer.client().fatal_error().is_some() => {
                ahead.push_back((assignment, Err(BrokerError::when("receiving")(error))));
            }
            Some(Err(error)) => eprintln!("kafka: {error}"),
            None => {}
        }
        if let Err(error) = paused {
            eprintln!("kafka: pausing: {error}");
        }
    }
}

impl Source for Kafka {
    type Message = OwnedMessage;
    type Error = BrokerError;

    async fn receive(&self, max: usize) -> Result<Option<Vec<OwnedMessage>>, BrokerError> {
        let mut messages = self.messages.lock().await;
        let mut batch = Vec::new();
        loop {
            let mut received = Vec::new();
            if messages.recv_many(&mut received, max).await == 0 {
                return Ok(None);
            }
            for (assignment, message) in received {
                let message = message?;
                if self.is_current(assignment) {
                    batch.push(message);
                }
            }
            if !batch.is_empty() {
                return Ok(Some(batch));
            }
        }
    }

    async fn acknowledge(&self, messages: &[Arc<OwnedMessage>]) -> Result<(), BrokerError> {
        for message in messages {
            // It is refused if the partition was taken away meanwhile. Then its next owner finds a
            // duplicate.
            let _: KafkaResult<()> = self.consumer.store_offset(message.topic(), message.partition(), message.offset());
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

    fn partition(&self, message: &OwnedMessage) -> Partition {
        numbered_one(message.topic(), message.partition())
    }

    async fn revoked(&self) -> Vec<Partition> {
        match self.revoked.lock().await.recv().await {
            Some(partitions) => partitions,
            None => std::future::pending().await,
        }
    }

    async fn released(&self, _: &[Partition]) {
        let _ = self.released.send(());
    }
}

impl Drop for Kafka {
    /// Leaves the group: the client is dropped after this, which commits the stored offsets.
    fn drop(&mut self) {
        // The thread ends when its receiver is closed, and a rebalance waits for nothing.
        self.messages.get_mut().close();
        self.revoked.get_mut().close();
        if let Some(polling) = self.polling.take() {
            let _ = polling.join();
        }
    }
}
