//! Ids for messages without one.

use hapax::Key;
use sha2::{Digest as _, Sha256};

/// Returns the id of a message by its place: topic, partition and offset, which no other message
/// has.
///
/// ```
/// use hapax_stream::ids;
///
/// assert_eq!(ids::offset("orders", 3, 17), ids::offset("orders", 3, 17));
/// assert_ne!(ids::offset("orders", 3, 17), ids::offset("orders", 31, 7));
/// ```
///
/// This detects deliveries that a broker repeats, and none that a producer repeats: those have
/// another offset. The topic must not be one that was deleted and made again within the retention.
pub fn offset(topic: &str, partition: u32, offset: u64) -> Vec<u8> {
    Key::new().text(topic).int(partition).int(offset).as_ref().to_vec()
}

/// Returns the id of a message by its content: its SHA-256 (FIPS 180-4).
///
/// ```
/// use hapax_stream::ids;
///
/// assert_eq!(ids::content_hash(b"abc")[..4], [0xba, 0x78, 0x16, 0xbf]);
/// ```
///
/// For producers that send a message again when they are not sure to have sent it. Two messages
/// that intentionally have the same content are one: give those an id.
pub fn content_hash(message: impl AsRef<[u8]>) -> [u8; 32] {
    Sha256::digest(message).into()
}
