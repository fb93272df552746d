//! The other end: messages of an outbox go to topics.

pub(crate) mod transactional;

use crate::error::KafkaSourceError;
use hapax_message::cloudevents::Binding;
use hapax_message::{BoxError, GiveUp, MESSAGE_ID, Message, Publisher};
use rdkafka::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::future_producer::DeliveryFuture;
use rdkafka::producer::{FutureProducer, FutureRecord};

/// The time after which the client gives a message up, unless the settings say another: less than
/// a relay's `publish_timeout`, so that what it tries again does not wait here, too.
const MESSAGE_TIMEOUT_MS: &str = "8000";

/// A [`Publisher`] for a relay: it sends each message to its topic, and has published it when all
/// replicas in sync have stored it.
///
/// ```no_run
/// use hapax_kafka::KafkaPublisher;
/// use hapax_kafka::rdkafka::ClientConfig;
///
/// # fn main() -> Result<(), hapax_kafka::KafkaSourceError> {
/// let publisher = KafkaPublisher::new(ClientConfig::new().set("bootstrap.servers", "localhost:9092"))?;
/// # Ok(())
/// # }
/// ```
///
/// - The producer is idempotent: what the client itself sends again is stored once, in its order.
///   What the relay publishes again is another record: the consumer knows it by the header
///   `message-id`, which is the message's id as [`text_id`](Message::text_id) has it.
/// - The message's key is the record's, which chooses the partition. Its headers go with it, and
///   those of its event ([`published_headers`](Message::published_headers)).
/// - A batch is given to the client at once, and its answers are awaited together. A message that
///   was not stored within eight seconds has failed: `message.timeout.ms` sets another limit, which
///   should stay below the relay's `publish_timeout`.
/// - Dead letters at once ([`GiveUp`]) are what is larger than client or broker accept, and a topic
///   that does not exist, or cannot. Whatever else fails is tried again.
#[derive(Clone)]
pub struct KafkaPublisher {
    producer: FutureProducer,
}

impl KafkaPublisher {
    /// Creates a publisher with these settings of the client. The connection is made by and by.
    ///
    /// # Errors
    ///
    /// [`KafkaSourceError::Setting`] names the setting that would lose messages, or mix up their
    /// order; [`KafkaSourceError::Client`] if the client refuses one.
    pub fn new(config: &ClientConfig) -> Result<Self, KafkaSourceError> {
        if let Some(got) = config.get("transactional.id") {
            let (name, got) = ("transactional.id", got.to_owned());
            let expected = "none: for transactions there is `TransactionalKafkaPublisher`";
            return Err(KafkaSourceError::Setting { name, expected, got });
        }
        Ok(KafkaPublisher { producer: producer(config)? })
    }
}

/// Returns a producer that is idempotent and waits for all replicas.
fn producer(config: &ClientConfig) -> Result<FutureProducer, KafkaSourceError> {
    let doing = "making the producer";
    let mut config = config.clone();
    for (name, only, expected) in [
        ("enable.idempotence", &["true"][..], "true: what is sent again would be stored twice"),
        ("acks", &["all", "-1"], "all: a broker that fails would take messages with it"),
        ("request.required.acks", &["all", "-1"], "all: a broker that fails would take messages with it"),
    ] {
        if let Some(got) = config.get(name).filter(|got| !only.contains(got)) {
            return Err(KafkaSourceError::Setting { name, expected, got: got.to_owned() });
        }
    }
    config.set("enable.idempotence", "true");
    if ["message.timeout.ms", "delivery.timeout.ms"].iter().all(|name| config.get(name).is_none()) {
        config.set("message.timeout.ms", MESSAGE_TIMEOUT_MS);
    }
    config.create().map_err(KafkaSourceError::when(doing))
}

/// Gives a message to the client.
fn send(producer: &FutureProducer, message: &Message) -> Result<DeliveryFuture, BoxError> {
    let mut headers = OwnedHeaders::new();
    for (name, value) in message.published_headers(Binding::Kafka) {
        headers = headers.insert(Header { key: &name, value: Some(&value) });
    }
    if let Some(id) = message.text_id() {
        headers = headers.insert(Header { key: MESSAGE_ID, value: Some(&id) });
    }
    if message.name.contains('\0') {
        return Err(GiveUp::because(format!("expected a topic without zeros, got {:?}", message.name)).into());
    }
    let mut record = FutureRecord::<[u8], [u8]>::to(&message.name).payload(&message.payload).headers(headers);
    record.key = message.key.as_deref();
    producer.send_result(record).map_err(|(error, _)| judged(error))
}

async fn stored(sent: Result<DeliveryFuture, BoxError>) -> Result<(), BoxError> {
    match sent?.await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err((error, _))) => Err(judged(error)),
        Err(canceled) => Err(canceled.into()),
    }
}

/// Returns the error, which gives up if another attempt cannot help.
fn judged(error: KafkaError) -> BoxError {
    use RDKafkaErrorCode as Code;
    const FINAL: [Code; 6] = [
        Code::InvalidMessageSize,
        Code::InvalidRecord,
        Code::InvalidTopic,
        Code::MessageSizeTooLarge,
        Code::UnknownTopic,
        Code::UnknownTopicOrPartition,
    ];
    if error.rdkafka_error_code().is_some_and(|code| FINAL.contains(&code)) {
        GiveUp::because(error).into()
    } else {
        error.into()
    }
}

impl Publisher for KafkaPublisher {
    async fn publish(&self, message: &Message) -> Result<(), BoxError> {
        stored(send(&self.producer, message)).await
    }

    async fn publish_batch(&self, messages: &[Message]) -> Option<Vec<Result<(), BoxError>>> {
        let sent: Vec<_> = messages.iter().map(|message| send(&self.producer, message)).collect();
        let mut answers = Vec::with_capacity(sent.len());
        for sent in sent {
            answers.push(stored(sent).await);
        }
        Some(answers)
    }
}

impl std::fmt::Debug for KafkaPublisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KafkaPublisher").finish_non_exhaustive()
    }
}
