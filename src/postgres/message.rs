//! Messages, and what of them is too much.

use super::errors::misconfigured;
use crate::store::{Scope, StoreError};

/// The longest id of a message that is stored, and the longest key. (An id that is only marked may be of any length.)
pub const ID_BYTES_MAX: usize = 1_024;
/// The largest payload. What is larger belongs elsewhere, and a reference to it here.
pub const PAYLOAD_BYTES_MAX: usize = 1 << 20;
/// So much of an error's text is kept.
const ERROR_BYTES_MAX: usize = 4_096;

/// A message to be received or enqueued.
///
/// ```
/// use hapax::postgres::NewMessage;
///
/// let message = NewMessage::new("order-17/paid", br#"{"order": 17}"#).key("order-17");
/// # let _ = message;
/// ```
///
/// Messages of one key come in order, one after the other. Those without a key come in any order.
#[derive(Clone, Copy, Debug)]
pub struct NewMessage<'m> {
    pub(super) id: &'m [u8],
    pub(super) key: Option<&'m [u8]>,
    pub(super) payload: &'m [u8],
}

impl<'m> NewMessage<'m> {
    /// A message with this id, by which a redelivery is known: up to [`ID_BYTES_MAX`] bytes.
    pub fn new(id: &'m (impl AsRef<[u8]> + ?Sized), payload: &'m (impl AsRef<[u8]> + ?Sized)) -> Self {
        NewMessage { id: id.as_ref(), key: None, payload: payload.as_ref() }
    }

    /// The key within which it keeps its place: up to [`ID_BYTES_MAX`] bytes.
    #[must_use]
    pub fn key(self, key: &'m (impl AsRef<[u8]> + ?Sized)) -> Self {
        NewMessage { key: Some(key.as_ref()), ..self }
    }

    /// Whether it can be stored.
    pub(super) fn validate(&self) -> Result<(), StoreError> {
        let limits = [
            ("an id", self.id.len(), ID_BYTES_MAX),
            ("a key", self.key.map_or(0, <[u8]>::len), ID_BYTES_MAX),
            ("a payload", self.payload.len(), PAYLOAD_BYTES_MAX),
        ];
        match limits.iter().find(|(_, bytes, max)| bytes > max) {
            None => Ok(()),
            Some((what, bytes, max)) => {
                Err(misconfigured(format!("{what} of a stored message has at most {max} bytes, this one has {bytes}")))
            }
        }
    }
}

/// A message as a handler or a publisher gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The consumer that received it, or the topic it goes to.
    pub name: String,
    /// Its id: what whoever gets it knows a redelivery by.
    pub id: Vec<u8>,
    /// The key within which it has its place.
    pub key: Option<Vec<u8>>,
    /// What it says.
    pub payload: Vec<u8>,
    /// How often it was tried before and came to nothing, as far as that is known.
    pub attempts: u32,
}

/// The name of a consumer or a topic: as a [`Scope`]'s.
pub(super) fn validate_name(what: &str, name: &str) -> Result<(), StoreError> {
    match Scope::new(name) {
        Ok(_) => Ok(()),
        Err(error) => {
            Err(StoreError::caused(error.kind(), super::BACKEND, format!("{what} is named like a scope"), error))
        }
    }
}

/// An error's text as PostgreSQL keeps text: not too long, and without zeros.
pub(super) fn kept_error(text: &str) -> String {
    let end = (0..=text.len().min(ERROR_BYTES_MAX)).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    text[..end].replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ErrorKind;

    #[test]
    fn what_is_too_long_is_refused_with_its_name() {
        let long = vec![0; PAYLOAD_BYTES_MAX + 1];
        let id = &long[..ID_BYTES_MAX + 1];
        assert!(NewMessage::new(&id[1..], &long[1..]).key(&id[1..]).validate().is_ok());
        for (message, what) in [
            (NewMessage::new(id, ""), "an id"),
            (NewMessage::new("a", "").key(id), "a key"),
            (NewMessage::new("a", &long), "a payload"),
        ] {
            let error = message.validate().unwrap_err();
            assert!(error.kind() == ErrorKind::Misconfigured && error.to_string().contains(what), "{error}");
        }
        assert!(validate_name("a consumer", "billing").is_ok());
        assert!(validate_name("a consumer", "a\nb").unwrap_err().to_string().contains("a consumer"));
    }

    #[test]
    fn an_errors_text_is_cut_between_characters_and_has_no_zeros() {
        assert_eq!(kept_error("a\0b"), "a\u{fffd}b");
        assert_eq!(kept_error(&"ä".repeat(4_000)).len(), 4_096);
        assert_eq!(kept_error(&format!("x{}", "ä".repeat(4_000))).len(), 4_095);
    }
}
