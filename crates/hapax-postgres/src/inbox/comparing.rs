//! Messages that are received with a fingerprint of what they say.

use super::seen_at;
use crate::message::validate_name;
use crate::schema::statements;
use crate::schema::tables::Tables;
use crate::telemetry::meters;
use crate::transaction::{Transaction, Value};
use crate::{NewMessage, Seen};
use hapax_message::OnMismatch;
use hapax_store::{Fingerprint, StoreError, StoredId};
use std::time::SystemTime;

/// The answer for a message whose content was compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// Nobody has its id but itself: it is stored now, or was before.
    Same(Seen),
    /// Its id is that of another message.
    Mismatch {
        /// The time at which that one came in, by the server's clock.
        first_at: SystemTime,
    },
}

/// Stores a message for this consumer's [`Worker`](crate::Worker), as [`receive`](super::receive)
/// does, and compares what messages of one id say: one whose id came in with another content is no
/// redelivery.
///
/// ```no_run
/// use hapax_postgres::inbox::{self, Compared};
/// use hapax_postgres::{NewMessage, OnMismatch, Tables};
///
/// # async fn example(client: &mut tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
/// let tables = Tables::new("public", "shop")?;
/// let payload = r#"{"order": 17}"#;
/// let message = NewMessage::new("m-17", payload);
/// let mut tx = client.transaction().await?;
/// let compared =
///     inbox::receive_compared(&mut tx, &tables, "billing", message, payload, OnMismatch::DeadLetter).await?;
/// if let Compared::Mismatch { first_at } = compared {
///     println!("m-17 came at {first_at:?}, and said something else");
/// }
/// tx.commit().await?; // now acknowledge: it is stored, as a dead letter perhaps
/// # Ok(())
/// # }
/// ```
///
/// Of the content, which is the payload or a part of it, a fingerprint is kept with the mark. Give
/// what is the same in each copy, and nothing else: no time of sending, no attempt, no trace. A
/// message whose id is another one's is stored as a dead letter, which
/// [`requeue`](super::requeue) has handled; or for a worker, at its place in its key's order; or
/// not at all.
///
/// # Guarantees
///
/// Those of [`receive`](super::receive). A mismatch is certain: an id that was marked without a
/// fingerprint, or that waits though its mark is gone, is a duplicate. A message that is stored in
/// spite of its id is stored once, however often it comes, until it is handled or discarded.
///
/// # Errors
///
/// Those of [`receive`](super::receive).
///
/// # Cost
///
/// That of [`receive`](super::receive), a hash, and 24 bytes for each mark; for a duplicate a
/// lookup more.
pub async fn receive_compared(
    tx: &mut impl Transaction,
    tables: &Tables,
    consumer: &str,
    message: NewMessage<'_>,
    content: impl AsRef<[u8]>,
    on_mismatch: OnMismatch,
) -> Result<Compared, StoreError> {
    validate_name("a consumer", consumer)?;
    message.validate()?;
    let (mark, headers) = (StoredId::new(message.id), message.array());
    let Fingerprint(content) = Fingerprint::of(content);
    let how = match on_mismatch {
        OnMismatch::DeadLetter => "dead_letter",
        OnMismatch::Handle => "handle",
        OnMismatch::Drop => "drop",
    };
    let marked = [Value::Text(consumer), Value::Bytes(mark.as_bytes())];
    let compared = [Value::Bytes(&content), Value::Text(how)];
    let values = [&marked[..], &message.values(headers.as_deref()), &compared].concat();
    let sql = statements::call(tables, "inbox_compare", values.len());
    let rows = tx.ask("receive a message", &sql, &values).await?;
    let row = rows.first().ok_or_else(|| crate::errors::corrupt("expected an answer, got none"))?;
    Ok(match (seen_at(row.get("first_at")?), row.get("is_other")?) {
        (Seen::Duplicate { first_at }, true) => {
            meters::mismatched(consumer);
            Compared::Mismatch { first_at }
        }
        (seen, _) => Compared::Same(seen),
    })
}
