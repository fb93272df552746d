//! The errors that end a run.

use super::source::Partition;
use hapax::JournalError;
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
    /// The engine of a [`LogConsumer`](super::LogConsumer) has no journal with checkpoints, or
    /// nothing becomes durable there any more.
    Journal(JournalError),
    /// The [memory](super::Memory) of a [`LogConsumer`](super::LogConsumer) is another one's now,
    /// or could not make a checkpoint durable. Acknowledge nothing more: the messages come again.
    Memory(Box<dyn std::error::Error + Send + Sync>),
    /// Messages were not handled to their end, and the engine's history cannot forget their ids:
    /// their next delivery could be taken for a repetition. Build the engine again, which goes back
    /// to its last checkpoint.
    NotForgotten {
        /// The number of messages.
        messages: u64,
    },
    /// A message has no id, and [`OnMissing::Error`](super::OnMissing::Error) was chosen.
    MissingId {
        /// The partition of the message.
        partition: Partition,
    },
    /// Messages of a key are to be handled [in order](super::ConsumerBuilder::in_order_by), and the
    /// source does not [keep](super::Source::keeps_received) what was received: while a message
    /// waits here, the broker would deliver it again, to anybody. Nothing was received. Give the
    /// source a [heartbeat](super::Source::heartbeat), or handle its messages without order.
    OrderNotKept,
}

impl<E> ConsumerError<E> {
    /// Returns the error of a memory: that of a journal, if it is one.
    pub(super) fn of_memory(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        let boxed: Box<dyn std::error::Error + Send + Sync> = Box::new(error);
        match boxed.downcast::<JournalError>() {
            Ok(journal) => ConsumerError::Journal(*journal),
            Err(memory) => ConsumerError::Memory(memory),
        }
    }
}

impl<E: fmt::Display> fmt::Display for ConsumerError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConsumerError::Source(error) => write!(f, "the broker: {error}"),
            ConsumerError::Store(error) => write!(f, "the store: {error}"),
            ConsumerError::Journal(error) => write!(f, "the journal: {error}"),
            ConsumerError::Memory(error) => write!(f, "the memory: {error}"),
            ConsumerError::NotForgotten { messages } => write!(
                f,
                "{messages} messages were not handled to their end, and the history cannot forget their ids: build the engine \
                 again, which goes back to its last checkpoint"
            ),
            ConsumerError::MissingId { partition } => {
                write!(
                    f,
                    "a message of partition {partition} has no id, or a blank one, and option `on_missing` is Error"
                )
            }
            ConsumerError::OrderNotKept => f.write_str(
                "option `in_order_by` needs a source that keeps what was received until it is acknowledged: give it a heartbeat",
            ),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for ConsumerError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ConsumerError::Source(error) => Some(error),
            ConsumerError::Store(error) => Some(error),
            ConsumerError::Journal(error) => Some(error),
            ConsumerError::Memory(error) => Some(&**error),
            ConsumerError::NotForgotten { .. } | ConsumerError::MissingId { .. } | ConsumerError::OrderNotKept => None,
        }
    }
}
