//! Bytes that clients and stores send, as the fuzz target `http` gives it to its decoders: a letter
//! that says which, and bytes for it. Besides that nothing panics, it checks what must hold of
//! each.

use super::canonical::canonical;
use super::key::{self, MAX_KEY_CHARS};
use super::record;
use serde_json::Value;

/// Does what the fuzz target `http` does with its input; returns true if the decoder took it.
pub fn fuzz(bytes: &[u8]) -> bool {
    let Some((which, bytes)) = bytes.split_first() else { return false };
    match which {
        b'k' => header(bytes),
        b'j' => json(bytes),
        b'r' => response(bytes),
        _ => false,
    }
}

/// A client's `Idempotency-Key`.
fn header(field: &[u8]) -> bool {
    let one = |field: &[u8]| key::parse(std::iter::once(field));
    let Ok(read) = one(field) else { return false };
    assert!((1..=MAX_KEY_CHARS).contains(&read.len()) && !read.trim().is_empty());
    assert!(read.bytes().all(|byte| matches!(byte, b' '..=b'~')));
    let quoted = format!("\"{}\"", read.replace('\\', "\\\\").replace('"', "\\\""));
    assert_eq!(one(quoted.as_bytes()).as_ref(), Ok(&read), "quoted, it is the same key");
    assert!(key::parse([field, field].into_iter()).is_err(), "two fields are no key");
    true
}

/// A body that counts as what it says.
fn json(document: &[u8]) -> bool {
    let Some(written) = canonical(document) else { return false };
    assert_eq!(canonical(&written).as_ref(), Some(&written), "it is its own canonical form");
    // Strings may be written shorter, never longer than six bytes for one.
    assert!(written.len() <= 6 * document.len());
    // Another reader takes both for the same. (It refuses numbers that no double holds.)
    let read = |document: &[u8]| serde_json::from_slice::<Value>(document).ok();
    assert_eq!(read(document), read(&written));
    if let Some(value) = read(document) {
        // Its numbers are what that reader has made of them.
        let pretty = serde_json::to_vec_pretty(&value).expect("a value can be written");
        let compact = serde_json::to_vec(&value).expect("a value can be written");
        assert_eq!(canonical(&pretty), canonical(&compact));
    }
    true
}

/// A response as a store has it.
fn response(bytes: &[u8]) -> bool {
    let Ok(kept) = record::decode(bytes.to_vec()) else { return false };
    let again = record::encode(&kept);
    assert_eq!(again.len(), bytes.len(), "nothing was overlooked");
    // Names of headers may be written in capitals, and those of one name apart: then once only.
    let same = record::decode(again.clone()).expect("what was written is a record");
    assert_eq!(same, kept);
    assert_eq!(record::encode(&same), again);
    true
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_corpus_of_the_fuzz_target_http() {
        let mut taken = 0;
        let files = testkit::corpus::replay("http", |bytes| taken += usize::from(super::fuzz(bytes)));
        assert!(files == 0 || taken > 2, "of {files} only {taken} are anything");
    }
}
