//! The attributes of a message that is put aside.

use crate::{Message, SqsError};
use aws_sdk_sqs::types::MessageAttributeValue;
use std::collections::HashMap;

/// The attribute that has the reason.
pub(crate) const REASON: &str = "Dead-Letter-Reason";
/// The attribute that has SQS's id of the original.
pub(crate) const MESSAGE_ID: &str = "Dead-Letter-Message-Id";
/// The largest number of attributes of a message.
const ATTRIBUTES_MAX: usize = 10;
/// The largest number of bytes of a reason.
const REASON_MAX: usize = 1_024;
const TEXT: &str = "String";

pub(crate) type Attributes = HashMap<String, MessageAttributeValue>;

/// Returns the attributes of a copy: those of the message, the reason, and its id, as far as there
/// is room for the last two: a message has up to ten attributes, and its size is limited.
pub(crate) fn attributes(message: &Message, why: &str, size_max: usize) -> Result<Attributes, SqsError> {
    let mut attributes = message.message_attributes().cloned().unwrap_or_default();
    // (Those of an earlier time that it was put aside.)
    attributes.retain(|name, _| name != REASON && name != MESSAGE_ID);
    let size = message.body().unwrap_or_default().len() + attributes.iter().map(size_of).sum::<usize>();
    let mut left = size_max.checked_sub(size).ok_or(SqsError::DeadLetterTooLarge { max: size_max, got: size })?;
    for (name, value) in [(REASON, why), (MESSAGE_ID, message.message_id().unwrap_or_default())] {
        let room = left.saturating_sub(name.len() + TEXT.len()).min(REASON_MAX);
        let value = text(value, room);
        if attributes.len() >= ATTRIBUTES_MAX || value.is_empty() {
            continue;
        }
        let attribute = MessageAttributeValue::builder().data_type(TEXT).string_value(value).build();
        if let Ok(attribute) = attribute {
            left -= size_of((&name.to_owned(), &attribute));
            attributes.insert(name.to_owned(), attribute);
        }
    }
    Ok(attributes)
}

fn size_of((name, value): (&String, &MessageAttributeValue)) -> usize {
    let text = value.string_value().map_or(0, str::len);
    let bytes = value.binary_value().map_or(0, |bytes| bytes.as_ref().len());
    name.len() + value.data_type().len() + text + bytes
}

/// Returns as much of a text as there is room for, without the characters that SQS refuses.
fn text(text: &str, room: usize) -> String {
    let mut kept = String::new();
    for char in text.chars() {
        let char = match char {
            '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'.. => char,
            _ => '\u{fffd}',
        };
        if kept.len() + char.len_utf8() > room {
            break;
        }
        kept.push(char);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_sdk_sqs::primitives::Blob;
    use aws_sdk_sqs::types::Message as Received;
    use std::time::Instant;

    fn message(body: &str, attributes: usize) -> Message {
        let bytes = || MessageAttributeValue::builder().data_type("Binary").binary_value(Blob::new(b"12345")).build();
        let attributes = (0..attributes).map(|number| (format!("a{number}"), bytes().unwrap())).collect();
        let received =
            Received::builder().body(body).message_id("m-1").set_message_attributes(Some(attributes)).build();
        Message::new(received, Instant::now())
    }

    fn value<'a>(attributes: &'a Attributes, name: &str) -> Option<&'a str> {
        attributes.get(name).and_then(MessageAttributeValue::string_value)
    }

    #[test]
    fn the_reason_is_added_where_there_is_room() {
        let copy = attributes(&message("body", 2), "it failed", 1_000).unwrap();
        assert_eq!((copy.len(), value(&copy, REASON), value(&copy, MESSAGE_ID)), (4, Some("it failed"), Some("m-1")));
        for (own, reason, id) in [(8, true, true), (9, true, false), (10, false, false)] {
            let copy = attributes(&message("body", own), "it failed", 1_000).unwrap();
            assert_eq!((copy.contains_key(REASON), copy.contains_key(MESSAGE_ID)), (reason, id), "{own}");
            assert!((0..own).all(|number| copy.contains_key(&format!("a{number}"))));
        }
        let copy = attributes(&message("body", 0), "", 1_000).unwrap();
        assert_eq!(value(&copy, REASON), None, "SQS refuses empty values");
    }

    #[test]
    fn a_copy_is_no_larger_than_its_queue_accepts() {
        // The body has 4 bytes, each attribute 2 + 6 + 5.
        let of = |max| attributes(&message("body", 2), &"é".repeat(1_000), max);
        for max in 0..30 {
            let refused = of(max).unwrap_err();
            assert!(matches!(refused, SqsError::DeadLetterTooLarge { got: 30, .. }), "{max}: {refused}");
        }
        for max in 30..1_200 {
            let copy = of(max).unwrap();
            let size = 4 + copy.iter().map(size_of).sum::<usize>();
            assert!(size <= max, "{size} > {max}");
            assert_eq!(value(&copy, REASON).is_some(), max >= 30 + REASON.len() + TEXT.len() + 2, "{max}");
        }
        assert_eq!(value(&of(10_000).unwrap(), REASON).map(str::len), Some(REASON_MAX));
    }

    #[test]
    fn characters_that_are_refused_are_replaced() {
        assert_eq!(text("a\0b\u{1b}\tc\u{ffff}d\u{1f600}", 100), "a\u{fffd}b\u{fffd}\tc\u{fffd}d\u{1f600}");
        assert_eq!(text("aé", 2), "a");
    }
}
