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

use super::{Message, NewMessage};
use hapax_message::Described as _;
use hapax_message::cloudevents::{Binding, Event, EventError};

/// The beginning of the content types of structured mode, in any format.
const STRUCTURED_PREFIX: &str = "application/cloudevents";

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
    /// publisher passes [`Message::headers`] on as they are.
    pub fn binary(event: &Event, binding: Binding) -> Self {
        let id = event.id().map(|id| id.into_owned()).unwrap_or_default();
        StoredEvent { event: event.clone(), id, headers: event.headers(binding) }
    }

    /// Returns the message to be received or enqueued.
    pub fn message(&self) -> NewMessage<'_> {
        NewMessage::new(&self.id, self.event.payload()).owned_headers(&self.headers).described_by(&self.event)
    }
}

impl Message {
    /// Returns the event that this message is: by its headers in binary mode, and otherwise by its
    /// id, source and kind.
    ///
    /// A header `traceparent` (and `tracestate`) that is beside an event's attributes is left to
    /// the caller; without any it becomes an extension.
    ///
    /// # Errors
    ///
    /// [`EventError`] if it is no event: for example if it has no source, or an id that is not
    /// text, or if it is in structured mode.
    pub fn event(&self) -> Result<Event, EventError> {
        let content_type = self.header("content-type").unwrap_or_default();
        if content_type.get(..STRUCTURED_PREFIX.len()).is_some_and(|it| it.eq_ignore_ascii_case(STRUCTURED_PREFIX)) {
            return Event::of(self);
        }
        if self.attribute("specversion").is_some() {
            let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            return Event::from_headers(headers, self.payload.clone());
        }
        self.described_event(content_type)
    }

    /// Returns the event that the columns make.
    fn described_event(&self, content_type: &str) -> Result<Event, EventError> {
        let id = std::str::from_utf8(&self.id).unwrap_or_default();
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        let mut event = Event::new(id, text(self.source.as_deref()), text(self.kind.as_deref()))?;
        if let Some(subject) = &self.subject {
            event = event.with_subject(subject)?;
        }
        let key = self.key.as_deref().and_then(|key| std::str::from_utf8(key).ok());
        let (parent, state) = (self.header("traceparent"), self.header("tracestate"));
        for (name, value) in [("partitionkey", key), ("traceparent", parent), ("tracestate", state)] {
            // A key that is no text of an event, or a trace that breaks the rules, is left out.
            if let Some(value) = value
                && let Ok(extended) = event.clone().with_extension(name, value)
            {
                event = extended;
            }
        }
        let content_type = if content_type.is_empty() { "application/octet-stream" } else { content_type };
        event.with_data(content_type, self.payload.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::plain;

    fn event() -> Event {
        let event = Event::new("17", "/orders", "order.paid").unwrap().with_subject("order-17 €").unwrap();
        let event = event.with_extension("partitionkey", "order-17").unwrap();
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let event = event.with_extension("traceparent", trace).unwrap();
        event.with_data("application/json", r#"{"order":17}"#).unwrap()
    }

    fn as_received(stored: &StoredEvent) -> Message {
        let message = stored.message();
        Message {
            id: message.id.to_vec(),
            key: message.key.map(<[u8]>::to_vec),
            kind: message.kind.map(str::to_owned),
            source: message.source.map(str::to_owned),
            subject: message.subject.map(str::to_owned),
            headers: stored.headers.clone(),
            payload: message.payload.to_vec(),
            ..plain()
        }
    }

    #[test]
    fn a_message_with_columns_alone_is_an_event_and_without_a_source_none() {
        let stored = as_received(&StoredEvent::binary(&event(), Binding::Kafka));
        let stored = Message { headers: Vec::new(), id: b"m-1".to_vec(), ..stored };
        let read = stored.event().unwrap();
        assert_eq!((read.event_id(), read.kind(), read.subject()), ("m-1", Some("order.paid"), Some("order-17 €")));
        assert_eq!((read.key(), read.data()), (Some(&b"order-17"[..]), Some(&br#"{"order":17}"#[..])));
        for (without, attribute) in [
            (Message { source: None, ..stored.clone() }, "source"),
            (Message { kind: None, ..stored.clone() }, "type"),
            (Message { id: vec![0xff], ..stored }, "id"),
        ] {
            assert_eq!(without.event().unwrap_err().attribute(), Some(attribute));
        }
    }

    #[test]
    fn structured_mode_is_known_by_its_content_type() {
        let of = |content_type: &str, payload: &[u8]| {
            let message = as_received(&StoredEvent::binary(&event(), Binding::Kafka));
            let headers = vec![("Content-Type".into(), content_type.into())];
            Message { id: b"m-1".to_vec(), headers, payload: payload.to_vec(), ..message }
        };
        assert!(of("application/cloudevents+json; charset=utf-8", b"{").event().is_err());
        assert!(of("Application/CloudEvents-batch+json", b"[]").event().is_err());
        assert_eq!(of("application/json", b"{").event().unwrap().data(), Some(&b"{"[..]));
    }
}
