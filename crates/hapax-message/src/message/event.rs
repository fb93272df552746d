//! The event that a message is, and the headers with which it is published.

use super::Message;
use crate::cloudevents::{Binding, Event, EventError};
use crate::ids;

/// The beginning of the content types of structured mode, in any format.
const STRUCTURED_PREFIX: &str = "application/cloudevents";
/// Attributes that a message has as headers of their own, whatever the broker.
const PLAIN_HEADERS: [&str; 3] = ["traceparent", "tracestate", "datacontenttype"];

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
        if self.is_structured() {
            return Event::of(self);
        }
        if self.attribute("specversion").is_some() {
            let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            return Event::from_headers(headers, self.payload.clone());
        }
        let content_type = self.header("content-type").filter(|said| !said.is_empty());
        self.described_event()?.with_data(content_type.unwrap_or("application/octet-stream"), self.payload.clone())
    }

    /// Returns its id as the text that brokers take, of up to 128 characters of ASCII: a longer
    /// one, or one of other bytes, is hashed, as [`ids::sqs_deduplication_id`] says. None if it is
    /// blank.
    pub fn text_id(&self) -> Option<String> {
        ids::sqs_deduplication_id(&self.id)
    }

    /// Returns the headers with which it is published: those that it was given, and, if these are
    /// none of CloudEvents, those of the event that kind, source, subject and id make, if they do.
    ///
    /// ```
    /// use hapax_message::Message;
    /// use hapax_message::cloudevents::Binding;
    ///
    /// let mut message = Message::new("orders", "17", "{}");
    /// assert!(message.published_headers(Binding::Kafka).is_empty());
    /// message.kind = Some("order.paid".into());
    /// message.source = Some("/orders".into());
    /// let headers = message.published_headers(Binding::Kafka);
    /// assert!(headers.contains(&("ce_type".into(), "order.paid".into())));
    /// ```
    pub fn published_headers(&self, binding: Binding) -> Vec<(String, String)> {
        let mut headers = self.headers.clone();
        if self.attribute("specversion").is_none() && !self.is_structured() {
            let event = self.described_event().map(|event| event.headers(binding)).unwrap_or_default();
            headers
                .extend(event.into_iter().filter(|(name, _)| !PLAIN_HEADERS.iter().any(|plain| name.ends_with(plain))));
        }
        headers
    }

    fn is_structured(&self) -> bool {
        let start = self.header("content-type").and_then(|it| it.get(..STRUCTURED_PREFIX.len()));
        start.is_some_and(|start| start.eq_ignore_ascii_case(STRUCTURED_PREFIX))
    }

    /// Returns the event that the columns make, without its data.
    fn described_event(&self) -> Result<Event, EventError> {
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
        Ok(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Described as _;

    fn described() -> Message {
        let mut message = Message::new("orders", "m-1", br#"{"order":17}"#);
        message.key = Some(b"order-17".to_vec());
        message.kind = Some("order.paid".into());
        message.source = Some("/orders".into());
        message.subject = Some("order-17 €".into());
        message
    }

    fn with(headers: &[(&str, &str)]) -> Message {
        let mut message = described();
        message.headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        message
    }

    #[test]
    fn a_message_with_columns_alone_is_an_event_and_without_a_source_none() {
        let read = described().event().unwrap();
        assert_eq!((read.event_id(), read.kind(), read.subject()), ("m-1", Some("order.paid"), Some("order-17 €")));
        assert_eq!((read.key(), read.data()), (Some(&b"order-17"[..]), Some(&br#"{"order":17}"#[..])));
        let (mut no_source, mut no_kind, mut no_id) = (described(), described(), described());
        no_source.source = None;
        no_kind.kind = None;
        no_id.id = vec![0xff];
        for (without, attribute) in [(no_source, "source"), (no_kind, "type"), (no_id, "id")] {
            assert_eq!(without.event().unwrap_err().attribute(), Some(attribute));
            assert_eq!(without.published_headers(Binding::Kafka), []);
        }
    }

    #[test]
    fn structured_mode_is_known_by_its_content_type() {
        let of = |content_type: &str| with(&[("Content-Type", content_type)]);
        assert!(of("application/cloudevents+json; charset=utf-8").event().is_err());
        assert!(of("Application/CloudEvents-batch+json").event().is_err());
        assert_eq!(of("Application/CloudEvents-batch+json").published_headers(Binding::Nats).len(), 1);
        assert_eq!(of("application/json").event().unwrap().data(), Some(&br#"{"order":17}"#[..]));
    }

    #[test]
    fn what_is_published_is_the_same_event_in_any_binding_with_each_header_once() {
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        for binding in [Binding::Http, Binding::Nats, Binding::Kafka, Binding::Amqp] {
            let message = with(&[("traceparent", trace), ("content-type", "application/json")]);
            let mut received = Message::new("orders", "another", message.payload.clone());
            received.headers = message.published_headers(binding);
            let traces = received.headers.iter().filter(|(name, _)| name.contains("traceparent")).count();
            assert_eq!((traces, received.event().unwrap().key()), (1, Some(&b"order-17"[..])), "{binding:?}");
            let id = crate::cloudevents::id("/orders", "m-1");
            assert_eq!(crate::cloudevents::id_of(&received).as_ref().map(AsRef::as_ref), Some(id.as_ref()));
            // Sent on, it is as it was.
            assert_eq!(received.published_headers(binding), received.headers);
        }
    }

    #[test]
    fn ids_are_text() {
        let of = |id: &[u8]| Message::new("orders", id, "").text_id();
        assert_eq!((of(b"m-1").as_deref(), of(b" ")), (Some("m-1"), None));
        assert!(of(&[0xff; 40]).is_some_and(|id| id.starts_with("sha256:")));
    }
}
