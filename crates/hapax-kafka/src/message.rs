//! A message of Kafka.

use hapax_message::Described;
use hapax_stream::Partition;
use rdkafka::Message;
use rdkafka::message::{Header, Headers, OwnedHeaders, OwnedMessage};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A message that was received from Kafka.
///
/// ```
/// use hapax_kafka::KafkaMessage;
/// use hapax_message::{Described, ids};
///
/// /// The id that its producer gave it, by CloudEvents or in a header of its own.
/// fn id_of(order: &KafkaMessage) -> Option<Vec<u8>> {
///     order.id().or(order.header("id").map(|id| id.as_bytes().into())).map(Into::into)
/// }
///
/// /// The place in the log, for producers that never send a message twice: each time that one is
/// /// sent it has another offset.
/// fn place_of(order: &KafkaMessage) -> Vec<u8> {
///     ids::offset(order.topic(), order.partition().number, order.offset())
/// }
/// ```
///
/// It is [`Described`](hapax_message::Described): with its id, type and subject by CloudEvents, its
/// payload, which a tombstone has not, and its key, or else the `partitionkey` of CloudEvents.
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

    /// Returns true if it has no payload, which deletes its key from a compacted topic.
    pub fn is_tombstone(&self) -> bool {
        self.0.payload().is_none()
    }

    /// Returns the value of the last header of this name, whatever its bytes are.
    pub fn header_bytes(&self, name: &str) -> Option<&[u8]> {
        self.headers().filter(|(given, _)| *given == name).last()?.1
    }

    /// Returns all headers, in their order. A name may come several times. A header whose name is
    /// not UTF-8 is left out.
    pub fn headers(&self) -> impl Iterator<Item = (&str, Option<&[u8]>)> {
        let count = self.0.headers().map_or(0, Headers::count);
        (0..count).filter_map(|index| header(self.0.headers()?, index)).map(|header| (header.key, header.value))
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

impl Described for KafkaMessage {
    fn header(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.header_bytes(name)?).ok()
    }

    fn payload(&self) -> &[u8] {
        self.0.payload().unwrap_or_default()
    }

    fn key(&self) -> Option<&[u8]> {
        self.0.key().or_else(|| self.header("ce_partitionkey").map(str::as_bytes))
    }
}

impl From<OwnedMessage> for KafkaMessage {
    fn from(message: OwnedMessage) -> Self {
        KafkaMessage(message)
    }
}

/// Returns a header, unless its name is not UTF-8. The client panics at such a name, and such a
/// message would end its consumer at each start.
fn header(headers: &OwnedHeaders, index: usize) -> Option<Header<'_, &[u8]>> {
    catch_unwind(AssertUnwindSafe(|| headers.try_get(index))).ok().flatten()
}

/// Returns a partition.
pub(crate) fn partition(topic: &str, number: i32) -> Partition {
    Partition::new(topic, u32::try_from(number).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdkafka::Timestamp;
    use rdkafka::message::{Header, OwnedHeaders};

    fn message(headers: &[(&str, &[u8])], payload: Option<&[u8]>, key: Option<&[u8]>) -> KafkaMessage {
        let insert =
            |headers: OwnedHeaders, (key, value): &(&str, &[u8])| headers.insert(Header { key, value: Some(*value) });
        let headers = headers.iter().fold(OwnedHeaders::new(), insert);
        let [payload, key] = [payload, key].map(|bytes| bytes.map(<[u8]>::to_vec));
        let time = Timestamp::CreateTime(1_500);
        KafkaMessage::from(OwnedMessage::new(payload, key, "orders".into(), time, 3, 17, Some(headers)))
    }

    #[test]
    fn a_message_says_what_it_is() {
        let event: [(&str, &[u8]); 4] =
            [("ce_id", b"1"), ("ce_source", b"/orders"), ("ce_type", b"placed"), ("ce_partitionkey", b"k")];
        let placed = message(&event, Some(b"{}"), None);
        assert_eq!(placed.id().as_deref(), Some(hapax_message::cloudevents::id("/orders", "1").as_ref()));
        assert_eq!((placed.kind(), placed.key(), placed.payload()), (Some("placed"), Some(&b"k"[..]), &b"{}"[..]));
        assert_eq!(message(&event, None, Some(b"own")).key(), Some(&b"own"[..]), "its own key is before that");
        assert_eq!((placed.topic(), placed.partition(), placed.offset()), ("orders", Partition::new("orders", 3), 17));
        assert_eq!(placed.timestamp(), Some(UNIX_EPOCH + Duration::from_millis(1_500)));
    }

    #[test]
    fn a_header_may_come_several_times_or_be_no_text() {
        let twice = message(&[("id", b"a"), ("id", b"\xff"), ("other", b"b")], None, None);
        assert_eq!((twice.header_bytes("id"), twice.header("id")), (Some(&b"\xff"[..]), None), "the last one counts");
        assert_eq!((twice.headers().count(), twice.header("none")), (3, None));
        assert!(twice.is_tombstone() && twice.payload().is_empty());
    }
}
