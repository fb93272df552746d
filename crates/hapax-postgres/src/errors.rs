//! Converts what the drivers and the server report into errors of a store.

pub(super) use crate::store::errors::{corrupt, misconfigured, unanswered_in};

use crate::store::errors;
use hapax_store::StoreError;
use std::error::Error as _;
use tokio_postgres::error::SqlState;

/// The tables of inbox and outbox, as errors name them.
pub(super) const TABLES: &str = "tables that Tables::migrate makes";

/// Returns the error of a statement of tokio-postgres.
pub(super) fn failed(doing: &str, error: tokio_postgres::Error) -> StoreError {
    errors::failed(doing, TABLES, error)
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
