//! The errors of a source.

use aws_sdk_sqs::error::{BoxError, DisplayErrorContext, ProvideErrorMetadata, SdkError};
use hapax_store::StoreError;
use std::fmt;
use std::time::Duration;

/// The reason why an [`Sqs`](crate::Sqs) is not made, or its run has ended. Messages that it had
/// not deleted are delivered again.
#[derive(Debug)]
#[non_exhaustive]
pub enum SqsError {
    /// An option is wrong.
    Misconfigured(StoreError),
    /// There is no such queue, or it was deleted.
    QueueNotFound {
        /// The URL of the queue.
        url: String,
    },
    /// SQS refused a part of a batch. The messages come again.
    Entries {
        /// The call.
        doing: &'static str,
        /// The number of messages.
        failed: usize,
        /// SQS's code for one of them.
        code: String,
        /// SQS's words for it.
        message: String,
        /// True if the fault is SQS's, and tries were used up.
        is_transient: bool,
    },
    /// A message that was to be put aside is larger than the queue for dead letters accepts. It is
    /// not deleted. Raise that queue's `MaximumMessageSize`.
    DeadLetterTooLarge {
        /// The largest message that the queue accepts, in bytes.
        max: usize,
        /// The size of the message with its attributes, in bytes.
        got: usize,
    },
    /// SQS did not answer in time, and tries were used up.
    TimedOut {
        /// The call.
        doing: &'static str,
        /// The time that it was given.
        after: Duration,
    },
    /// A call of the client failed: it was refused, or tries were used up.
    Call {
        /// The call.
        doing: &'static str,
        /// SQS's code, if it has answered.
        code: Option<String>,
        /// True if the call may succeed later.
        is_transient: bool,
        /// The client's error.
        cause: BoxError,
    },
}

impl SqsError {
    /// Returns a function that adds the call and its queue to the client's error, for `map_err`.
    pub(crate) fn when<E>(doing: &'static str, url: &str) -> impl Fn(SdkError<E>) -> Self
    where
        E: ProvideErrorMetadata + std::error::Error + Send + Sync + 'static,
    {
        move |cause| {
            let code = cause.code().map(str::to_owned);
            if code.as_deref().is_some_and(|code| code.contains("NonExistentQueue") || code == "QueueDoesNotExist") {
                return SqsError::QueueNotFound { url: url.to_owned() };
            }
            let is_transient = match &cause {
                SdkError::ConstructionFailure(_) => false,
                SdkError::ServiceError(error) => {
                    let status = error.raw().status().as_u16();
                    status == 429 || status >= 500 || code.as_deref().is_some_and(is_throttling)
                }
                // It was not sent, or not answered.
                _ => true,
            };
            SqsError::Call { doing, code, is_transient, cause: cause.into() }
        }
    }

    /// Returns true if the call may succeed later.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            SqsError::TimedOut { .. } => true,
            SqsError::Call { is_transient, .. } | SqsError::Entries { is_transient, .. } => *is_transient,
            _ => false,
        }
    }
}

/// Returns true if SQS asks for fewer requests, or for fewer messages in flight.
pub(crate) fn is_throttling(code: &str) -> bool {
    ["hrottl", "OverLimit", "TooManyRequests", "RequestLimitExceeded", "SlowDown"]
        .iter()
        .any(|part| code.contains(part))
}

impl fmt::Display for SqsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SqsError::Misconfigured(error) => error.fmt(f),
            SqsError::QueueNotFound { url } => write!(f, "there is no queue {url:?}"),
            SqsError::Entries { doing, failed, code, message, .. } => {
                write!(f, "{doing}: {failed} failed, one of them with {code}: {message}")
            }
            SqsError::DeadLetterTooLarge { max, got } => write!(
                f,
                "a message cannot be put aside: expected up to {max} bytes with its attributes, got {got}; raise \
                 `MaximumMessageSize` of the queue for dead letters"
            ),
            SqsError::TimedOut { doing, after } => write!(f, "{doing}: no answer within {after:?}"),
            SqsError::Call { doing, cause, .. } => write!(f, "{doing}: {}", DisplayErrorContext(cause.as_ref())),
        }
    }
}

impl std::error::Error for SqsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SqsError::Call { cause, .. } => Some(cause.as_ref()),
            _ => None,
        }
    }
}
