//! Bytes that clients and stores send, in the form in which the fuzz target `http` gives them to
//! its decoders: a letter that selects the decoder, and bytes for it. It checks that nothing
//! panics, and the properties of each decoder.

use super::key::{self, MAX_KEY_CHARS};
use crate::fingerprint::canonical::canonical;
use crate::response::record;
use serde_json::Value;

/// Runs the fuzz target `http` on its input. Returns true if the decoder accepted it.
pub fn fuzz(bytes: &[u8]) -> bool {
    let Some((which, bytes)) = bytes.split_first() else { return false };
    match which {
        b'k' => header(bytes),
        b'j' => json(bytes),
        b'r' => response(bytes),
        _ => false,
    }
}

/// Checks a client's `Idempotency-Key`.
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

/// Checks a body that counts by its content.
fn json(document: &[u8]) -> bool {
    let Some(written) = canonical(document) else { return false };
    assert_eq!(canonical(&written).as_ref(), Some(&written), "it is its own canonical form");
    // A string may become shorter, and no byte becomes more than six.
    assert!(written.len() <= 6 * document.len());
    // Another reader takes both for the same. (It refuses numbers that no double holds.)
    let read = |document: &[u8]| serde_json::from_slice::<Value>(document).ok();
    assert_eq!(read(document), read(&written));
    if let Some(value) = read(document) {
        // Its numbers are those that the other reader has read.
        let pretty = serde_json::to_vec_pretty(&value).expect("a value can be written");
        let compact = serde_json::to_vec(&value).expect("a value can be written");
        assert_eq!(canonical(&pretty), canonical(&compact));
    }
    true
}

/// Checks a response as a store has it.
fn response(bytes: &[u8]) -> bool {
    let Ok(kept) = record::decode(bytes.to_vec()) else { return false };
    let again = record::encode(&kept);
    assert_eq!(again.len(), bytes.len(), "nothing was overlooked");
    // Names of headers may be in capitals, and fields of one name apart: this holds from the second
    // round on.
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
