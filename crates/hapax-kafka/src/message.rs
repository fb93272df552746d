//! A message of Kafka.

use hapax_stream::Partition;
use rdkafka::Message;
use rdkafka::message::{Headers, OwnedMessage};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A message that was received from Kafka.
///
/// ```
/// use hapax_kafka::KafkaMessage;
///
/// /// The id that its producer gave it. An offset is none: it differs each time that a producer
/// /// sends the message.
/// fn id_of(order: &KafkaMessage) -> Option<Vec<u8>> {
///     order.header("id").map(<[u8]>::to_vec)
/// }
/// ```
#[derive(Clone, Debug)]
pub struct KafkaMessage(OwnedMessage);

impl KafkaMessage {
    /// Returns the topic.
    pub fn topic(&self) -> &str {
        self.0.topic()
    }

    /// Returns the partition, with its topic.
    pub fn partition(&self) -> Partition {
        partition(self.0.topic(), self.0.partition())
    }

    /// Returns the offset in the partition.
    pub fn offset(&self) -> u64 {
        u64::try_from(self.0.offset()).unwrap_or_default()
    }

    /// Returns the key.
    pub fn key(&self) -> Option<&[u8]> {
        self.0.key()
    }

    /// Returns the payload. A tombstone of a compacted topic has none.
    pub fn payload(&self) -> Option<&[u8]> {
        self.0.payload()
    }

    /// Returns the value of the first header of this name.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.0.headers()?.iter().find(|header| header.key == name)?.value
    }

    /// Returns all headers, in their order. A name may come several times.
    pub fn headers(&self) -> impl Iterator<Item = (&str, Option<&[u8]>)> {
        self.0.headers().into_iter().flat_map(Headers::iter).map(|header| (header.key, header.value))
    }

    /// Returns the time of the message: that of its producer, or that of the log if the topic is
    /// set so.
    pub fn timestamp(&self) -> Option<SystemTime> {
        let millis = u64::try_from(self.0.timestamp().to_millis()?).ok()?;
        UNIX_EPOCH.checked_add(Duration::from_millis(millis))
    }

    /// Returns the client's message.
    pub fn as_rdkafka(&self) -> &OwnedMessage {
        &self.0
    }
}

impl From<OwnedMessage> for KafkaMessage {
    fn from(message: OwnedMessage) -> Self {
        KafkaMessage(message)
    }
}

/// Returns a partition.
pub(crate) fn partition(topic: &str, number: i32) -> Partition {
    Partition::new(topic, u32::try_from(number).unwrap_or_default())
}
