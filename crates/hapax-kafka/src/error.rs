//! The errors of a source.

use hapax_stream::Partition;
use rdkafka::error::KafkaError;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The error of a [`KafkaSource`](crate::KafkaSource), or of [partitions](crate::KafkaPartitions).
/// It ends the run: messages that were not acknowledged come again.
///
/// Errors from which the client recovers by itself, such as a broker that is away, are none: they
/// are [counted](crate::KafkaSource::recovered).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum KafkaSourceError {
    /// A setting of the client, or an option of this crate, that does not work here.
    Setting {
        /// The name of the setting.
        name: &'static str,
        /// The values that work.
        expected: &'static str,
        /// The value that it has.
        got: String,
    },
    /// The client cannot go on: a wrong setting, missing permission, damaged messages, a
    /// compression that it was not built for.
    Client {
        /// The action that failed.
        doing: &'static str,
        /// The error of the client.
        cause: KafkaError,
    },
    /// The offsets that the group has committed could not be read in time, so nobody knows where
    /// these partitions go on.
    Offsets {
        /// The partitions that were assigned.
        partitions: Vec<Partition>,
        /// The time for which it was tried:
        /// [`offsets_within`](crate::KafkaOptions::offsets_within).
        within: Duration,
        /// The last error.
        cause: KafkaError,
    },
    /// The group has committed no offset for a partition, and `auto.offset.reset` is `error`.
    NoOffset {
        /// The partition.
        partition: Partition,
    },
    /// A position of a checkpoint is not one of this source, which has eight bytes.
    Position {
        /// The partition that was to be started there.
        partition: Partition,
        /// The number of bytes.
        got: usize,
    },
    /// A partition was not started in time, or was revoked before.
    NotStarted {
        /// The partition.
        partition: Partition,
        /// The reason.
        cause: String,
    },
    /// A message could not be put aside. It was not acknowledged.
    DeadLetter {
        /// The topic of dead letters.
        topic: String,
        /// The partition of the message.
        partition: Partition,
        /// Its offset.
        offset: i64,
        /// The error of the producer.
        cause: Box<KafkaError>,
    },
    /// A message came past the queue of its partition, and would have been lost. This is a fault of
    /// this crate.
    OutOfPlace {
        /// The partition of the message.
        partition: Partition,
        /// Its offset.
        offset: i64,
    },
    /// The thread that polls could not be started.
    Thread(Arc<io::Error>),
    /// The thread that polls has ended, by a panic: this member does nothing more.
    Stopped,
    /// Kafka takes no single message back. A [`Consumer`](hapax_stream::Consumer) does not ask for
    /// it.
    NoRetry,
}

impl KafkaSourceError {
    /// Returns a function that adds the action to an error of the client, for `map_err`.
    pub(crate) fn when(doing: &'static str) -> impl Fn(KafkaError) -> Self {
        move |cause| KafkaSourceError::Client { doing, cause }
    }
}

impl fmt::Display for KafkaSourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KafkaSourceError::Setting { name, expected, got } => {
                write!(f, "setting `{name}`: expected {expected}, got {got:?}")
            }
            KafkaSourceError::Client { doing, cause } => write!(f, "{doing}: {cause}"),
            KafkaSourceError::Offsets { partitions, within, cause } => {
                write!(f, "the committed offsets of {} partitions were not read within {within:?}", partitions.len())?;
                write!(f, " ({}…): {cause}", partitions.first().map(ToString::to_string).unwrap_or_default())
            }
            KafkaSourceError::NoOffset { partition } => {
                write!(f, "partition {partition} has no committed offset, and setting `auto.offset.reset` is error")
            }
            KafkaSourceError::Position { partition, got } => {
                write!(f, "a position in partition {partition}: expected 8 bytes, got {got}")
            }
            KafkaSourceError::NotStarted { partition, cause } => {
                write!(f, "partition {partition} was not started: {cause}")
            }
            KafkaSourceError::DeadLetter { topic, partition, offset, cause } => {
                write!(f, "the message at offset {offset} of {partition} could not be put aside to {topic}: {cause}")
            }
            KafkaSourceError::OutOfPlace { partition, offset } => {
                write!(f, "the message at offset {offset} of {partition} came past its queue: please report this")
            }
            KafkaSourceError::Thread(cause) => write!(f, "starting the thread that polls: {cause}"),
            KafkaSourceError::Stopped => f.write_str("the thread that polls has ended"),
            KafkaSourceError::NoRetry => f.write_str("Kafka takes no single message back"),
        }
    }
}

impl std::error::Error for KafkaSourceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            KafkaSourceError::Client { cause, .. } | KafkaSourceError::Offsets { cause, .. } => Some(cause),
            KafkaSourceError::DeadLetter { cause, .. } => Some(&**cause),
            KafkaSourceError::Thread(cause) => Some(&**cause),
            _ => None,
        }
    }
}
