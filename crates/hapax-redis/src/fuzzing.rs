//! Values that a Redis server returns, for the fuzz target `records`.

use super::scan::At;
use crate::cluster::keys::Keys;
use crate::cluster::topology;
use crate::resp::answers;
use crate::resp::errors::refused;
use crate::resp::reply::{Malformed, Replies, Reply, Scanner};
use crate::resp::value::{self, Value};
use crate::server::info::ServerInfo;
use crate::server::role::{self, Role};
use hapax_store::{ClaimRequest, Cursor, Mark, RecordKey, Scope};
use std::time::Duration;

/// Does what the fuzz target `records` does with its input, if it is for this crate; returns true
/// if the decoder took it.
pub fn fuzz(bytes: &[u8]) -> bool {
    let Some((which, bytes)) = bytes.split_first() else { return false };
    match which {
        b'v' => kept(bytes),
        b'w' => recorded(bytes),
        b't' => token(bytes),
        b'n' => name(bytes),
        b'u' => cursor(bytes),
        b'a' => answer(bytes),
        _ => false,
    }
}

/// Checks the value that is stored under a key.
fn kept(value: &[u8]) -> bool {
    let Ok(kept) = Value::decode(value) else { return false };
    // Only the beginning is read for a mark, and it must decide the same as the whole value.
    let beginning = Value::decode(&value[..value.len().min(value::BEGINNING_BYTES)]);
    assert_eq!(beginning.map(|kept| std::mem::discriminant(&kept)).ok(), Some(std::mem::discriminant(&kept)));
    match &kept {
        // The script writes it like this, and compares it.
        Value::Marked(attempt) => {
            assert_eq!(attempt.to_string().as_bytes(), value);
            assert_eq!(value::attempt_bits(*attempt), *attempt);
        }
        Value::Recorded => assert_eq!(value::recorded(None, None), value),
        // Everything but the token, which only the script uses.
        Value::Completed { fingerprint, result } if fingerprint.is_some() || result.is_some() => {
            let again = value::recorded(*fingerprint, result.as_deref());
            assert_eq!(again[17..], value[17..]);
        }
        Value::Completed { .. } | Value::InProgress { .. } | Value::Failed { .. } => {}
    }
    true
}

/// Checks that a written record is read as it was: a byte that flags a fingerprint and a result,
/// then both.
fn recorded(bytes: &[u8]) -> bool {
    let Some((flags, rest)) = bytes.split_first() else { return false };
    let Some((fingerprint, result)) = rest.split_first_chunk::<16>() else { return false };
    let fingerprint = (flags & 1 != 0).then_some(hapax_store::Fingerprint(*fingerprint));
    let result = (flags & 2 != 0).then_some(result);
    let written = value::recorded(fingerprint, result);
    let read = Value::decode(&written).expect("what was written is a value");
    let expected = match (fingerprint, result) {
        (None, None) => Value::Recorded,
        _ => Value::Completed { fingerprint, result: result.map(<[u8]>::to_vec) },
    };
    assert_eq!(read, expected);
    true
}

/// Checks the token of a claim.
fn token(text: &[u8]) -> bool {
    let Ok(token) = value::parse_token(text) else { return false };
    assert_eq!(value::token_text(token).as_bytes(), text, "as the next script compares it");
    true
}

/// Checks the name of a key, as a scan finds it.
fn name(name: &[u8]) -> bool {
    let in_cluster = name.starts_with(b"{}");
    let keys = Keys::new("h", in_cluster).expect("it is a namespace");
    let Ok(key) = keys.parse(name) else { return false };
    assert_eq!(keys.parts(&key).concat(), name);
    true
}

fn cursor(text: &[u8]) -> bool {
    let Ok(at) = At::parse(&Cursor(text.into())) else { return false };
    assert_eq!(At::parse(&at.cursor()).expect("what was written is a cursor"), at);
    true
}

/// Checks answers as they arrive, however they are cut, and are then given to the callers that wait
/// for them: a byte that determines the cuts, then anything that a server might write.
fn answer(bytes: &[u8]) -> bool {
    let Some((cut, bytes)) = bytes.split_first() else { return false };
    let whole = ends(bytes, bytes.len());
    assert_eq!(ends(bytes, usize::from(*cut).max(1)), whole, "cut by {cut}");
    let mut is_one = false;
    if let (Some(end), count @ 1..) = (whole.0.last(), whole.0.len()) {
        let replies = Replies::new(count, &bytes[..*end]);
        assert_eq!(replies.count(), count, "each that is whole is read");
        for reply in replies {
            is_one |= one(reply, 0);
        }
    }
    is_one
}

/// Returns the ends of whole answers in bytes that arrive in pieces of `step`, and true if more may
/// follow.
fn ends(bytes: &[u8], step: usize) -> (Vec<usize>, bool) {
    let (mut scanner, mut ends, mut there) = (Scanner::default(), vec![], 0);
    while there < bytes.len() {
        there = (there + step).min(bytes.len());
        loop {
            match scanner.next_end(&bytes[..there]) {
                Ok(Some(end)) => ends.push(end),
                Ok(None) => break,
                Err(Malformed) => return (ends, false),
            }
        }
    }
    (ends, true)
}

fn one(reply: Reply<'_>, depth: u32) -> bool {
    let key = RecordKey::new(&Scope::default(), "a");
    let mark = Mark { key: key.clone(), attempt: 17, retention: Duration::from_secs(1) };
    let claim = ClaimRequest {
        key,
        attempt: 17,
        fingerprint: None,
        lease: Duration::from_secs(1),
        held_by: None,
        doubt: Duration::ZERO,
    };
    let marked = answers::value_and_ttl(reply).and_then(|found| answers::marked(&mark, found));
    let claimed = answers::claimed(&claim, reply);
    let owned = topology::owned(reply, "here");
    let _ = (Role::of(reply), role::is_demotion(reply), format!("{reply:?}"));
    if let Reply::Refusal(refusal) = reply {
        let _ = (refused(refusal), topology::redirection(refusal.details()));
    }
    let mut is_one = marked.is_ok() || claimed.is_ok() || owned.is_ok();
    if let Reply::Array(parts) = reply {
        is_one |= ServerInfo::read(parts, "here").is_ok();
        if depth < 4 {
            parts.for_each(|part| is_one |= one(part, depth + 1));
        }
    }
    is_one
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_corpus_of_the_fuzz_target_records() {
        let mut taken = 0;
        let files = testkit::corpus::replay("records", |bytes| taken += usize::from(super::fuzz(bytes)));
        assert!(files == 0 || taken > 0, "of {files} none is anything");
    }
}
