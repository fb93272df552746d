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

/// Returns the state that the server has given with an error, by either driver.
pub(super) fn state(error: &StoreError) -> Option<SqlState> {
    let cause = error.source()?;
    #[cfg(feature = "sqlx")]
    if let Some(sqlx::Error::Database(answer)) = cause.downcast_ref() {
        return answer.code().map(|code| SqlState::from_code(&code));
    }
    cause.downcast_ref::<tokio_postgres::Error>()?.code().cloned()
}

/// Returns true if the database has no character for one that it was given: its encoding is not
/// UTF-8.
pub(super) fn is_untranslatable(error: &StoreError) -> bool {
    state(error) == Some(SqlState::UNTRANSLATABLE_CHARACTER)
}
