//! Values that a Redis server gives back, for the fuzz target `records`.

use super::answers;
use super::keys::Keys;
use super::scan::At;
use super::value::{self, Kept, Kind};
use crate::store::{ClaimRequest, Cursor, Mark, RecordKey, Scope};
use ::redis::Value;
use std::time::Duration;

pub fn fuzz(which: u8, bytes: &[u8]) -> bool {
    match which {
        b'v' => kept(bytes),
        b'w' => recorded(bytes),
        b't' => token(bytes),
        b'n' => name(bytes),
        b'u' => cursor(bytes),
        _ => answer(bytes),
    }
}

/// The value that is kept under a key.
fn kept(value: &[u8]) -> bool {
    let beginning = &value[..value.len().min(value::MARK_BYTES)];
    let kind = value::kind(beginning);
    let Ok(kept) = Kept::decode(value) else { return false };
    // A mark is asked for the beginning only, and is told the same as who asks for all of it.
    let expected = match &kept {
        Kept::Marked(attempt) => Kind::Marked(*attempt),
        Kept::Recorded | Kept::Completed { .. } => Kind::Completed,
        Kept::InProgress { .. } | Kept::Failed { .. } => Kind::InProgress,
    };
    assert_eq!(kind.expect("what has a value has a kind"), expected);
    match &kept {
        // As the script writes it, and has it compared.
        Kept::Marked(attempt) => {
            assert_eq!(attempt.to_string().as_bytes(), value);
            assert_eq!(value::attempt_bits(*attempt), *attempt);
        }
        Kept::Recorded => assert_eq!(value::recorded(None, None), value),
        // All but the token, which is the script's business.
        Kept::Completed { fingerprint, result } if fingerprint.is_some() || result.is_some() => {
            let again = value::recorded(*fingerprint, result.as_deref());
            assert_eq!(again[17..], value[17..]);
        }
        Kept::Completed { .. } | Kept::InProgress { .. } | Kept::Failed { .. } => {}
    }
    true
}

/// Checks that what is recorded is read as it was: a byte that says whether there is a fingerprint
/// and a result, then both.
fn recorded(bytes: &[u8]) -> bool {
    let Some((flags, rest)) = bytes.split_first() else { return false };
    let Some((fingerprint, result)) = rest.split_first_chunk::<16>() else { return false };
    let fingerprint = (flags & 1 != 0).then_some(crate::store::Fingerprint(*fingerprint));
    let result = (flags & 2 != 0).then_some(result);
    let written = value::recorded(fingerprint, result);
    let read = Kept::decode(&written).expect("what was written is a value");
    let expected = match (fingerprint, result) {
        (None, None) => Kept::Recorded,
        _ => Kept::Completed { fingerprint, result: result.map(<[u8]>::to_vec) },
    };
    assert_eq!(read, expected);
    true
}

/// The token of a claim.
fn token(text: &[u8]) -> bool {
    let Ok(token) = value::parse_token(text) else { return false };
    assert_eq!(value::token_text(token).as_bytes(), text, "as the next script compares it");
    true
}

/// The name of a key, as a scan finds it.
fn name(name: &[u8]) -> bool {
    let in_cluster = name.starts_with(b"{}");
    let keys = Keys::new("h", in_cluster).expect("it is a namespace");
    let Ok(key) = keys.parse(name) else { return false };
    assert_eq!(keys.of(&key), name);
    true
}

fn cursor(text: &[u8]) -> bool {
    let Ok(at) = At::parse(&Cursor(text.into())) else { return false };
    assert_eq!(At::parse(&at.cursor()).expect("what was written is a cursor"), at);
    true
}

/// An answer of any shape, given to whoever waits for one.
fn answer(bytes: &[u8]) -> bool {
    let bytes = &mut bytes.iter().copied();
    let Some(answer) = value_of(bytes, 4) else { return false };
    let key = RecordKey::new(&Scope::default(), "a");
    let mark = Mark { key: key.clone(), attempt: 17, retention: Duration::from_secs(1) };
    let lease = Duration::from_secs(1);
    let claim = ClaimRequest { key, attempt: 17, fingerprint: None, lease };
    let marked = answers::kept_and_left(answer.clone()).and_then(|found| answers::marked(&mark, found));
    let claimed = answers::claimed(&claim, answer.clone());
    let left = answers::left_of_member(&answer);
    if let Value::BulkString(text) = &answer {
        let _ = answers::major_version(&String::from_utf8_lossy(text));
    }
    marked.is_ok() || claimed.is_ok() || left.is_ok()
}

/// A value made of bytes: what it is, and what is in it.
fn value_of(bytes: &mut impl Iterator<Item = u8>, depth: u32) -> Option<Value> {
    Some(match bytes.next()? % 8 {
        0 => Value::Nil,
        1 => Value::Okay,
        2 => Value::Int(i64::from_le_bytes(std::array::from_fn(|_| bytes.next().unwrap_or(0)))),
        3 => Value::Int(i64::from(bytes.next()?) - 2),
        4 => Value::SimpleString(text(bytes)),
        5 | 6 => Value::BulkString(text(bytes).into()),
        _ if depth == 0 => return None,
        _ => {
            let count = bytes.next()? % 4;
            Value::Array((0..count).map_while(|_| value_of(bytes, depth - 1)).collect())
        }
    })
}

fn text(bytes: &mut impl Iterator<Item = u8>) -> String {
    let length = usize::from(bytes.next().unwrap_or(0));
    let text: Vec<u8> = bytes.take(length).collect();
    String::from_utf8_lossy(&text).into_owned()
}
