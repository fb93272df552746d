//! Errors of the server and of the connection, by kind.

use super::reply::Refusal;
use hapax_store::{ErrorKind, StoreError};
use std::io;

/// The backend's name.
pub(super) const BACKEND: &str = "redis";

/// Creates an error of this backend.
pub(super) fn error(kind: ErrorKind, what: impl Into<String>) -> StoreError {
    StoreError::new(kind, BACKEND, what)
}

/// Returns the error for a server's refusal.
pub(super) fn refused(refusal: Refusal<'_>) -> StoreError {
    error(kind_of(refusal.code(), refusal.details()), format!("the server answered {refusal}"))
}

/// Returns the error for the failure of an established connection. The server may have carried out
/// the request.
pub(super) fn failed(cause: io::Error, what: &str) -> StoreError {
    let kind = match cause.kind() {
        io::ErrorKind::TimedOut => ErrorKind::Timeout,
        io::ErrorKind::InvalidData => ErrorKind::Corrupt,
        _ => ErrorKind::Unavailable,
    };
    StoreError::caused(kind, BACKEND, what, cause)
}

/// Returns the error for a connection that could not be made. The server has done nothing.
pub(super) fn not_connected(cause: io::Error, what: String) -> StoreError {
    let kind = match cause.kind() {
        io::ErrorKind::Unsupported | io::ErrorKind::InvalidInput => ErrorKind::Misconfigured,
        _ => ErrorKind::Unavailable,
    };
    StoreError::caused(kind, BACKEND, what, cause)
}

/// Returns the error for a connection that could not be authenticated or checked: no request was
/// sent over it.
pub(super) fn handshake_failed(why: StoreError, address: &str) -> StoreError {
    match why.kind() {
        ErrorKind::Timeout => {
            StoreError::caused(ErrorKind::Unavailable, BACKEND, format!("no connection to {address}"), why)
        }
        _ => why,
    }
}

/// Returns the kind of a server's error, by its first word.
fn kind_of(code: &str, details: &str) -> ErrorKind {
    match code {
        "LOADING" | "CLUSTERDOWN" | "TRYAGAIN" | "MASTERDOWN" | "READONLY" | "OOM" | "BUSY" | "MISCONF"
        | "NOREPLICAS" | "MOVED" | "ASK" | "UNKILLABLE" | "UNBLOCKED" => ErrorKind::Unavailable,
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
            ("UNBLOCKED", "force unblock from blocking operation", ErrorKind::Unavailable),
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
        let io = io::Error::from;
        assert_eq!(failed(io(io::ErrorKind::TimedOut), "").kind(), ErrorKind::Timeout);
        assert_eq!(failed(io(io::ErrorKind::BrokenPipe), "").kind(), ErrorKind::Unavailable);
        assert_eq!(failed(io(io::ErrorKind::InvalidData), "").kind(), ErrorKind::Corrupt);
        // No request was sent yet.
        assert_eq!(not_connected(io(io::ErrorKind::TimedOut), String::new()).kind(), ErrorKind::Unavailable);
        assert_eq!(handshake_failed(error(ErrorKind::Timeout, "late"), "here").kind(), ErrorKind::Unavailable);
    }
}
