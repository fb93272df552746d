//! Kafka's idempotent producer: its settings, and an id of the event for what it does not cover.
//!
//! The broker drops copies that one session of the client has sent: its own retries. A producer
//! that was restarted, or an application that sends again, is another session, and the broker
//! stores the event twice. So each event carries its own id, and the consumer looks at that.

use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::util::Timeout;
use std::time::Duration;

/// The header with the id of an event.
pub const EVENT_ID: &str = "event-id";

/// The longest that an event may wait for its acknowledgement, with all retries.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns the settings of an idempotent producer. The client refuses others that contradict them.
pub fn settings(brokers: &str) -> ClientConfig {
    let mut settings = ClientConfig::new();
    settings
        .set("bootstrap.servers", brokers)
        .set("enable.idempotence", "true") // a retry has the number of the first attempt
        .set("acks", "all") // stored by every replica in sync, so a new leader knows the numbers
        .set("max.in.flight.requests.per.connection", "5") // as many numbers as the broker remembers
        .set("message.timeout.ms", PATIENCE.as_millis().to_string());
    settings
}

/// Publishes an event with its own id, and waits until the brokers have it.
///
/// # Errors
///
/// That of the client. After a time-out the event may be stored: publish it again, with the same
/// id.
pub async fn publish(producer: &FutureProducer, topic: &str, event_id: &str, payload: &[u8]) -> Result<(), KafkaError> {
    let headers = OwnedHeaders::new().insert(Header { key: EVENT_ID, value: Some(event_id) });
    let record = FutureRecord::<[u8], [u8]>::to(topic).payload(payload).headers(headers);
    producer.send(record, Timeout::After(PATIENCE)).await.map_err(|(error, _)| error)?;
    Ok(())
}

/// Returns the id of an event: what a consumer deduplicates by. None if it has none, which is put
/// aside. Topic, partition and offset would not do: a copy of the producer's has an offset of its
/// own.
pub fn event_id(message: &impl Message) -> Option<&[u8]> {
    message.headers()?.iter().find(|header| header.key == EVENT_ID)?.value
}
