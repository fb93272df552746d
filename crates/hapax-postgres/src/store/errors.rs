//! Errors of the driver, the pool and the server, as errors of a store.

use super::BACKEND;
use deadpool_postgres::{PoolError, TimeoutType};
use hapax_store::{ErrorKind, StoreError};
use std::error::Error as _;
use std::io;
use std::time::Duration;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// Returns the kind of error that an SQLSTATE means to the caller.
fn kind(state: &SqlState) -> ErrorKind {
    match state.code() {
        // query_canceled: the statement's timeout.
        "57014" => ErrorKind::Timeout,
        // lock_not_available
        "55P03" => ErrorKind::Conflict,
        // A row without a bucket, for which there is no partition: its transaction had not begun.
        "23502" | "23514" => ErrorKind::Unavailable,
        // The server found its own files damaged.
        "XX001" | "XX002" => ErrorKind::Corrupt,
        // A server that only reads, as after a failover; the second is what a standby says to
        // whoever begins a transaction that writes.
        "25006" | "0A000" => ErrorKind::Unavailable,
        // A prepared statement that is gone, or another one of its name: a pooler has given the
        // transaction another session. It is prepared again, or has no name from then on.
        "26000" | "42P05" => ErrorKind::Unavailable,
        // Sent too late, or the server was about to end the connection.
        "25P02" | "25P03" | "25P04" => ErrorKind::Unavailable,
        code => match &code[..code.len().min(2)] {
            // Class 40: a deadlock or a serialization failure, undone and worth another try.
            "08" | "40" | "53" | "57" | "58" | "XX" => ErrorKind::Unavailable,
            _ => ErrorKind::Misconfigured,
        },
    }
}

/// Returns the error of a call about tables that are named like this.
pub(crate) fn failed(doing: &str, tables: &str, error: Error) -> StoreError {
    match error.code().cloned() {
        Some(state) => refused(doing, tables, &state, error),
        None => StoreError::caused(unanswered(&error), BACKEND, format!("expected an answer to {doing}"), error),
    }
}

/// Returns the error of a call that the server has refused with this state.
pub(crate) fn refused(
    doing: &str,
    tables: &str,
    state: &SqlState,
    error: impl std::error::Error + Send + Sync + 'static,
) -> StoreError {
    let what = match *state {
        SqlState::UNDEFINED_TABLE | SqlState::INVALID_SCHEMA_NAME | SqlState::UNDEFINED_COLUMN => {
            format!("expected to {doing} in {tables}")
        }
        SqlState::UNDEFINED_FUNCTION => {
            format!("expected to {doing} by a function of {tables}: these are of another version, or none")
        }
        _ => format!("expected to {doing}, got SQLSTATE {}", state.code()),
    };
    StoreError::caused(kind(state), BACKEND, what, error)
}

/// Returns the error of a call that was not answered in time.
pub(crate) fn unanswered_in(limit: Duration, doing: &str) -> StoreError {
    StoreError::new(ErrorKind::Timeout, BACKEND, format!("expected an answer to {doing} within {limit:?}"))
}

/// Returns the kind of an error without an answer of the server: usually the connection's fault,
/// unless it was never tried.
fn unanswered(error: &Error) -> ErrorKind {
    let Some(cause) = error.source() else { return ErrorKind::Unavailable };
    match cause.downcast_ref::<io::Error>() {
        Some(error) if error.kind() == io::ErrorKind::TimedOut => ErrorKind::Timeout,
        // The driver's own, without a number: no server is the one for which the address asks. A
        // standby that is not promoted yet only reads. (With one, it is a socket's permissions.)
        Some(error) if error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none() => {
            ErrorKind::Unavailable
        }
        Some(error) if error.kind() == io::ErrorKind::PermissionDenied => ErrorKind::Misconfigured,
        // rustls: the certificate is not valid.
        Some(error) if error.kind() == io::ErrorKind::InvalidData => ErrorKind::Misconfigured,
        Some(_) => ErrorKind::Unavailable,
        // The options are contradictory or incomplete (no host, no password), or the server does
        // not speak TLS.
        None => ErrorKind::Misconfigured,
    }
}

/// Returns the reason for which there is no connection. `failed` translates an error of the driver.
pub(crate) fn unconnected(error: PoolError, failed: impl FnOnce(Error) -> StoreError) -> StoreError {
    match error {
        PoolError::Timeout(TimeoutType::Wait) => {
            StoreError::new(ErrorKind::Timeout, BACKEND, "all connections of the pool are in use")
        }
        PoolError::Timeout(_) => {
            StoreError::new(ErrorKind::Timeout, BACKEND, "expected a connection, got none in time")
        }
        PoolError::Backend(error) => failed(error),
        other => StoreError::caused(ErrorKind::Unavailable, BACKEND, "expected a connection", other),
    }
}

/// Returns the error for stored data that is not hapax's.
pub(crate) fn corrupt(what: impl Into<String>) -> StoreError {
    StoreError::new(ErrorKind::Corrupt, BACKEND, what)
}

/// Returns the error of a caller who asked for what cannot be.
pub(crate) fn misconfigured(what: impl Into<String>) -> StoreError {
    StoreError::new(ErrorKind::Misconfigured, BACKEND, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_of_the_kind_that_says_whether_to_try_again() {
        let cases = [
            ("57014", ErrorKind::Timeout),
            ("57P01", ErrorKind::Unavailable),
            ("57P03", ErrorKind::Unavailable),
            ("08006", ErrorKind::Unavailable),
            ("53300", ErrorKind::Unavailable),
            ("40001", ErrorKind::Unavailable),
            ("40P01", ErrorKind::Unavailable),
            ("40003", ErrorKind::Unavailable),
            ("25006", ErrorKind::Unavailable),
            ("0A000", ErrorKind::Unavailable),
            ("25P02", ErrorKind::Unavailable),
            ("25P04", ErrorKind::Unavailable),
            ("53100", ErrorKind::Unavailable),
            ("26000", ErrorKind::Unavailable),
            ("42P05", ErrorKind::Unavailable),
            ("55P03", ErrorKind::Conflict),
            ("55000", ErrorKind::Misconfigured),
            ("28000", ErrorKind::Misconfigured),
            ("28P01", ErrorKind::Misconfigured),
            ("3D000", ErrorKind::Misconfigured),
            ("42P01", ErrorKind::Misconfigured),
            ("42501", ErrorKind::Misconfigured),
            ("XX001", ErrorKind::Corrupt),
        ];
        for (code, expected) in cases {
            assert_eq!(kind(&SqlState::from_code(code)), expected, "{code}");
        }
    }
}
