//! An event.

use super::error::EventError;
use super::rules;
use crate::described::Described;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// An event of CloudEvents 1.0: its attributes are valid, and the required ones there.
///
/// ```
/// use hapax_message::Described;
/// use hapax_message::cloudevents::{self, Event};
///
/// let event = Event::new("17", "/orders", "order.placed")?
///     .with_time("2026-11-26T16:20:00Z")?
///     .with_extension("partitionkey", "order-17")?
///     .with_data("text/plain", "twelve euros")?;
/// assert_eq!(event.key(), Some(&b"order-17"[..]));
/// assert_eq!(event.id().as_deref(), Some(cloudevents::id("/orders", "17").as_ref()));
///
/// let error = Event::new("17", "", "order.placed").unwrap_err();
/// assert_eq!(error.attribute(), Some("source"));
/// # Ok::<(), hapax_message::cloudevents::EventError>(())
/// ```
///
/// URIs are taken as they are, and not checked further than that they are not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub(super) id: String,
    pub(super) source: String,
    pub(super) kind: String,
    pub(super) subject: Option<String>,
    pub(super) time: Option<String>,
    pub(super) content_type: Option<String>,
    pub(super) schema: Option<String>,
    pub(super) extensions: BTreeMap<String, String>,
    pub(super) data: Option<Vec<u8>>,
}

impl Event {
    /// Creates an event without data. Its producer must never give the same id to two different
    /// events of a source, and must keep it when it sends one again.
    ///
    /// # Errors
    ///
    /// [`EventError`] names the attribute that is empty, or has control characters.
    pub fn new(id: impl Into<String>, source: impl Into<String>, kind: impl Into<String>) -> Result<Self, EventError> {
        let (id, source, kind) = (id.into(), source.into(), kind.into());
        rules::required("id", &id)?;
        rules::required("source", &source)?;
        rules::required("type", &kind)?;
        Ok(Event {
            id,
            source,
            kind,
            subject: None,
            time: None,
            content_type: None,
            schema: None,
            extensions: BTreeMap::new(),
            data: None,
        })
    }

    /// Sets an attribute by its name, from text.
    pub(super) fn with_attribute(mut self, name: &str, value: String) -> Result<Self, EventError> {
        match name {
            "id" | "source" | "type" | "specversion" => Ok(self),
            "subject" => self.with_subject(value),
            "time" => self.with_time(value),
            "dataschema" | "datacontenttype" => {
                rules::optional(name, &value)?;
                let attribute = if name == "dataschema" { &mut self.schema } else { &mut self.content_type };
                *attribute = Some(value);
                Ok(self)
            }
            name => self.with_extension(name, value),
        }
    }

    /// Sets the thing that the event is about: the aggregate.
    ///
    /// # Errors
    ///
    /// [`EventError`] if it is empty, or has control characters. The same holds for the others.
    pub fn with_subject(mut self, subject: impl Into<String>) -> Result<Self, EventError> {
        let subject = subject.into();
        rules::optional("subject", &subject)?;
        self.subject = Some(subject);
        Ok(self)
    }

    /// Sets the time at which it happened, as RFC 3339 writes times.
    ///
    /// # Errors
    ///
    /// [`EventError`] if it is no such time.
    pub fn with_time(mut self, time: impl Into<String>) -> Result<Self, EventError> {
        let time = time.into();
        rules::time(&time)?;
        self.time = Some(time);
        Ok(self)
    }

    /// Sets an extension attribute, such as `partitionkey` or `traceparent`.
    ///
    /// # Errors
    ///
    /// [`EventError`] if the name has other characters than a-z and 0-9, or is that of an attribute
    /// that the specification defines, or `data`; or if the value has control characters.
    pub fn with_extension(mut self, name: &str, value: impl Into<String>) -> Result<Self, EventError> {
        const DEFINED: [&str; 9] =
            ["id", "source", "type", "specversion", "subject", "time", "dataschema", "datacontenttype", "data"];
        rules::name(name)?;
        if DEFINED.contains(&name) {
            return Err(EventError::invalid(name, "the name of an extension", name));
        }
        let value = value.into();
        rules::text(name, &value)?;
        self.extensions.insert(name.to_owned(), value);
        Ok(self)
    }

    /// Sets the data, and the type of their content.
    ///
    /// # Errors
    ///
    /// [`EventError`] if the content type is empty, or has control characters. The data are not
    /// looked at.
    pub fn with_data(mut self, content_type: impl Into<String>, data: impl Into<Vec<u8>>) -> Result<Self, EventError> {
        let content_type = content_type.into();
        rules::optional("datacontenttype", &content_type)?;
        self.content_type = Some(content_type);
        self.data = Some(data.into());
        Ok(self)
    }

    /// Returns the attribute `id`, which is unique within the [source](Described::source) alone.
    pub fn event_id(&self) -> &str {
        &self.id
    }

    /// Returns the extension attributes.
    pub fn extensions(&self) -> impl Iterator<Item = (&str, &str)> {
        self.extensions.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the data; none is not the same as empty ones.
    pub fn data(&self) -> Option<&[u8]> {
        self.data.as_deref()
    }
}

impl Described for Event {
    /// Returns the text of an attribute, by its name or by that of Kafka's header (`ce_…`);
    /// `content-type` is that of the data.
    fn header(&self, name: &str) -> Option<&str> {
        match name.strip_prefix("ce_").unwrap_or(name) {
            "id" => Some(&self.id),
            "source" => Some(&self.source),
            "type" => Some(&self.kind),
            "specversion" => Some(rules::SPECVERSION),
            "subject" => self.subject.as_deref(),
            "time" => self.time.as_deref(),
            "dataschema" => self.schema.as_deref(),
            "datacontenttype" | "content-type" => self.content_type.as_deref(),
            extension => self.extensions.get(extension).map(String::as_str),
        }
    }

    fn payload(&self) -> &[u8] {
        self.data.as_deref().unwrap_or_default()
    }

    fn id(&self) -> Option<Cow<'_, [u8]>> {
        Some(Cow::Owned(super::id(&self.source, &self.id).as_ref().to_vec()))
    }

    fn kind(&self) -> Option<&str> {
        Some(&self.kind)
    }

    fn source(&self) -> Option<&str> {
        Some(&self.source)
    }

    fn subject(&self) -> Option<&str> {
        self.subject.as_deref()
    }

    fn key(&self) -> Option<&[u8]> {
        self.extensions.get("partitionkey").filter(|key| !key.is_empty()).map(String::as_bytes)
    }
}
