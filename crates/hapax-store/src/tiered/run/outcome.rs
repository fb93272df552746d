//! The outcome of a run in its stored form: a versioned record. Pure.
//!
//! ```text
//! version: u8, 1 | kind: u8 | the rest
//! kind:    0 a result, as JSON
//!          1 a result that was too large: bytes: u64 | the limit, 2^64 - 1 if it was the store's: u64
//!          2 a result that cannot be written as JSON and read back: the reason, UTF-8
//!          3 an error of the function: its text, UTF-8
//! ```
//! Little-endian. A record with any other content is an error: data from a store may be written by
//! another program.

use super::error::IdempotencyError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::time::Duration;

const VERSION: u8 = 1;
const RESULT: u8 = 0;
const TOO_LARGE: u8 = 1;
const UNWRITABLE: u8 = 2;
const FAILED: u8 = 3;

/// The number that stands for "no limit of ours".
const NO_LIMIT: u64 = u64::MAX;

/// The bytes before the rest.
const HEAD: usize = 2;

/// The largest text that is stored.
const MAX_TEXT_BYTES: usize = 4 << 10;

/// Returns the record of a result; or of the reason for which there is none, and the reason.
///
/// A result is read back here, since nobody could read it later: a NaN is written as `null`.
pub(super) fn encode<T>(output: &T, max: usize) -> Result<Vec<u8>, (Vec<u8>, IdempotencyError)>
where
    T: Serialize + DeserializeOwned,
{
    let mut record = vec![VERSION, RESULT];
    serde_json::to_writer(&mut record, output).map_err(unwritable::<T>)?;
    match json_bytes(&record) {
        bytes if bytes <= max as u64 => {}
        bytes => return Err(too_large(bytes, Some(max as u64))),
    }
    serde_json::from_slice::<T>(&record[HEAD..]).map_err(unwritable::<T>)?;
    Ok(record)
}

/// Returns the record of a result that has no form in JSON, and the reason.
fn unwritable<T>(error: serde_json::Error) -> (Vec<u8>, IdempotencyError) {
    let why = format!("{}: {error}", std::any::type_name::<T>());
    (encode_text(UNWRITABLE, &why), IdempotencyError::Unwritable(why))
}

/// Returns the size of the result in a record.
pub(super) fn json_bytes(record: &[u8]) -> u64 {
    record.len().saturating_sub(HEAD) as u64
}

/// Returns the record of a result that is too large, and the reason.
pub(super) fn too_large(bytes: u64, max: Option<u64>) -> (Vec<u8>, IdempotencyError) {
    let mut record = vec![VERSION, TOO_LARGE];
    record.extend(bytes.to_le_bytes());
    record.extend(max.unwrap_or(NO_LIMIT).to_le_bytes());
    (record, IdempotencyError::TooLarge { bytes, max })
}

/// Returns the record of an error that is kept.
pub(super) fn encode_error(error: &impl fmt::Display) -> Vec<u8> {
    encode_text(FAILED, &error.to_string())
}

fn encode_text(kind: u8, text: &str) -> Vec<u8> {
    let mut record = vec![VERSION, kind];
    let end = (0..=text.len().min(MAX_TEXT_BYTES)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    record.extend(&text.as_bytes()[..end]);
    record
}

/// Returns the result in a record, or the reason for which there is none.
pub(super) fn decode<T: DeserializeOwned>(record: &[u8], expires_in: Duration) -> Result<T, IdempotencyError> {
    let unreadable = |why: String| IdempotencyError::Unreadable(why);
    let [version, kind, rest @ ..] = record else {
        return Err(unreadable(format!("a record of {} bytes, expected at least 2", record.len())));
    };
    if *version != VERSION {
        return Err(unreadable(format!("a record of version {version}, expected {VERSION}")));
    }
    match (*kind, rest) {
        (RESULT, json) => serde_json::from_slice(json).map_err(|error| unreadable(error.to_string())),
        (TOO_LARGE, numbers) => {
            let ([bytes, max], []) = numbers.as_chunks::<8>() else {
                return Err(unreadable(format!("{} bytes of numbers, expected 16", numbers.len())));
            };
            let max = Some(u64::from_le_bytes(*max)).filter(|max| *max != NO_LIMIT);
            Err(IdempotencyError::TooLarge { bytes: u64::from_le_bytes(*bytes), max })
        }
        (UNWRITABLE, text) => Err(IdempotencyError::Unwritable(decode_text(text)?)),
        (FAILED, text) => Err(IdempotencyError::FailedBefore { error: decode_text(text)?, expires_in }),
        (kind, _) => Err(unreadable(format!("a record of kind {kind}, expected {RESULT} to {FAILED}"))),
    }
}

fn decode_text(text: &[u8]) -> Result<String, IdempotencyError> {
    let text = std::str::from_utf8(text).map_err(|error| IdempotencyError::Unreadable(error.to_string()))?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const LEFT: Duration = Duration::from_secs(7);

    #[test]
    fn every_kind_is_read_as_it_was_written() {
        let record = encode(&("paid".to_owned(), 17_u64), 100).unwrap();
        assert_eq!(decode::<(String, u64)>(&record, LEFT).unwrap(), ("paid".into(), 17));
        let json = record.len() - HEAD;
        assert_eq!(encode(&("paid".to_owned(), 17_u64), json).unwrap(), record, "as many bytes as it may have");
        let (record, error) = encode(&("paid".to_owned(), 17_u64), json - 1).unwrap_err();
        let expected = |error: &IdempotencyError| matches!(error, IdempotencyError::TooLarge { bytes, max: Some(max) } if *bytes == json as u64 && *max == bytes - 1);
        assert!(expected(&error) && expected(&decode::<()>(&record, LEFT).unwrap_err()), "{error:?}");
        for limit in [None, Some(0), Some(4)] {
            let refused = decode::<()>(&too_large(5, limit).0, LEFT).unwrap_err();
            assert!(matches!(refused, IdempotencyError::TooLarge { bytes: 5, max } if max == limit), "{refused:?}");
        }
        let unwritable = [
            (encode(&BTreeMap::from([((1, 2), 3)]), 100).unwrap_err(), "key must be a string"),
            // Written as `null`: JSON has no such number.
            (encode(&f64::NAN, 100).unwrap_err(), "f64: invalid type: null"),
        ];
        for ((record, error), says) in unwritable {
            for error in [error, decode::<()>(&record, LEFT).unwrap_err()] {
                assert!(matches!(&error, IdempotencyError::Unwritable(why) if why.contains(says)), "{error}");
            }
        }
        let long = "ä".repeat(MAX_TEXT_BYTES);
        match decode::<()>(&encode_error(&long), LEFT) {
            Err(IdempotencyError::FailedBefore { error, expires_in: LEFT }) => {
                assert!(error.len() <= MAX_TEXT_BYTES && long.starts_with(&error) && error.len() > 4_000);
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_no_record_is_an_error_that_says_what_was_expected() {
        let cases: [(&[u8], &str); 6] = [
            (b"", "0 bytes, expected at least 2"),
            (b"paid", "version 112, expected 1"),
            (&[VERSION, 9], "kind 9, expected 0 to 3"),
            (&[VERSION, TOO_LARGE, 1], "1 bytes of numbers, expected 16"),
            (&[VERSION, FAILED, 0xff], "utf-8"),
            (&[VERSION, RESULT, b'"', b'"'], "expected u64"),
        ];
        for (record, says) in cases {
            let error = decode::<u64>(record, LEFT).unwrap_err();
            assert!(matches!(&error, IdempotencyError::Unreadable(why) if why.contains(says)), "{error}");
        }
    }

    /// The result of one release of a program, read by the next one, and the other way round.
    #[test]
    fn a_field_with_a_default_may_come_and_go_and_any_other_is_missed() {
        #[derive(Serialize)]
        struct Old {
            amount: u64,
        }
        #[derive(Debug, PartialEq, Serialize, serde::Deserialize)]
        struct New {
            amount: u64,
            #[serde(default)]
            currency: String,
        }
        #[derive(Debug, PartialEq, serde::Deserialize)]
        struct Strict {
            amount: u64,
        }
        #[derive(Debug, serde::Deserialize)]
        struct Renamed {
            #[serde(rename = "cents")]
            _cents: u64,
        }
        let old = [&[VERSION, RESULT], &serde_json::to_vec(&Old { amount: 7 }).unwrap()[..]].concat();
        let new = New { amount: 7, currency: String::new() };
        assert_eq!(decode::<New>(&old, LEFT).unwrap(), new);
        assert_eq!(decode::<Strict>(&encode(&new, 100).unwrap(), LEFT).unwrap(), Strict { amount: 7 });
        let error = decode::<Renamed>(&old, LEFT).unwrap_err();
        assert!(
            matches!(&error, IdempotencyError::Unreadable(why) if why.contains("missing field `cents`")),
            "{error}"
        );
    }

    /// Retries get the result of the first call, to the last bit.
    #[test]
    fn numbers_are_read_as_they_were_written() {
        for bits in (0..10_000_u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
            let number = f64::from_bits(bits);
            if number.is_finite() {
                let read = decode::<f64>(&encode(&number, 100).unwrap(), LEFT).unwrap();
                assert_eq!(read.to_bits(), bits, "{number:?} became {read:?}");
            }
        }
        assert_eq!(decode::<u128>(&encode(&u128::MAX, 100).unwrap(), LEFT).unwrap(), u128::MAX);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_result_or_an_error(version in 0_u8..3, record in proptest::collection::vec(0_u8..6, 0..40)) {
            let record: Vec<u8> = std::iter::once(version).chain(record).collect();
            let _ = decode::<u64>(&record, LEFT);
        }
    }
}
