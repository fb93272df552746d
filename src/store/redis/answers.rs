//! What a server's answers say.

use super::errors::error;
use super::value::{self, Kept};
use crate::store::{ClaimRequest, Claimed, ErrorKind, Fingerprint, Known, Marked, StoreError};
use redis::Value;
use std::time::Duration;

/// An answer that nothing says it could be.
pub(super) fn unexpected(to: &str, answer: &Value) -> StoreError {
    let mut shown = format!("{answer:?}");
    shown.truncate(shown.floor_char_boundary(200));
    error(ErrorKind::Corrupt, format!("the answer to {to} is {shown}"))
}

/// What was kept before a `SET … NX GET`.
pub(super) fn kept_before(answer: Value) -> Result<Option<Kept>, StoreError> {
    match answer {
        Value::Nil => Ok(None),
        Value::BulkString(kept) => Kept::decode(&kept).map(Some),
        other => Err(unexpected("SET", &other)),
    }
}

/// What is kept, and for how much longer; nothing, if nothing is.
pub(super) fn kept_and_left(answer: Value) -> Result<Option<(Vec<u8>, Duration)>, StoreError> {
    match &answer {
        Value::Array(pair) => match &pair[..] {
            [Value::BulkString(kept), Value::Int(left_ms)] => {
                Ok((!kept.is_empty()).then(|| (kept.clone(), left(*left_ms))))
            }
            _ => Err(unexpected("a look", &answer)),
        },
        _ => Err(unexpected("a look", &answer)),
    }
}

/// What `PTTL` says. Who has made a key last for ever has it last as long as the longest retention.
fn left(left_ms: i64) -> Duration {
    match left_ms {
        -1 => Duration::from_millis(value::expiry_ms(Duration::MAX)),
        _ => Duration::from_millis(left_ms.try_into().unwrap_or(0)),
    }
}

/// What a mark is told that found something, which was completed or not, and looked again.
pub(super) fn marked(was_completed: bool, now: Option<(Vec<u8>, Duration)>) -> Marked {
    let (is_completed, left) = match &now {
        Some((kept, left)) => (kept.first().is_some_and(|&tag| value::is_completed(tag)), *left),
        None => (was_completed, Duration::ZERO),
    };
    match is_completed {
        true => Marked::Duplicate { expires_in: left },
        false => Marked::InProgress { lease_left: left },
    }
}

/// What a claim is told: its token, or what is kept.
pub(super) fn claimed(claim: &ClaimRequest, answer: Value) -> Result<Claimed, StoreError> {
    if let Value::BulkString(token) = answer {
        return Ok(Claimed::Claimed { token: value::parse_token(&token)? });
    }
    // What it found may have expired by the time it was asked for how long: for no time, then.
    let (kept, left) = kept_and_left(answer)?.ok_or_else(|| unexpected("a claim", &Value::Nil))?;
    let kept = Kept::decode(&kept)?;
    if Fingerprint::differ(claim.fingerprint, kept.fingerprint()) {
        return Ok(Claimed::Mismatch);
    }
    match kept.known(left) {
        Known::Completed(completed) => Ok(Claimed::Duplicate(completed)),
        Known::InProgress { lease_left, .. } => Ok(Claimed::InProgress { lease_left }),
        Known::Unknown => Err(unexpected("a claim", &Value::Nil)),
    }
}

/// For how much longer a compact mark is known, if it is.
pub(super) fn left_of_member(answer: &Value) -> Result<Option<Duration>, StoreError> {
    match answer {
        Value::Int(-1) => Ok(None),
        Value::Int(left_ms @ 0..) => Ok(Some(Duration::from_millis(*left_ms as u64))),
        other => Err(unexpected("a compact mark", other)),
    }
}

/// The first number of a server's version. Valkey, too, says which Redis it is compatible with.
pub(super) fn major_version(info: &str) -> Option<u64> {
    let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"))?;
    version.split('.').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(major_version("# Server\r\nredis_version:7.0.15\r\nos:Linux\r\n"), Some(7));
        assert_eq!(major_version("# Server\r\nredis_version:6.2.6\r\nvalkey_version:none\r\n"), Some(6));
        assert_eq!(major_version("nothing"), None);
    }

    #[test]
    fn a_second_look_decides_unless_nothing_is_left() {
        let second = Duration::from_secs(1);
        let now = |kept: &[u8]| Some((kept.to_vec(), second));
        assert_eq!(marked(false, now(b"C")), Marked::Duplicate { expires_in: second });
        assert_eq!(marked(true, now(b"1")), Marked::Duplicate { expires_in: second });
        assert_eq!(marked(true, now(b"P")), Marked::InProgress { lease_left: second });
        assert_eq!(marked(true, None), Marked::Duplicate { expires_in: Duration::ZERO });
        assert_eq!(marked(false, None), Marked::InProgress { lease_left: Duration::ZERO });
    }

    #[test]
    fn other_answers_are_errors() {
        for wrong in [Value::Okay, Value::Int(-2), Value::Array(vec![]), Value::Array(vec![Value::Nil, Value::Int(1)])]
        {
            assert!(kept_before(wrong.clone()).is_err());
            assert!(kept_and_left(wrong.clone()).is_err());
            assert!(left_of_member(&wrong).is_err());
        }
        assert_eq!(left(-2), Duration::ZERO);
        assert!(left(-1) > Duration::from_secs(1 << 30));
    }
}
