//! Names of keys, and the slot of a cluster that each is in.

use crate::resp::commands::Commands;
use crate::resp::errors::{BACKEND, error};
use hapax_store::backend::option;
use hapax_store::{ErrorKind, RecordKey, StoreError};
use std::ops::Range;

/// The number of slots of a cluster.
pub(crate) const SLOTS: u16 = 16_384;

/// The names of the keys of a store: `h:scope\0id`; in a cluster `{}h:scope\0id`.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    /// The beginning of each name.
    prefix: Vec<u8>,
}

impl Keys {
    /// Creates the names of a namespace.
    pub(crate) fn new(namespace: &str, in_cluster: bool) -> Result<Self, StoreError> {
        let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        let is_namespace = (1..=32).contains(&namespace.len()) && namespace.bytes().all(is_valid);
        option::check(BACKEND, is_namespace, "namespace", &namespace, "1 to 32 of A-Z a-z 0-9 _ . -")?;
        // An empty hash tag makes the whole key count. Without it, a client that puts `{…}` into
        // ids would choose their slot.
        let tag = if in_cluster { "{}" } else { "" };
        Ok(Keys { prefix: format!("{tag}{namespace}:").into() })
    }

    /// Writes the key of a record, and returns its position.
    pub(crate) fn write(&self, key: &RecordKey, commands: &mut Commands) -> Range<usize> {
        commands.parts(self.parts(key))
    }

    /// Returns the slot of a record's key, in a cluster: the whole key counts.
    pub(crate) fn slot_of(&self, key: &RecordKey) -> u16 {
        crc16(self.parts(key).into_iter().flatten()) % SLOTS
    }

    /// Returns the parts of a record's key.
    pub(crate) fn parts<'k>(&'k self, key: &'k RecordKey) -> [&'k [u8]; 4] {
        [&self.prefix, key.scope.as_str().as_bytes(), b"\0", key.id.as_bytes()]
    }

    /// Reads the record of a key.
    pub(crate) fn parse(&self, name: &[u8]) -> Result<RecordKey, StoreError> {
        match name.strip_prefix(self.prefix.as_slice()) {
            Some(stored) => RecordKey::from_stored(stored),
            None => {
                let wrong =
                    format!("the key {} does not begin with {}", name.escape_ascii(), self.prefix.escape_ascii());
                Err(error(ErrorKind::Corrupt, wrong))
            }
        }
    }

    /// Returns the glob that all names match. A namespace has no characters with a meaning in
    /// globs.
    pub(crate) fn pattern(&self) -> Vec<u8> {
        [&self.prefix[..], b"*"].concat()
    }
}

/// Returns the slot of a key: CRC-16 (XMODEM) of its hash tag, if it has one, otherwise of the
/// whole key (Redis cluster specification).
pub(crate) fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|&byte| byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|&byte| byte == b'}')?;
        (close > 0).then(|| &rest[..close])
    });
    crc16(tag.unwrap_or(key)) % SLOTS
}

fn crc16<'b>(bytes: impl IntoIterator<Item = &'b u8>) -> u16 {
    bytes.into_iter().fold(0, |crc, &byte| (crc << 8) ^ CRC16[usize::from((crc >> 8) as u8 ^ byte)])
}

const CRC16: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = ((byte as u16) << 8, 0);
        while bit < 8 {
            crc = (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_store::Scope;

    #[test]
    fn crc16_is_the_one_of_the_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
    }

    #[test]
    fn slots_are_those_of_the_specification() {
        assert_eq!(slot(b"{user1000}.following"), slot(b"{user1000}.followers"));
        assert_eq!(slot(b"foo{}{bar}"), crc16(b"foo{}{bar}") % SLOTS);
        assert_eq!(slot(b"foo{{bar}}zap"), crc16(b"{bar") % SLOTS);
        assert_eq!(slot(b"foo{bar}{zap}"), slot(b"bar"));
        assert_eq!(slot(b"foo{bar"), crc16(b"foo{bar") % SLOTS);
    }

    #[test]
    fn ids_do_not_choose_their_slot() {
        let keys = Keys::new("h", true).unwrap();
        let key = |id: &str| RecordKey::new(&Scope::default(), id);
        let slots: std::collections::HashSet<u16> =
            (0..100).map(|i| keys.slot_of(&key(&format!("{{a}}{i}")))).collect();
        assert!(slots.len() > 90, "{}", slots.len());
        let whole = keys.parts(&key("{a}1")).concat();
        assert_eq!(keys.slot_of(&key("{a}1")), slot(&whole));
    }

    #[test]
    fn names_are_read_back() {
        for in_cluster in [false, true] {
            let keys = Keys::new("my.app-1_x", in_cluster).unwrap();
            for (scope, id) in [("", ""), ("orders", "17"), ("a:b", "\0{x}:*\n"), ("ü", "{}")] {
                let key = RecordKey::new(&Scope::new(scope).unwrap(), id);
                assert_eq!(keys.parse(&keys.parts(&key).concat()).unwrap(), key);
            }
            assert_eq!(keys.parse(b"other:a\0b").unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }

    #[test]
    fn namespaces_are_validated() {
        for wrong in ["", "a b", "a*", "a:b", "{a}", "ä", "a\n", &"x".repeat(33)] {
            let error = Keys::new(wrong, false).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Misconfigured, "{wrong:?}");
            assert!(error.to_string().contains("option `namespace`"), "{error}");
        }
        assert!(Keys::new(&"x".repeat(32), false).is_ok());
    }
}
