//! The errors of a source.

use hapax_store::StoreError;
use std::fmt;
use std::time::Duration;

/// The reason why a [`RabbitMq`](crate::RabbitMq) is not made, or its run has ended. Messages that
/// it had not acknowledged are delivered again.
#[derive(Debug)]
#[non_exhaustive]
pub enum RabbitMqError {
    /// An option is wrong.
    Misconfigured(StoreError),
    /// The broker has no such queue, or not now: the node may be down that has it.
    QueueNotFound {
        /// The queue.
        queue: String,
    },
    /// The connection is closed, and does not recover by itself.
    ConnectionClosed,
    /// The consumer was cancelled by the broker, as when its queue is deleted.
    Cancelled {
        /// The queue.
        queue: String,
    },
    /// A message that was to be put aside did not get there: the broker refused it, or no queue
    /// took it. It is not acknowledged.
    NotPutAside {
        /// The queue for dead letters.
        queue: String,
    },
    /// The broker did not answer in time, and tries were used up.
    TimedOut {
        /// The call.
        doing: &'static str,
        /// The time that it was given.
        after: Duration,
    },
    /// A call of the client failed, and tries were used up.
    Call {
        /// The call.
        doing: &'static str,
        /// The client's error.
        cause: lapin::Error,
    },
}

impl RabbitMqError {
    /// Returns a function that adds the call to the client's error, for `map_err`.
    /// Returns true if the call may succeed later.
    pub(crate) fn is_transient(&self) -> bool {
        !matches!(self, RabbitMqError::Misconfigured(_) | RabbitMqError::ConnectionClosed)
    }
}

impl fmt::Display for RabbitMqError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RabbitMqError::Misconfigured(error) => error.fmt(f),
            RabbitMqError::QueueNotFound { queue } => write!(f, "the broker has no queue {queue:?}; declare it"),
            RabbitMqError::ConnectionClosed => f.write_str("the connection is closed; connect again"),
            RabbitMqError::Cancelled { queue } => {
                write!(f, "the broker has cancelled the consumer of the queue {queue:?}")
            }
            RabbitMqError::NotPutAside { queue } => {
                write!(f, "a message was not put aside: the queue {queue:?} did not take it")
            }
            RabbitMqError::TimedOut { doing, after } => write!(f, "{doing}: no answer within {after:?}"),
            RabbitMqError::Call { doing, cause } => write!(f, "{doing}: {cause}"),
        }
    }
}

impl std::error::Error for RabbitMqError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RabbitMqError::Call { cause, .. } => Some(cause),
            _ => None,
        }
    }
}
