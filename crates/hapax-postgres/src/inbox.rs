//! Incoming messages: marks in the caller's transaction, and messages that are stored until a
//! [`Worker`](super::Worker) has handled them.
//!
//! # Why no id is first twice
//!
//! Marks are partitioned by *bucket*, a number that grows, so that marks older than the retention
//! are removed by emptying a partition. A key is unique within its partition only. An id is
//! nevertheless marked once in all partitions, for this reason:
//!
//! - An id is looked up in all buckets, and written into the newest. While a bucket begins, there
//!   is a *double* state, in which ids are written into the newest bucket and the one before it,
//!   and are first only if neither had them.
//! - A writer holds an advisory lock of the newest bucket that it writes into, shared, until its
//!   transaction ends. A double state ends when no transaction holds that of the older bucket:
//!   later transactions hold that of the newer one, so the older lock drains by itself, and nobody
//!   waits.
//!
//! So any two that write at the same time have a bucket in common, in which the primary key
//! decides. The whole argument, and why it holds at every isolation level, is in
//! `migrations/once.sql`.
//!
//! Partitions by hash of the id would be unique by themselves. But then marks could only be deleted
//! row by row, and the deleted rows would have to be vacuumed.

mod comparing;
mod handled;
mod marking;

pub use comparing::{Compared, receive_compared};
pub use handled::{Finished, Handled, HandledQuery, RESULT_BYTES_MAX, handled, keep_result, requeue_handled};
pub use marking::{NewMark, forget, mark, mark_batch};

use super::errors::corrupt;
use super::message::validate_name;
use super::transaction::{Client, Row, Transaction, Value, answer};
use super::{NewMessage, Seen};
use crate::claims::dead_letters::{self, DeadLetter, Letters};
use crate::mark_result::time;
use crate::schema::statements;
use crate::schema::tables::{Queue, Tables};
use crate::telemetry::backlog::{self, Backlog};
use hapax_store::{StoreError, StoredId};
use std::collections::HashMap;

/// Marks an id as processed by this consumer, in the caller's transaction: the mark is there if and
/// only if the effect is.
///
/// ```no_run
/// use hapax_postgres::{Seen, Tables, inbox};
///
/// # async fn example(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let mut tx = client.transaction().await?;
/// match inbox::once(&mut tx, &Tables::new("public", "shop")?, "billing", "m-17").await? {
///     Seen::First => { tx.execute("UPDATE accounts SET balance = balance - 10 WHERE id = 3", &[]).await?; }
///     Seen::Duplicate { first_at } => println!("done before, at {first_at:?}"),
/// }
/// tx.commit().await?; // now acknowledge
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// Of all transactions that mark an id for a consumer within the [`Retention`](super::Retention),
/// one is told [`Seen::First`] and committed. Each consumer has its own marks: two consumers can
/// both be first with the same id. Ids are any bytes of any length.
///
/// If another transaction has marked the id and not ended, this one *waits* until it has: then the
/// id is a duplicate if it was committed, and first if it was rolled back. The caller's
/// `lock_timeout` bounds the wait. Two transactions that mark several ids each should do so in the
/// same order, or the server undoes one of them (SQLSTATE 40P01), or in one call: [`once_batch`].
///
/// In `REPEATABLE READ` and `SERIALIZABLE`, an id that was marked after the transaction began to
/// look is an error (SQLSTATE 40001) and not a duplicate: such transactions are tried again as a
/// whole, as always.
///
/// # Errors
///
/// [`Conflict`](hapax_store::ErrorKind::Conflict) after `lock_timeout`;
/// [`Unavailable`](hapax_store::ErrorKind::Unavailable) if the connection is lost, and for
/// deadlocks and serialization failures; [`Misconfigured`](hapax_store::ErrorKind::Misconfigured)
/// without tables, and for a name that none has. The transaction has failed then: roll it back, and
/// do not acknowledge. The same if the call is dropped.
///
/// # Prepared transactions
///
/// A transaction that has marked may be prepared (`PREPARE TRANSACTION`) by a coordinator of
/// two-phase commits. Its marks are there when it is committed, other transactions that mark the
/// same ids wait until then, and it puts partitions off as any open transaction does. A transaction
/// that has called [`enqueue`](super::outbox::enqueue) or [`receive`] may be prepared only if it
/// has not notified, which depends on whether a relay or worker is awake: the server refuses to
/// prepare after `NOTIFY`.
///
/// # Cost
///
/// One round trip (two with sqlx, which lets the server parse first), and a lookup in the index of
/// each partition: see [`Retention::new`](super::Retention::new). A long transaction delays the
/// beginning and the removal of partitions, and makes no other transaction wait but those that mark
/// the same ids.
///
/// Idea: the idempotent receiver (Hohpe and Woolf, 2003), with the mark in the transaction of the
/// effect.
pub async fn once(
    tx: &mut impl Transaction,
    tables: &Tables,
    consumer: &str,
    id: impl AsRef<[u8]>,
) -> Result<Seen, StoreError> {
    mark(tx, tables, consumer, NewMark::new(&id)).await
}

/// Ids that one call of [`once_batch`] takes.
pub const BATCH_IDS_MAX: usize = 1_000;

/// Marks ids as processed by this consumer, in the caller's transaction, in one round trip. Returns
/// for each id what [`once`] would have returned, in the order of the ids.
///
/// ```no_run
/// use hapax_postgres::{Tables, inbox};
///
/// # async fn example(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let messages = [("m-17", 10), ("m-18", 25), ("m-17", 10)];
/// let ids = messages.map(|(id, _)| id);
/// let mut tx = client.transaction().await?;
/// let seen = inbox::once_batch(&mut tx, &Tables::new("public", "shop")?, "billing", &ids).await?;
/// for (message, _) in messages.iter().zip(seen).filter(|(_, seen)| seen.is_first()) {
///     tx.execute("UPDATE accounts SET balance = balance - $1 WHERE id = 3", &[&message.1]).await?;
/// }
/// tx.commit().await?; // now acknowledge all three
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// Those of [`once`]. If an id is named several times, the first one can be [`Seen::First`]. Ids
/// are marked in the order of their bytes, whatever order they are given in: two batches do not
/// wait for each other in a circle.
///
/// # Errors
///
/// Those of [`once`]; [`Misconfigured`](hapax_store::ErrorKind::Misconfigured) for more than
/// [`BATCH_IDS_MAX`] ids.
///
/// # Cost
///
/// That of one [`once`], and some microseconds for each id; nothing for no ids.
pub async fn once_batch(
    tx: &mut impl Transaction,
    tables: &Tables,
    consumer: &str,
    ids: &[impl AsRef<[u8]> + Sync],
) -> Result<Vec<Seen>, StoreError> {
    let marks: Vec<NewMark<'_>> = ids.iter().map(NewMark::new).collect();
    mark_batch(tx, tables, consumer, &marks).await
}

/// Returns a verdict on each id: if an id is marked now, its first occurrence is first, and the
/// others are duplicates.
fn seen_each(ids: &[Vec<u8>], rows: &[Row]) -> Result<Vec<Seen>, StoreError> {
    let mut marked = HashMap::with_capacity(rows.len());
    for row in rows {
        let (id, at): (Vec<u8>, i64) = (row.get("marked_id")?, row.get("marked_at")?);
        marked.insert(id, (time(at), row.get::<bool>("is_first")?));
    }
    let seen = ids.iter().map(|id| {
        let (first_at, is_first) = marked.get_mut(id)?;
        Some(if std::mem::take(is_first) { Seen::First } else { Seen::Duplicate { first_at: *first_at } })
    });
    seen.collect::<Option<_>>().ok_or_else(|| corrupt("expected what became of each id, one is missing"))
}

/// Stores a message for this consumer's [`Worker`](super::Worker), in the caller's transaction; a
/// redelivery is not stored again.
///
/// ```no_run
/// use hapax_postgres::{NewMessage, Tables, inbox};
///
/// # async fn example(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let mut tx = client.transaction().await?;
/// let message = NewMessage::new("m-17", r#"{"order": 17}"#).key("order-17");
/// let seen = inbox::receive(&mut tx, &Tables::new("public", "shop")?, "billing", message).await?;
/// tx.commit().await?; // now acknowledge: it is stored, or was before
/// # let _ = seen;
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// Those of [`once`], with which it shares its marks: an id that was processed by one is not
/// received by the other. A message that waits or is a dead letter is a duplicate even when its
/// mark has been dropped. Whatever has a known id is a duplicate; [`receive_compared`] tells
/// another message from it.
///
/// With a [key](NewMessage::key), the message has its place behind all messages of its consumer and
/// key that were committed before. For that, transactions that receive messages of the same key
/// wait for one another until they end, and each key takes a lock of the server's
/// `max_locks_per_transaction` until then.
///
/// # Errors
///
/// Those of [`once`]; [`Misconfigured`](hapax_store::ErrorKind::Misconfigured) if the id, the key
/// or the payload is too long.
pub async fn receive(
    tx: &mut impl Transaction,
    tables: &Tables,
    consumer: &str,
    message: NewMessage<'_>,
) -> Result<Seen, StoreError> {
    validate_name("a consumer", consumer)?;
    message.validate()?;
    let (mark, headers) = (StoredId::new(message.id), message.array());
    let marked = [Value::Text(consumer), Value::Bytes(mark.as_bytes())];
    let values = [&marked[..], &message.values(headers.as_deref())].concat();
    let rows = tx.ask("receive a message", &statements::ask(tables, "inbox_receive", values.len()), &values).await?;
    seen(&rows)
}

/// Reads the server's answer about an id: the time at which it was marked, or nothing.
fn seen(rows: &[Row]) -> Result<Seen, StoreError> {
    answer(rows).map(seen_at)
}

fn seen_at(first_at: Option<i64>) -> Seen {
    first_at.map_or(Seen::First, |micros| Seen::Duplicate { first_at: time(micros) })
}

/// Lists dead letters of a consumer (or of all), oldest first, after a position: messages that a
/// worker gave up.
///
/// # Errors
///
/// The usual errors if the server does not answer.
pub async fn dead_letters(
    client: &impl Client,
    tables: &Tables,
    consumer: Option<&str>,
    behind: i64,
    limit: u16,
) -> Result<Vec<DeadLetter>, StoreError> {
    dead_letters::list(client, tables, Queue::Inbox, consumer, behind, limit).await
}

/// Requeues dead letters, each as the last of its key, with all attempts before it and no expiry.
/// Returns how many were requeued. For messages that were handled see [`requeue_handled`].
///
/// # Guarantees
///
/// Their marks are as they were: a redelivery is a duplicate before, meanwhile and after. If two
/// operators requeue a letter at once, one of them does, and it is counted once. A worker whose
/// claim on it is over does nothing to it any more: either that worker's transaction was committed
/// before, and there is no letter, or it is refused.
///
/// # Errors
///
/// The usual errors if the server does not answer. None of them is requeued then.
pub async fn requeue(client: &impl Client, tables: &Tables, letters: Letters<'_>) -> Result<u64, StoreError> {
    dead_letters::change(client, "requeue dead letters", tables, "inbox_requeue", letters).await
}

/// Removes dead letters. Their ids are duplicates as long as their marks are kept. Returns how many
/// were removed.
///
/// # Errors
///
/// The usual errors if the server does not answer. None of them is removed then.
pub async fn discard(client: &impl Client, tables: &Tables, letters: Letters<'_>) -> Result<u64, StoreError> {
    dead_letters::change(client, "discard dead letters", tables, "inbox_discard", letters).await
}

/// Counts the messages that wait for a consumer (or for all).
///
/// # Errors
///
/// The usual errors if the server does not answer.
pub async fn backlog(client: &impl Client, tables: &Tables, consumer: Option<&str>) -> Result<Backlog, StoreError> {
    backlog::of(client, tables, Queue::Inbox, consumer).await
}
