//! The record of what was handled, by whom and when; and messages that are kept after that.

use crate::Message;
use crate::claims::queue::{attempts, headers};
use crate::errors::misconfigured;
use crate::mark_result::time;
use crate::message::{validate_name, validate_text};
use crate::schema::statements;
use crate::schema::tables::Tables;
use crate::transaction::{Client, Row, Transaction, Value, answer};
use hapax_store::StoreError;
use std::borrow::Cow;
use std::time::SystemTime;

/// Messages that one call requeues.
const REQUEUED_MAX: i64 = 1_000;
/// The largest result that a handler can keep with its message.
pub const RESULT_BYTES_MAX: usize = 64 << 10;

/// An event that was handled: by [`mark`](super::mark), or by a [`Worker`](crate::Worker) that
/// [keeps](crate::Worker::keep) such records.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Handled {
    /// The place from which to continue a list. (It does not name the event: after a failover
    /// another one may have it.)
    pub number: i64,
    /// The consumer that has handled it.
    pub consumer: String,
    /// The name that its process has given: see [`Worker::processor`](crate::Worker::processor).
    pub processor: Option<String>,
    /// The type of the event.
    pub kind: Option<String>,
    /// The context in which it happened.
    pub source: Option<String>,
    /// The thing that it is about.
    pub subject: Option<String>,
    /// Its id.
    pub id: Vec<u8>,
    /// The number of attempts that it took.
    pub attempts: u32,
    /// The error of its last attempt that failed before.
    pub error: Option<String>,
    /// The result that the handler has [kept](keep_result).
    pub result: Option<Vec<u8>>,
    /// The time at which a worker's message was received, by the server's clock.
    pub received_at: Option<SystemTime>,
    /// The time at which it was handled, by the server's clock.
    pub handled_at: SystemTime,
    /// The time at which it was requeued, which is possible once.
    pub requeued_at: Option<SystemTime>,
    /// True if its content is kept, so that it can be requeued.
    pub is_kept: bool,
    /// The key, headers and payload that are kept, if they were [asked for](HandledQuery::content).
    pub message: Option<Message>,
}

/// A selection of events that were handled: in the order in which they were, 100 by default.
///
/// ```
/// use hapax_postgres::inbox::HandledQuery;
///
/// let of_order = HandledQuery::of_subject("order-17").consumer("billing").limit(20);
/// # let _ = of_order;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct HandledQuery<'q> {
    subject: Option<&'q str>,
    consumer: Option<&'q str>,
    kind: Option<&'q str>,
    processor: Option<&'q str>,
    behind: i64,
    limit: u16,
    has_content: bool,
}

impl<'q> HandledQuery<'q> {
    /// Selects all events.
    pub fn all() -> Self {
        HandledQuery {
            subject: None,
            consumer: None,
            kind: None,
            processor: None,
            behind: 0,
            limit: 100,
            has_content: false,
        }
    }

    /// Selects the events about a subject, for which there is an index. Without a subject, the
    /// server reads all events behind [`behind`](Self::behind) until it has found as many as are
    /// asked for.
    pub fn of_subject(subject: &'q str) -> Self {
        HandledQuery { subject: Some(subject), ..HandledQuery::all() }
    }

    /// Selects those that this consumer has handled.
    #[must_use]
    pub fn consumer(self, consumer: &'q str) -> Self {
        HandledQuery { consumer: Some(consumer), ..self }
    }

    /// Selects those of this type.
    #[must_use]
    pub fn kind(self, kind: &'q str) -> Self {
        HandledQuery { kind: Some(kind), ..self }
    }

    /// Selects those that this process has handled.
    #[must_use]
    pub fn processor(self, processor: &'q str) -> Self {
        HandledQuery { processor: Some(processor), ..self }
    }

    /// Selects those with numbers behind this one: the last of the page before.
    #[must_use]
    pub fn behind(self, number: i64) -> Self {
        HandledQuery { behind: number, ..self }
    }

    /// Sets how many are returned at most.
    #[must_use]
    pub fn limit(self, limit: u16) -> Self {
        HandledQuery { limit, ..self }
    }

    /// Asks for content that is kept, too: a page of it may be as large as all its payloads.
    #[must_use]
    pub fn content(self) -> Self {
        HandledQuery { has_content: true, ..self }
    }

    fn validate(&self) -> Result<(), StoreError> {
        self.consumer.map_or(Ok(()), |name| validate_name("a consumer", name))?;
        validate_text("a subject", self.subject)?;
        validate_text("a kind", self.kind)?;
        validate_text("a name of a processor", self.processor)
    }
}

/// Lists events that were handled, by whom and when.
///
/// ```no_run
/// use hapax_postgres::{Tables, inbox};
/// use hapax_postgres::inbox::HandledQuery;
///
/// # async fn example(client: tokio_postgres::Client) -> Result<(), hapax_store::StoreError> {
/// let mut query = HandledQuery::of_subject("order-17");
/// loop {
///     let page = inbox::handled(&client, &Tables::new("public", "shop")?, query).await?;
///     let Some(last) = page.last() else { break };
///     query = query.behind(last.number);
///     for event in &page {
///         println!("{:?} by {} at {:?}", event.kind, event.consumer, event.handled_at);
///     }
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// An event is listed if and only if its effect was committed, and as long as the marks of its time
/// are kept: see [`Retention`](crate::Retention). A message that was requeued and handled again is
/// listed twice. A message without kind and subject is listed if it was kept, or marked with the
/// name of a processor.
///
/// No event appears later in front of one that was listed, so whoever continues behind the last
/// number misses none. For that, an event is not listed while a transaction is open that has
/// handled another one before and not committed. (With an isolation level above READ COMMITTED as
/// the role's default, or on a standby, one may be missed.)
///
/// # Errors
///
/// The usual errors if the server does not answer;
/// [`Misconfigured`](hapax_store::ErrorKind::Misconfigured) for a text that no event can have.
pub async fn handled(
    client: &impl Client,
    tables: &Tables,
    query: HandledQuery<'_>,
) -> Result<Vec<Handled>, StoreError> {
    query.validate()?;
    let values = [
        Value::OptionalText(query.subject),
        Value::OptionalText(query.consumer),
        Value::OptionalText(query.kind),
        Value::OptionalText(query.processor),
        Value::Number(query.behind),
        Value::Number(query.limit.into()),
        Value::Bool(query.has_content),
    ];
    let sql = statements::call(tables, "handled_list", values.len());
    let rows = client.call("list what was handled", &sql, &values).await?;
    rows.iter().map(read).collect()
}

fn read(row: &Row) -> Result<Handled, StoreError> {
    let at = |column: &str| row.get::<Option<i64>>(column).map(|micros| micros.map(time));
    let payload: Option<Vec<u8>> = row.get("payload")?;
    let (handled_at, received_at) = (time(row.get("handled_at")?), at("received_at")?);
    let mut handled = Handled {
        number: row.get("number")?,
        consumer: row.get("consumer")?,
        processor: row.get("processor")?,
        kind: row.get("kind")?,
        source: row.get("source")?,
        subject: row.get("subject")?,
        id: row.get("id")?,
        attempts: attempts(row.get("attempts")?),
        error: row.get("error")?,
        result: row.get("result")?,
        received_at,
        handled_at,
        requeued_at: at("requeued_at")?,
        is_kept: row.get("is_kept")?,
        message: None,
    };
    if let Some(payload) = payload {
        let mut message = Message::new(&*handled.consumer, &*handled.id, payload);
        message.key = row.get("key")?;
        message.kind.clone_from(&handled.kind);
        message.source.clone_from(&handled.source);
        message.subject.clone_from(&handled.subject);
        // Those that somebody else has written, and that cannot be read, do not end the list.
        message.headers = headers(row).unwrap_or_default();
        message.attempts = handled.attempts;
        message.enqueued_at = received_at.unwrap_or(handled_at);
        handled.message = Some(message);
    }
    Ok(handled)
}

/// A selection of messages that were handled and kept.
#[derive(Clone, Copy, Debug)]
pub enum Finished<'f> {
    /// Those of these events, as they were [listed](handled()): each is one handling of a message.
    These(&'f [Handled]),
    /// Those of this consumer with these ids.
    Ids(&'f str, &'f [Vec<u8>]),
}

/// Lets messages that were handled wait again, each as the last of its key, with all attempts
/// before it and no expiry: at most 1,000, of a [`Worker`](crate::Worker) that
/// [keeps](crate::Keep::Messages) them. Returns how many were requeued. For dead letters see
/// [`requeue`](super::requeue).
///
/// ```no_run
/// use hapax_postgres::{Tables, inbox};
/// use hapax_postgres::inbox::{Finished, HandledQuery};
///
/// # async fn example(client: tokio_postgres::Client) -> Result<(), hapax_store::StoreError> {
/// let tables = Tables::new("public", "shop")?;
/// let query = HandledQuery::of_subject("order-17").consumer("billing");
/// let kept = inbox::handled(&client, &tables, query).await?;
/// inbox::requeue_handled(&client, &tables, Finished::These(&kept)).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// The handler has its effect once more: it must be one that may be had twice, or the first one
/// must be undone before. Marks are as they were: a redelivery is a duplicate before, meanwhile and
/// after, as long as the mark is kept.
///
/// Each row is requeued once. Of two operators who requeue it at the same time, one does; the other
/// waits until the first one's transaction has ended, and finds that it was requeued, even if it
/// has been handled again by then. Once it has been, it is listed again, with a number of its own,
/// and can be requeued by that, if it was kept again. A message that waits, is in flight, or is a
/// dead letter is not requeued: there is nothing to requeue before its transaction is committed.
///
/// # Errors
///
/// The usual errors if the server does not answer. None of them is requeued then.
pub async fn requeue_handled(client: &impl Client, tables: &Tables, finished: Finished<'_>) -> Result<u64, StoreError> {
    // A number alone may be another event's after a failover.
    let (numbers, consumers, ids) = match finished {
        Finished::These(events) => {
            let ids: Vec<Vec<u8>> = events.iter().map(|event| event.id.clone()).collect();
            let consumers = events.iter().map(|event| event.consumer.clone()).collect();
            (Some(events.iter().map(|event| event.number).collect::<Vec<i64>>()), consumers, Cow::Owned(ids))
        }
        Finished::Ids(consumer, ids) => {
            validate_name("a consumer", consumer)?;
            (None, vec![consumer.to_owned()], Cow::Borrowed(ids))
        }
    };
    let values = [
        Value::SomeNumbers(numbers.as_deref()),
        Value::Texts(&consumers),
        Value::BytesEach(&ids),
        Value::Number(REQUEUED_MAX),
    ];
    let sql = statements::ask(tables, "handled_requeue", values.len());
    let rows = client.call("requeue messages", &sql, &values).await?;
    answer::<i64>(&rows).map(i64::unsigned_abs)
}

/// Keeps a handler's result with its message, in the handler's transaction: [`Handled::result`]
/// says it. Returns false if the worker [keeps](crate::Worker::keep) no record of the message, or
/// if this is called outside of a handler.
///
/// ```no_run
/// use hapax_postgres::{BoxError, Handler, Message, Tables, inbox};
///
/// struct Billing(Tables);
///
/// impl Handler for Billing {
///     async fn handle(&self, tx: &mut tokio_postgres::Transaction<'_>, message: &Message) -> Result<(), BoxError> {
///         let row = tx.query_one("INSERT INTO invoices DEFAULT VALUES RETURNING id::text", &[]).await?;
///         inbox::keep_result(tx, &self.0, message, row.get::<_, &str>(0)).await?;
///         Ok(())
///     }
/// }
/// ```
///
/// # Errors
///
/// Those of [`once`](super::once); [`Misconfigured`](hapax_store::ErrorKind::Misconfigured) for
/// more than [`RESULT_BYTES_MAX`] bytes.
pub async fn keep_result(
    tx: &mut impl Transaction,
    tables: &Tables,
    message: &Message,
    result: impl AsRef<[u8]>,
) -> Result<bool, StoreError> {
    let result = result.as_ref();
    if result.len() > RESULT_BYTES_MAX {
        return Err(misconfigured(format!("a result has at most {RESULT_BYTES_MAX} bytes, got {}", result.len())));
    }
    let values = [Value::Text(&message.name), Value::Bytes(&message.id), Value::Bytes(result)];
    answer(&tx.ask("keep a result", &statements::ask(tables, "inbox_result", values.len()), &values).await?)
}
