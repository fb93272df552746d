//! Messages that were given up: they are kept until the caller decides what becomes of them.

use super::queue::{message, micros};
use crate::Message;
use crate::mark_result::time;
use crate::message::validate_name;
use crate::schema::statements;
use crate::schema::tables::{Queue, Tables};
use crate::transaction::{Client, Row, Value};
use hapax_store::StoreError;
use std::time::{Duration, SystemTime};

/// A message that was given up: after as many attempts as [`Retry`](crate::Retry) allows, because
/// its error said so, or because it had [expired](crate::NewMessage::expires_at).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The place from which to continue a list. (It does not name the letter: after a failover
    /// another one may have it.)
    pub position: i64,
    /// The random token of the claim that gave it up. Together with the position it is a name that
    /// no other letter ever has.
    pub(crate) token: i64,
    /// The message itself.
    pub message: Message,
    /// The error of the last attempt.
    pub error: String,
    /// The time at which it was given up, by the server's clock.
    pub died_at: SystemTime,
}

/// A selection of dead letters. One call handles at most 1,000, oldest first: call again until it
/// returns none. A letter that is requeued may be dead again before the next call: give the least
/// age of the letters, or the calls may have no end.
///
/// ```no_run
/// use hapax_postgres::{Letters, Tables, outbox};
/// use std::time::Duration;
///
/// # async fn example(client: tokio_postgres::Client) -> Result<(), hapax_store::StoreError> {
/// let tables = Tables::new("public", "shop")?;
/// // The broker takes them now. Those that it refuses again are not meant:
/// let before = Letters::OlderThan(Some("orders"), Duration::from_secs(600));
/// while outbox::requeue(&client, &tables, before).await? > 0 {}
/// // Nobody will look at those of last month:
/// let month = Duration::from_secs(30 * 86_400);
/// while outbox::discard(&client, &tables, Letters::OlderThan(None, month)).await? > 0 {}
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Letters<'l> {
    /// These letters, as they were [listed](crate::outbox::dead_letters).
    These(&'l [DeadLetter]),
    /// All letters of a consumer or a topic; `None`: all there are.
    Of(Option<&'l str>),
    /// Letters as in [`Of`](Self::Of) that were given up at least this long ago.
    OlderThan(Option<&'l str>, Duration),
}

/// Letters that one call handles.
const LETTERS_MAX: i64 = 1_000;

impl Letters<'_> {
    /// Returns name and age, as the server's functions take them.
    fn of(&self) -> Result<[Value<'_>; 2], StoreError> {
        let (name, age) = match *self {
            Letters::These(_) => (None, None),
            Letters::Of(name) => (name, None),
            Letters::OlderThan(name, age) => (name, Some(micros(age))),
        };
        name.map_or(Ok(()), |name| validate_name("a consumer or topic", name))?;
        Ok([Value::OptionalText(name), Value::OptionalReal(age)])
    }

    /// Returns the positions and tokens of these letters.
    fn these(&self) -> Option<(Vec<i64>, Vec<i64>)> {
        let Letters::These(letters) = self else { return None };
        Some(letters.iter().map(|letter| (letter.position, letter.token)).unzip())
    }
}

pub(crate) async fn list(
    client: &impl Client,
    tables: &Tables,
    queue: Queue,
    name: Option<&str>,
    behind: i64,
    limit: u16,
) -> Result<Vec<DeadLetter>, StoreError> {
    let values = [Value::OptionalText(name), Value::Number(behind), Value::Number(limit.into())];
    let sql = statements::call(tables, &queue.function("dead_letters"), values.len());
    let rows = client.call("list dead letters", &sql, &values).await?;
    let letter = |row: &Row| {
        Ok(DeadLetter {
            position: row.get("position")?,
            token: row.get("token")?,
            message: message(row)?,
            error: row.get::<Option<String>>("error")?.unwrap_or_default(),
            died_at: time(row.get("died_at")?),
        })
    };
    rows.iter().map(letter).collect()
}

/// Requeues or discards letters, by the given statement.
pub(crate) async fn change(
    client: &impl Client,
    doing: &str,
    tables: &Tables,
    function: &str,
    letters: Letters<'_>,
) -> Result<u64, StoreError> {
    let [name, age] = letters.of()?;
    let these = letters.these();
    let (positions, tokens) = these.as_ref().map(|(positions, tokens)| (&positions[..], &tokens[..])).unzip();
    let these = [Value::SomeNumbers(positions), Value::SomeNumbers(tokens)];
    let values = [these[0], these[1], name, age, Value::Number(LETTERS_MAX)];
    let rows = client.call(doing, &statements::call(tables, function, values.len()), &values).await?;
    let changed: i64 = rows.first().map(|row| row.get("changed")).transpose()?.unwrap_or(0);
    Ok(changed.unsigned_abs())
}
