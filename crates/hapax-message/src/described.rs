//! The description of a message, whatever its broker.

use crate::attributes::{self, Names};
use std::borrow::Cow;
use std::sync::Arc;

/// The header in which a message of an outbox has its id, where its broker has no other place.
pub const MESSAGE_ID: &str = "message-id";

/// A message that says what it is.
///
/// ```
/// use hapax_message::Described;
///
/// struct Delivered(Vec<u8>);
///
/// impl Described for Delivered {
///     fn header(&self, name: &str) -> Option<&str> {
///         (name == "ce-type").then_some("order.placed")
///     }
///
///     fn payload(&self) -> &[u8] {
///         &self.0
///     }
/// }
///
/// let message: &dyn Described = &Delivered(b"{}".to_vec());
/// assert_eq!((message.kind(), message.subject()), (Some("order.placed"), None));
/// ```
///
/// # Implementing
///
/// Two methods are enough: the others read the headers of CloudEvents' binary mode, whichever
/// binding wrote them (`ce-type` of HTTP and NATS, `ce_type` of Kafka, `cloudEvents:type` and
/// `cloudEvents_type` of AMQP). A type whose broker has more to say overrides
///
/// - [`id`](Self::id): CloudEvents' first, by [`cloudevents::id_of`](crate::cloudevents::id_of),
///   and then the broker's own (`Nats-Msg-Id`, AMQP's `message-id`), since the producer's event
///   keeps its id where a broker's changes with each publication;
/// - [`key`](Self::key): the record's key, or the group of a message.
///
/// # Cost
///
/// Up to four look-ups of a header for each attribute. An id of CloudEvents is one allocation.
pub trait Described {
    /// Returns a header's value, if there is such a header and its value is UTF-8.
    ///
    /// Names are asked for in lower case, except for AMQP's `cloudEvents:…` and `cloudEvents_…`. It
    /// depends on case only if the broker's names do (those of HTTP do not).
    fn header(&self, name: &str) -> Option<&str>;

    /// Returns the content.
    fn payload(&self) -> &[u8];

    /// Returns the id by which repetitions are known: the standard's or the broker's. Default: that
    /// of CloudEvents, which is `source` and `id` together, as [`cloudevents::id`] makes it; or the
    /// header [`MESSAGE_ID`], which an outbox's publishers set.
    ///
    /// [`cloudevents::id`]: crate::cloudevents::id
    fn id(&self) -> Option<Cow<'_, [u8]>> {
        match attributes::id(&|name| self.header(name)) {
            Some(id) => Some(Cow::Owned(id.as_ref().to_vec())),
            None => self.header(MESSAGE_ID).filter(|id| !id.is_empty()).map(|id| Cow::Borrowed(id.as_bytes())),
        }
    }

    /// Returns the type of the event, such as `order.placed`. Default: CloudEvents' `type`, as the
    /// header has it: not decoded, if it has characters that HTTP encodes.
    fn kind(&self) -> Option<&str> {
        read(self, &attributes::TYPE)
    }

    /// Returns the context in which the event happened. Default: CloudEvents' `source`, as the
    /// header has it.
    fn source(&self) -> Option<&str> {
        read(self, &attributes::SOURCE)
    }

    /// Returns the thing that the event is about: the aggregate. Default: CloudEvents' `subject`,
    /// as the header has it.
    fn subject(&self) -> Option<&str> {
        read(self, &attributes::SUBJECT)
    }

    /// Returns the key by which the broker orders or partitions messages. Default: CloudEvents'
    /// extension `partitionkey`.
    fn key(&self) -> Option<&[u8]> {
        read(self, &attributes::PARTITION_KEY).map(str::as_bytes)
    }
}

fn read<'m, M: Described + ?Sized>(message: &'m M, names: &Names) -> Option<&'m str> {
    attributes::raw(&|name| message.header(name), names)
}

macro_rules! as_what_it_points_to {
    ($($pointer:ty),*) => {$(
        impl<M: Described + ?Sized> Described for $pointer {
            fn header(&self, name: &str) -> Option<&str> {
                (**self).header(name)
            }

            fn payload(&self) -> &[u8] {
                (**self).payload()
            }

            fn id(&self) -> Option<Cow<'_, [u8]>> {
                (**self).id()
            }

            fn kind(&self) -> Option<&str> {
                (**self).kind()
            }

            fn source(&self) -> Option<&str> {
                (**self).source()
            }

            fn subject(&self) -> Option<&str> {
                (**self).subject()
            }

            fn key(&self) -> Option<&[u8]> {
                (**self).key()
            }
        }
    )*};
}

as_what_it_points_to!(&M, Box<M>, Arc<M>);

#[cfg(test)]
mod tests {
    use super::*;
    use hapax::Key;

    struct Headers(Vec<(String, &'static str)>);

    impl Described for Headers {
        fn header(&self, name: &str) -> Option<&str> {
            self.0.iter().find(|(given, _)| given == name).map(|(_, value)| *value)
        }

        fn payload(&self) -> &[u8] {
            b"content"
        }
    }

    #[test]
    fn every_binding_is_read() {
        let expected = Key::new().text("/a b").text("17").as_ref().to_vec();
        for prefix in attributes::PREFIXES {
            let source = if prefix == attributes::PERCENT_ENCODED { "/a%20b" } else { "/a b" };
            let said = [("id", "17"), ("source", source), ("type", "t"), ("subject", "s"), ("partitionkey", "k")];
            let headers = said.map(|(name, value)| (format!("{prefix}{name}"), value)).into();
            let message: Arc<dyn Described> = Arc::new(Headers(headers));
            assert_eq!(message.id().as_deref(), Some(&*expected), "{prefix}");
            assert_eq!((message.kind(), message.subject(), message.key()), (Some("t"), Some("s"), Some(&b"k"[..])));
            assert_eq!(message.source(), Some(source));
        }
    }

    #[test]
    fn half_an_id_is_none() {
        for headers in [
            &[("ce_id", "17")][..],
            &[("ce_source", "/a")],
            &[("ce_id", "17"), ("ce_source", "")],
            &[("ce_id", ""), ("ce_source", "/a")],
            &[("ce-id", "%FF"), ("ce-source", "/a")],
        ] {
            let owned = headers.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
            let mut message = Headers(owned);
            assert_eq!(message.id(), None, "{headers:?}");
            message.0.push((MESSAGE_ID.to_owned(), "m-1"));
            assert_eq!(message.id().as_deref(), Some(&b"m-1"[..]));
        }
    }
}
