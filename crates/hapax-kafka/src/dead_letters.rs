//! Messages that are put aside, to another topic.

use crate::error::KafkaSourceError;
use crate::message::KafkaMessage;
use crate::options::KafkaOptions;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{ClientConfig, Message};
use std::time::Duration;

/// The beginning of the names of our headers.
const OURS: &str = "dead-letter-";

#[derive(Clone)]
pub(crate) struct DeadLetters {
    producer: FutureProducer,
    /// The topic; `None` for one beside each topic.
    topic: Option<String>,
    within: Duration,
    group: String,
}

impl DeadLetters {
    pub(crate) fn new(
        producer: &ClientConfig,
        options: &KafkaOptions,
        group: String,
    ) -> Result<Self, KafkaSourceError> {
        let producer = producer.create().map_err(KafkaSourceError::when("making the producer of dead letters"))?;
        Ok(DeadLetters {
            producer,
            topic: options.dead_letter_topic.clone(),
            within: options.dead_letter_within,
            group,
        })
    }

    /// Sends a copy of a message, and waits until it is stored.
    pub(crate) async fn put(&self, message: &KafkaMessage, why: &str) -> Result<(), KafkaSourceError> {
        let topic = self.topic.clone().unwrap_or_else(|| format!("{}.dead", message.topic()));
        let mut record = FutureRecord::<[u8], [u8]>::to(&topic).headers(headers(message, &self.group, why));
        record.key = message.as_rdkafka().key();
        record.payload = message.as_rdkafka().payload();
        match self.producer.send(record, self.within).await {
            Ok(_) => Ok(()),
            Err((cause, _)) => Err(KafkaSourceError::DeadLetter {
                topic,
                partition: message.partition(),
                offset: message.as_rdkafka().offset(),
                cause: Box::new(cause),
            }),
        }
    }
}

/// Returns the headers of a message, and those that say where it comes from, and why: those of an
/// earlier time are replaced.
fn headers(message: &KafkaMessage, group: &str, why: &str) -> OwnedHeaders {
    let client = message.as_rdkafka();
    let mut headers = OwnedHeaders::new();
    for (key, value) in message.headers() {
        if !key.starts_with(OURS) {
            headers = headers.insert(Header { key, value });
        }
    }
    let (partition, offset) = (client.partition().to_string(), client.offset().to_string());
    let ours =
        [("reason", why), ("topic", message.topic()), ("partition", &partition), ("offset", &offset), ("group", group)];
    for (name, value) in ours {
        headers = headers.insert(Header { key: &format!("{OURS}{name}"), value: Some(value) });
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdkafka::Timestamp;
    use rdkafka::message::OwnedMessage;

    #[test]
    fn headers_say_where_a_message_comes_from_and_why_once() {
        let message = |headers| {
            let payload = Some(b"an order".to_vec());
            let message =
                OwnedMessage::new(payload, None, "orders".into(), Timestamp::NotAvailable, 3, 17, Some(headers));
            KafkaMessage::from(message)
        };
        let given = OwnedHeaders::new().insert(Header { key: "id", value: Some("o-1") });
        let given = given.insert(Header::<&[u8]> { key: "empty", value: None });
        let once = headers(&message(given), "billing", "first");
        let twice = message(headers(&message(once), "billing", "it failed"));
        let shown: Vec<(&str, Option<&str>)> = twice
            .headers()
            .map(|(name, value)| (name, value.map(|value| std::str::from_utf8(value).unwrap())))
            .collect();
        let expected = [
            ("id", Some("o-1")),
            ("empty", None),
            ("dead-letter-reason", Some("it failed")),
            ("dead-letter-topic", Some("orders")),
            ("dead-letter-partition", Some("3")),
            ("dead-letter-offset", Some("17")),
            ("dead-letter-group", Some("billing")),
        ];
        assert_eq!(shown, expected);
    }
}
