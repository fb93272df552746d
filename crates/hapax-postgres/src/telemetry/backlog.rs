//! Figures about the messages that wait: how many, and for how long.

use crate::errors::corrupt;
use crate::schema::statements;
use crate::schema::tables::{Queue, Tables};
use crate::transaction::{Client, Row, Value};
use hapax_store::StoreError;
use std::time::Duration;

/// The count at which counting stops.
const COUNTED_MAX: i64 = 1_000_000;

/// Figures of an inbox or an outbox. To alert on: `due_for`, which stays near zero as long as
/// workers or relays keep up.
///
/// Counting takes the server some 100 ms for a million messages, at which it stops.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Backlog {
    /// Messages that wait, also those that are in flight, put off or due later.
    pub waiting: u64,
    /// Keys, and messages without one, that could be taken now.
    pub due: u64,
    /// The time for which the first of these has been due.
    pub due_for: Duration,
    /// The age of the oldest message that waits.
    pub oldest: Duration,
    /// Messages that were given up, and are kept.
    pub dead: u64,
}

impl Backlog {
    /// Reads the figures from the answer of the server's function.
    pub(crate) fn of_rows(rows: &[Row]) -> Result<Self, StoreError> {
        let row = rows.first().ok_or_else(|| corrupt("expected figures, got none"))?;
        let count = |name| row.get::<Option<i64>>(name).map(|count| count.unwrap_or(0).unsigned_abs());
        // A clock that was set back makes no age negative.
        let age = |name| {
            row.get::<Option<f64>>(name).map(|age| Duration::try_from_secs_f64(age.unwrap_or(0.0)).unwrap_or_default())
        };
        Ok(Backlog {
            waiting: count("waiting")?,
            due: count("runs_due")?,
            due_for: age("due_for")?,
            oldest: age("oldest")?,
            dead: count("dead")?,
        })
    }
}

/// Returns the values for the server's function.
pub(crate) fn values(name: Option<&str>) -> [Value<'_>; 2] {
    [Value::OptionalText(name), Value::Number(COUNTED_MAX)]
}

pub(crate) async fn of(
    client: &impl Client,
    tables: &Tables,
    queue: Queue,
    name: Option<&str>,
) -> Result<Backlog, StoreError> {
    let sql = statements::call(tables, &queue.function("figures"), 2);
    Backlog::of_rows(&client.call("count what waits", &sql, &values(name)).await?)
}
