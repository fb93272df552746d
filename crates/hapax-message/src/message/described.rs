//! The description of a message.

use super::Message;
use crate::{Described, attributes::PREFIXES};
use std::borrow::Cow;

impl Message {
    /// Returns the header that says an attribute of CloudEvents, in any binding.
    pub(super) fn attribute(&self, attribute: &str) -> Option<&str> {
        PREFIXES.into_iter().find_map(|prefix| self.header(&format!("{prefix}{attribute}")))
    }
}

/// Kind, source and subject are those that the message was given; without them, those of the
/// headers of CloudEvents. The id is the one by which its recipient recognizes a redelivery.
impl Described for Message {
    fn header(&self, name: &str) -> Option<&str> {
        Message::header(self, name)
    }

    fn payload(&self) -> &[u8] {
        &self.payload
    }

    fn id(&self) -> Option<Cow<'_, [u8]>> {
        Some(Cow::Borrowed(&self.id))
    }

    fn kind(&self) -> Option<&str> {
        self.kind.as_deref().or_else(|| self.attribute("type").filter(|said| !said.is_empty()))
    }

    fn source(&self) -> Option<&str> {
        self.source.as_deref().or_else(|| self.attribute("source").filter(|said| !said.is_empty()))
    }

    fn subject(&self) -> Option<&str> {
        self.subject.as_deref().or_else(|| self.attribute("subject").filter(|said| !said.is_empty()))
    }

    fn key(&self) -> Option<&[u8]> {
        self.key.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: Option<&str>, headers: &[(&str, &str)]) -> Message {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Message { kind: kind.map(str::to_owned), headers, ..Message::new("c", "m", "") }
    }

    #[test]
    fn what_it_was_given_comes_before_what_its_headers_say() {
        for name in ["ce-type", "Ce-Type", "ce_type", "cloudEvents:type", "cloudEvents_type"] {
            assert_eq!(Described::kind(&message(None, &[(name, "a")])), Some("a"), "{name}");
            assert_eq!(Described::kind(&message(Some("b"), &[(name, "a")])), Some("b"), "{name}");
        }
        for (name, value) in [("ce-type", ""), ("xe-type", "a"), ("ce-types", "a"), ("ce", "a"), ("€€", "a")] {
            assert_eq!(Described::kind(&message(None, &[(name, value)])), None, "{name}");
        }
        assert_eq!(message(None, &[]).id().as_deref(), Some(&b"m"[..]));
    }
}
