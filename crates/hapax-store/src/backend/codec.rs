//! A record in bytes, for the backends that store records in this encoding.
//!
//! | bytes | what |
//! |---|---|
//! | 1 | bits 7 to 5: version; 4: the rest follows; 3: a fingerprint; 2: a token; 1 and 0: the state |
//! | 8 | until when, in nanoseconds |
//! | 8 | the attempt, of a claim in progress and of a mark |
//! | 8 | the token, if any |
//! | 16 | the fingerprint, if any |
//! | the rest | the result, if any; of a claim, and of one that has failed, its [trail] |
//!
//! Numbers are little-endian. A mark takes 17 bytes, a record without optional fields 9. A record
//! has exactly one encoding; all other bytes are rejected.
//!
//! [trail]: encode_trail

use super::record::{State, StoredRecord, Trail};
use crate::doubt::{Before, HeldBy};
use crate::error::{ErrorKind, StoreError};
use crate::request::Fingerprint;
use hapax::Timestamp;
use std::time::Duration;

const VERSION: u8 = 1;

const IN_PROGRESS: u8 = 0;
const FAILED: u8 = 1;
const COMPLETED: u8 = 2;
const MARKED: u8 = 3;

const STATE: u8 = 0b11;
const TOKEN: u8 = 1 << 2;
const FINGERPRINT: u8 = 1 << 3;
const REST: u8 = 1 << 4;
const VERSION_SHIFT: u32 = 5;

/// The largest time and the largest token.
const MAX_63_BITS: u64 = i64::MAX as u64;

/// Encodes a record.
pub fn encode(stored: &StoredRecord) -> Vec<u8> {
    let trail = stored.trail.as_deref().map(encode_trail);
    let (state, attempt, rest) = match &stored.state {
        State::InProgress { attempt } => (IN_PROGRESS, Some(*attempt), trail.as_deref()),
        State::Failed => (FAILED, None, trail.as_deref()),
        State::Completed { attempt: None, result } => (COMPLETED, None, result.as_deref()),
        State::Completed { attempt: Some(attempt), result } => (MARKED, Some(*attempt), result.as_deref()),
    };
    let flags = [(stored.token != 0, TOKEN), (stored.fingerprint.is_some(), FINGERPRINT), (rest.is_some(), REST)];
    let head =
        flags.iter().filter(|(is_set, _)| *is_set).fold(VERSION << VERSION_SHIFT | state, |head, (_, f)| head | f);

    let mut bytes = Vec::with_capacity(9 + 8 + 8 + 16 + rest.map_or(0, <[u8]>::len));
    bytes.push(head);
    bytes.extend(stored.until.as_nanos().to_le_bytes());
    attempt.into_iter().for_each(|attempt| bytes.extend(attempt.to_le_bytes()));
    if stored.token != 0 {
        bytes.extend(stored.token.to_le_bytes());
    }
    stored.fingerprint.iter().for_each(|fingerprint| bytes.extend(fingerprint.0));
    bytes.extend(rest.unwrap_or_default());
    bytes
}

/// Encodes a trail: the time for which it is kept, in microseconds; the token of the claim in
/// doubt, or zero; if there is one, its holder's length in a byte, and its holder; and the holder
/// of the claim in progress. Numbers are big-endian, as databases read them.
pub fn encode_trail(trail: &Trail) -> Vec<u8> {
    let doubt = u64::try_from(trail.doubt.as_nanos().div_ceil(1_000)).unwrap_or(MAX_63_BITS).min(MAX_63_BITS);
    let name = |held_by: Option<&HeldBy>| held_by.map_or(Vec::new(), |held_by| held_by.as_str().into());
    let mut bytes = doubt.to_be_bytes().to_vec();
    bytes.extend(trail.before.as_ref().map_or(0, Before::store_token).to_be_bytes());
    if let Some(before) = &trail.before {
        let before = name(before.held_by());
        bytes.push(before.len() as u8); // at most 64
        bytes.extend(before);
    }
    bytes.extend(name(trail.held_by.as_ref()));
    bytes
}

/// Decodes a trail; `None` if the bytes are none.
pub fn decode_trail(mut bytes: &[u8]) -> Option<Trail> {
    let doubt = u64::from_be_bytes(number(&mut bytes)?);
    let token = u64::from_be_bytes(number(&mut bytes)?);
    let before = match token {
        0 => None,
        token => {
            let [len] = number(&mut bytes)?;
            let (held_by, rest) = bytes.split_at_checked(len.into())?;
            bytes = rest;
            Some(Before::new(token, HeldBy::from_stored(held_by)?))
        }
    };
    let trail = Trail { doubt: Duration::from_micros(doubt), held_by: HeldBy::from_stored(bytes)?, before };
    (doubt.max(token) <= MAX_63_BITS).then_some(trail)
}

/// Decodes a record.
///
/// # Errors
///
/// [`ErrorKind::Corrupt`] if the bytes are not a record; `backend` is the backend that read them.
pub fn decode(bytes: &[u8], backend: &'static str) -> Result<StoredRecord, StoreError> {
    let wrong = |expected: &str| {
        let start = bytes[..bytes.len().min(48)].escape_ascii();
        let wrong = format!("a record should have {expected}, but has {} bytes: {start}", bytes.len());
        StoreError::new(ErrorKind::Corrupt, backend, wrong)
    };
    let mut rest = bytes;
    let head = number::<1>(&mut rest).ok_or_else(|| wrong("a first byte"))?[0];
    if head >> VERSION_SHIFT != VERSION {
        return Err(wrong(&format!("version {VERSION}, not {}", head >> VERSION_SHIFT)));
    }
    let below_2_63 = |rest: &mut &[u8], what: &str| {
        let number = number(rest).map(u64::from_le_bytes).filter(|&number| number <= MAX_63_BITS);
        number.ok_or_else(|| wrong(what))
    };
    let until = Timestamp::from_nanos(below_2_63(&mut rest, "a time")?);
    let attempt = match head & STATE {
        IN_PROGRESS | MARKED => Some(number(&mut rest).map(u64::from_le_bytes).ok_or_else(|| wrong("an attempt"))?),
        _ => None,
    };
    let token = match head & TOKEN {
        0 => 0,
        _ => Some(below_2_63(&mut rest, "a token")?).filter(|&token| token != 0).ok_or_else(|| wrong("a token"))?,
    };
    let fingerprint = match head & FINGERPRINT {
        0 => None,
        _ => Some(Fingerprint(number(&mut rest).ok_or_else(|| wrong("a fingerprint"))?)),
    };
    if head & REST == 0 && !rest.is_empty() {
        return Err(wrong("nothing after its last field"));
    }
    let rest = (head & REST != 0).then_some(rest);
    let decoded = |rest| decode_trail(rest).map(Box::new).ok_or_else(|| wrong("a trail at its end"));
    let trail = || rest.map(decoded).transpose();
    let (state, trail) = match (head & STATE, attempt) {
        (IN_PROGRESS, Some(attempt)) => (State::InProgress { attempt }, trail()?),
        (COMPLETED | MARKED, attempt) => (State::Completed { attempt, result: rest.map(<[u8]>::to_vec) }, None),
        _ => (State::Failed, trail()?),
    };
    Ok(StoredRecord { state, token, fingerprint, until, trail })
}

/// Runs the fuzz target `records` on one record: bytes that decode must encode to the same bytes.
#[cfg(any(fuzzing, test))]
pub fn fuzz(bytes: &[u8]) -> bool {
    match decode(bytes, "fuzzing") {
        Ok(stored) => {
            assert_eq!(encode(&stored), bytes);
            true
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            false
        }
    }
}

/// Reads this many bytes.
fn number<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stored() -> impl Strategy<Value = StoredRecord> {
        let number = || prop_oneof![Just(0), Just(1), Just(MAX_63_BITS), 0..=MAX_63_BITS];
        let result = || proptest::option::of(proptest::collection::vec(any::<u8>(), 0..40));
        let state = prop_oneof![
            any::<u64>().prop_map(|attempt| State::InProgress { attempt }),
            Just(State::Failed),
            (proptest::option::of(any::<u64>()), result())
                .prop_map(|(attempt, result)| State::Completed { attempt, result }),
        ];
        let fingerprint = proptest::option::of(any::<[u8; 16]>().prop_map(Fingerprint));
        let name = || proptest::option::of("[a-zé]{1,32}".prop_map(HeldBy::of));
        let before = proptest::option::of((1..=MAX_63_BITS, name()).prop_map(|(token, name)| Before::new(token, name)));
        let trail = proptest::option::of((0..=MAX_63_BITS, name(), before));
        (state, number(), fingerprint, number(), trail).prop_map(|(state, token, fingerprint, until, trail)| {
            let trail = trail.filter(|_| !matches!(state, State::Completed { .. })).map(|(doubt, held_by, before)| {
                Box::new(Trail { doubt: Duration::from_micros(doubt), held_by, before })
            });
            StoredRecord { state, token, fingerprint, until: Timestamp::from_nanos(until), trail }
        })
    }

    proptest! {
        #[test]
        fn a_record_is_read_as_it_was_written(stored in stored()) {
            prop_assert_eq!(decode(&encode(&stored), "test").unwrap(), stored);
        }

        #[test]
        fn damage_is_an_error_or_another_record(stored in stored()) {
            let bytes = encode(&stored);
            for len in 0..bytes.len() {
                is_an_error_or_canonical(&bytes[..len])?;
            }
            for bit in 0..bytes.len() * 8 {
                let mut damaged = bytes.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                is_an_error_or_canonical(&damaged)?;
                prop_assert!(decode(&damaged, "test").ok() != Some(stored.clone()));
            }
        }

        #[test]
        fn any_bytes_are_an_error_or_a_record(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            is_an_error_or_canonical(&bytes)?;
        }
    }

    fn is_an_error_or_canonical(bytes: &[u8]) -> Result<(), TestCaseError> {
        match decode(bytes, "test") {
            Ok(stored) => prop_assert_eq!(encode(&stored), bytes),
            Err(error) => prop_assert_eq!(error.kind(), ErrorKind::Corrupt),
        }
        Ok(())
    }

    /// Checks the layout, which is the format on disks: a change of it must change the version.
    #[test]
    fn the_layout_is_as_documented() {
        let until = Timestamp::from_nanos(0x0102_0304_0506_0708);
        let mark = State::Completed { attempt: Some(0x11), result: None };
        let marked = StoredRecord { state: mark, token: 0, fingerprint: None, until, trail: None };
        assert_eq!(encode(&marked), *b"\x23\x08\x07\x06\x05\x04\x03\x02\x01\x11\0\0\0\0\0\0\0");
        let state = State::Completed { attempt: None, result: Some(b"paid".into()) };
        let fingerprint = Some(Fingerprint([b'f'; 16]));
        let done = StoredRecord { state, token: 5, fingerprint, until, trail: None };
        assert_eq!(encode(&done), *b"\x3e\x08\x07\x06\x05\x04\x03\x02\x01\x05\0\0\0\0\0\0\0ffffffffffffffffpaid");
        let ended = StoredRecord { state: State::Failed, token: 0, fingerprint: None, until, trail: None };
        assert_eq!(encode(&ended).len(), 9);
        let before = Some(Before::new(7, Some(HeldBy::of("ab"))));
        let trail = Trail { doubt: Duration::from_micros(9), held_by: Some(HeldBy::of("c")), before };
        let doubted = StoredRecord { trail: Some(Box::new(trail)), ..ended };
        assert_eq!(encode(&doubted)[9..], *b"\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\x07\x02abc");
        assert!(
            decode(b"\x43\x08\x07\x06\x05\x04\x03\x02\x01", "test")
                .unwrap_err()
                .to_string()
                .contains("version 1, not 2")
        );
    }
}
