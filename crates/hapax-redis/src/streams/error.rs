//! The errors of a stream.

use hapax_store::StoreError;
use std::fmt;

/// The error of a [`RedisStream`](super::RedisStream). It ends the run: entries that were not
/// acknowledged come again, here or at another consumer of the group.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RedisStreamError {
    /// An option that does not work.
    Misconfigured(StoreError),
    /// The stream or its group is gone: somebody has deleted it, or the server has lost it. When it
    /// is connected to again, the group is created anew.
    NoGroup {
        /// The stream.
        stream: String,
        /// The group.
        group: String,
    },
    /// The server refused, or could not be reached for as long as
    /// [`retry_for`](super::RedisStreamOptions::retry_for).
    Server {
        /// The action that failed.
        doing: &'static str,
        /// The error.
        cause: StoreError,
    },
}

impl RedisStreamError {
    /// Returns true if a server's refusal begins with this code.
    pub(super) fn has_code(error: &StoreError, code: &str) -> bool {
        error.to_string().contains(&format!("the server answered {code} "))
    }
}

impl fmt::Display for RedisStreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RedisStreamError::Misconfigured(error) => error.fmt(f),
            RedisStreamError::NoGroup { stream, group } => {
                write!(f, "stream {stream:?} or its group {group:?} is gone: connect again, and it is created anew")
            }
            RedisStreamError::Server { doing, cause } => write!(f, "{doing}: {cause}"),
        }
    }
}

impl std::error::Error for RedisStreamError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            RedisStreamError::Server { cause, .. } => Some(cause),
            _ => None,
        }
    }
}
