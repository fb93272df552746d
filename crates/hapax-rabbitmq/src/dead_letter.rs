//! The copy of a message that is put aside.

use crate::Message;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable};

/// The mode of messages that survive the broker.
pub(crate) const PERSISTENT: u8 = 2;

/// Returns the properties of a copy: those of the message, the reason, and where it comes from.
///
/// Some would be obeyed: the copy would expire, go to further queues, or be refused since another
/// user has published the original. They keep their value in a header.
pub(crate) fn properties(message: &Message, queue: &str, why: &str) -> BasicProperties {
    let original = &message.properties;
    let mut headers = FieldTable::default();
    for (name, value) in original.headers().iter().flat_map(|headers| headers.inner()) {
        match name.as_str() {
            "CC" | "BCC" => {
                headers.insert(format!("dead-letter-{}", name.as_str().to_lowercase()).into(), value.clone())
            }
            _ => headers.insert(name.clone(), value.clone()),
        };
    }
    let mut set = |name: &str, value: &str| {
        headers.insert(format!("dead-letter-{name}").into(), AMQPValue::LongString(value.into()));
    };
    set("reason", why);
    set("queue", queue);
    set("exchange", message.exchange.as_str());
    set("routing-key", message.routing_key.as_str());
    if let Some(expiration) = original.expiration() {
        set("expiration", expiration.as_str());
    }
    if let Some(user) = original.user_id() {
        set("user-id", user.as_str());
    }
    copied(original).with_headers(headers).with_delivery_mode(PERSISTENT)
}

/// Returns the properties that are copied as they are.
fn copied(original: &BasicProperties) -> BasicProperties {
    let mut copy = BasicProperties::default();
    if let Some(value) = original.content_type() {
        copy = copy.with_content_type(value.clone());
    }
    if let Some(value) = original.content_encoding() {
        copy = copy.with_content_encoding(value.clone());
    }
    if let Some(value) = original.priority() {
        copy = copy.with_priority(*value);
    }
    if let Some(value) = original.correlation_id() {
        copy = copy.with_correlation_id(value.clone());
    }
    if let Some(value) = original.reply_to() {
        copy = copy.with_reply_to(value.clone());
    }
    if let Some(value) = original.message_id() {
        copy = copy.with_message_id(value.clone());
    }
    if let Some(value) = original.timestamp() {
        copy = copy.with_timestamp(*value);
    }
    if let Some(value) = original.kind() {
        copy = copy.with_type(value.clone());
    }
    if let Some(value) = original.app_id() {
        copy = copy.with_app_id(value.clone());
    }
    copy
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Message;
    use lapin::message::Delivery;

    #[test]
    fn what_would_be_obeyed_is_kept_in_headers() {
        let mut headers = FieldTable::default();
        headers.insert("CC".into(), AMQPValue::LongString("elsewhere".into()));
        headers.insert("tenant".into(), AMQPValue::LongInt(7));
        let mut delivery = Delivery::mock(1, "shop".into(), "eu".into(), false, Vec::new());
        delivery.properties = BasicProperties::default()
            .with_expiration("1000".into())
            .with_user_id("shop".into())
            .with_message_id("o-1".into())
            .with_type("placed".into())
            .with_delivery_mode(1)
            .with_headers(headers);
        let copy = properties(&Message(delivery), "orders", "it failed");
        assert_eq!((copy.expiration(), copy.user_id()), (&None, &None));
        assert_eq!((copy.message_id().as_ref().unwrap().as_str(), copy.delivery_mode()), ("o-1", &Some(PERSISTENT)));
        assert_eq!(copy.kind().as_ref().unwrap().as_str(), "placed");
        let headers = copy.headers().as_ref().unwrap().inner();
        assert!(!headers.contains_key("CC") && headers["tenant"] == AMQPValue::LongInt(7));
        let kept = [
            ("cc", "elsewhere"),
            ("expiration", "1000"),
            ("user-id", "shop"),
            ("queue", "orders"),
            ("exchange", "shop"),
            ("routing-key", "eu"),
            ("reason", "it failed"),
        ];
        for (name, value) in kept {
            assert_eq!(headers[format!("dead-letter-{name}").as_str()], AMQPValue::LongString(value.into()), "{name}");
        }
    }
}
