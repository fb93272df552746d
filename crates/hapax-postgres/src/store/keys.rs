//! A record's key in the tables: the number of its scope and the id, in one string of bytes, so
//! that rows and their index are narrow and one comparison suffices.
//!
//! A scope below 128 is one byte, any other 0x80 and four bytes. No such prefix begins another one,
//! so different scopes and ids have different keys; and keys are in the order of scopes, then ids.

use super::entries::Entry;
use bytes::{BufMut as _, BytesMut};
use hapax_store::StoredId;
use std::error::Error;
use std::fmt;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

/// The end of the scopes whose numbers are one byte.
const SHORT: i32 = 0x80;
/// The first byte of any other scope.
const LONG: u8 = 0x80;

/// The length of the longest key.
pub(super) const KEY_BYTES_MAX: usize = 5 + StoredId::MAX_BYTES;

/// Returns the beginning of all keys of a scope. The server numbers scopes from one on.
fn prefix(scope: i32) -> ([u8; 5], usize) {
    let [a, b, c, d] = scope.to_be_bytes();
    if (0..SHORT).contains(&scope) { ([d, 0, 0, 0, 0], 1) } else { ([LONG, a, b, c, d], 5) }
}

/// Returns true if these bytes are the key of this entry.
pub(super) fn is_key_of(key: &[u8], entry: &Entry) -> bool {
    let (prefix, len) = prefix(entry.scope);
    key.strip_prefix(&prefix[..len]) == Some(entry.id.as_bytes())
}

/// Returns the stored id in a key.
pub(super) fn id_of(key: &[u8]) -> Option<&[u8]> {
    let prefix = if *key.first()? == LONG { 5 } else { 1 };
    key.get(prefix..)
}

/// Returns SQL for the number of a key's scope: `key` is an expression.
pub(super) fn scope_of(key: &str) -> String {
    let byte = |at: usize, shift: usize| format!("get_byte({key}, {at}) << {shift}");
    let long = [byte(1, 24), byte(2, 16), byte(3, 8), byte(4, 0)].map(|byte| format!("({byte})")).join(" | ");
    format!("CASE WHEN get_byte({key}, 0) < {SHORT} THEN get_byte({key}, 0) ELSE {long} END")
}

/// The keys of entries, as an array of `bytea` that is written into the message directly.
pub(super) struct Keys<'e>(pub(super) Vec<&'e Entry>);

impl<'e> Keys<'e> {
    pub(super) fn of(entries: &'e [Entry]) -> Self {
        Keys(entries.iter().collect())
    }
}

impl ToSql for Keys<'_> {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        // One dimension, no nulls, elements of this type; their number, counted from one.
        for number in [1, 0, Type::BYTEA.oid().cast_signed(), i32::try_from(self.0.len())?, 1] {
            out.put_i32(number);
        }
        for entry in &self.0 {
            let ((prefix, len), id) = (prefix(entry.scope), entry.id.as_bytes());
            out.put_i32((len + id.len()) as i32);
            out.put_slice(&prefix[..len]);
            out.put_slice(id);
        }
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::BYTEA_ARRAY
    }

    to_sql_checked!();
}

impl fmt::Debug for Keys<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|entry| (entry.scope, &entry.id))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_postgres::types::FromSql;

    fn entries() -> Vec<Entry> {
        let scopes = [1, 0x7f, 0x80, 0x0100, 0x0080_0000, i32::MAX];
        let ids: [&[u8]; 6] = [b"", b"\0", b"\x80", b"\0\0\0\0", b"ab", &[0xff; 60]];
        let entry = |scope, id: &[u8]| Entry { scope, id: StoredId::new(id), asking: 0..1 };
        scopes.iter().flat_map(|&scope| ids.iter().map(move |id| entry(scope, id))).collect()
    }

    fn written(keys: &Keys<'_>) -> Vec<Vec<u8>> {
        let mut out = BytesMut::new();
        keys.to_sql(&Type::BYTEA_ARRAY, &mut out).unwrap();
        Vec::from_sql(&Type::BYTEA_ARRAY, &out).unwrap()
    }

    #[test]
    fn each_entry_has_a_key_of_its_own_that_has_its_id() {
        let entries = entries();
        let keys = written(&Keys::of(&entries));
        assert_eq!(keys.len(), entries.len());
        for (key, entry) in keys.iter().zip(&entries) {
            assert!(key.len() <= KEY_BYTES_MAX);
            assert_eq!(id_of(key), Some(entry.id.as_bytes()));
            assert_eq!(keys.iter().filter(|other| *other == key).count(), 1, "{entry:?}");
            for other in &entries {
                assert_eq!(is_key_of(key, other), other == entry, "{entry:?} {other:?}");
            }
        }
        assert_eq!(written(&Keys::of(&[])), Vec::<Vec<u8>>::new());
        assert!(id_of(b"").is_none() && id_of(b"\x80abc").is_none());
    }

    #[test]
    fn keys_are_in_the_order_of_scopes_and_ids() {
        let mut entries = entries();
        entries.sort_by(|a, b| (a.scope, a.id.as_bytes()).cmp(&(b.scope, b.id.as_bytes())));
        assert!(written(&Keys::of(&entries)).is_sorted());
    }
}
