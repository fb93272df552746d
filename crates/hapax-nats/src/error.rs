//! The errors of a source.

use hapax_store::StoreError;
use std::fmt;
use std::time::Duration;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The reason why a [`JetStream`](crate::JetStream) is not made, or its run has ended. Messages
/// that it had not acknowledged are delivered again.
#[derive(Debug)]
#[non_exhaustive]
pub enum NatsError {
    /// An option of the consumer, or of the source, would lose messages.
    Misconfigured(StoreError),
    /// The consumer or its stream was deleted.
    ConsumerDeleted {
        /// The stream.
        stream: String,
        /// The consumer.
        consumer: String,
    },
    /// A message that was to be put aside is larger than the server accepts, with the reason. It
    /// is not acknowledged. Raise the server's `max_payload`.
    DeadLetterTooLarge {
        /// The largest message that the server accepts, in bytes.
        max: usize,
        /// The position of the message in its stream.
        stream_sequence: u64,
    },
    /// The client was not connected for longer than [`outage`](crate::JetStreamOptions::outage).
    Disconnected,
    /// The server did not answer in time, and tries were used up.
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
        cause: BoxError,
    },
}

impl NatsError {
    /// Returns a function that adds the call to the client's error, for `map_err`.
    pub(crate) fn when<E: Into<BoxError>>(doing: &'static str) -> impl Fn(E) -> Self {
        move |cause| NatsError::Call { doing, cause: cause.into() }
    }

    /// Returns true if the call may succeed later.
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, NatsError::Disconnected | NatsError::TimedOut { .. } | NatsError::Call { .. })
    }
}

impl fmt::Display for NatsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NatsError::Misconfigured(error) => error.fmt(f),
            NatsError::ConsumerDeleted { stream, consumer } => {
                write!(f, "the stream {stream:?} has no consumer {consumer:?} any more")
            }
            NatsError::DeadLetterTooLarge { max, stream_sequence } => write!(
                f,
                "message {stream_sequence} cannot be put aside: with the reason it has more than {max} bytes; raise \
                 the server's `max_payload`"
            ),
            NatsError::Disconnected => f.write_str("the client is not connected"),
            NatsError::TimedOut { doing, after } => write!(f, "{doing}: no answer within {after:?}"),
            NatsError::Call { doing, cause } => write!(f, "{doing}: {cause}"),
        }
    }
}

impl std::error::Error for NatsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            NatsError::Call { cause, .. } => Some(cause.as_ref()),
            _ => None,
        }
    }
}
