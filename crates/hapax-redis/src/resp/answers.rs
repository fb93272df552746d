//! The meaning of a server's answers.

use super::errors::error;
use super::reply::Reply;
use super::value::{self, Value};
use hapax_store::{ClaimRequest, Claimed, ErrorKind, Fingerprint, Known, Mark, Marked, StoreError};
use std::time::Duration;

/// Returns an error for an answer that the protocol does not allow.
pub(crate) fn unexpected(to: &str, answer: Reply<'_>) -> StoreError {
    let shown: String = format!("{answer:?}").chars().take(200).collect();
    error(ErrorKind::Corrupt, format!("the answer to {to} is {shown}"))
}

/// A stored value, and its remaining time.
pub(crate) type Found<'b> = Option<(&'b [u8], Duration)>;

/// Reads a stored value, if there is one, and its remaining time.
pub(crate) fn value_and_ttl(answer: Reply<'_>) -> Result<Found<'_>, StoreError> {
    let pair = match answer {
        Reply::Array(pair) => pair.all(),
        _ => None,
    };
    match pair {
        Some([Reply::Bytes(kept), Reply::Int(left_ms)]) => Ok((!kept.is_empty()).then(|| (kept, left(left_ms)))),
        _ => Err(unexpected("a look", answer)),
    }
}

/// Reads the answer to `PTTL`. A key that another client has made to last for ever counts as
/// lasting for the longest retention.
fn left(left_ms: i64) -> Duration {
    match left_ms {
        -1 => Duration::from_millis(value::expiry_ms(Duration::MAX)),
        _ => Duration::from_millis(left_ms.try_into().unwrap_or(0)),
    }
}

/// Returns the answer to a mark that found a value, given how the value begins and how long it
/// remains.
pub(crate) fn marked(mark: &Mark, found: Found<'_>) -> Result<Marked, StoreError> {
    match found {
        // It has just expired or was released: a caller that asks again soon may get it.
        None => Ok(Marked::InProgress { lease_left: Duration::ZERO }),
        Some((kept, ttl)) => {
            let kept = Value::decode(kept)?;
            let left = kept.left(ttl).unwrap_or_default();
            Ok(match kept {
                // The mark is repeated: the earlier answer was lost.
                Value::Marked(attempt) if attempt == value::attempt_bits(mark.attempt) => Marked::Fresh,
                Value::Marked(attempt) => Marked::Duplicate { expires_in: left, attempt: Some(attempt) },
                Value::Recorded | Value::Completed { .. } => Marked::Duplicate { expires_in: left, attempt: None },
                Value::InProgress { .. } | Value::Failed { .. } => Marked::InProgress { lease_left: left },
            })
        }
    }
}

/// Returns the answer to a claim: its token, or the existing record.
pub(crate) fn claimed(claim: &ClaimRequest, answer: Reply<'_>) -> Result<Claimed, StoreError> {
    if let Reply::Bytes(granted) = answer {
        let (token, before) = granted.split_at(granted.len().min(value::TOKEN_BYTES));
        let (token, before) = (value::parse_token(token)?, value::before(before));
        let (before, _) = before.filter(|(_, rest)| rest.is_empty()).ok_or_else(|| unexpected("a claim", answer))?;
        return Ok(Claimed::Claimed { token, before });
    }
    // The existing record may have expired before its remaining time was read: then the time is
    // zero.
    let (kept, left) = value_and_ttl(answer)?.ok_or_else(|| unexpected("a claim", Reply::Nil))?;
    let kept = Value::decode(kept)?;
    if Fingerprint::differ(claim.fingerprint, kept.fingerprint()) {
        return Ok(Claimed::Mismatch);
    }
    let held_by = kept.trail().and_then(|trail| trail.held_by.clone());
    match kept.known(left) {
        Known::Completed(completed) => Ok(Claimed::Duplicate(completed)),
        Known::InProgress { lease_left, .. } => Ok(Claimed::InProgress { lease_left, held_by }),
        Known::Unknown => Err(unexpected("a claim", Reply::Nil)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::reply::read;
    use hapax_store::{RecordKey, Scope};

    #[test]
    fn what_a_mark_finds_decides() {
        let mark = Mark { key: RecordKey::new(&Scope::default(), "a"), attempt: 17, retention: Duration::ZERO };
        let left = Duration::from_secs(1);
        let marked = |kept: &[u8]| marked(&mark, Some((kept, left)));
        assert_eq!(marked(b"17").unwrap(), Marked::Fresh);
        assert_eq!(marked(b"18").unwrap(), Marked::Duplicate { expires_in: left, attempt: Some(18) });
        let done = Marked::Duplicate { expires_in: left, attempt: None };
        assert_eq!(marked(b"-1").unwrap(), done);
        assert_eq!(marked(b"C000000000000000700").unwrap(), done);
        assert_eq!(marked(b"P00000000000000070\0\0\0\0\0\0\0\x07").unwrap(), Marked::InProgress { lease_left: left });
        assert_eq!(marked(b"F00000000000000070").unwrap(), Marked::InProgress { lease_left: left });
        assert_eq!(marked(b"Perhaps").unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(super::marked(&mark, None).unwrap(), Marked::InProgress { lease_left: Duration::ZERO });
    }

    #[test]
    fn other_answers_are_errors() {
        for wrong in ["+OK\r\n", ":-2\r\n", "*0\r\n", "*2\r\n$-1\r\n:1\r\n"] {
            let wrong = read(wrong.as_bytes()).expect("an answer");
            assert!(value_and_ttl(wrong).is_err());
        }
        assert_eq!(left(-2), Duration::ZERO);
        assert!(left(-1) > Duration::from_secs(1 << 30));
    }
}
