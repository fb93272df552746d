//! Records as stores return them, in the form in which the fuzz target `records` gives them to its
//! decoders: a letter that selects the decoder, and bytes for it. A decoder that accepts bytes must
//! write them as they were, or as an equal record.

use super::{RecordKey, Scope, StoredId};

/// Does what the fuzz target `records` does with its input, if it is for this crate; returns true
/// if the decoder took it.
pub fn fuzz(bytes: &[u8]) -> bool {
    let Some((which, bytes)) = bytes.split_first() else { return false };
    match which {
        b'k' => key(bytes),
        b's' => scope(bytes),
        b'c' => crate::backend::codec::fuzz(bytes),
        _ => false,
    }
}

/// Checks a key as SQLite, fjall and Redis store it.
fn key(stored: &[u8]) -> bool {
    let Ok(key) = RecordKey::from_stored(stored) else { return false };
    assert_eq!(key.to_stored(), stored);
    assert!(key.id.as_bytes().len() <= StoredId::MAX_BYTES);
    scope(key.scope.as_str().as_bytes())
}

/// Checks a scope's name, as any store has it.
fn scope(name: &[u8]) -> bool {
    let Ok(name) = std::str::from_utf8(name) else { return false };
    let Ok(scope) = Scope::from_stored(name) else { return false };
    assert_eq!(scope.as_str(), name);
    // Users may name all scopes but hapax's own.
    assert_eq!(Scope::new(name).is_err(), scope.is_reserved());
    true
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_corpus_of_the_fuzz_target_records() {
        let mut taken = 0;
        let files = testkit::corpus::replay("records", |bytes| taken += usize::from(super::fuzz(bytes)));
        assert!(files == 0 || taken > 1, "of {files} only {taken} are anything");
    }
}
