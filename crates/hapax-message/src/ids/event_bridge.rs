//! The envelope of Amazon EventBridge.

use crate::described::Described;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// An event of Amazon EventBridge, as its rules deliver it (to a queue of SQS, for example).
///
/// ```
/// use hapax_message::Described;
/// use hapax_message::ids::EventBridge;
///
/// let body = br#"{"version": "0", "id": "6a7e8feb-b491-4cf7-a9f1-bf3703467718", "source": "com.acme.orders",
///     "detail-type": "OrderPlaced", "account": "111122223333", "time": "2026-11-26T16:20:00Z",
///     "region": "eu-central-1", "resources": [], "detail": {"total": 12}}"#;
/// let event = EventBridge::from_json(body)?;
/// assert_eq!(event.id().as_deref(), Some(&b"6a7e8feb-b491-4cf7-a9f1-bf3703467718"[..]));
/// assert_eq!((event.kind(), event.payload()), (Some("OrderPlaced"), &br#"{"total": 12}"#[..]));
/// # Ok::<(), hapax_message::ids::NotAnEnvelope>(())
/// ```
///
/// The bus gives the id when an event is put: it is the same whenever the bus delivers that again,
/// and another one when the producer puts the event again. For that, take an id from the detail.
#[derive(Clone, Debug)]
pub struct EventBridge {
    envelope: Envelope,
}

#[derive(Clone, Debug, Deserialize)]
struct Envelope {
    id: String,
    source: String,
    #[serde(rename = "detail-type")]
    detail_type: String,
    account: Option<String>,
    region: Option<String>,
    time: Option<String>,
    #[serde(default)]
    resources: Vec<String>,
    detail: Box<RawValue>,
}

impl EventBridge {
    /// Reads the envelope.
    ///
    /// # Errors
    ///
    /// [`NotAnEnvelope`] names the field that is missing or wrong.
    pub fn from_json(body: &[u8]) -> Result<Self, NotAnEnvelope> {
        // A parser's error may quote as much as was sent.
        let beginning = |error: serde_json::Error| error.to_string().chars().take(256).collect();
        let envelope: Envelope =
            serde_json::from_slice(body).map_err(|error| NotAnEnvelope { reason: beginning(error) })?;
        let required = [("id", &envelope.id), ("source", &envelope.source), ("detail-type", &envelope.detail_type)];
        if let Some((name, _)) = required.iter().find(|(_, value)| value.trim().is_empty()) {
            return Err(NotAnEnvelope { reason: format!("field `{name}` is empty") });
        }
        Ok(EventBridge { envelope })
    }
}

impl Described for EventBridge {
    /// Returns the fields `account`, `region` and `time`.
    fn header(&self, name: &str) -> Option<&str> {
        match name {
            "account" => self.envelope.account.as_deref(),
            "region" => self.envelope.region.as_deref(),
            "time" => self.envelope.time.as_deref(),
            _ => None,
        }
    }

    /// Returns the text of `detail`.
    fn payload(&self) -> &[u8] {
        self.envelope.detail.get().as_bytes()
    }

    fn id(&self) -> Option<Cow<'_, [u8]>> {
        Some(Cow::Borrowed(self.envelope.id.as_bytes()))
    }

    /// Returns `detail-type`.
    fn kind(&self) -> Option<&str> {
        Some(&self.envelope.detail_type)
    }

    fn source(&self) -> Option<&str> {
        Some(&self.envelope.source)
    }

    /// Returns the first resource.
    fn subject(&self) -> Option<&str> {
        self.envelope.resources.first().map(String::as_str)
    }
}

/// The error of a body that is not an envelope of Amazon EventBridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotAnEnvelope {
    reason: String,
}

impl fmt::Display for NotAnEnvelope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not an event of Amazon EventBridge: {}", self.reason)
    }
}

impl std::error::Error for NotAnEnvelope {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EVENT: &str = r#"{"id":"1","source":"s","detail-type":"t","resources":["a","b"],"region":"r","detail":1}"#;

    #[test]
    fn an_envelope_describes_itself() {
        let event = EventBridge::from_json(EVENT.as_bytes()).unwrap();
        assert_eq!((event.source(), event.subject(), event.key()), (Some("s"), Some("a"), None));
        assert_eq!((event.header("region"), event.header("account"), event.payload()), (Some("r"), None, &b"1"[..]));
    }

    #[test]
    fn errors_are_short() {
        let large = "x".repeat(1 << 20);
        for body in [format!("\"{large}\""), format!("{{\"id\":\"1\",\"resources\":\"{large}\"}}")] {
            let error = EventBridge::from_json(body.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("invalid type: string") && error.len() < 400, "{} characters", error.len());
        }
    }

    #[test]
    fn errors_name_the_field() {
        for (field, other) in [("id", "ID"), ("source", "Source"), ("detail-type", "DetailType"), ("detail", "Detail")]
        {
            let without = EVENT.replace(&format!("\"{field}\":"), &format!("\"{other}\":"));
            let error = EventBridge::from_json(without.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(&format!("`{field}`")), "{error}");
        }
        let empty = EVENT.replace(r#""id":"1""#, r#""id":" ""#);
        assert_eq!(EventBridge::from_json(empty.as_bytes()).unwrap_err().reason, "field `id` is empty");
        let twice = EVENT.replace(r#""id":"1""#, r#""id":"1","id":"2""#);
        assert!(EventBridge::from_json(twice.as_bytes()).unwrap_err().reason.contains("duplicate field `id`"));
    }

    proptest! {
        #[test]
        fn any_body_is_an_envelope_or_an_error(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(EventBridge::from_json(&body).is_err());
        }
    }
}
