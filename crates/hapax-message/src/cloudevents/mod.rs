//! [CloudEvents](https://cloudevents.io) 1.0 in binary mode: events that say in the headers of a
//! message what they are. (In structured mode, the body says it: that is read by the crate
//! `cloudevents-sdk`, and [`id`] makes the id.)
//!
//! ```
//! use hapax_message::cloudevents::{Binding, Event};
//! use hapax_message::Described;
//!
//! let event = Event::new("17", "/orders", "order.placed")?
//!     .with_subject("order-17")?
//!     .with_data("application/json", r#"{"total": 12}"#)?;
//!
//! // The payload is the data, and the headers say the rest.
//! let headers = event.headers(Binding::Kafka);
//! assert!(headers.contains(&("ce_type".to_owned(), "order.placed".to_owned())));
//!
//! let received = headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
//! let received = Event::from_headers(received, event.payload())?;
//! assert_eq!(received, event);
//! # Ok::<(), hapax_message::cloudevents::EventError>(())
//! ```
//!
//! # The id
//!
//! An event's `id` is unique within its `source` alone: "producers MUST ensure that `source` + `id`
//! is unique for each distinct event", and two events of the same are duplicates. So the id for
//! deduplication is [`id`]`(source, id)`, which [`Event`] returns as [`Described::id`], and so do
//! messages in binary mode. It holds what the producer keeps: one that draws a new id when it sends
//! an event again makes another event of it.

mod binary;
mod error;
mod event;
mod rules;

pub use binary::Binding;
pub use error::EventError;
pub use event::Event;

use crate::attributes;
use crate::described::Described;
use hapax::Key;

/// Returns the id of an event for deduplication: source and id together, such that different ones
/// make different keys.
///
/// ```
/// use hapax_message::cloudevents;
///
/// assert_ne!(cloudevents::id("/orders", "17"), cloudevents::id("/invoices", "17"));
/// ```
pub fn id(source: &str, id: &str) -> Key {
    attributes::id_of(source, id)
}

/// Returns the id of a message in binary mode, by its headers; none if `id` or `source` is missing.
/// For brokers' implementations of [`Described::id`].
pub fn id_of<M: Described + ?Sized>(message: &M) -> Option<Key> {
    attributes::id(&|name| message.header(name))
}
