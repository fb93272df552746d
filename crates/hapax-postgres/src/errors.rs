//! Converts what the drivers and the server report into errors of a store.

use super::BACKEND;
use crate::store::errors::{kind, unanswered};
use hapax_store::{ErrorKind, StoreError};
use std::error::Error;
use tokio_postgres::error::SqlState;

/// Converts an error of tokio-postgres.
pub(super) fn failed(doing: &str, error: tokio_postgres::Error) -> StoreError {
    match error.as_db_error().map(|answer| answer.code().clone()) {
        Some(state) => refused(doing, &state, error),
        None => StoreError::caused(unanswered(&error), BACKEND, format!("expected an answer to {doing}"), error),
    }
}

/// Converts an error that the server reported.
pub(super) fn refused(doing: &str, state: &SqlState, error: impl Error + Send + Sync + 'static) -> StoreError {
    let what = match *state {
        SqlState::UNDEFINED_TABLE | SqlState::INVALID_SCHEMA_NAME | SqlState::UNDEFINED_COLUMN => {
            format!("expected to {doing} in tables that Tables::migrate makes")
        }
        SqlState::UNDEFINED_FUNCTION => format!(
            "expected to {doing} by a function that Tables::migrate makes: the tables are those of another version, or none"
        ),
        _ => format!("expected to {doing}, got SQLSTATE {}", state.code()),
    };
    StoreError::caused(kind(state), BACKEND, what, error)
}

/// Returns true if the database has no character for one that it was given: its encoding is not
/// UTF-8.
pub(super) fn is_untranslatable(error: &StoreError) -> bool {
    let cause = error.source();
    let state = cause.and_then(|cause| cause.downcast_ref::<tokio_postgres::Error>()).and_then(|error| error.code());
    let is_it = state == Some(&SqlState::UNTRANSLATABLE_CHARACTER);
    #[cfg(feature = "sqlx")]
    let is_it = is_it
        || cause
            .and_then(|cause| cause.downcast_ref::<sqlx::Error>())
            .and_then(sqlx::Error::as_database_error)
            .is_some_and(|answer| answer.code().as_deref() == Some(SqlState::UNTRANSLATABLE_CHARACTER.code()));
    is_it
}

/// The error if the server did not answer in time.
pub(super) fn unanswered_in(limit: std::time::Duration, doing: &str) -> StoreError {
    let what = format!("expected an answer to {doing} within {limit:?}");
    StoreError::new(ErrorKind::Timeout, BACKEND, what)
}

/// The error for an option or an argument that is not possible.
pub(super) fn misconfigured(what: impl Into<String>) -> StoreError {
    StoreError::new(ErrorKind::Misconfigured, BACKEND, what)
}

/// The error for a row that is not what was asked for.
pub(super) fn corrupt(what: impl Into<String>) -> StoreError {
    StoreError::new(ErrorKind::Corrupt, BACKEND, what)
}
