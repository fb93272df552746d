//! Structured mode: an event, or a batch of them, as JSON.

use super::error::EventError;
use super::event::{Event, Extension};
use super::rules;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;

/// The content type of an event.
pub(super) const CONTENT_TYPE: &str = "application/cloudevents+json";

/// The reason why writing cannot fail.
const WRITABLE: &str = "strings, numbers, and JSON that was checked";

impl Event {
    /// The content type of an event as JSON.
    pub const CONTENT_TYPE: &'static str = CONTENT_TYPE;
    /// The content type of a batch as JSON.
    pub const BATCH_CONTENT_TYPE: &'static str = "application/cloudevents-batch+json";

    /// Reads an event in structured mode, `application/cloudevents+json`.
    ///
    /// ```
    /// use hapax_message::Described;
    /// use hapax_message::cloudevents::Event;
    ///
    /// let body = r#"{"specversion": "1.0", "id": "17", "source": "/orders", "type": "order.placed",
    ///     "data": {"total": 12}}"#;
    /// let event = Event::from_json(body.as_bytes())?;
    /// assert_eq!((event.kind(), event.payload()), (Some("order.placed"), &br#"{"total": 12}"#[..]));
    ///
    /// let error = Event::from_json(br#"{"specversion": "1.0", "id": "17", "source": "/orders"}"#).unwrap_err();
    /// assert_eq!(error.attribute(), Some("type"));
    /// # Ok::<(), hapax_message::cloudevents::EventError>(())
    /// ```
    ///
    /// The payload is the text of `data` as it was written, if that is JSON by its content type or
    /// has none; the content of the string otherwise; or the bytes of `data_base64`. Data without a
    /// content type are `application/json`, as the specification says.
    ///
    /// # Errors
    ///
    /// [`EventError`] names the attribute that is missing or invalid. A member that is there twice
    /// is refused, since readers differ in which one they take.
    pub fn from_json(body: &[u8]) -> Result<Self, EventError> {
        let members: Members = serde_json::from_slice(body).map_err(|error| EventError::not_json(&error))?;
        members.event()
    }

    /// Reads a batch, `application/cloudevents-batch+json`.
    ///
    /// # Errors
    ///
    /// [`EventError`] of the first event that is wrong.
    pub fn batch_from_json(body: &[u8]) -> Result<Vec<Self>, EventError> {
        let batch: Vec<Members> = serde_json::from_slice(body).map_err(|error| EventError::not_json(&error))?;
        batch.into_iter().map(Members::event).collect()
    }

    /// Returns the event as JSON, for structured mode. Data that are JSON by their content type are
    /// embedded; text in UTF-8 (`text/…` or XML) is a string, and all else is in base 64.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(&AsJson(self)).expect(WRITABLE)
    }

    /// Returns a batch as JSON.
    pub fn batch_to_json(events: &[Event]) -> Vec<u8> {
        serde_json::to_vec(&events.iter().map(AsJson).collect::<Vec<_>>()).expect(WRITABLE)
    }
}

/// The members of an object as they were written.
struct Members(BTreeMap<String, Box<RawValue>>, Option<String>);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfObject;

        impl<'de> Visitor<'de> for OfObject {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Members, A::Error> {
                let mut members = Members(BTreeMap::new(), None);
                while let Some(name) = access.next_key::<String>()? {
                    if members.0.contains_key(&name) {
                        members.1.get_or_insert(name.clone());
                    }
                    members.0.insert(name, access.next_value()?);
                }
                Ok(members)
            }
        }

        deserializer.deserialize_map(OfObject)
    }
}

impl Members {
    fn event(self) -> Result<Event, EventError> {
        let Members(mut members, twice) = self;
        if let Some(twice) = twice {
            return Err(EventError::twice(&twice));
        }
        let (data, in_base_64) = (members.remove("data"), members.remove("data_base64"));
        // An attribute that is null is not there.
        members.retain(|_, value| value.get() != "null");
        rules::specversion(&required(&mut members, "specversion")?)?;
        let (id, source) = (required(&mut members, "id")?, required(&mut members, "source")?);
        let mut event = Event::new(id, source, required(&mut members, "type")?)?;
        for (name, value) in members {
            event = match name.as_str() {
                "subject" | "time" | "dataschema" | "datacontenttype" => {
                    let text = text(&name, &value)?;
                    event.with_attribute(&name, text)?
                }
                extension => event.with_extension(extension, extension_of(extension, &value)?)?,
            };
        }
        match (data, in_base_64.filter(|value| value.get() != "null")) {
            (Some(_), Some(_)) => Err(EventError::invalid("data", "either `data` or `data_base64`", "both")),
            (Some(data), None) => event.with_written(data),
            (None, Some(data)) => {
                let text = text("data_base64", &data)?;
                let decoded = STANDARD.decode(text.as_bytes());
                event.data =
                    Some(decoded.map_err(|_| EventError::invalid("data_base64", "base 64 (RFC 4648)", &text))?);
                Ok(event)
            }
            (None, None) => Ok(event),
        }
    }
}

impl Event {
    /// Sets the data to those of the member `data`.
    fn with_written(mut self, data: Box<RawValue>) -> Result<Self, EventError> {
        let content_type = self.content_type.get_or_insert_with(|| "application/json".to_owned());
        self.data = Some(match rules::is_json(content_type) {
            true => Box::<str>::from(data).into_string().into_bytes(),
            false => text("data", &data)?.into_bytes(),
        });
        Ok(self)
    }
}

fn required(members: &mut BTreeMap<String, Box<RawValue>>, name: &'static str) -> Result<String, EventError> {
    match members.remove(name) {
        Some(value) => text(name, &value),
        None => Err(EventError::Missing { attribute: name }),
    }
}

fn text(name: &str, value: &RawValue) -> Result<String, EventError> {
    serde_json::from_str(value.get()).map_err(|_| EventError::invalid(name, "a string", value.get()))
}

fn extension_of(name: &str, value: &RawValue) -> Result<Extension, EventError> {
    let raw = value.get();
    match raw {
        "true" => Ok(Extension::Boolean(true)),
        "false" => Ok(Extension::Boolean(false)),
        _ if raw.starts_with('"') => text(name, value).map(Extension::Text),
        _ => match raw.parse() {
            Ok(integer) => Ok(Extension::Integer(integer)),
            Err(_) => Err(EventError::invalid(name, "a string, a boolean or an integer of 32 bits", raw)),
        },
    }
}

/// An event, to be written.
struct AsJson<'e>(&'e Event);

impl Serialize for AsJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let event = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("specversion", rules::SPECVERSION)?;
        map.serialize_entry("id", &event.id)?;
        map.serialize_entry("source", &event.source)?;
        map.serialize_entry("type", &event.kind)?;
        let optional = [
            ("subject", &event.subject),
            ("time", &event.time),
            ("dataschema", &event.schema),
            ("datacontenttype", &event.content_type),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                map.serialize_entry(name, value)?;
            }
        }
        for (name, value) in &event.extensions {
            match value {
                Extension::Text(text) => map.serialize_entry(name, text)?,
                Extension::Integer(integer) => map.serialize_entry(name, integer)?,
                Extension::Boolean(boolean) => map.serialize_entry(name, boolean)?,
            }
        }
        if let Some(data) = &event.data {
            match written(event.content_type.as_deref(), data) {
                Written::Json(json) => map.serialize_entry("data", json)?,
                Written::Text(text) => map.serialize_entry("data", text)?,
                Written::Bytes => map.serialize_entry("data_base64", &STANDARD.encode(data))?,
            }
        }
        map.end()
    }
}

/// The form of data in JSON, such that the same bytes are read again.
enum Written<'d> {
    Json(&'d RawValue),
    Text(&'d str),
    Bytes,
}

fn written<'d>(content_type: Option<&str>, data: &'d [u8]) -> Written<'d> {
    let (Some(content_type), Ok(text)) = (content_type, std::str::from_utf8(data)) else { return Written::Bytes };
    if rules::is_json(content_type) {
        return match serde_json::from_str::<&RawValue>(text) {
            // (Blanks around it would be lost.)
            Ok(json) if json.get().len() == text.len() => Written::Json(json),
            _ => Written::Bytes,
        };
    }
    let media_type = rules::media_type(content_type).to_ascii_lowercase();
    match media_type.starts_with("text/") || media_type.ends_with("/xml") || media_type.ends_with("+xml") {
        true => Written::Text(text),
        false => Written::Bytes,
    }
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
