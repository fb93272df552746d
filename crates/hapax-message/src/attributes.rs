//! The headers in which brokers carry CloudEvents' attributes (binary mode), by name.

use hapax::Key;
use percent_encoding::percent_decode_str;
use std::borrow::Cow;

/// The names of one attribute: of HTTP and NATS, of Kafka, and two of AMQP.
pub(crate) type Names = [&'static str; 4];

macro_rules! names {
    ($attribute:literal) => {
        [
            concat!("ce-", $attribute),
            concat!("ce_", $attribute),
            concat!("cloudEvents:", $attribute),
            concat!("cloudEvents_", $attribute),
        ]
    };
}

/// The prefix whose values are percent-encoded: headers of HTTP and NATS are ASCII.
pub(crate) const PERCENT_ENCODED: &str = "ce-";
/// The prefixes of all bindings.
pub(crate) const PREFIXES: [&str; 4] = [PERCENT_ENCODED, "ce_", "cloudEvents:", "cloudEvents_"];

pub(crate) const ID: Names = names!("id");
pub(crate) const SOURCE: Names = names!("source");
pub(crate) const TYPE: Names = names!("type");
pub(crate) const SUBJECT: Names = names!("subject");
pub(crate) const PARTITION_KEY: Names = names!("partitionkey");
pub(crate) const TRACEPARENT: Names = names!("traceparent");
pub(crate) const TRACESTATE: Names = names!("tracestate");

/// Returns an attribute as its header has it; none if it is empty.
pub(crate) fn raw<'m>(header: &dyn Fn(&str) -> Option<&'m str>, names: &Names) -> Option<&'m str> {
    names.iter().find_map(|name| header(name)).filter(|value| !value.is_empty())
}

/// Returns an attribute's value; none if it is empty, or cannot be decoded.
pub(crate) fn decoded<'m>(header: &dyn Fn(&str) -> Option<&'m str>, names: &Names) -> Option<Cow<'m, str>> {
    let (name, value) = names.iter().find_map(|name| Some((name, header(name)?)))?;
    let value = if name.starts_with(PERCENT_ENCODED) { decode(value)? } else { Cow::Borrowed(value) };
    (!value.is_empty()).then_some(value)
}

/// Returns the id of an event for deduplication; none if one of its two attributes is missing.
pub(crate) fn id<'m>(header: &dyn Fn(&str) -> Option<&'m str>) -> Option<Key> {
    let source = decoded(header, &SOURCE)?;
    Some(id_of(&source, &decoded(header, &ID)?))
}

pub(crate) fn id_of(source: &str, id: &str) -> Key {
    Key::new().text(source).text(id).clone()
}

/// Decodes a header of HTTP or NATS: older senders quote it, others encode it. None if it is not
/// UTF-8 then.
pub(crate) fn decode(value: &str) -> Option<Cow<'_, str>> {
    match value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        None => percent_decode_str(value).decode_utf8().ok(),
        Some(quoted) => {
            let plain = unescaped(quoted);
            Some(Cow::Owned(percent_decode_str(&plain).decode_utf8().ok()?.into_owned()))
        }
    }
}

/// Removes the backslashes of a quoted string (RFC 9110, section 5.6.4).
fn unescaped(quoted: &str) -> String {
    let mut chars = quoted.chars();
    let mut plain = String::with_capacity(quoted.len());
    while let Some(char) = chars.next() {
        plain.extend(if char == '\\' { chars.next() } else { Some(char) });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_http_are_decoded_as_its_binding_says() {
        let cases = [
            ("plain", Some("plain")),
            ("Euro%20%E2%82%AC%20%F0%9F%98%80", Some("Euro € 😀")),
            ("%e2%82%ac", Some("€")),
            (r#""a \"b\" \\ c""#, Some(r#"a "b" \ c"#)),
            (r#""a%20b""#, Some("a b")),
            ("100%", Some("100%")),
            ("%C0%A0", None),
            ("\"", Some("\"")),
            (r#""a\""#, Some("a")),
        ];
        for (value, expected) in cases {
            assert_eq!(decode(value).as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn only_headers_with_that_prefix_are_decoded() {
        for (prefix, expected) in PREFIXES.into_iter().zip(["a b", "a%20b", "a%20b", "a%20b"]) {
            let name = format!("{prefix}id");
            let header = |asked: &str| (asked == name).then_some("a%20b");
            assert_eq!(decoded(&header, &ID).as_deref(), Some(expected), "{name}");
            assert_eq!(raw(&header, &ID), Some("a%20b"));
        }
        assert_eq!((raw(&|_| Some(""), &ID), decoded(&|_| Some(""), &ID)), (None, None));
    }
}
