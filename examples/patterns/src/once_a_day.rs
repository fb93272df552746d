//! A key with a date: once a day for a user and an action.
//!
//! The day is that of the event, in a time zone that is said. With the time of receipt, a copy that
//! comes after midnight would be another day's.

use std::time::SystemTime;
use tokio_postgres::{Error, GenericClient};

/// The table of [`first_that_day`].
pub const TABLE: &str = "CREATE TABLE daily (
    user_id bigint, action text, day date,
    PRIMARY KEY (user_id, action, day))";

/// Returns true if it is the first time that a user does this on the day that an event belongs to
/// in a time zone, like `Europe/Berlin`. Have the effect in the same transaction.
///
/// # Errors
///
/// That of the database, also if it does not know the time zone: nothing has changed, or the answer
/// was lost. Let the message come again.
pub async fn first_that_day(
    transaction: &impl GenericClient,
    user: i64,
    action: &str,
    happened_at: SystemTime,
    time_zone: &str,
) -> Result<bool, Error> {
    let insert = "INSERT INTO daily (user_id, action, day)
                  VALUES ($1, $2, ($3::timestamptz AT TIME ZONE $4::text)::date) ON CONFLICT DO NOTHING";
    Ok(transaction.execute(insert, &[&user, &action, &happened_at, &time_zone]).await? == 1)
}
