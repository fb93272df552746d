//! The errors that end a run.

use super::source::Partition;
use hapax_store::StoreError;
use std::fmt;

/// The reason for which a run ended before its time. Everything that had begun by then was
/// finished, within the [deadline](super::ConsumerBuilder::drain).
#[derive(Debug)]
#[non_exhaustive]
pub enum ConsumerError<E> {
    /// The broker could not be reached, or a call of it failed.
    Source(E),
    /// The store cannot succeed if it is asked again: it belongs to another engine, or cannot work
    /// with this configuration.
    Store(StoreError),
    /// A message has no id, and [`OnMissing::Error`](super::OnMissing::Error) was chosen.
    MissingId {
        /// The partition of the message.
        partition: Partition,
    },
}

impl<E: fmt::Display> fmt::Display for ConsumerError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConsumerError::Source(error) => write!(f, "the broker: {error}"),
            ConsumerError::Store(error) => write!(f, "the store: {error}"),
            ConsumerError::MissingId { partition } => {
                write!(
                    f,
                    "a message of partition {partition} has no id, or a blank one, and option `on_missing` is Error"
                )
            }
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for ConsumerError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ConsumerError::Source(error) => Some(error),
            ConsumerError::Store(error) => Some(error),
            ConsumerError::MissingId { .. } => None,
        }
    }
}
