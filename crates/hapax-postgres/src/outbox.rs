//! Outgoing messages: each is stored with the effect it speaks of, until a [`Relay`](super::Relay)
//! has published it, or change data capture has read it.

use super::errors::misconfigured;
use super::inbox;
use super::message::validate_name;
use super::transaction::{Client, Transaction, Value, answer};
use super::{NewMessage, PAYLOAD_BYTES_MAX};
use crate::claims::dead_letters::{self, DeadLetter, Letters};
use crate::claims::queue::micros;
use crate::schema::statements;
use crate::schema::tables::{Queue, Tables};
use crate::telemetry::backlog::{self, Backlog};
use hapax_store::StoreError;
use std::time::Duration;

/// The largest number of messages of one call.
pub const BATCH_MAX: usize = 1_000;
/// The largest payload of one call.
pub const BATCH_BYTES_MAX: usize = 16 * PAYLOAD_BYTES_MAX;
/// Rows that one call of [`expire_captured`] removes.
const EXPIRED_MAX: i64 = 10_000;

/// Stores a message to be published, in the caller's transaction: it is published if and only if
/// that is committed. Returns true if it was stored; false if it is [unique](NewMessage::unique),
/// and was enqueued before.
///
/// ```no_run
/// use hapax_postgres::{NewMessage, Tables, outbox};
///
/// # async fn example(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let mut tx = client.transaction().await?;
/// tx.execute("UPDATE orders SET paid = true WHERE id = 17", &[]).await?;
/// let message = NewMessage::new("order-17/paid", r#"{"order": 17}"#).key("order-17");
/// outbox::enqueue(&mut tx, &Tables::new("public", "shop")?, "orders", message).await?;
/// tx.commit().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// Messages of a topic and [key](NewMessage::key) are published in the order of their transactions'
/// commits. For that, a transaction that enqueues a message of a key *waits* for all others that
/// have, until they end: numbers are given out in the order of commits. The caller's `lock_timeout`
/// bounds the wait. The alternative, to publish nothing that is newer than the oldest open
/// transaction, would let any long transaction of the whole server hold up all messages, and would
/// put those of a key into the order in which their transactions began.
///
/// Messages without a key wait for no other transaction. Two transactions that enqueue for several
/// keys each should do so in the same order, or the server undoes one of them (SQLSTATE 40P01).
/// Each key takes a lock of the server's `max_locks_per_transaction` until the transaction ends.
///
/// The receiving side dedupes by the id. A message that is not [unique](NewMessage::unique) is not
/// checked here: a caller that enqueues its id twice publishes it twice. Of two transactions that
/// enqueue one unique id, the second waits until the first has ended, and is told that the id is
/// there, or, if that was rolled back, stores its own.
///
/// # Errors
///
/// Those of [`once`](super::inbox::once); [`Misconfigured`](hapax_store::ErrorKind::Misconfigured)
/// if the id, the key, the payload or the headers are too long.
///
/// # Cost
///
/// One round trip (with sqlx two, which has statements parsed first). A message that has a key
/// takes its lock, and a row next to the first message of its key that waits.
///
/// A relay that sleeps is woken by `NOTIFY`, for which the server commits one such transaction
/// after the other. So one transaction at a time notifies, and none while a relay is awake: for
/// some seconds after its last message a relay looks by itself every few milliseconds. A message
/// that was enqueued while another transaction notified, and that transaction stays open or is
/// undone, waits for the relay's slow [poll](super::Relay::poll).
///
/// Idea: the transactional outbox (Richardson, 2018).
pub async fn enqueue(
    tx: &mut impl Transaction,
    tables: &Tables,
    topic: &str,
    message: NewMessage<'_>,
) -> Result<bool, StoreError> {
    validate_name("a topic", topic)?;
    message.validate()?;
    if message.is_unique && !inbox::once(tx, tables, &unique_in(topic), message.id).await?.is_first() {
        return Ok(false);
    }
    let headers = message.array();
    let values = [&[Value::Text(topic)][..], &message.values(headers.as_deref())].concat();
    let sql = statements::ask(tables, "outbox_store_one", values.len());
    answer::<i64>(&tx.ask("enqueue a message", &sql, &values).await?).map(|_| true)
}

/// Returns the name under which the ids of unique messages of a topic are marked.
fn unique_in(topic: &str) -> String {
    format!("unique/{topic}")
}

/// Stores messages of a topic to be published, in their order and in one round trip: like
/// [`enqueue`] for each, whose answers it returns. (With unique messages it takes two round trips.)
///
/// ```no_run
/// use hapax_postgres::{NewMessage, Tables, outbox};
///
/// # async fn example(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let mut tx = client.transaction().await?;
/// tx.execute("UPDATE orders SET paid = true WHERE id IN (17, 18)", &[]).await?;
/// let paid = [("order-17/paid", "17"), ("order-18/paid", "18")];
/// let messages = paid.map(|(id, order)| NewMessage::new(id, order));
/// outbox::enqueue_batch(&mut tx, &Tables::new("public", "shop")?, "orders", &messages).await?;
/// tx.commit().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// Those of [`enqueue`]. The locks of their keys are taken in one order, so that two batches do not
/// wait for each other in a circle. All of them are stored, or none.
///
/// # Errors
///
/// Those of [`enqueue`]; [`Misconfigured`](hapax_store::ErrorKind::Misconfigured) for more than
/// [`BATCH_MAX`] messages or [`BATCH_BYTES_MAX`] bytes of payload.
pub async fn enqueue_batch(
    tx: &mut impl Transaction,
    tables: &Tables,
    topic: &str,
    messages: &[NewMessage<'_>],
) -> Result<Vec<bool>, StoreError> {
    validate(topic, messages)?;
    let unique: Vec<&[u8]> = messages.iter().filter(|message| message.is_unique).map(|message| message.id).collect();
    let mut marked = inbox::once_batch(tx, tables, &unique_in(topic), &unique).await?.into_iter();
    let mut is_new = |message: &NewMessage<'_>| !message.is_unique || marked.next().is_some_and(|seen| seen.is_first());
    let are_new: Vec<bool> = messages.iter().map(&mut is_new).collect();
    let new = messages.iter().zip(&are_new).filter(|(_, is_new)| **is_new);
    let new: Vec<NewMessage<'_>> = new.map(|(message, _)| *message).collect();
    if !new.is_empty() {
        let columns = Columns::of(&new);
        let values = [&[Value::Text(topic)][..], &columns.values()].concat();
        let sql = statements::ask(tables, "outbox_store", values.len());
        answer::<i64>(&tx.ask("enqueue messages", &sql, &values).await?)?;
    }
    Ok(are_new)
}

/// Checks messages of one call.
fn validate(topic: &str, messages: &[NewMessage<'_>]) -> Result<(), StoreError> {
    validate_name("a topic", topic)?;
    messages.iter().try_for_each(NewMessage::validate)?;
    let bytes: usize = messages.iter().map(|message| message.payload.len()).sum();
    if messages.len() > BATCH_MAX || bytes > BATCH_BYTES_MAX {
        let what = format!("expected at most {BATCH_MAX} messages of {BATCH_BYTES_MAX} bytes in a batch");
        return Err(misconfigured(format!("{what}, got {} of {bytes}: make several batches", messages.len())));
    }
    Ok(())
}

/// Inserts messages where change data capture reads them, in the caller's transaction: rows of the
/// table `…_outbox_capture`, which are never changed. No relay publishes them.
///
/// ```no_run
/// use hapax_postgres::{NewMessage, Tables, outbox};
///
/// # async fn example(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let mut tx = client.transaction().await?;
/// tx.execute("UPDATE orders SET paid = true WHERE id = 17", &[]).await?;
/// let message = NewMessage::new("order-17/paid", r#"{"order": 17}"#).key("order-17");
/// outbox::capture(&mut tx, &Tables::new("public", "shop")?, "orders", &[message]).await?;
/// tx.commit().await?;
/// # Ok(())
/// # }
/// ```
///
/// For Debezium and other programs that read the server's log: they see whole transactions in the
/// order of their commits, so no lock is taken for a key. Columns: `position` (grows),
/// `recorded_at`, `name` (the topic), `key`, `id`, `headers` (an array of names and values in
/// turn), `payload`, `kind`, `source`, `subject`. With Debezium's outbox event router:
/// `table.field.event.id = id`, `table.field.event.key = key`, `table.field.event.type = kind`,
/// `route.by.field = name`. Call [`expire_captured`] now and then.
///
/// # Errors
///
/// Those of [`enqueue_batch`]; [`Misconfigured`](hapax_store::ErrorKind::Misconfigured) for
/// messages that are unique, are due or expire at some time: a reader of the log would not know.
pub async fn capture(
    tx: &mut impl Transaction,
    tables: &Tables,
    topic: &str,
    messages: &[NewMessage<'_>],
) -> Result<(), StoreError> {
    validate(topic, messages)?;
    let columns = Columns::of(messages);
    let is_timed = columns.due_at.iter().chain(&columns.expires_at).any(Option::is_some);
    if is_timed || messages.iter().any(|message| message.is_unique) {
        return Err(misconfigured(
            "captured messages are not unique, and not due or over at any time: publish those by a relay",
        ));
    }
    if messages.is_empty() {
        return Ok(());
    }
    let [ids, keys, payloads, headers, _, _, kinds, sources, subjects] = columns.values();
    let values = [Value::Text(topic), ids, keys, payloads, headers, kinds, sources, subjects];
    let sql = statements::ask(tables, "capture", values.len());
    answer::<i64>(&tx.ask("insert captured messages", &sql, &values).await?).map(drop)
}

/// Removes the oldest rows of [`capture`] that are of at least this age, at most 10,000: call again
/// until it returns none. A reader of the server's log finds them in the log, however old they are.
///
/// # Errors
///
/// The usual errors if the server does not answer.
pub async fn expire_captured(client: &impl Client, tables: &Tables, age: Duration) -> Result<u64, StoreError> {
    let values = [Value::Real(micros(age)), Value::Number(EXPIRED_MAX)];
    let sql = statements::ask(tables, "capture_expire", values.len());
    answer::<i64>(&client.call("remove captured messages", &sql, &values).await?).map(i64::unsigned_abs)
}

/// Messages by columns, as a statement takes them.
struct Columns {
    ids: Vec<Vec<u8>>,
    keys: Vec<Option<Vec<u8>>>,
    payloads: Vec<Vec<u8>>,
    headers: Vec<Option<String>>,
    kinds: Vec<Option<String>>,
    sources: Vec<Option<String>>,
    subjects: Vec<Option<String>>,
    due_at: Vec<Option<f64>>,
    expires_at: Vec<Option<f64>>,
}

impl Columns {
    fn of(messages: &[NewMessage<'_>]) -> Self {
        Columns {
            ids: messages.iter().map(|message| message.id.to_vec()).collect(),
            keys: messages.iter().map(|message| message.key.map(<[u8]>::to_vec)).collect(),
            payloads: messages.iter().map(|message| message.payload.to_vec()).collect(),
            headers: messages.iter().map(NewMessage::array).collect(),
            kinds: messages.iter().map(|message| message.kind.map(str::to_owned)).collect(),
            sources: messages.iter().map(|message| message.source.map(str::to_owned)).collect(),
            subjects: messages.iter().map(|message| message.subject.map(str::to_owned)).collect(),
            due_at: messages.iter().map(|message| message.times()[0]).collect(),
            expires_at: messages.iter().map(|message| message.times()[1]).collect(),
        }
    }

    /// Returns the values of a function that stores them, as those of [`NewMessage::values`].
    fn values(&self) -> [Value<'_>; 9] {
        [
            Value::BytesEach(&self.ids),
            Value::OptionalBytesEach(&self.keys),
            Value::BytesEach(&self.payloads),
            Value::OptionalTextEach(&self.headers),
            Value::OptionalReals(&self.due_at),
            Value::OptionalReals(&self.expires_at),
            Value::OptionalTextEach(&self.kinds),
            Value::OptionalTextEach(&self.sources),
            Value::OptionalTextEach(&self.subjects),
        ]
    }
}

/// Lists dead letters of a topic (or of all), oldest first, after a position: messages that a relay
/// gave up.
///
/// # Errors
///
/// The usual errors if the server does not answer.
pub async fn dead_letters(
    client: &impl Client,
    tables: &Tables,
    topic: Option<&str>,
    behind: i64,
    limit: u16,
) -> Result<Vec<DeadLetter>, StoreError> {
    dead_letters::list(client, tables, Queue::Outbox, topic, behind, limit).await
}

/// Requeues dead letters, each as the last of its key, with no expiry. Returns how many were
/// requeued.
///
/// # Errors
///
/// The usual errors if the server does not answer. None of them is requeued then.
pub async fn requeue(client: &impl Client, tables: &Tables, letters: Letters<'_>) -> Result<u64, StoreError> {
    dead_letters::change(client, "requeue dead letters", tables, "outbox_requeue", letters).await
}

/// Removes dead letters: they are not published. Returns how many were removed.
///
/// # Errors
///
/// The usual errors if the server does not answer. None of them is removed then.
pub async fn discard(client: &impl Client, tables: &Tables, letters: Letters<'_>) -> Result<u64, StoreError> {
    dead_letters::change(client, "discard dead letters", tables, "outbox_discard", letters).await
}

/// Counts the waiting messages of a topic (or of all).
///
/// # Errors
///
/// The usual errors if the server does not answer.
pub async fn backlog(client: &impl Client, tables: &Tables, topic: Option<&str>) -> Result<Backlog, StoreError> {
    backlog::of(client, tables, Queue::Outbox, topic).await
}
