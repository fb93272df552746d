//! Events of [CloudEvents](hapax_message::cloudevents) in inbox and outbox: in binary mode, where
//! headers say what the payload is.
//!
//! ```no_run
//! use hapax_message::cloudevents::{Binding, Event};
//! use hapax_postgres::cloudevents::StoredEvent;
//! use hapax_postgres::{BoxError, Message, Tables, outbox};
//!
//! # async fn example(client: &mut tokio_postgres::Client) -> Result<(), BoxError> {
//! let event = Event::new("17", "/orders", "order.paid")?
//!     .with_subject("order-17")?
//!     .with_extension("partitionkey", "order-17")?
//!     .with_data("application/json", r#"{"order": 17}"#)?;
//! let stored = StoredEvent::binary(&event, Binding::Kafka);
//! let mut tx = client.transaction().await?;
//! outbox::enqueue(&mut tx, &Tables::new("public", "shop")?, "orders", stored.message()).await?;
//! tx.commit().await?;
//! # Ok(())
//! # }
//!
//! // In a handler, or in a publisher:
//! fn read(message: &Message) -> Result<Event, BoxError> {
//!     Ok(message.event()?)
//! }
//! ```

use super::NewMessage;
use hapax_message::Described as _;
use hapax_message::cloudevents::{Binding, Event};

/// An event in the form in which it is stored.
///
/// Its id is [`cloudevents::id`](hapax_message::cloudevents::id), of source and id together: an
/// event that its producer sends again is recognized. Its key is the extension `partitionkey`.
/// Kind, source and subject are those of the event, and are columns as of any other message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEvent {
    event: Event,
    id: Vec<u8>,
    headers: Vec<(String, String)>,
}

impl StoredEvent {
    /// Returns the event in binary mode, with the headers of the broker that it goes to: a
    /// publisher passes [`Message::headers`](hapax_message::Message) on as they are.
    pub fn binary(event: &Event, binding: Binding) -> Self {
        let id = event.id().map(|id| id.into_owned()).unwrap_or_default();
        StoredEvent { event: event.clone(), id, headers: event.headers(binding) }
    }

    /// Returns the message to be received or enqueued.
    pub fn message(&self) -> NewMessage<'_> {
        NewMessage::new(&self.id, self.event.payload()).owned_headers(&self.headers).described_by(&self.event)
    }
}
