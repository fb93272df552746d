//! Messages to be stored, and the limits on their parts.

use super::errors::misconfigured;
use super::transaction::Value;
use hapax_message::Described;
use hapax_store::{Scope, StoreError};
use std::time::SystemTime;

/// The longest id of a message that is stored, and the longest key. (An id that is only marked may
/// be of any length.)
pub const ID_BYTES_MAX: usize = 1_024;
/// The largest payload. Store larger data elsewhere, and a reference to it here.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// The largest size of a message's headers together, names and values.
pub const HEADER_BYTES_MAX: usize = 16 << 10;
/// The longest kind, source or subject of a message, and the longest name of a processor.
pub const DESCRIPTION_BYTES_MAX: usize = 1_024;
/// The part of an error's text that is kept.
const ERROR_BYTES_MAX: usize = 4_096;

/// A message to be received or enqueued.
///
/// ```
/// use hapax_postgres::NewMessage;
/// use std::time::{Duration, SystemTime};
///
/// let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let headers = [("content-type", "application/json"), ("traceparent", trace)];
/// let message = NewMessage::new("order-17/paid", br#"{"order": 17}"#)
///     .kind("order.paid")
///     .source("/orders")
///     .subject("order-17")
///     .key("order-17")
///     .headers(&headers)
///     .expires_at(SystemTime::now() + Duration::from_secs(3_600));
/// # let _ = message;
/// ```
///
/// Messages of one key come in order, one after the other. Messages without a key come in any
/// order.
#[derive(Clone, Copy, Debug)]
pub struct NewMessage<'m> {
    pub(super) id: &'m [u8],
    pub(super) key: Option<&'m [u8]>,
    pub(super) payload: &'m [u8],
    pub(super) kind: Option<&'m str>,
    pub(super) source: Option<&'m str>,
    pub(super) subject: Option<&'m str>,
    headers: Headers<'m>,
    due_at: Option<SystemTime>,
    expires_at: Option<SystemTime>,
    pub(super) is_unique: bool,
}

/// Names and values, as the caller has them.
#[derive(Clone, Copy, Debug)]
enum Headers<'m> {
    Borrowed(&'m [(&'m str, &'m str)]),
    Owned(&'m [(String, String)]),
}

impl<'m> Headers<'m> {
    fn iter(self) -> impl Iterator<Item = (&'m str, &'m str)> {
        let (borrowed, owned) = match self {
            Headers::Borrowed(headers) => (headers, &[][..]),
            Headers::Owned(headers) => (&[][..], headers),
        };
        borrowed.iter().copied().chain(owned.iter().map(|(name, value)| (name.as_str(), value.as_str())))
    }
}

impl<'m> NewMessage<'m> {
    /// Creates a message with this id, by which a redelivery is recognized: up to [`ID_BYTES_MAX`]
    /// bytes.
    pub fn new(id: &'m (impl AsRef<[u8]> + ?Sized), payload: &'m (impl AsRef<[u8]> + ?Sized)) -> Self {
        let (id, payload) = (id.as_ref(), payload.as_ref());
        let (kind, source, subject) = (None, None, None);
        let headers = Headers::Borrowed(&[]);
        let (key, due_at, expires_at, is_unique) = (None, None, None, false);
        NewMessage { id, key, payload, kind, source, subject, headers, due_at, expires_at, is_unique }
    }

    /// Has it enqueued once: if a message of its topic with its id was enqueued as unique before,
    /// within the retention of marks, it is not stored, and the answer says so. (An inbox stores
    /// each id once anyway.) Its id is marked in the caller's transaction, as by
    /// [`inbox::once`](super::inbox::once), for the consumer `unique/TOPIC`, whose name has 128
    /// bytes at most; [`inbox::forget`](super::inbox::forget) has an id enqueued again.
    #[must_use]
    pub fn unique(self) -> Self {
        NewMessage { is_unique: true, ..self }
    }

    /// Sets the type of the event, such as `order.paid`: by it a [`Router`](super::Router) finds
    /// the handler. Up to [`DESCRIPTION_BYTES_MAX`] bytes without control characters, as source and
    /// subject.
    #[must_use]
    pub fn kind(self, kind: &'m str) -> Self {
        NewMessage { kind: Some(kind), ..self }
    }

    /// Sets the context in which the event happened, such as `/orders`.
    #[must_use]
    pub fn source(self, source: &'m str) -> Self {
        NewMessage { source: Some(source), ..self }
    }

    /// Sets the thing that the event is about, such as `order-17`: by it
    /// [`handled`](super::inbox::handled) finds who handled its events.
    #[must_use]
    pub fn subject(self, subject: &'m str) -> Self {
        NewMessage { subject: Some(subject), ..self }
    }

    /// Takes kind, source, subject and key of a message that a broker has delivered, as far as it
    /// says them.
    ///
    /// ```
    /// use hapax_message::Described;
    /// use hapax_postgres::NewMessage;
    ///
    /// # fn received(delivered: &impl Described) -> Option<NewMessage<'_>> {
    /// let message = NewMessage::new("m-17", delivered.payload()).described_by(delivered);
    /// # Some(message) }
    /// ```
    #[must_use]
    pub fn described_by(self, described: &'m (impl Described + ?Sized)) -> Self {
        NewMessage {
            kind: described.kind().or(self.kind),
            source: described.source().or(self.source),
            subject: described.subject().or(self.subject),
            key: described.key().or(self.key),
            ..self
        }
    }

    /// Sets the key within which it keeps its place: up to [`ID_BYTES_MAX`] bytes.
    #[must_use]
    pub fn key(self, key: &'m (impl AsRef<[u8]> + ?Sized)) -> Self {
        NewMessage { key: Some(key.as_ref()), ..self }
    }

    /// Sets names and values that go with it, unchanged: a content type, a trace's context. Up to
    /// [`HEADER_BYTES_MAX`] bytes together.
    #[must_use]
    pub fn headers(self, headers: &'m [(&'m str, &'m str)]) -> Self {
        NewMessage { headers: Headers::Borrowed(headers), ..self }
    }

    /// Sets names and values that go with it, as [`headers`](Self::headers) does: those of a
    /// [`Message`](hapax_message::Message) that is sent on, for example.
    #[must_use]
    pub fn owned_headers(self, headers: &'m [(String, String)]) -> Self {
        NewMessage { headers: Headers::Owned(headers), ..self }
    }

    /// Sets the earliest time at which it is published or handled, by the server's clock. With a
    /// key it takes its place at that time, behind all that its key has then, and holds up none of
    /// them before.
    #[must_use]
    pub fn due_at(self, at: SystemTime) -> Self {
        NewMessage { due_at: Some(at), ..self }
    }

    /// Sets the time after which it is of no use any more, by the server's clock. If it still waits
    /// then, it becomes a dead letter.
    #[must_use]
    pub fn expires_at(self, at: SystemTime) -> Self {
        NewMessage { expires_at: Some(at), ..self }
    }

    /// Checks that it can be stored.
    pub(super) fn validate(&self) -> Result<(), StoreError> {
        let headers = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        let limits = [
            ("an id", self.id.len(), ID_BYTES_MAX),
            ("a key", self.key.map_or(0, <[u8]>::len), ID_BYTES_MAX),
            ("a payload", self.payload.len(), PAYLOAD_BYTES_MAX),
            ("all headers", headers, HEADER_BYTES_MAX),
        ];
        if let Some((what, bytes, max)) = limits.iter().find(|(_, bytes, max)| bytes > max) {
            return Err(misconfigured(format!("{what} of a stored message has at most {max} bytes, got {bytes}")));
        }
        self.described().into_iter().try_for_each(|(what, text)| validate_text(what, text))?;
        let is_wrong = |(name, value): &(&str, &str)| name.is_empty() || name.contains('\0') || value.contains('\0');
        match self.headers.iter().find(is_wrong) {
            None => Ok(()),
            Some((name, _)) => {
                let what = "expected headers that have a name and no zeros in name and value";
                Err(misconfigured(format!("{what}, got {name:?}")))
            }
        }
    }

    fn described(&self) -> [(&'static str, Option<&str>); 3] {
        [("a kind", self.kind), ("a source", self.source), ("a subject", self.subject)]
    }

    /// Returns its headers as the text of an array in SQL, names and values in turn.
    pub(super) fn array(&self) -> Option<String> {
        let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        let all: Vec<String> = self.headers.iter().flat_map(|(name, value)| [quoted(name), quoted(value)]).collect();
        (!all.is_empty()).then(|| format!("{{{}}}", all.join(",")))
    }

    /// Returns the values of a function that stores it, with these headers.
    pub(super) fn values<'v>(&'v self, headers: Option<&'v str>) -> [Value<'v>; 9] {
        let [due_at, expires_at] = self.times();
        [
            Value::Bytes(self.id),
            Value::OptionalBytes(self.key),
            Value::Bytes(self.payload),
            Value::OptionalText(headers),
            Value::OptionalReal(due_at),
            Value::OptionalReal(expires_at),
            Value::OptionalText(self.kind),
            Value::OptionalText(self.source),
            Value::OptionalText(self.subject),
        ]
    }

    /// Returns the times at which it is due and expires, in seconds since 1970.
    pub(super) fn times(&self) -> [Option<f64>; 2] {
        [self.due_at.map(seconds), self.expires_at.map(seconds)]
    }
}

/// Returns a time as the server has it, to the microsecond.
fn seconds(at: SystemTime) -> f64 {
    // The end of the year 9999: the server would refuse times far beyond it.
    const LAST: f64 = 253_402_300_799.0;
    // The year 1: all times before it are over anyway.
    const FIRST: f64 = -62_135_596_800.0;
    match at.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => since.as_secs_f64().min(LAST),
        Err(before) => (-before.duration().as_secs_f64()).max(FIRST),
    }
}

/// Checks a kind, a source, a subject, or the name of a processor.
pub(super) fn validate_text(what: &str, text: Option<&str>) -> Result<(), StoreError> {
    let Some(text) = text else { return Ok(()) };
    if text.is_empty() || text.len() > DESCRIPTION_BYTES_MAX || text.chars().any(char::is_control) {
        let shown: String = text.chars().take(64).collect();
        let expected = format!("{what} of 1 to {DESCRIPTION_BYTES_MAX} bytes without control characters");
        return Err(misconfigured(format!("expected {expected}, got {} bytes: {shown:?}", text.len())));
    }
    Ok(())
}

/// Checks the name of a consumer or a topic: as a [`Scope`]'s.
pub(super) fn validate_name(what: &str, name: &str) -> Result<(), StoreError> {
    match Scope::new(name) {
        Ok(_) if name.is_empty() => Err(misconfigured(format!("{what} has a name, got an empty one"))),
        Ok(_) => Ok(()),
        Err(error) => {
            Err(StoreError::caused(error.kind(), super::BACKEND, format!("{what} is named like a scope"), error))
        }
    }
}

/// Returns an error's text as PostgreSQL can store it: not too long, and without zeros.
pub(super) fn kept_error(text: &str) -> String {
    let end = (0..=text.len().min(ERROR_BYTES_MAX)).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    text[..end].replace('\0', "\u{fffd}")
}

/// Returns a message that says nothing of itself.
#[cfg(test)]
pub(super) fn plain() -> hapax_message::Message {
    hapax_message::Message::new("c", "m", "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_store::ErrorKind;
    use std::time::Duration;

    #[test]
    fn what_is_too_long_is_refused_with_its_name() {
        let long = vec![0; PAYLOAD_BYTES_MAX + 1];
        let text = "x".repeat(HEADER_BYTES_MAX);
        let id = &long[..ID_BYTES_MAX + 1];
        assert!(NewMessage::new(&id[1..], &long[1..]).key(&id[1..]).validate().is_ok());
        assert!(NewMessage::new("a", "").headers(&[("a", &text[1..])]).validate().is_ok());
        for (message, what) in [
            (NewMessage::new(id, ""), "an id"),
            (NewMessage::new("a", "").key(id), "a key"),
            (NewMessage::new("a", &long), "a payload"),
            (NewMessage::new("a", "").headers(&[("a", &text)]), "all headers"),
            (NewMessage::new("a", "").headers(&[("", "b")]), "a name"),
            (NewMessage::new("a", "").headers(&[("a", "b\0")]), "no zeros"),
            (NewMessage::new("a", "").kind(""), "a kind"),
            (NewMessage::new("a", "").kind("a\0"), "a kind"),
            (NewMessage::new("a", "").source("a\nb"), "a source"),
            (NewMessage::new("a", "").subject(&text[..DESCRIPTION_BYTES_MAX + 1]), "a subject"),
        ] {
            let error = message.validate().unwrap_err();
            assert!(error.kind() == ErrorKind::Misconfigured && error.to_string().contains(what), "{error}");
        }
        let longest = &text[..DESCRIPTION_BYTES_MAX];
        let described = NewMessage::new("a", "").kind("'; DROP TABLE x; --").source("€ {}\\\"").subject(longest);
        assert!(described.validate().is_ok());
        assert!(validate_name("a consumer", "billing").is_ok());
        assert!(validate_name("a consumer", "a\nb").unwrap_err().to_string().contains("a consumer"));
        assert!(validate_name("a topic", "").unwrap_err().to_string().contains("a topic"));
    }

    #[test]
    fn headers_are_the_text_of_an_array() {
        assert_eq!(NewMessage::new("a", "").array(), None);
        let headers = [("a", "b\"c\\"), ("d", "")];
        assert_eq!(NewMessage::new("a", "").headers(&headers).array().unwrap(), r#"{"a","b\"c\\","d",""}"#);
        let owned = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(NewMessage::new("a", "").owned_headers(&owned).array().unwrap(), r#"{"a","b\"c\\","d",""}"#);
    }

    #[test]
    fn times_are_those_that_the_server_has() {
        let at = |at| NewMessage::new("a", "").due_at(at).times()[0].unwrap();
        assert_eq!(at(SystemTime::UNIX_EPOCH + Duration::from_millis(7_500)), 7.5);
        assert_eq!(at(SystemTime::UNIX_EPOCH - Duration::from_millis(7_500)), -7.5);
        assert!(at(SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40)) < 253_402_300_800.0);
        assert_eq!(NewMessage::new("a", "").times(), [None, None]);
    }

    #[test]
    fn an_errors_text_is_cut_between_characters_and_has_no_zeros() {
        assert_eq!(kept_error("a\0b"), "a\u{fffd}b");
        assert_eq!(kept_error(&"ä".repeat(4_000)).len(), 4_096);
        assert_eq!(kept_error(&format!("x{}", "ä".repeat(4_000))).len(), 4_095);
    }
}
