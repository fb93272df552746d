//! A message on its way from an outbox to a broker, or from an inbox to its handler.

mod described;
mod event;

use std::time::SystemTime;

/// A message as a handler or a [`Publisher`](crate::Publisher) gets it.
///
/// ```
/// use hapax_message::Message;
///
/// let mut message = Message::new("orders", "order-17/paid", br#"{"order": 17}"#);
/// message.key = Some(b"order-17".to_vec());
/// message.headers.push(("Content-Type".into(), "application/json".into()));
/// assert_eq!(message.header("content-type"), Some("application/json"));
/// ```
///
/// It is [`Described`](crate::Described): kind, source and subject are those that it was given, or
/// else those of its headers of CloudEvents.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message {
    /// The consumer that received it, or the topic it goes to.
    pub name: String,
    /// Its id, by which its recipient recognizes a redelivery.
    pub id: Vec<u8>,
    /// The key within which it has its place.
    pub key: Option<Vec<u8>>,
    /// The type of the event.
    pub kind: Option<String>,
    /// The context in which it happened.
    pub source: Option<String>,
    /// The thing that it is about.
    pub subject: Option<String>,
    /// Names and values that were given with it.
    pub headers: Vec<(String, String)>,
    /// Its content.
    pub payload: Vec<u8>,
    /// The number of failed attempts before this one, as far as it is known.
    pub attempts: u32,
    /// The time at which it was stored, by the server's clock.
    pub enqueued_at: SystemTime,
}

impl Message {
    /// Creates a message for this topic or consumer that says nothing more, of 1970.
    pub fn new(name: impl Into<String>, id: impl Into<Vec<u8>>, payload: impl Into<Vec<u8>>) -> Self {
        Message {
            name: name.into(),
            id: id.into(),
            key: None,
            kind: None,
            source: None,
            subject: None,
            headers: Vec::new(),
            payload: payload.into(),
            attempts: 0,
            enqueued_at: SystemTime::UNIX_EPOCH,
        }
    }

    /// Returns the value of the first header of this name, in upper or lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(of, _)| of.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}
