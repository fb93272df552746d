//! A message of JetStream, and what it says of itself.

use async_nats::header::{HeaderName, NATS_MESSAGE_ID};
use async_nats::jetstream;
use hapax_message::{Described, cloudevents};
use std::borrow::Cow;
use std::ops::Deref;

/// A message of JetStream, as the client has it: its fields are those of
/// [`async_nats::jetstream::Message`].
///
/// Its [id](Described::id) is that of CloudEvents, if it has one, or the header `Nats-Msg-Id`, by
/// which JetStream itself drops duplicates within the stream's window. Headers are asked for as
/// they were sent, since NATS distinguishes upper and lower case.
#[derive(Clone, Debug)]
pub struct Message(pub(crate) jetstream::Message);

impl Message {
    /// Returns the position of the message in its stream.
    pub(crate) fn stream_sequence(&self) -> u64 {
        self.0.info().map_or(0, |info| info.stream_sequence)
    }

    /// Returns the client's message.
    pub fn into_inner(self) -> jetstream::Message {
        self.0
    }
}

impl From<jetstream::Message> for Message {
    fn from(message: jetstream::Message) -> Self {
        Message(message)
    }
}

impl Deref for Message {
    type Target = jetstream::Message;

    fn deref(&self) -> &jetstream::Message {
        &self.0
    }
}

impl Described for Message {
    fn header(&self, name: &str) -> Option<&str> {
        // (The client panics when it is asked for a name that no header can have, such as those of
        // AMQP.)
        let name: HeaderName = name.parse().ok()?;
        self.0.headers.as_ref()?.get(name).map(|value| value.as_str())
    }

    fn payload(&self) -> &[u8] {
        &self.0.payload
    }

    fn id(&self) -> Option<Cow<'_, [u8]>> {
        if let Some(id) = cloudevents::id_of(self) {
            return Some(Cow::Owned(id.as_ref().to_vec()));
        }
        let id = self.0.headers.as_ref()?.get(NATS_MESSAGE_ID)?;
        Some(Cow::Borrowed(id.as_str().as_bytes()))
    }
}
