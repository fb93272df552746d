//! The position of the last event of an aggregate: increments that come twice, late or early.
//!
//! The producer numbers the events of each account, from 1 and without gaps.

use tokio_postgres::{Error, GenericClient};

/// The table of [`book`].
pub const TABLE: &str = "CREATE TABLE accounts (
    account_id bigint PRIMARY KEY, cents bigint NOT NULL DEFAULT 0, last_event bigint NOT NULL DEFAULT 0)";

/// The result of [`book`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Booked {
    /// It is booked, now.
    Now,
    /// It was booked before.
    Before,
    /// Events before it are missing. Nothing has changed: it must come again after them.
    Early {
        /// The position of the last event that was booked.
        last_event: i64,
    },
}

/// Adds an amount to an account, by the event with this position among the account's.
///
/// # Errors
///
/// That of the database, also if there is no such account: nothing has changed, or the answer was
/// lost. Let the message come again.
pub async fn book(client: &impl GenericClient, account: i64, event: i64, cents: i64) -> Result<Booked, Error> {
    // Not `last_event <> $2`: that takes event 1 again after event 2.
    let book = "UPDATE accounts SET cents = cents + $3, last_event = $2
                WHERE account_id = $1 AND last_event + 1 = $2";
    if client.execute(book, &[&account, &event, &cents]).await? == 1 {
        return Ok(Booked::Now);
    }
    let last = "SELECT last_event FROM accounts WHERE account_id = $1";
    let last_event = client.query_one(last, &[&account]).await?.get(0);
    Ok(if event <= last_event { Booked::Before } else { Booked::Early { last_event } })
}
