//! A message of SQS, and what it says of itself.

use aws_sdk_sqs::types::{Message as Received, MessageSystemAttributeName as Attribute};
use hapax_message::{Described, MESSAGE_ID, cloudevents};
use std::borrow::Cow;
use std::ops::Deref;
use std::time::{Duration, Instant};

/// A message of SQS, as the client has it: [`aws_sdk_sqs::types::Message`], with its delivery.
///
/// Its [id](Described::id) is that of CloudEvents, if its attributes have one, the attribute
/// `message-id` of an outbox, or the `MessageId`, which SQS gives each time that a producer sends:
/// it detects deliveries that SQS repeats, and none that a producer repeats. For those, take a key
/// of the business from the body or an attribute, or the [deduplication
/// id](Self::deduplication_id) if producers set it (and not if the queue makes it of the content,
/// where two orders with the same content are two).
///
/// Its [key](Described::key) is the message group.
#[derive(Clone, Debug)]
pub struct Message {
    received: Received,
    at: Instant,
}

impl Message {
    /// Creates a message that was delivered at this time.
    pub fn new(received: Received, at: Instant) -> Self {
        Message { received, at }
    }

    /// Returns the message group, of a FIFO queue or of a fair one.
    pub fn group_id(&self) -> Option<&str> {
        self.attribute(Attribute::MessageGroupId)
    }

    /// Returns the id by which a FIFO queue drops what is sent again within five minutes.
    pub fn deduplication_id(&self) -> Option<&str> {
        self.attribute(Attribute::MessageDeduplicationId)
    }

    /// Returns the client's message.
    pub fn into_inner(self) -> Received {
        self.received
    }

    pub(crate) fn receipt(&self) -> &str {
        self.received.receipt_handle().unwrap_or_default()
    }

    pub(crate) fn receive_count(&self) -> Option<u32> {
        self.attribute(Attribute::ApproximateReceiveCount)?.parse().ok()
    }

    pub(crate) fn age(&self) -> Duration {
        self.at.elapsed()
    }

    fn attribute(&self, attribute: Attribute) -> Option<&str> {
        self.received.attributes()?.get(&attribute).map(String::as_str)
    }
}

impl Deref for Message {
    type Target = Received;

    fn deref(&self) -> &Received {
        &self.received
    }
}

impl Described for Message {
    fn header(&self, name: &str) -> Option<&str> {
        self.received.message_attributes()?.get(name)?.string_value()
    }

    fn payload(&self) -> &[u8] {
        self.received.body().unwrap_or_default().as_bytes()
    }

    fn id(&self) -> Option<Cow<'_, [u8]>> {
        if let Some(id) = cloudevents::id_of(self) {
            return Some(Cow::Owned(id.as_ref().to_vec()));
        }
        if let Some(id) = self.header(MESSAGE_ID) {
            return Some(Cow::Borrowed(id.as_bytes()));
        }
        self.received.message_id().map(|id| Cow::Borrowed(id.as_bytes()))
    }

    fn key(&self) -> Option<&[u8]> {
        self.group_id().map(str::as_bytes)
    }
}
