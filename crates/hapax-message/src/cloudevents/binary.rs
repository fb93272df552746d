//! Binary mode: attributes in headers, and the data as the payload.

use super::error::EventError;
use super::event::Event;
use super::rules;
use crate::attributes::{self, PERCENT_ENCODED, PREFIXES};
use crate::described::Described;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The characters that headers of HTTP and NATS have encoded, beside those that are not ASCII.
const ENCODED: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'%');

/// The attributes that are looked for in a message whose headers cannot be listed.
const KNOWN: [&str; 11] = [
    "id",
    "source",
    "type",
    "specversion",
    "subject",
    "time",
    "dataschema",
    "partitionkey",
    "traceparent",
    "tracestate",
    "sequence",
];

/// The protocol whose headers carry the attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Binding {
    /// HTTP: `ce-…`, percent-encoded.
    Http,
    /// NATS: the same, and the content type is `ce-datacontenttype`.
    Nats,
    /// Kafka: `ce_…`.
    Kafka,
    /// AMQP: `cloudEvents:…`; the content type belongs into the property `content-type`.
    Amqp,
}

impl Binding {
    fn prefix(self) -> &'static str {
        match self {
            Binding::Http | Binding::Nats => PERCENT_ENCODED,
            Binding::Kafka => "ce_",
            Binding::Amqp => "cloudEvents:",
        }
    }

    fn header(self, attribute: &str, value: &str) -> (String, String) {
        let name = match (self, attribute) {
            (Binding::Nats, _) => format!("{}{attribute}", self.prefix()),
            (_, "datacontenttype") => return ("content-type".to_owned(), value.to_owned()),
            _ => format!("{}{attribute}", self.prefix()),
        };
        if self.prefix() == PERCENT_ENCODED {
            (name, utf8_percent_encode(value, ENCODED).to_string())
        } else {
            (name, value.to_owned())
        }
    }
}

impl Event {
    /// Returns the headers of a message in binary mode. Its payload is the event's
    /// [`payload`](Described::payload).
    pub fn headers(&self, binding: Binding) -> Vec<(String, String)> {
        let required =
            [("specversion", rules::SPECVERSION), ("id", &self.id), ("source", &self.source), ("type", &self.kind)];
        let optional = [
            ("subject", &self.subject),
            ("time", &self.time),
            ("dataschema", &self.schema),
            ("datacontenttype", &self.content_type),
        ];
        let optional = optional.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
        let mut headers: Vec<_> =
            required.into_iter().chain(optional).map(|(name, value)| binding.header(name, value)).collect();
        headers.extend(self.extensions.iter().map(|(name, value)| binding.header(name, value)));
        headers
    }

    /// Reads a message in binary mode: all its headers, of which those of CloudEvents are used, and
    /// its payload.
    ///
    /// # Errors
    ///
    /// [`EventError`] names the attribute that is missing, invalid, or there twice with different
    /// values.
    pub fn from_headers<'h>(
        headers: impl IntoIterator<Item = (&'h str, &'h str)>,
        payload: impl Into<Vec<u8>>,
    ) -> Result<Self, EventError> {
        let mut found: BTreeMap<String, Cow<'h, str>> = BTreeMap::new();
        let mut content_type = None;
        for (name, value) in headers {
            if name.eq_ignore_ascii_case("content-type") {
                content_type = Some(Cow::Borrowed(value));
                continue;
            }
            let Some((prefix, attribute)) =
                PREFIXES.into_iter().find_map(|prefix| Some((prefix, without(name, prefix)?)))
            else {
                continue;
            };
            // HTTP's names have any case.
            let attribute = attribute.to_ascii_lowercase();
            let value = decoded(prefix, &attribute, value)?;
            match found.get(&attribute) {
                Some(known) if *known != value => return Err(EventError::twice(&attribute)),
                _ => drop(found.insert(attribute, value)),
            }
        }
        if let Some(content_type) = content_type {
            found.insert("datacontenttype".to_owned(), content_type);
        }
        Self::from_attributes(found, payload.into())
    }

    /// Reads the event of a message in binary mode. Of extensions it finds those of the names
    /// `partitionkey`, `traceparent`, `tracestate` and `sequence`; for all of them, use
    /// [`from_headers`](Self::from_headers).
    ///
    /// # Errors
    ///
    /// [`EventError`]. A message that is no event at all has no attribute `specversion`; one in
    /// structured mode is [`EventError::Format`].
    pub fn of<M: Described + ?Sized>(message: &M) -> Result<Self, EventError> {
        let content_type = message.header("content-type").or_else(|| message.header("Content-Type"));
        if let Some(content_type) = content_type
            && content_type.trim_start().to_ascii_lowercase().starts_with("application/cloudevents")
        {
            return Err(EventError::Format { content_type: content_type.chars().take(64).collect() });
        }
        let mut found = BTreeMap::new();
        for attribute in KNOWN.into_iter().chain(["datacontenttype"]) {
            for prefix in PREFIXES {
                if let Some(value) = message.header(&format!("{prefix}{attribute}")) {
                    found.insert(attribute.to_owned(), decoded(prefix, attribute, value)?);
                    break;
                }
            }
        }
        if let Some(content_type) = content_type {
            found.insert("datacontenttype".to_owned(), Cow::Borrowed(content_type));
        }
        Self::from_attributes(found, message.payload().to_vec())
    }

    fn from_attributes(mut found: BTreeMap<String, Cow<'_, str>>, payload: Vec<u8>) -> Result<Self, EventError> {
        let mut required = |name: &'static str| found.remove(name).unwrap_or_default().into_owned();
        rules::specversion(&required("specversion"))?;
        let mut event = Event::new(required("id"), required("source"), required("type"))?;
        for (name, value) in found {
            event = event.with_attribute(&name, value.into_owned())?;
        }
        // (Whether there were no data or empty ones cannot be told.)
        event.data = (!payload.is_empty()).then_some(payload);
        Ok(event)
    }
}

/// Returns the name without a prefix of any case.
fn without<'n>(name: &'n str, prefix: &str) -> Option<&'n str> {
    let (start, rest) = name.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}

fn decoded<'v>(prefix: &str, attribute: &str, value: &'v str) -> Result<Cow<'v, str>, EventError> {
    if prefix == PERCENT_ENCODED {
        attributes::decode(value).ok_or_else(|| EventError::invalid(attribute, "percent-encoded UTF-8", value))
    } else {
        Ok(Cow::Borrowed(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BINDINGS: [Binding; 4] = [Binding::Http, Binding::Nats, Binding::Kafka, Binding::Amqp];

    fn read(headers: &[(String, String)], payload: &[u8]) -> Result<Event, EventError> {
        Event::from_headers(headers.iter().map(|(name, value)| (name.as_str(), value.as_str())), payload)
    }

    struct Message<'m>(&'m [(String, String)], &'m [u8]);

    impl Described for Message<'_> {
        fn header(&self, name: &str) -> Option<&str> {
            self.0.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
        }

        fn payload(&self) -> &[u8] {
            self.1
        }
    }

    fn event() -> Event {
        let event = Event::new("1 \"ü%\"", "/a b", "order.placed").unwrap();
        let event = event.with_subject("order-17").unwrap().with_time("2026-11-26T16:20:00Z").unwrap();
        let event = event
            .with_attribute("dataschema", "http://schema".into())
            .unwrap()
            .with_extension("partitionkey", "k")
            .unwrap();
        event.with_data("text/plain; charset=utf-8", "data").unwrap()
    }

    #[test]
    fn what_is_sent_in_headers_is_received() {
        for binding in BINDINGS {
            let (event, headers) = (event(), event().headers(binding));
            assert_eq!(read(&headers, event.payload()).as_ref(), Ok(&event), "{binding:?}");
            let message = Message(&headers, b"data");
            assert_eq!(Event::of(&message).as_ref(), Ok(&event), "{binding:?}");
            assert_eq!(message.id(), event.id(), "{binding:?}");
            assert_eq!(super::super::id_of(&message).as_ref().map(AsRef::as_ref), event.id().as_deref());
            assert_eq!(super::super::id_of(&event).as_ref().map(AsRef::as_ref), event.id().as_deref());
        }
    }

    #[test]
    fn http_is_ascii_and_of_any_case() {
        let mut headers = event().headers(Binding::Http);
        assert!(headers.contains(&("ce-id".to_owned(), "1%20%22%C3%BC%25%22".to_owned())), "{headers:?}");
        assert!(
            headers
                .iter()
                .all(|(name, value)| name.is_ascii()
                    && value.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '))
        );
        headers.iter_mut().for_each(|(name, _)| *name = name.to_uppercase());
        assert_eq!(read(&headers, b"data"), Ok(event()));
    }

    #[test]
    fn errors_name_the_attribute() {
        for missing in ["id", "source", "type", "specversion"] {
            let mut headers = event().headers(Binding::Kafka);
            headers.retain(|(name, _)| *name != format!("ce_{missing}"));
            assert_eq!(read(&headers, b""), Err(EventError::Missing { attribute: missing }));
            headers.push((format!("ce_{missing}"), String::new()));
            assert_eq!(read(&headers, b""), Err(EventError::Missing { attribute: missing }));
        }
        let with = |name: &str, value: &str| {
            let mut headers = event().headers(Binding::Http);
            headers.retain(|(given, _)| given != name);
            headers.push((name.to_owned(), value.to_owned()));
            read(&headers, b"").unwrap_err().to_string()
        };
        assert!(with("ce-specversion", "0.3").contains("`specversion` is \"0.3\", expected \"1.0\""));
        assert!(with("ce-time", "yesterday").contains("`time`"));
        assert!(with("ce-subject", "%FF").contains("`subject`"));
        assert!(with("ce-a_b", "x").contains("`a_b`"));
        assert!(with("ce-data", "x").contains("`data`"));
        let long = with("ce-time", &"x".repeat(10_000));
        assert!(long.len() < 300, "{long}");
    }

    #[test]
    fn an_attribute_that_is_there_twice_must_be_the_same() {
        let mut headers = event().headers(Binding::Kafka);
        headers.push(("ce_id".to_owned(), event().id.clone()));
        assert_eq!(read(&headers, b"data"), Ok(event()));
        headers.push(("cloudEvents:id".to_owned(), "other".to_owned()));
        assert_eq!(read(&headers, b"data"), Err(EventError::Twice { attribute: "id".to_owned() }));
    }

    #[test]
    fn hostile_headers_of_any_size_and_number_are_read_or_refused() {
        const LARGE: usize = 1 << 20;
        let large = "x".repeat(LARGE);
        let with = |headers: Vec<(String, String)>| {
            let mut all = event().headers(Binding::Http);
            all.retain(|(given, _)| headers.iter().all(|(name, _)| name != given));
            all.extend(headers);
            all
        };
        // Valid ones are kept as they are: a broker's own limit is the limit.
        for name in ["ce-id", "ce-source", "ce-type", "ce-subject", "ce-x"] {
            let headers = with(vec![(name.to_owned(), large.clone())]);
            let event = read(&headers, b"").unwrap();
            let id = event.id().unwrap().len();
            assert_eq!(id > LARGE, ["ce-id", "ce-source"].contains(&name), "{name}: {id}");
            assert_eq!(Message(&headers, b"").id().map(|id| id.len()), Some(id), "{name}");
        }
        let many = (0..20_000).map(|n| (format!("ce-x{n}"), "1".to_owned())).collect();
        assert_eq!(read(&with(many), b"").unwrap().extensions().count(), 20_001);
        // What is wrong is shown in part only.
        let wrong = [
            ("ce-time".to_owned(), large.clone()),
            ("ce-id".to_owned(), "%FF".repeat(LARGE)),
            ("ce-id".to_owned(), format!("\"{}\"", "\\%0a".repeat(LARGE))),
            ("ce-specversion".to_owned(), large.clone()),
            (format!("ce-{}_", large), "1".to_owned()),
            (format!("ce-{}", "É".repeat(LARGE)), "1".to_owned()),
            ("ce-x".to_owned(), "\u{1}".repeat(LARGE)),
        ];
        for header in wrong {
            let (name, headers) = (header.0.chars().take(20).collect::<String>(), with(vec![header]));
            let error = read(&headers, b"").expect_err(&name).to_string();
            assert!(error.len() < 1_000, "{name}: {} characters", error.len());
        }
    }

    #[test]
    fn other_formats_are_refused_and_no_event_is_none() {
        let avro = [("content-type".to_owned(), "application/cloudevents+avro".to_owned())];
        assert!(matches!(Event::of(&Message(&avro, b"")), Err(EventError::Format { .. })));
        assert_eq!(Event::of(&Message(&[], b"{}")), Err(EventError::Missing { attribute: "specversion" }));
    }

    proptest! {
        #[test]
        fn any_event_survives_any_binding(
            texts in proptest::collection::vec("[^\\p{C}]{1,12}", 5),
            extension in "[a-z0-9]{1,20}x",
            data in proptest::collection::vec(any::<u8>(), 1..50),
        ) {
            let [id, source, kind, subject, value] = texts.try_into().unwrap();
            let event = Event::new(id, source, kind).unwrap().with_subject(subject).unwrap();
            let event = event.with_extension(&extension, value).unwrap().with_data("a/b", data).unwrap();
            for binding in BINDINGS {
                prop_assert_eq!(read(&event.headers(binding), event.payload()), Ok(event.clone()));
            }
        }

        #[test]
        fn any_headers_are_an_event_or_an_error(
            headers in proptest::collection::vec(("(ce[-_]|cloudEvents:)?(id|source|type|specversion|time|\\PC{0,3})", "(1\\.0|\\PC{0,9})"), 0..9),
            payload in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            if let Ok(event) = read(&headers, &payload) {
                prop_assert!(event.kind().is_some_and(|kind| !kind.is_empty()) && event.id().is_some());
            }
        }
    }
}
