//! An entry of a stream.

use hapax_message::Described;

/// An entry of a stream, as it was received.
///
/// ```
/// use hapax_message::Described;
/// use hapax_redis::StreamEntry;
///
/// /// The id that its producer gave it, by CloudEvents or in a field of its own. The entry's id is
/// /// none: it differs each time that a producer adds the entry.
/// fn id_of(order: &StreamEntry) -> Option<Vec<u8>> {
///     order.id().map(|id| id.into_owned()).or_else(|| order.field("id").map(<[u8]>::to_vec))
/// }
/// ```
///
/// It is [`Described`]: its fields are the headers, and the field `payload` is the content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamEntry {
    pub(super) id: String,
    pub(super) fields: Vec<(Vec<u8>, Vec<u8>)>,
    pub(super) is_again: bool,
}

impl StreamEntry {
    /// Returns the id of the entry in its stream, as in `1700000000000-0`.
    pub fn entry_id(&self) -> &str {
        &self.id
    }

    /// Returns the value of the last field of this name.
    pub fn field(&self, name: &str) -> Option<&[u8]> {
        self.fields().filter(|(given, _)| *given == name.as_bytes()).last().map(|(_, value)| value)
    }

    /// Returns all fields and their values, in their order. A name may come several times.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields.iter().map(|(name, value)| (name.as_slice(), value.as_slice()))
    }
}

impl Described for StreamEntry {
    fn header(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.field(name)?).ok()
    }

    fn payload(&self) -> &[u8] {
        self.field("payload").unwrap_or_default()
    }
}
