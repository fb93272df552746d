//! A version as a record, and the effect of requests on it: pure, for the backends.
//!
//! The result of a completed record: a tag, 20 decimal digits, and 8 bytes of the attempt. Digits,
//! so that a server's script can compare them in two halves, each exact in a double.

use super::{Advance, Advanced};
use crate::error::{ErrorKind, StoreError};
use crate::key::RecordKey;
use crate::record::{Change, Moment, State, StoredRecord, live};
use crate::request::Answers;

/// The beginning of a version's result.
pub const TAG: &[u8; 8] = b"\0version";
const DIGITS: usize = 20;
const ATTEMPT_BYTES: usize = 8;

/// A version, and the attempt that has advanced its id to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    pub number: u64,
    pub attempt: u64,
}

impl Version {
    /// Returns the version of a request.
    pub fn of(advance: &Advance) -> Self {
        Version { number: advance.version, attempt: advance.attempt }
    }

    /// Returns the digits of its number.
    pub fn digits(self) -> String {
        format!("{:0DIGITS$}", self.number)
    }

    /// Returns it as a record's result.
    pub fn encode(self) -> Vec<u8> {
        [&TAG[..], self.digits().as_bytes(), &self.attempt.to_be_bytes()].concat()
    }

    /// Reads a record's result; `None` if it is no version.
    pub fn decode(result: Option<&[u8]>) -> Option<Self> {
        let rest = result?.strip_prefix(&TAG[..])?;
        let (digits, attempt) = rest.split_at_checked(DIGITS)?;
        let attempt: [u8; ATTEMPT_BYTES] = attempt.try_into().ok()?;
        let is_number = digits.iter().all(u8::is_ascii_digit);
        let number = std::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()?;
        Some(Version { number, attempt: u64::from_be_bytes(attempt) })
    }

    /// Returns the answer to a request, given the version that is known.
    pub fn answer(self, asked: Version) -> Advanced {
        match self.number {
            known if known < asked.number => Advanced::Newer,
            known if known > asked.number => Advanced::Stale { known },
            _ if self.attempt == asked.attempt => Advanced::Newer,
            _ => Advanced::Duplicate,
        }
    }
}

/// The key has a record that is no version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Foreign;

/// Decides a request.
pub fn advance(stored: Option<&StoredRecord>, advance: &Advance, at: Moment) -> (Result<Advanced, Foreign>, Change) {
    let asked = Version::of(advance);
    if let Some(live) = live(stored, at.now) {
        let known = match &live.state {
            State::Completed { result, .. } => Version::decode(result.as_deref()),
            State::InProgress { .. } | State::Failed => None,
        };
        match known {
            None => return (Err(Foreign), Change::None),
            Some(known) if known.number >= asked.number => return (Ok(known.answer(asked)), Change::None),
            Some(_) => {}
        }
    }
    let state = State::Completed { attempt: None, result: Some(asked.encode()) };
    let token = stored.map_or(0, |stored| stored.token);
    let until = at.now + advance.retention;
    (Ok(Advanced::Newer), Change::Put(StoredRecord { state, token, fingerprint: None, until }))
}

/// Returns the error for a key whose record is no version.
pub fn foreign(backend: &'static str, key: &RecordKey) -> StoreError {
    let wrong =
        format!("{key} was marked, claimed or recorded, and has no version: versions need a scope of their own");
    StoreError::new(ErrorKind::Misconfigured, backend, wrong)
}

/// Returns answers with an error for each key whose record is no version.
pub fn told(
    backend: &'static str,
    advances: &[Advance],
    answers: Answers<Result<Advanced, Foreign>>,
) -> Answers<Advanced> {
    let told = |(advance, answer): (&Advance, Result<Result<Advanced, Foreign>, StoreError>)| {
        answer?.map_err(|Foreign| foreign(backend, &advance.key))
    };
    Ok(advances.iter().zip(answers?).map(told).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec;
    use crate::key::Scope;
    use hapax::Timestamp;
    use proptest::prelude::*;
    use std::time::Duration;

    proptest! {
        #[test]
        fn a_version_is_read_as_it_was_written_and_nothing_else_is_one(number: u64, attempt: u64, place in 0..36_usize) {
            let version = Version { number, attempt };
            let bytes = version.encode();
            prop_assert_eq!(Version::decode(Some(&bytes)), Some(version));
            prop_assert_eq!(Version::decode(Some(&bytes[..place])), None);
            let mut other = bytes.clone();
            other[place] = b'x';
            prop_assert!(Version::decode(Some(&other)).is_none_or(|read| place >= 28 && read.number == number));
            other.push(0);
            prop_assert_eq!(Version::decode(Some(&other)), None);
        }

        #[test]
        fn digits_are_in_the_order_of_numbers(one: u64, other: u64) {
            let digits = |number| Version { number, attempt: 0 }.digits();
            prop_assert_eq!(digits(one).cmp(&digits(other)), one.cmp(&other));
        }
    }

    #[test]
    fn what_is_decided_survives_being_stored() {
        let key = RecordKey::new(&Scope::default(), "a");
        let of = |version, attempt| Advance { key: key.clone(), version, attempt, retention: Duration::from_secs(10) };
        let at = |second| Moment { now: Timestamp::from_secs(second), spent: 0 };
        let (answer, Change::Put(stored)) = advance(None, &of(6, 1), at(100)) else { panic!("it is newer") };
        assert_eq!(answer, Ok(Advanced::Newer));
        let stored = codec::decode(&codec::encode(&stored), "test").unwrap();
        for (version, attempt, expected) in [
            (6, 1, Advanced::Newer),
            (6, 2, Advanced::Duplicate),
            (5, 1, Advanced::Stale { known: 6 }),
            (0, 9, Advanced::Stale { known: 6 }),
        ] {
            assert_eq!(advance(Some(&stored), &of(version, attempt), at(109)), (Ok(expected), Change::None));
        }
        assert!(matches!(advance(Some(&stored), &of(7, 2), at(109)), (Ok(Advanced::Newer), Change::Put(_))));
        assert!(matches!(advance(Some(&stored), &of(5, 2), at(110)), (Ok(Advanced::Newer), Change::Put(_))));
        let marked = StoredRecord { state: State::Completed { attempt: Some(1), result: None }, ..stored };
        assert_eq!(advance(Some(&marked), &of(7, 1), at(109)), (Err(Foreign), Change::None));
    }
}
