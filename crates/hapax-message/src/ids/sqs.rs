//! Ids for Amazon SQS, on the side that sends.

use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

/// The largest number of characters of a deduplication id.
const MAX: usize = 128;
/// The beginning of ids that are hashes; keys that begin so are hashed, too.
const HASHED: &str = "sha256:";

/// Returns the `MessageDeduplicationId` of a message for a FIFO queue of Amazon SQS, from its
/// business key; none for a key that is empty or blank, which would make one message of all.
///
/// ```
/// use hapax_message::ids::sqs_deduplication_id;
///
/// assert_eq!(sqs_deduplication_id("order-17/paid").as_deref(), Some("order-17/paid"));
/// let long = sqs_deduplication_id("x".repeat(1_000));
/// assert!(long.is_some_and(|id| id.starts_with("sha256:") && id.len() == 71));
/// assert_eq!(sqs_deduplication_id(" "), None);
/// ```
///
/// SQS takes up to 128 letters, digits and marks of ASCII. A key of those is the id; any other is
/// hashed (SHA-256), so different keys have different ids.
///
/// # Guarantees
///
/// The id depends on the key alone. An id with the time in it (`Date.now()`, a new UUID for each
/// call) is another one whenever the message is sent again, so SQS accepts each repetition: the
/// parameter is given, and nothing is deduplicated. Take what makes the message the same one: the
/// order and what happened to it, a [`hapax::Key`] of both, or the event's id.
///
/// SQS itself forgets an id after 5 minutes. A message that is sent again after that is delivered
/// again, and the consumer must know it: by the same key, for as long as repetitions may come.
pub fn sqs_deduplication_id(key: impl AsRef<[u8]>) -> Option<String> {
    let key = key.as_ref();
    if key.trim_ascii().is_empty() {
        return None;
    }
    match std::str::from_utf8(key) {
        Ok(text) if text.len() <= MAX && text.bytes().all(|b| b.is_ascii_graphic()) && !text.starts_with(HASHED) => {
            Some(text.to_owned())
        }
        _ => {
            let hash = Sha256::digest(key);
            Some(hash.iter().fold(HASHED.to_owned(), |mut id, byte| {
                let _ = write!(id, "{byte:02x}");
                id
            }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(key: impl AsRef<[u8]>) -> String {
        sqs_deduplication_id(key).unwrap()
    }

    #[test]
    fn a_key_that_looks_like_a_hash_is_none() {
        let hashed = id("ü");
        assert_ne!(id(&hashed), hashed, "or two keys would be one id");
        assert_eq!(id("abc def"), "sha256:010971ea0013a09d91df437de2cd6f66df4dbdf78974926175d8421055ad1f62");
        assert_eq!(id("x".repeat(128)).len(), 128);
        assert!(id("x".repeat(129)).starts_with(HASHED));
    }

    #[test]
    fn no_key_is_no_id() {
        for blank in ["", " ", "\t\n"] {
            assert_eq!(sqs_deduplication_id(blank), None);
        }
    }

    fn key() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            proptest::collection::vec(any::<u8>(), 1..8),
            "[ab]{0,3}".prop_map(String::into_bytes),
            "(sha256:)?[ -~]{1,140}".prop_map(String::into_bytes),
        ]
    }

    proptest! {
        #[test]
        fn every_id_is_one_that_sqs_takes_and_of_one_key(a in key(), b in key()) {
            let [of_a, of_b] = [&a, &b].map(sqs_deduplication_id);
            for id in [&of_a, &of_b].into_iter().flatten() {
                prop_assert!((1..=MAX).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic()), "{}", id);
            }
            prop_assert_eq!(of_a == of_b && of_a.is_some(), a == b && of_a.is_some());
            // One that is an id already, and no hash, stays as it is.
            if let Some(id) = of_a.filter(|id| !id.starts_with(HASHED)) {
                prop_assert_eq!(sqs_deduplication_id(&id), Some(id));
            }
        }
    }
}
