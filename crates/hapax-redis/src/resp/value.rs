//! The value under a key.
//!
//! | | |
//! |---|---|
//! | a mark | its attempt, in decimal: Redis keeps such a string as an integer, without an allocation |
//! | a record without result and fingerprint | `-1` |
//! | a claim | `P` token fingerprint attempt trail |
//! | a failed claim | `F` token fingerprint trail |
//! | a completed claim, a record | `C` token fingerprint result |
//!
//! *token*: 16 decimal digits, microseconds since 1970, enough until 2286. *fingerprint*: `0`, or
//! `1` and 16 bytes. *attempt*: 8 bytes, big-endian. *result*: `0`, or `1` and its bytes. The end
//! of a record is the key's own expiry. *trail*: nothing; or 14 digits of milliseconds by which the
//! key outlives the record, because a claim is in doubt then; the claim in doubt (`0`, or `1`, its
//! token, two digits for the length of its holder's name, and that); and the holder's name.
//! `claim.lua`, `hold.lua` and `mark.lua` write and read the same. A
//! version is a record whose result `hapax_store` lays out; `advance.lua` writes and reads it.

use super::errors::error;
use hapax_store::backend::record::Trail;
use hapax_store::{Before, Completed, ErrorKind, Fingerprint, HeldBy, Inspected, Known, RecordState, StoreError};
use std::time::Duration;

/// The value that is kept under a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// Marked by this attempt.
    Marked(u64),
    /// Recorded, without result and fingerprint.
    Recorded,
    /// Claimed. (Only the script reads the attempt.)
    InProgress { fingerprint: Option<Fingerprint>, trail: Option<Trail> },
    /// In progress for everybody.
    Failed { fingerprint: Option<Fingerprint>, trail: Option<Trail> },
    /// Done.
    Completed { fingerprint: Option<Fingerprint>, result: Option<Vec<u8>> },
}

pub(crate) const TOKEN_BYTES: usize = 16;
const ATTEMPT_BYTES: usize = 8;
const DOUBT_BYTES: usize = 14;

/// The number of bytes that are enough of any value, but for its result.
pub(crate) const BEGINNING_BYTES: usize = 256;
/// The value of a record without result and fingerprint.
const RECORDED: &[u8] = b"-1";

/// Returns an attempt as stored, with 63 bits, so that Redis stores it as an integer.
pub(crate) fn attempt_bits(attempt: u64) -> u64 {
    attempt & (i64::MAX as u64)
}

impl Value {
    /// Reads a value.
    pub(crate) fn decode(value: &[u8]) -> Result<Self, StoreError> {
        let parsed = match value.first() {
            Some(b'P') => claim(value).and_then(|(fingerprint, rest)| {
                let (_attempt, rest) = rest.split_at_checked(ATTEMPT_BYTES)?;
                Some(Value::InProgress { fingerprint, trail: trail(rest)? })
            }),
            Some(b'F') => {
                claim(value).and_then(|(fingerprint, rest)| Some(Value::Failed { fingerprint, trail: trail(rest)? }))
            }
            Some(b'C') => claim(value).and_then(|(fingerprint, tail)| {
                let result = match tail.split_first()? {
                    (b'0', []) => None,
                    (b'1', result) => Some(result.to_vec()),
                    _ => return None,
                };
                Some(Value::Completed { fingerprint, result })
            }),
            Some(_) if value == RECORDED => Some(Value::Recorded),
            _ => mark(value).map(Value::Marked),
        };
        parsed.ok_or_else(|| {
            let shown = &value[..value.len().min(48)];
            error(ErrorKind::Corrupt, format!("a value is not one of hapax's: {}", shown.escape_ascii()))
        })
    }

    /// Returns the fingerprint of the message, if it was given.
    pub(crate) fn fingerprint(&self) -> Option<Fingerprint> {
        match self {
            Value::Marked(_) | Value::Recorded => None,
            Value::InProgress { fingerprint, .. }
            | Value::Failed { fingerprint, .. }
            | Value::Completed { fingerprint, .. } => *fingerprint,
        }
    }

    /// Returns what a claim leaves behind.
    pub(crate) fn trail(&self) -> Option<&Trail> {
        match self {
            Value::InProgress { trail, .. } | Value::Failed { trail, .. } => trail.as_ref(),
            _ => None,
        }
    }

    /// Returns the rest of the lease, the failure or the retention, given the remaining time of the
    /// key. `None` if it is over, and a claim is in doubt.
    pub(crate) fn left(&self, ttl: Duration) -> Option<Duration> {
        match self.trail() {
            Some(Trail { doubt, .. }) if !doubt.is_zero() => ttl.checked_sub(*doubt).filter(|left| !left.is_zero()),
            _ => Some(ttl),
        }
    }

    /// Returns what the value says of the id, given the remaining time of the key.
    pub(crate) fn known(self, ttl: Duration) -> Known {
        let Some(left) = self.left(ttl) else { return Known::Unknown };
        match self {
            Value::InProgress { fingerprint, .. } | Value::Failed { fingerprint, .. } => {
                Known::InProgress { lease_left: left, fingerprint }
            }
            Value::Marked(_) | Value::Recorded => Known::Completed(Completed::new(left, None, None)),
            Value::Completed { fingerprint, result } => Known::Completed(Completed::new(left, fingerprint, result)),
        }
    }
}

/// Returns a value for people, given the remaining time of its key.
pub(crate) fn inspected(value: &[u8], ttl: Duration) -> Result<Inspected, StoreError> {
    let kept = Value::decode(value)?;
    let token = match value.first() {
        Some(b'P' | b'F' | b'C') => value.get(1..=TOKEN_BYTES).map(parse_token).transpose()?,
        _ => None,
    };
    let left = kept.left(ttl);
    let (trail, fingerprint) = (kept.trail().cloned(), kept.fingerprint());
    let state = match &kept {
        _ if left.is_none() => RecordState::InDoubt,
        Value::InProgress { .. } => RecordState::Claimed,
        Value::Failed { .. } => RecordState::Failed,
        Value::Marked(_) => RecordState::Marked,
        Value::Recorded | Value::Completed { .. } => RecordState::Completed,
    };
    let result = match kept {
        Value::Completed { result, .. } => result,
        _ => None,
    };
    let (held_by, before) = trail.map_or((None, None), |trail| (trail.held_by, trail.before));
    let itself = token.filter(|_| left.is_none()).map(|token| Before::new(token, held_by.clone()));
    let token = token.filter(|token| *token != 0);
    let inspected = Inspected::new(state, left.unwrap_or(ttl), token, fingerprint, result);
    Ok(inspected.held_by(held_by).in_doubt(before.or(itself)))
}

/// Reads what a claim leaves behind. `None` if this is nothing of that kind.
fn trail(rest: &[u8]) -> Option<Option<Trail>> {
    if rest.is_empty() {
        return Some(None);
    }
    let (doubt, rest) = rest.split_at_checked(DOUBT_BYTES)?;
    let (before, name) = before(rest)?;
    Some(Some(Trail { doubt: Duration::from_millis(digits(doubt)?), held_by: HeldBy::from_stored(name)?, before }))
}

/// Reads the claim that is in doubt, if there is one. Returns also what follows it.
pub(crate) fn before(text: &[u8]) -> Option<(Option<Before>, &[u8])> {
    match text.split_first()? {
        (b'0', rest) => Some((None, rest)),
        (b'1', rest) => {
            let (token, rest) = rest.split_at_checked(TOKEN_BYTES)?;
            let (length, rest) = rest.split_at_checked(2)?;
            let (name, rest) = rest.split_at_checked(digits(length)? as usize)?;
            Some((Some(Before::new(digits(token)?, HeldBy::from_stored(name)?)), rest))
        }
        _ => None,
    }
}

fn digits(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    text.parse().ok()
}

/// Returns the time for which a claim is in doubt as its value has it, if it leaves anything.
pub(crate) fn doubt_text(doubt: Duration, held_by: Option<&HeldBy>) -> String {
    if doubt.is_zero() && held_by.is_none() {
        return String::new();
    }
    let doubt_ms = if doubt.is_zero() { 0 } else { expiry_ms(doubt) };
    format!("{doubt_ms:0DOUBT_BYTES$}")
}

/// Reads the attempt of a mark. A server writes an integer in one way only, and so does hapax.
fn mark(value: &[u8]) -> Option<u64> {
    let attempt: u64 = std::str::from_utf8(value).ok()?.parse().ok()?;
    let is_one = attempt == attempt_bits(attempt) && attempt.to_string().as_bytes() == value;
    is_one.then_some(attempt)
}

/// Returns the fingerprint and the rest of a value that begins with tag and token.
fn claim(value: &[u8]) -> Option<(Option<Fingerprint>, &[u8])> {
    let (token, rest) = value[1..].split_at_checked(TOKEN_BYTES)?;
    if !token.iter().all(u8::is_ascii_digit) {
        return None;
    }
    match rest.split_first()? {
        (b'0', rest) => Some((None, rest)),
        (b'1', rest) => rest.split_first_chunk().map(|(fingerprint, rest)| (Some(Fingerprint(*fingerprint)), rest)),
        _ => None,
    }
}

/// Returns a token as values have it. One that is too long is that of no claim.
pub(crate) fn token_text(token: u64) -> String {
    format!("{token:0TOKEN_BYTES$}")
}

/// Reads the token of a claim that was granted.
pub(crate) fn parse_token(text: &[u8]) -> Result<u64, StoreError> {
    let token = digits(text).filter(|_| text.len() == TOKEN_BYTES);
    token.ok_or_else(|| error(ErrorKind::Corrupt, format!("a claim's token is not one: {}", text.escape_ascii())))
}

/// The last part of a completion without a result, and the beginning of one with a result.
pub(crate) const NO_RESULT: &[u8] = b"0";
pub(crate) const RESULT: &[u8] = b"1";

/// Returns a record's value.
pub(crate) fn recorded(fingerprint: Option<Fingerprint>, result: Option<&[u8]>) -> Vec<u8> {
    if fingerprint.is_none() && result.is_none() {
        return RECORDED.into();
    }
    let mut value = format!("C{}", token_text(0)).into_bytes();
    match fingerprint {
        None => value.push(b'0'),
        Some(Fingerprint(fingerprint)) => {
            value.push(b'1');
            value.extend_from_slice(&fingerprint);
        }
    }
    value.extend_from_slice(result.map_or(NO_RESULT, |_| RESULT));
    value.extend_from_slice(result.unwrap_or_default());
    value
}

/// Returns the milliseconds until a key expires: rounded up, since nothing is forgotten before its
/// time, and at least one, since Redis takes no zero. At most a thousand years, since Redis adds it
/// to its clock.
pub(crate) fn expiry_ms(of: Duration) -> u64 {
    const MAX_MS: u128 = 1_000 * 366 * 86_400_000;
    of.as_nanos().div_ceil(1_000_000).clamp(1, MAX_MS) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_back() {
        let fingerprint = Some(Fingerprint([b'0'; 16]));
        assert_eq!(Value::decode(&recorded(None, None)).unwrap(), Value::Recorded);
        let results: [Option<&[u8]>; 4] = [None, Some(b""), Some(b"0"), Some(b"P\0\xff")];
        for result in results {
            let decoded = Value::decode(&recorded(fingerprint, result)).unwrap();
            assert_eq!(decoded, Value::Completed { fingerprint, result: result.map(Into::into) });
        }
    }

    #[test]
    fn claims_are_read_back() {
        let claimed = [b"P0000000000000007", &b"0"[..], &7_u64.to_be_bytes()].concat();
        assert_eq!(Value::decode(&claimed).unwrap(), Value::InProgress { fingerprint: None, trail: None });
        let failed = [b"F0000000000000007", &b"1"[..], &[9; 16]].concat();
        assert_eq!(
            Value::decode(&failed).unwrap(),
            Value::Failed { fingerprint: Some(Fingerprint([9; 16])), trail: None }
        );
        let doubted = [&claimed[..], b"00000000060000", b"1000000000000000503abc", b"me"].concat();
        let before = Some(Before::new(5, Some(HeldBy::of("abc"))));
        let trail = Trail { doubt: Duration::from_secs(60), held_by: Some(HeldBy::of("me")), before };
        let kept = Value::decode(&doubted).unwrap();
        assert_eq!(kept.trail(), Some(&trail));
        assert_eq!(kept.left(Duration::from_secs(61)), Some(Duration::from_secs(1)));
        assert_eq!(kept.left(Duration::from_secs(60)), None, "its lease is over");
        assert_eq!(Value::decode(b"9223372036854775807").unwrap(), Value::Marked(i64::MAX as u64));
        assert_eq!(Value::decode(b"0").unwrap(), Value::Marked(0));
    }

    #[test]
    fn nothing_else_is_a_value_and_nothing_panics() {
        let fingerprint = Some(Fingerprint([7; 16]));
        let whole = recorded(fingerprint, None);
        let mut wrong: Vec<Vec<u8>> = (0..whole.len()).map(|len| whole[..len].to_vec()).collect();
        // An integer in another notation is not hapax's: the script would take it for another one.
        let integers = ["-2", "+5", "007", "18446744073709551615", "00000000000000000000017"];
        for text in ["x", "P", "F1", "1.0", "99999999999999999999999", "C00000000000000070x", "hello"] {
            wrong.push(text.into());
        }
        for text in integers {
            wrong.push(text.into());
        }
        for value in wrong {
            assert_eq!(Value::decode(&value).unwrap_err().kind(), ErrorKind::Corrupt, "{}", value.escape_ascii());
        }
    }

    #[test]
    fn tokens_are_sixteen_digits_and_longer_ones_are_nobodys() {
        assert_eq!(token_text(17), "0000000000000017");
        assert_eq!(parse_token(token_text(1_763_787_795_000_000).as_bytes()).unwrap(), 1_763_787_795_000_000);
        assert_ne!(token_text(u64::MAX).len(), TOKEN_BYTES);
        for wrong in [b"nil".as_slice(), b"+5", b"17", b"99999999999999999999", b"+000000000000017"] {
            assert_eq!(parse_token(wrong).unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }

    #[test]
    fn expiries_are_what_redis_takes() {
        assert_eq!(expiry_ms(Duration::ZERO), 1);
        assert_eq!(expiry_ms(Duration::from_nanos(1)), 1);
        assert_eq!(expiry_ms(Duration::from_micros(1_001)), 2);
        assert_eq!(expiry_ms(Duration::from_secs(3_600)), 3_600_000);
        assert!(expiry_ms(Duration::MAX) < 1 << 53);
    }
}
