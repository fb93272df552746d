//! The options of a source, beside the settings of the client.

use crate::error::KafkaSourceError;
use std::time::Duration;

/// Options for a [`KafkaSource`](crate::KafkaSource) or for
/// [partitions](crate::KafkaPartitions).
///
/// ```
/// use hapax_kafka::KafkaOptions;
/// use std::time::Duration;
///
/// let options = KafkaOptions::new().dead_letter_topic("orders.dead").release_within(Duration::from_secs(60));
/// # drop(options);
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do nothing by themselves"]
pub struct KafkaOptions {
    pub(crate) dead_letter_topic: Option<String>,
    pub(crate) dead_letter_within: Duration,
    pub(crate) release_within: Duration,
    pub(crate) offsets_within: Duration,
}

impl Default for KafkaOptions {
    fn default() -> Self {
        KafkaOptions {
            dead_letter_topic: None,
            dead_letter_within: Duration::from_secs(30),
            release_within: Duration::from_secs(30),
            offsets_within: Duration::from_secs(60),
        }
    }
}

impl KafkaOptions {
    /// Creates the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the topic to which messages are put aside, which is none of those that are read. It
    /// must exist, unless brokers create topics by themselves, and accept larger messages
    /// (`max.message.bytes`): a copy has up to 2 KiB of headers more, and is compressed only if
    /// `compression.type` says so. Default: the topic of the message, with `.dead` behind it.
    pub fn dead_letter_topic(mut self, topic: impl Into<String>) -> Self {
        self.dead_letter_topic = Some(topic.into());
        self
    }

    /// Sets the time within which brokers must have stored a message that is put aside; the client
    /// tries again until then. After it the run ends, and the message was not acknowledged.
    /// Default: 30 seconds.
    pub fn dead_letter_within(mut self, time: Duration) -> Self {
        self.dead_letter_within = time;
        self
    }

    /// Sets the time for which a rebalance waits until nothing of the revoked partitions is handled
    /// any more. It must be longer than the consumer's
    /// [drain](hapax_stream::ConsumerBuilder::drain) and a second. After it the rebalance goes on,
    /// and other members begin with messages that were not committed, while the claims of handlers
    /// here are held. Default: 30 seconds.
    pub fn release_within(mut self, time: Duration) -> Self {
        self.release_within = time;
        self
    }

    /// Sets the time within which the committed offsets of assigned partitions must have been read.
    /// It is tried again with waits that double from 100 ms to 5 s, shortened at random by up to a
    /// half. After it the run ends with [`KafkaSourceError::Offsets`]. Default: a minute.
    ///
    /// Together with [`release_within`](Self::release_within) it must be shorter than the client's
    /// `max.poll.interval.ms`, which is checked: nothing is polled meanwhile.
    pub fn offsets_within(mut self, time: Duration) -> Self {
        self.offsets_within = time;
        self
    }

    /// Checks the options.
    pub(crate) fn validate(&self) -> Result<(), KafkaSourceError> {
        let times = [
            ("dead_letter_within", self.dead_letter_within),
            ("release_within", self.release_within),
            ("offsets_within", self.offsets_within),
        ];
        for (name, time) in times {
            if time < Duration::from_millis(1) || time > Duration::from_secs(3_600) {
                let expected = "a duration from a millisecond to an hour";
                return Err(KafkaSourceError::Setting { name, expected, got: format!("{time:?}") });
            }
        }
        match &self.dead_letter_topic {
            Some(topic) if topic.trim().is_empty() => Err(KafkaSourceError::Setting {
                name: "dead_letter_topic",
                expected: "the name of a topic",
                got: topic.clone(),
            }),
            _ => Ok(()),
        }
    }
}
