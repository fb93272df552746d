//! A record as an item of the table, and back: pure.
//!
//! | attribute | type | what |
//! |---|---|---|
//! | `id` | S | the partition key: the id, as text if it is text |
//! | `scope` | S | the sort key: the scope's name, likewise |
//! | `state` | S | `claimed`, `failed` or `completed` |
//! | `until_ns` | N | the end of the lease, failure or retention, in nanoseconds since 1970 |
//! | `ttl` | N | the second since 1970 from which on the service may remove the item |
//! | `token` | N | the fencing token of the last claim, if there was any |
//! | `attempt` | N | of a claim and of a mark |
//! | `fingerprint` | B | if it was given |
//! | `result` | B | if it was given |
//! | `held_by` | S | of a claim: its holder, if it said who it was |
//! | `doubt_s` | N | of a claim: the seconds after its end for which it is in doubt |
//! | `before` | S | the first claim that is in doubt: its token, and its holder after a blank |

use crate::errors::corrupt;
use aws_sdk_dynamodb::primitives::Blob;
use aws_sdk_dynamodb::types::AttributeValue;
use hapax::Timestamp;
use hapax_store::backend::record::{State, StoredRecord, Trail};
use hapax_store::{Before, Fingerprint, HeldBy, RecordKey, Scope, StoreError, StoredId};
use std::collections::HashMap;
use std::time::Duration;

pub(crate) const ID: &str = "id";
pub(crate) const SCOPE: &str = "scope";
pub(crate) const STATE: &str = "state";
pub(crate) const UNTIL: &str = "until_ns";
pub(crate) const TTL: &str = "ttl";
pub(crate) const TOKEN: &str = "token";
pub(crate) const ATTEMPT: &str = "attempt";
pub(crate) const FINGERPRINT: &str = "fingerprint";
pub(crate) const RESULT: &str = "result";
pub(crate) const HELD_BY: &str = "held_by";
pub(crate) const DOUBT: &str = "doubt_s";
pub(crate) const BEFORE: &str = "before";

pub(crate) const CLAIMED: &str = "claimed";
pub(crate) const FAILED: &str = "failed";
pub(crate) const COMPLETED: &str = "completed";

/// The time for which an item stays after its end, for its token: see the crate's documentation.
pub(crate) const TOKEN_OUTLIVES: Duration = Duration::from_secs(3_600);

/// The largest result. An item has at most 400 KiB, with the names and values of its other
/// attributes, which take less than 1 KiB.
pub(crate) const RESULT_BYTES_MAX: usize = (400 << 10) - (1 << 10);

pub(crate) type Item = HashMap<String, AttributeValue>;

/// Returns the primary key of a record.
pub(crate) fn key(key: &RecordKey) -> Item {
    let attribute = |name: &str, bytes: &[u8]| (name.to_owned(), AttributeValue::S(text(bytes)));
    [attribute(ID, key.id.as_bytes()), attribute(SCOPE, key.scope.as_str().as_bytes())].into()
}

/// Reads the primary key of an item.
pub(crate) fn key_of(item: &Item) -> Result<RecordKey, StoreError> {
    let bytes_of = |name: &str| {
        let text = item.get(name).and_then(|value| value.as_s().ok());
        text.and_then(|text| bytes(text)).ok_or_else(|| wrong(name, "the text of an id or a scope", item))
    };
    let scope = bytes_of(SCOPE)?;
    let scope = std::str::from_utf8(&scope).map_err(|_| wrong(SCOPE, "a scope's name", item))?;
    Ok(RecordKey { scope: Scope::from_stored(scope)?, id: StoredId::from_stored(&bytes_of(ID)?)? })
}

/// The beginning of a text that is the digits of bytes.
const HEX: &str = "0x";

/// Returns text as it is, and all else as hexadecimal digits: other bytes, nothing (a key must not
/// be empty), and text that looks like such digits. It is the item's key, so it must not change.
fn text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() && !text.starts_with(HEX) => text.to_owned(),
        _ => bytes.iter().fold(HEX.to_owned(), |text, byte| text + &format!("{byte:02x}")),
    }
}

/// Reads what [`text`] has written.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let Some(digits) = text.strip_prefix(HEX) else { return Some(text.into()).filter(|_| !text.is_empty()) };
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { return None };
    let pairs = pairs.iter().map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    pairs.collect::<Option<Vec<u8>>>().filter(|bytes| self::text(bytes) == text)
}

/// Reads the record of an item.
pub(crate) fn record(item: &Item) -> Result<StoredRecord, StoreError> {
    let attempt = optional(item, ATTEMPT)?;
    let result = blob(item, RESULT)?.map(<[u8]>::to_vec);
    let state = match (item.get(STATE).and_then(|state| state.as_s().ok()).map(String::as_str), attempt) {
        (Some(CLAIMED), Some(attempt)) => State::InProgress { attempt },
        (Some(CLAIMED), None) => return Err(wrong(ATTEMPT, "the attempt of a claim", item)),
        (Some(FAILED), _) => State::Failed,
        (Some(COMPLETED), attempt) => State::Completed { attempt, result },
        _ => return Err(wrong(STATE, "claimed, failed or completed", item)),
    };
    let fingerprint = match blob(item, FINGERPRINT)? {
        None => None,
        Some(bytes) => Some(Fingerprint(bytes.try_into().map_err(|_| wrong(FINGERPRINT, "16 bytes", item))?)),
    };
    let until = optional(item, UNTIL)?.ok_or_else(|| wrong(UNTIL, "a number of nanoseconds", item))?;
    Ok(StoredRecord {
        state,
        token: optional(item, TOKEN)?.unwrap_or(0),
        fingerprint,
        until: Timestamp::from_nanos(until),
        trail: trail(item)?,
    })
}

/// Reads what a claim leaves behind. (A claim that has ended leaves its seconds alone.)
fn trail(item: &Item) -> Result<Option<Box<Trail>>, StoreError> {
    let text = |name: &str| {
        let text = item.get(name).map(|value| value.as_s().map_err(|_| wrong(name, "text", item)));
        text.transpose().map(|text| text.map(String::as_str))
    };
    let before = text(BEFORE)?.map(|before| {
        let (token, held_by) = before.split_once(' ').map_or((before, None), |(token, name)| (token, Some(name)));
        let token = token.parse().map_err(|_| wrong(BEFORE, "a token, and perhaps a holder", item))?;
        Ok(Before::new(token, held_by.map(HeldBy::of)))
    });
    let is_claim = text(STATE)? == Some(CLAIMED);
    let (held_by, before, doubt) = (text(HELD_BY)?.map(HeldBy::of), before.transpose()?, optional(item, DOUBT)?);
    let is_something = before.is_some() || is_claim && (doubt.is_some() || held_by.is_some());
    let doubt = Duration::from_secs(doubt.unwrap_or(0));
    Ok(is_something.then(|| Box::new(Trail { doubt, held_by, before })))
}

/// Returns a claim in doubt as its attribute.
pub(crate) fn before(before: &Before) -> AttributeValue {
    let token = before.store_token();
    AttributeValue::S(before.held_by().map_or_else(|| token.to_string(), |held_by| format!("{token} {held_by}")))
}

fn optional(item: &Item, name: &str) -> Result<Option<u64>, StoreError> {
    let Some(value) = item.get(name) else { return Ok(None) };
    let number = value.as_n().ok().and_then(|number| number.parse().ok());
    number.map(Some).ok_or_else(|| wrong(name, "a whole number of up to 64 bits", item))
}

fn blob<'i>(item: &'i Item, name: &str) -> Result<Option<&'i [u8]>, StoreError> {
    let Some(value) = item.get(name) else { return Ok(None) };
    value.as_b().map(|blob| Some(blob.as_ref())).map_err(|_| wrong(name, "binary data", item))
}

/// Returns the error for an attribute that the store has not written.
fn wrong(name: &str, expected: &str, item: &Item) -> StoreError {
    let got = match item.get(name) {
        None => "nothing".to_owned(),
        Some(AttributeValue::S(text)) => format!("the text {:?}", text.chars().take(200).collect::<String>()),
        Some(AttributeValue::N(number)) => format!("the number {number}"),
        Some(AttributeValue::B(blob)) => format!("{} bytes", blob.as_ref().len()),
        Some(_) => "another type".to_owned(),
    };
    corrupt(format!("expected {expected} as the attribute `{name}` of an item, got {got}"))
}

pub(crate) fn number(number: u64) -> AttributeValue {
    AttributeValue::N(number.to_string())
}

pub(crate) fn binary(bytes: &[u8]) -> AttributeValue {
    AttributeValue::B(Blob::new(bytes))
}

/// Returns the second from which on the service may remove an item that counts until then, but for
/// a claim that is in doubt.
pub(crate) fn ttl(until: Timestamp) -> u64 {
    until.as_nanos().div_ceil(1_000_000_000).saturating_add(TOKEN_OUTLIVES.as_secs())
}

/// Returns whole seconds of doubt, never fewer.
pub(crate) fn seconds(doubt: Duration) -> u64 {
    doubt.as_nanos().div_ceil(1_000_000_000) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_store::ErrorKind;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_are_read_back(id in proptest::collection::vec(any::<u8>(), 0..60), scope in "[a0x/ß]{0,8}") {
            let record = RecordKey::new(&Scope::new(&scope).unwrap(), id);
            prop_assert_eq!(key_of(&key(&record)).unwrap(), record);
        }

        #[test]
        fn different_ids_have_different_texts(
            a in "(0x)?[0-9a-f]{0,3}",
            b in proptest::collection::vec(0_u8..99, 0..3),
        ) {
            prop_assert_eq!(a.as_bytes() == b, text(a.as_bytes()) == text(&b));
        }

        #[test]
        fn a_text_stands_for_its_bytes_or_for_none(of in "(0x)?[0-9a-fA-F]{0,5}") {
            if let Some(bytes) = bytes(&of) {
                prop_assert_eq!(text(&bytes), of);
            }
        }
    }

    #[test]
    fn text_is_kept_as_text_for_who_looks_into_the_table() {
        assert_eq!(text(b"order-17"), "order-17");
        assert_eq!(text(b""), "0x");
        assert_eq!(text(b"0x17"), "0x30783137");
        assert_eq!(text(&[0, 255]), "0x00ff");
        assert_eq!(
            Scope::from_stored("\u{1}owner").map(|scope| text(scope.as_str().as_bytes())).unwrap(),
            "\u{1}owner"
        );
    }

    #[test]
    fn items_that_are_not_ours_are_refused_and_the_attribute_named() {
        let good = || -> Item {
            let text = |text: &str| AttributeValue::S(text.into());
            [(STATE, text(CLAIMED)), (UNTIL, number(7)), (TOKEN, number(5)), (ATTEMPT, number(u64::MAX))]
                .map(|(name, value)| (name.to_owned(), value))
                .into()
        };
        let stored = record(&good()).unwrap();
        assert_eq!((stored.token, stored.state), (5, State::InProgress { attempt: u64::MAX }));
        for (name, value) in [
            (STATE, AttributeValue::S("done".into())),
            (STATE, number(1)),
            (UNTIL, AttributeValue::N("-1".into())),
            (UNTIL, AttributeValue::N("1.5".into())),
            (TOKEN, AttributeValue::Bool(true)),
            (ATTEMPT, AttributeValue::N("18446744073709551616".into())),
            (FINGERPRINT, binary(&[0; 15])),
            (RESULT, AttributeValue::S("x".into())),
        ] {
            let item = Item::from_iter(good().into_iter().chain([(name.to_owned(), value)]));
            let error = record(&item).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert!(error.to_string().contains(&format!("`{name}`")), "{error}");
        }
        for missing in [STATE, UNTIL, ATTEMPT] {
            let mut item = good();
            item.remove(missing);
            assert!(record(&item).unwrap_err().to_string().contains(&format!("`{missing}`")));
        }
    }

    /// Sizes by the service's rules: names and text in UTF-8, binary data as it is, a number 21
    /// bytes at most.
    #[test]
    fn the_largest_result_fits_into_an_item_of_the_service() {
        // The longest text is that of a scope whose name looks like digits.
        for scope in ["x".repeat(Scope::MAX_BYTES), format!("0x{}", "f".repeat(Scope::MAX_BYTES - 2))] {
            let key = key(&RecordKey::new(&Scope::new(&scope).unwrap(), [255; 100]));
            let of_key: usize = key.iter().map(|(name, value)| name.len() + value.as_s().unwrap().len()).sum();
            let numbers = [UNTIL, TTL, TOKEN, ATTEMPT].map(|name| name.len() + 21);
            let others = STATE.len() + COMPLETED.len() + FINGERPRINT.len() + 16 + RESULT.len();
            let item = of_key + numbers.iter().sum::<usize>() + others + RESULT_BYTES_MAX;
            assert!(item <= 400 << 10, "{item}");
        }
    }

    #[test]
    fn an_item_outlives_its_record() {
        let until = Timestamp::from_nanos(1_700_000_000_000_000_001);
        assert_eq!(ttl(until), 1_700_000_001 + 3_600);
    }
}
