//! A record in bytes, for the backends that store records in this encoding.
//!
//! | bytes | what |
//! |---|---|
//! | 1 | bits 7 to 5: version; 4: a result follows; 3: a fingerprint; 2: a token; 1 and 0: the state |
//! | 8 | until when, in nanoseconds |
//! | 8 | the attempt, of a claim in progress and of a mark |
//! | 8 | the token, if any |
//! | 16 | the fingerprint, if any |
//! | the rest | the result, if any |
//!
//! Numbers are little-endian. A mark takes 17 bytes, a record without optional fields 9. A record
//! has exactly one encoding; all other bytes are rejected.

use super::record::{State, StoredRecord};
use crate::error::{ErrorKind, StoreError};
use crate::request::Fingerprint;
use hapax::Timestamp;

const VERSION: u8 = 1;

const IN_PROGRESS: u8 = 0;
const FAILED: u8 = 1;
const COMPLETED: u8 = 2;
const MARKED: u8 = 3;

const STATE: u8 = 0b11;
const TOKEN: u8 = 1 << 2;
const FINGERPRINT: u8 = 1 << 3;
const RESULT: u8 = 1 << 4;
const VERSION_SHIFT: u32 = 5;

/// The largest time and the largest token.
const MAX_63_BITS: u64 = i64::MAX as u64;

/// Encodes a record.
pub fn encode(stored: &StoredRecord) -> Vec<u8> {
    let (state, attempt, result) = match &stored.state {
        State::InProgress { attempt } => (IN_PROGRESS, Some(*attempt), None),
        State::Failed => (FAILED, None, None),
        State::Completed { attempt: None, result } => (COMPLETED, None, result.as_deref()),
        State::Completed { attempt: Some(attempt), result } => (MARKED, Some(*attempt), result.as_deref()),
    };
    let flags = [(stored.token != 0, TOKEN), (stored.fingerprint.is_some(), FINGERPRINT), (result.is_some(), RESULT)];
    let head =
        flags.iter().filter(|(is_set, _)| *is_set).fold(VERSION << VERSION_SHIFT | state, |head, (_, f)| head | f);

    let mut bytes = Vec::with_capacity(9 + 8 + 8 + 16 + result.map_or(0, <[u8]>::len));
    bytes.push(head);
    bytes.extend(stored.until.as_nanos().to_le_bytes());
    attempt.into_iter().for_each(|attempt| bytes.extend(attempt.to_le_bytes()));
    if stored.token != 0 {
        bytes.extend(stored.token.to_le_bytes());
    }
    stored.fingerprint.iter().for_each(|fingerprint| bytes.extend(fingerprint.0));
    bytes.extend(result.unwrap_or_default());
    bytes
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
    let result = (head & RESULT != 0).then(|| rest.to_vec());
    if result.is_none() && !rest.is_empty() {
        return Err(wrong("nothing after its last field"));
    }
    let state = match (head & STATE, attempt) {
        (FAILED, _) if result.is_none() => State::Failed,
        (IN_PROGRESS, Some(attempt)) if result.is_none() => State::InProgress { attempt },
        (COMPLETED | MARKED, attempt) => State::Completed { attempt, result },
        _ => return Err(wrong("no result before it is completed")),
    };
    Ok(StoredRecord { state, token, fingerprint, until })
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
        (state, number(), fingerprint, number()).prop_map(|(state, token, fingerprint, until)| StoredRecord {
            state,
            token,
            fingerprint,
            until: Timestamp::from_nanos(until),
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
        let marked = StoredRecord { state: mark, token: 0, fingerprint: None, until };
        assert_eq!(encode(&marked), *b"\x23\x08\x07\x06\x05\x04\x03\x02\x01\x11\0\0\0\0\0\0\0");
        let state = State::Completed { attempt: None, result: Some(b"paid".into()) };
        let done = StoredRecord { state, token: 5, fingerprint: Some(Fingerprint([b'f'; 16])), until };
        assert_eq!(encode(&done), *b"\x3e\x08\x07\x06\x05\x04\x03\x02\x01\x05\0\0\0\0\0\0\0ffffffffffffffffpaid");
        let recorded = StoredRecord { state: State::Failed, token: 0, fingerprint: None, until };
        assert_eq!(encode(&recorded).len(), 9);
        assert!(
            decode(b"\x43\x08\x07\x06\x05\x04\x03\x02\x01", "test")
                .unwrap_err()
                .to_string()
                .contains("version 1, not 2")
        );
    }
}
