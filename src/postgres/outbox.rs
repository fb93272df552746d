//! What goes out: messages that are stored with the effect they speak of, until a [`Relay`](super::Relay) has published
//! them.

use super::dead::{self, DeadLetter};
use super::errors::corrupt;
use super::message::validate_name;
use super::tables::{Queue, Tables};
use super::transaction::{Transaction, Value};
use super::{NewMessage, statements};
use crate::store::StoreError;
use tokio_postgres::Client;

/// Stores a message to be published, in the caller's transaction: it is published if and only if that is committed.
///
/// ```no_run
/// use hapax::postgres::{NewMessage, Tables, outbox};
///
/// # async fn example(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let mut tx = client.transaction().await?;
/// tx.execute("UPDATE orders SET paid = true WHERE id = 17", &[]).await?;
/// let message = NewMessage::new("order-17/paid", r#"{"order": 17}"#).key("order-17");
/// outbox::enqueue(&mut tx, &Tables::default(), "orders", message).await?;
/// tx.commit().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// Messages of a topic and [key](NewMessage::key) are published in the order of their transactions' commits. For that, a
/// transaction that enqueues a message of a key *waits* for all others that have, until they end: numbers are given out
/// in the order of commits. The caller's `lock_timeout` bounds the wait. The other way, to publish nothing that is newer
/// than the oldest open transaction, would let any long transaction of the whole server hold up all messages, and would
/// put those of a key into the order in which their transactions began.
///
/// Messages without a key wait for nobody. Two transactions that enqueue for several keys each should do so in the same
/// order, or the server undoes one of them (SQLSTATE 40P01). Each key takes a lock of the server's
/// `max_locks_per_transaction` until the transaction ends.
///
/// The id is what the receiving side dedupes on. It is not looked at here: who enqueues an id twice publishes it twice.
///
/// # Errors
///
/// Those of [`once`](super::inbox::once);
/// [`Misconfigured`](crate::store::ErrorKind::Misconfigured) if the id, the key or the payload is too long.
///
/// # Cost
///
/// One round trip (with sqlx two, for a message that has a key). Relays are woken by `NOTIFY`, for which the server commits
/// one such transaction after the other.
///
/// Idea: the transactional outbox (Richardson, 2018).
pub async fn enqueue(
    tx: &mut impl Transaction,
    tables: &Tables,
    topic: &str,
    message: NewMessage<'_>,
) -> Result<(), StoreError> {
    validate_name("a topic", topic)?;
    message.validate()?;
    let values = [
        Value::Text(topic),
        Value::Bytes(message.id),
        Value::OptionalBytes(message.key),
        Value::Bytes(message.payload),
    ];
    if let Some(key) = message.key {
        tx.ask("lock a key", &statements::hold_key(tables, Queue::Outbox, topic, key), &[]).await?;
    }
    match tx.ask("enqueue a message", &statements::enqueue(tables), &values).await?.first() {
        Some(_) => Ok(()),
        None => Err(corrupt("expected the position of a message, got none")),
    }
}

/// Dead letters of a topic (or of all), oldest first, behind a position: messages that a relay gave up.
///
/// # Errors
///
/// As usual, if the server does not answer.
pub async fn dead_letters(
    client: &Client,
    tables: &Tables,
    topic: Option<&str>,
    behind: i64,
    limit: u16,
) -> Result<Vec<DeadLetter>, StoreError> {
    dead::list(client, tables, Queue::Outbox, topic, behind, limit).await
}

/// Lets a dead letter be published again, as the last of its key. Whether there was one.
///
/// # Errors
///
/// As usual, if the server does not answer.
pub async fn requeue(client: &Client, tables: &Tables, position: i64) -> Result<bool, StoreError> {
    dead::requeue(client, tables, Queue::Outbox, position).await
}

/// Removes a dead letter: it is not published. Whether there was one.
///
/// # Errors
///
/// As usual, if the server does not answer.
pub async fn discard(client: &Client, tables: &Tables, position: i64) -> Result<bool, StoreError> {
    dead::discard(client, tables, Queue::Outbox, position).await
}
