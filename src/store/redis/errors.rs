//! Whose fault it is: errors of the server and of the client by kind.

use crate::store::{ErrorKind, StoreError};
use redis::{RedisError, ServerError};

/// The backend's name.
pub(super) const BACKEND: &str = "redis";

/// An error of this backend.
pub(super) fn error(kind: ErrorKind, what: impl Into<String>) -> StoreError {
    StoreError::new(kind, BACKEND, what)
}

/// What a server refused.
pub(super) fn refused(refusal: &ServerError) -> StoreError {
    let kind = kind_of(refusal.code(), refusal.details().unwrap_or_default());
    error(kind, format!("the server answered {refusal}"))
}

/// What went wrong with a connection that was there. The server may have done what it was asked.
pub(super) fn failed(cause: RedisError, what: &str) -> StoreError {
    let kind = match cause.kind() {
        redis::ErrorKind::Io if cause.is_timeout() => ErrorKind::Timeout,
        redis::ErrorKind::Parse | redis::ErrorKind::UnexpectedReturnType => ErrorKind::Corrupt,
        _ => kind_of_connecting(&cause),
    };
    StoreError::caused(kind, BACKEND, what, cause)
}

/// Why there is no connection. The server has done nothing.
pub(super) fn not_connected(cause: RedisError, what: String) -> StoreError {
    StoreError::caused(kind_of_connecting(&cause), BACKEND, what, cause)
}

fn kind_of_connecting(cause: &RedisError) -> ErrorKind {
    match cause.kind() {
        redis::ErrorKind::InvalidClientConfig => ErrorKind::Misconfigured,
        redis::ErrorKind::AuthenticationFailed | redis::ErrorKind::Server(_) | redis::ErrorKind::Extension => {
            // What refused the password may be a server that is not up yet.
            let code = cause.code().or_else(|| cause.detail()?.split(' ').next()).unwrap_or_default();
            kind_of(code, cause.detail().unwrap_or_default())
        }
        _ => ErrorKind::Unavailable,
    }
}

/// The kind of a server's error, by its first word.
fn kind_of(code: &str, details: &str) -> ErrorKind {
    match code {
        "LOADING" | "CLUSTERDOWN" | "TRYAGAIN" | "MASTERDOWN" | "READONLY" | "OOM" | "BUSY" | "MISCONF"
        | "NOREPLICAS" | "MOVED" | "ASK" | "UNKILLABLE" => ErrorKind::Unavailable,
        "WRONGTYPE" => ErrorKind::Corrupt,
        "ERR" if details.contains("max number of clients") => ErrorKind::Unavailable,
        _ => ErrorKind::Misconfigured,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_the_kind_that_says_whether_to_ask_again() {
        for (code, details, kind) in [
            ("LOADING", "Redis is loading the dataset in memory", ErrorKind::Unavailable),
            ("READONLY", "You can't write against a read only replica.", ErrorKind::Unavailable),
            ("OOM", "command not allowed when used memory > 'maxmemory'.", ErrorKind::Unavailable),
            ("ERR", "max number of clients reached", ErrorKind::Unavailable),
            ("ERR", "syntax error", ErrorKind::Misconfigured),
            ("NOAUTH", "Authentication required.", ErrorKind::Misconfigured),
            ("NOPERM", "this user has no permissions", ErrorKind::Misconfigured),
            ("WRONGTYPE", "Operation against a key", ErrorKind::Corrupt),
        ] {
            assert_eq!(kind_of(code, details), kind, "{code} {details}");
        }
    }

    #[test]
    fn a_lost_connection_is_unavailable_and_no_answer_is_a_timeout() {
        let io = |kind| RedisError::from(std::io::Error::from(kind));
        assert_eq!(failed(io(std::io::ErrorKind::TimedOut), "").kind(), ErrorKind::Timeout);
        assert_eq!(failed(io(std::io::ErrorKind::BrokenPipe), "").kind(), ErrorKind::Unavailable);
        // Nobody was asked anything yet.
        assert_eq!(not_connected(io(std::io::ErrorKind::TimedOut), String::new()).kind(), ErrorKind::Unavailable);
    }
}
