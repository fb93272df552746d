//! A message of RabbitMQ, and what it says of itself.

use hapax_message::{Described, cloudevents};
use lapin::message::Delivery;
use lapin::types::AMQPValue;
use std::borrow::Cow;
use std::ops::Deref;

/// A message of RabbitMQ, as the client has it: its fields are those of
/// [`lapin::message::Delivery`].
///
/// Its [id](Described::id) is that of CloudEvents, if it has one, or the property `message-id`,
/// which the publisher sets: RabbitMQ gives none. Its [kind](Described::kind) is that of
/// CloudEvents, or the property `type`. The property `content-type` is the header of that name.
#[derive(Debug)]
pub struct Message(pub(crate) Delivery);

impl Message {
    /// Returns the number of times that the broker has delivered it, as far as it says: quorum
    /// queues count, others know only that it was delivered before. A count in a first delivery is
    /// that of another queue, from which the message was moved with its headers.
    pub(crate) fn deliveries(&self) -> u32 {
        if !self.0.redelivered {
            return 1;
        }
        let headers = self.0.properties.headers().as_ref();
        let before = headers.and_then(|headers| headers.inner().get("x-delivery-count")).and_then(number).unwrap_or(0);
        before.max(1).saturating_add(1)
    }

    /// Returns the client's message.
    pub fn into_inner(self) -> Delivery {
        self.0
    }
}

impl From<Delivery> for Message {
    fn from(delivery: Delivery) -> Self {
        Message(delivery)
    }
}

impl Deref for Message {
    type Target = Delivery;

    fn deref(&self) -> &Delivery {
        &self.0
    }
}

impl Described for Message {
    fn header(&self, name: &str) -> Option<&str> {
        let properties = &self.0.properties;
        let value = properties.headers().as_ref().and_then(|headers| headers.inner().get(name));
        match value {
            Some(AMQPValue::LongString(value)) => std::str::from_utf8(value.as_bytes()).ok(),
            Some(AMQPValue::ShortString(value)) => Some(value.as_str()),
            _ if name.eq_ignore_ascii_case("content-type") => {
                properties.content_type().as_ref().map(|value| value.as_str())
            }
            _ => None,
        }
    }

    fn payload(&self) -> &[u8] {
        &self.0.data
    }

    fn id(&self) -> Option<Cow<'_, [u8]>> {
        if let Some(id) = cloudevents::id_of(self) {
            return Some(Cow::Owned(id.as_ref().to_vec()));
        }
        let id = self.0.properties.message_id().as_ref()?;
        Some(Cow::Borrowed(id.as_str().as_bytes()))
    }

    fn kind(&self) -> Option<&str> {
        let event = ["cloudEvents:type", "cloudEvents_type"].into_iter().find_map(|name| self.header(name));
        let kind = event.or_else(|| self.0.properties.kind().as_ref().map(|kind| kind.as_str()));
        kind.filter(|kind| !kind.is_empty())
    }
}

/// Returns a count, whichever integer the broker has put it into.
fn number(value: &AMQPValue) -> Option<u32> {
    match *value {
        AMQPValue::ShortShortInt(n) => u32::try_from(n).ok(),
        AMQPValue::ShortShortUInt(n) => Some(n.into()),
        AMQPValue::ShortInt(n) => u32::try_from(n).ok(),
        AMQPValue::ShortUInt(n) => Some(n.into()),
        AMQPValue::LongInt(n) => u32::try_from(n).ok(),
        AMQPValue::LongUInt(n) => Some(n),
        AMQPValue::LongLongInt(n) => u32::try_from(n).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lapin::BasicProperties;
    use lapin::types::FieldTable;

    fn message(redelivered: bool, properties: BasicProperties) -> Message {
        let mut delivery = Delivery::mock(1, "".into(), "orders".into(), redelivered, b"an order".to_vec());
        delivery.properties = properties;
        Message(delivery)
    }

    fn with(headers: &[(&str, AMQPValue)]) -> BasicProperties {
        let mut table = FieldTable::default();
        headers.iter().for_each(|(name, value)| {
            table.insert((*name).into(), value.clone());
        });
        BasicProperties::default().with_headers(table)
    }

    fn text(text: &str) -> AMQPValue {
        AMQPValue::LongString(text.into())
    }

    #[test]
    fn deliveries_are_counted_as_well_as_the_queue_can() {
        let count = |value| with(&[("x-delivery-count", value)]);
        let cases = [
            (false, BasicProperties::default(), 1),
            (true, BasicProperties::default(), 2),
            (true, count(AMQPValue::LongLongInt(1)), 2),
            (true, count(AMQPValue::LongLongInt(6)), 7),
            (true, count(AMQPValue::ShortShortUInt(6)), 7),
            (true, count(AMQPValue::LongInt(-1)), 2),
            (true, count(text("6")), 2),
            (true, count(AMQPValue::LongUInt(u32::MAX)), u32::MAX),
            (false, count(AMQPValue::LongLongInt(6)), 1),
        ];
        for (redelivered, properties, expected) in cases {
            let message = message(redelivered, properties);
            assert_eq!(message.deliveries(), expected, "{message:?}");
        }
    }

    #[test]
    fn a_message_is_described_by_its_event_or_by_its_properties() {
        let properties = BasicProperties::default().with_message_id("m-1".into()).with_type("placed".into());
        let plain = message(false, properties.clone().with_content_type("text/plain".into()));
        assert_eq!((plain.id().as_deref(), plain.kind()), (Some(&b"m-1"[..]), Some("placed")));
        assert_eq!((plain.header("content-type"), plain.payload()), (Some("text/plain"), &b"an order"[..]));
        let headers =
            [("cloudEvents:id", text("17")), ("cloudEvents:source", text("/a")), ("cloudEvents:type", text("t"))];
        let headers = with(&headers).headers().clone().unwrap();
        let event = message(false, properties.with_headers(headers));
        assert_eq!(event.id().as_deref(), Some(cloudevents::id("/a", "17").as_ref()));
        assert_eq!((event.kind(), event.header("cloudEvents:id")), (Some("t"), Some("17")));
        let nothing = message(false, with(&[("number", AMQPValue::LongInt(1))]));
        assert_eq!((nothing.id(), nothing.kind(), nothing.header("number")), (None, None, None));
    }
}
