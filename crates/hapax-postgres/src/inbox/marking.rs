//! Marks of messages that say what they are, and marks that are removed on purpose.

use super::{BATCH_IDS_MAX, seen, seen_each};
use crate::claims::queue::micros;
use crate::errors::misconfigured;
use crate::message::{validate_name, validate_text};
use crate::schema::retention::LONGEST;
use crate::schema::statements;
use crate::schema::tables::Tables;
use crate::store::options::within;
use crate::telemetry::meters;
use crate::transaction::{Transaction, Value, answer};
use crate::{ID_BYTES_MAX, Seen};
use hapax_message::Described;
use hapax_store::{StoreError, StoredId};
use std::time::Duration;

/// An id to be marked, and what is written down of its message.
#[derive(Clone, Copy, Debug)]
pub struct NewMark<'m> {
    id: &'m [u8],
    kind: Option<&'m str>,
    source: Option<&'m str>,
    subject: Option<&'m str>,
    processor: Option<&'m str>,
    keep_for: Option<Duration>,
}

impl<'m> NewMark<'m> {
    /// Creates a mark of this id, of which nothing is written down: as [`once`](super::once) makes.
    pub fn new(id: &'m (impl AsRef<[u8]> + ?Sized)) -> Self {
        NewMark { id: id.as_ref(), kind: None, source: None, subject: None, processor: None, keep_for: None }
    }

    /// Sets the time for which the id is a duplicate, by the server's clock: a millisecond to ten
    /// years. After that it is [`Seen::First`] again. Default, and at most: the
    /// [`Retention`](crate::Retention).
    ///
    /// ```no_run
    /// use hapax_postgres::{Tables, inbox};
    /// use std::time::Duration;
    ///
    /// # async fn example(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let reminder = inbox::NewMark::new("reminder/customer-3").keep_for(Duration::from_secs(86_400));
    /// let mut tx = client.transaction().await?;
    /// if inbox::mark(&mut tx, &Tables::new("public", "shop")?, "reminders", reminder).await?.is_first() {
    ///     tx.execute("INSERT INTO mails (customer) VALUES (3)", &[]).await?; // at most once a day
    /// }
    /// tx.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn keep_for(self, time: Duration) -> Self {
        NewMark { keep_for: Some(time), ..self }
    }

    /// Sets the type of the event, such as `order.paid`.
    #[must_use]
    pub fn kind(self, kind: &'m str) -> Self {
        NewMark { kind: Some(kind), ..self }
    }

    /// Sets the context in which the event happened, such as `/orders`.
    #[must_use]
    pub fn source(self, source: &'m str) -> Self {
        NewMark { source: Some(source), ..self }
    }

    /// Sets the thing that the event is about, such as `order-17`.
    #[must_use]
    pub fn subject(self, subject: &'m str) -> Self {
        NewMark { subject: Some(subject), ..self }
    }

    /// Sets the name of the process that handles it, such as a pod's.
    #[must_use]
    pub fn processor(self, processor: &'m str) -> Self {
        NewMark { processor: Some(processor), ..self }
    }

    /// Takes kind, source and subject of a message that a broker has delivered, as far as it says
    /// them.
    #[must_use]
    pub fn described_by(self, described: &'m (impl Described + ?Sized)) -> Self {
        NewMark {
            kind: described.kind().or(self.kind),
            source: described.source().or(self.source),
            subject: described.subject().or(self.subject),
            ..self
        }
    }

    fn is_bare(&self) -> bool {
        self.texts().iter().all(|(_, text)| text.is_none())
    }

    /// Returns the time for which it is kept in microseconds.
    fn keep(&self) -> Option<f64> {
        self.keep_for.map(micros)
    }

    fn texts(&self) -> [(&'static str, Option<&'m str>); 4] {
        let processor = ("a name of a processor", self.processor);
        [("a kind", self.kind), ("a source", self.source), ("a subject", self.subject), processor]
    }

    fn validate(&self) -> Result<(), StoreError> {
        if !self.is_bare() && self.id.len() > ID_BYTES_MAX {
            let what = format!("an id that is written down has at most {ID_BYTES_MAX} bytes, got {}", self.id.len());
            return Err(misconfigured(what));
        }
        if let Some(time) = self.keep_for {
            within("keep_for", time, Duration::from_millis(1)..=LONGEST)?;
        }
        self.texts().into_iter().try_for_each(|(what, text)| validate_text(what, text))
    }
}

/// Marks an id as processed by this consumer, as [`once`](super::once) does, and if it is the first
/// writes down what it was, for [`handled`](super::handled), all in the caller's transaction.
///
/// ```no_run
/// use hapax_postgres::{Seen, Tables, inbox};
///
/// # async fn example(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let mark = inbox::NewMark::new("m-17").kind("order.paid").subject("order-17").processor("billing-0");
/// let mut tx = client.transaction().await?;
/// if let Seen::First = inbox::mark(&mut tx, &Tables::new("public", "shop")?, "billing", mark).await? {
///     tx.execute("UPDATE orders SET paid = true WHERE id = 17", &[]).await?;
/// }
/// tx.commit().await?; // now acknowledge
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// Those of [`once`](super::once), with which it shares its marks.
///
/// # Errors
///
/// Those of [`once`](super::once); [`Misconfigured`](hapax_store::ErrorKind::Misconfigured) if a
/// text is empty, has control characters, or is longer than
/// [`DESCRIPTION_BYTES_MAX`](crate::DESCRIPTION_BYTES_MAX), or an id that is written down longer
/// than [`ID_BYTES_MAX`].
///
/// # Cost
///
/// That of [`once`](super::once) if there is nothing to write down, or the id is a duplicate.
/// Otherwise a row more, of 200 bytes with its entries in two indexes, and no round trip: on a busy
/// machine the server took 185 µs, where it took 90 for `once`.
pub async fn mark(
    tx: &mut impl Transaction,
    tables: &Tables,
    consumer: &str,
    mark: NewMark<'_>,
) -> Result<Seen, StoreError> {
    validate_name("a consumer", consumer)?;
    mark.validate()?;
    let id = StoredId::new(mark.id);
    let mut values = vec![Value::Text(consumer), Value::Bytes(id.as_bytes())];
    let function = if mark.is_bare() {
        values.push(Value::OptionalBytes(None));
        "once_kept"
    } else {
        values.push(Value::Bytes(mark.id));
        values.extend(mark.texts().map(|(_, text)| Value::OptionalText(text)));
        "mark_kept"
    };
    values.push(Value::OptionalReal(mark.keep()));
    let rows = tx.ask("mark an id", &statements::ask(tables, function, values.len()), &values).await?;
    let seen = seen(&rows)?;
    meters::marked(consumer, &[seen]);
    Ok(seen)
}

/// Marks ids as processed by this consumer, as [`once_batch`](super::once_batch) does, and writes
/// down what those were that are the first, in one round trip. Returns for each what [`mark`] would
/// have returned, in their order.
///
/// ```no_run
/// use hapax_postgres::{Tables, inbox};
///
/// # async fn example(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let paid = [("m-17", "order-17"), ("m-18", "order-18")];
/// let marks = paid.map(|(id, order)| inbox::NewMark::new(id).kind("order.paid").subject(order));
/// let mut tx = client.transaction().await?;
/// let seen = inbox::mark_batch(&mut tx, &Tables::new("public", "shop")?, "billing", &marks).await?;
/// for ((_, order), _) in paid.iter().zip(seen).filter(|(_, seen)| seen.is_first()) {
///     tx.execute("UPDATE orders SET paid = true WHERE name = $1", &[order]).await?;
/// }
/// tx.commit().await?; // now acknowledge both
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Those of [`mark`] and [`once_batch`](super::once_batch).
pub async fn mark_batch(
    tx: &mut impl Transaction,
    tables: &Tables,
    consumer: &str,
    marks: &[NewMark<'_>],
) -> Result<Vec<Seen>, StoreError> {
    validate_name("a consumer", consumer)?;
    if marks.len() > BATCH_IDS_MAX {
        return Err(misconfigured(format!("a batch has at most {BATCH_IDS_MAX} ids, not {}", marks.len())));
    }
    if marks.is_empty() {
        return Ok(Vec::new());
    }
    marks.iter().try_for_each(NewMark::validate)?;
    let stored: Vec<Vec<u8>> = marks.iter().map(|mark| StoredId::new(mark.id).as_bytes().to_vec()).collect();
    let mut values = vec![Value::Text(consumer), Value::BytesEach(&stored)];
    let (ids, texts);
    let keeps: Vec<Option<f64>> = marks.iter().map(NewMark::keep).collect();
    let function = if marks.iter().all(NewMark::is_bare) {
        "once_batch_kept"
    } else {
        (ids, texts) = written(marks, &stored);
        values.push(Value::BytesEach(&ids));
        values.extend(texts.iter().map(|texts| Value::OptionalTextEach(texts)));
        "mark_batch_kept"
    };
    values.push(Value::OptionalReals(&keeps));
    let rows = tx.ask("mark ids", &statements::call(tables, function, values.len()), &values).await?;
    let seen = seen_each(&stored, &rows)?;
    meters::marked(consumer, &seen);
    Ok(seen)
}

/// Returns what is written down of marks: their ids, and their texts by columns. Of an id of which
/// nothing is written down, the server gets what is marked alone.
fn written(marks: &[NewMark<'_>], stored: &[Vec<u8>]) -> (Vec<Vec<u8>>, [Vec<Option<String>>; 4]) {
    let id = |(mark, stored): (&NewMark<'_>, &Vec<u8>)| if mark.is_bare() { stored.clone() } else { mark.id.to_vec() };
    let texts = |at: usize| marks.iter().map(|mark| mark.texts()[at].1.map(str::to_owned)).collect();
    (marks.iter().zip(stored).map(id).collect(), std::array::from_fn(texts))
}

/// Removes this consumer's marks of ids, in the caller's transaction, so that each can be handled
/// again on purpose: the next [`once`](super::once) or [`receive`](super::receive) after the commit
/// is told [`Seen::First`]. Returns how many of them were marked.
///
/// ```no_run
/// use hapax_postgres::{Tables, inbox};
///
/// # async fn example(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let mut tx = client.transaction().await?;
/// tx.execute("DELETE FROM invoices WHERE order_id = 17", &[]).await?;
/// inbox::forget(&mut tx, &Tables::new("public", "shop")?, "billing", &["m-17"]).await?;
/// tx.commit().await?; // now let the broker deliver m-17 again
/// # Ok(())
/// # }
/// ```
///
/// # Guarantees
///
/// Until the commit all others are told that the ids are duplicates; after it one is told that it
/// is the first. A mark of a transaction that is open meanwhile is not removed, and not waited for.
/// Until it ends, the transaction puts partitions off as one that marks does.
///
/// What was written down of the ids stays: they *were* handled. A message that waits, or is a dead
/// letter, is a duplicate without its mark, too. To handle one again that was kept, use
/// [`requeue_handled`](super::requeue_handled), which needs no mark to be removed.
///
/// # Errors
///
/// Those of [`once_batch`](super::once_batch).
///
/// # Cost
///
/// One round trip, and a lookup in the index of each partition for each id.
pub async fn forget(
    tx: &mut impl Transaction,
    tables: &Tables,
    consumer: &str,
    ids: &[impl AsRef<[u8]> + Sync],
) -> Result<u64, StoreError> {
    validate_name("a consumer", consumer)?;
    if ids.len() > BATCH_IDS_MAX {
        return Err(misconfigured(format!("a call forgets at most {BATCH_IDS_MAX} ids, not {}", ids.len())));
    }
    if ids.is_empty() {
        return Ok(0);
    }
    let stored: Vec<Vec<u8>> = ids.iter().map(|id| StoredId::new(id.as_ref()).as_bytes().to_vec()).collect();
    let values = [Value::Text(consumer), Value::BytesEach(&stored)];
    let rows = tx.ask("forget ids", &statements::ask(tables, "forget", values.len()), &values).await?;
    answer::<i64>(&rows).map(i64::unsigned_abs)
}
