//! Ids for messages that bring none.

use hapax::Key;
use sha2::{Digest as _, Sha256};

/// The id of a message by its place: topic, partition and offset, which no other message has.
///
/// ```
/// use hapax_stream::ids;
///
/// assert_eq!(ids::offset("orders", 3, 17), ids::offset("orders", 3, 17));
/// assert_ne!(ids::offset("orders", 3, 17), ids::offset("orders", 31, 7));
/// ```
///
/// This finds deliveries that a broker repeats, and none that a producer repeats: those have another offset. The topic must not be one that was
/// deleted and made again within the retention.
pub fn offset(topic: &str, partition: u32, offset: u64) -> Vec<u8> {
    Key::new().text(topic).int(partition).int(offset).as_ref().to_vec()
}

/// The id of a message by what it says: its SHA-256 (FIPS 180-4).
///
/// ```
/// use hapax_stream::ids;
///
/// assert_eq!(ids::content_hash(b"abc")[..4], [0xba, 0x78, 0x16, 0xbf]);
/// ```
///
/// For producers that send again what they are not sure to have sent. Two messages that are meant to say the same twice are one: give those an id.
pub fn content_hash(message: impl AsRef<[u8]>) -> [u8; 32] {
    Sha256::digest(message).into()
}
