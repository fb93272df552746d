//! What nodes say about who owns which slots.

use super::errors::error;
use super::keys::SLOTS;
use crate::store::{ErrorKind, StoreError};
use redis::Value;
use std::ops::RangeInclusive;

/// Slots, and where their owner is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owned {
    pub(super) slots: RangeInclusive<u16>,
    pub(super) host: String,
    pub(super) port: u16,
}

/// Reads the answer to `CLUSTER SLOTS` of a node that was reached at `asked`: that is where a node is that does not say.
pub(super) fn owned(answer: &Value, asked: &str) -> Result<Vec<Owned>, StoreError> {
    let wrong = || error(ErrorKind::Corrupt, format!("a node does not say who owns which slots, but {answer:?}"));
    let Value::Array(ranges) = answer else { return Err(wrong()) };
    ranges.iter().map(|range| owned_range(range, asked).ok_or_else(wrong)).collect()
}

fn owned_range(range: &Value, asked: &str) -> Option<Owned> {
    let Value::Array(range) = range else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(owner), ..] = &range[..] else { return None };
    let [host, Value::Int(port), ..] = &owner[..] else { return None };
    let slots = u16::try_from(*first).ok()?..=u16::try_from(*last).ok().filter(|&last| last < SLOTS)?;
    let host = match host {
        Value::BulkString(host) => std::str::from_utf8(host).ok()?,
        Value::SimpleString(host) => host,
        Value::Nil => "",
        _ => return None,
    };
    let host = if host.is_empty() || host == "?" { asked } else { host };
    Some(Owned { slots, host: host.into(), port: u16::try_from(*port).ok()? })
}

/// Whereto `ASK 3999 127.0.0.1:6381` sends.
pub(super) fn redirection(details: Option<&str>) -> Option<String> {
    details?.split_ascii_whitespace().nth(1).map(Into::into)
}

/// The parts of an address, which for IPv6 has colons of its own.
pub(super) fn host_and_port(address: &str) -> Result<(&str, u16), StoreError> {
    let parts = address.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    parts.ok_or_else(|| error(ErrorKind::Misconfigured, format!("{address:?} is not the host and port of a node")))
}

/// Nobody has the slot.
pub(super) fn no_owner() -> StoreError {
    error(ErrorKind::Unavailable, "no node of the cluster owns the key's slot")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: i64, last: i64, host: Value, port: i64) -> Value {
        let owner = Value::Array(vec![host, Value::Int(port), Value::BulkString(b"0123".into())]);
        Value::Array(vec![Value::Int(first), Value::Int(last), owner.clone(), owner])
    }

    #[test]
    fn nodes_are_where_they_say_or_where_they_were_asked() {
        let answer = Value::Array(vec![
            range(0, 5, Value::BulkString(b"10.0.0.1".into()), 7_000),
            range(6, 16_383, Value::Nil, 7_001),
        ]);
        let parsed = owned(&answer, "10.0.0.9").unwrap();
        assert_eq!(parsed[0], Owned { slots: 0..=5, host: "10.0.0.1".into(), port: 7_000 });
        assert_eq!(parsed[1], Owned { slots: 6..=16_383, host: "10.0.0.9".into(), port: 7_001 });
    }

    #[test]
    fn nonsense_is_an_error() {
        let host = || Value::BulkString(b"a".into());
        for wrong in [
            Value::Nil,
            Value::Array(vec![Value::Nil]),
            Value::Array(vec![range(0, 16_384, host(), 7_000)]),
            Value::Array(vec![range(-1, 5, host(), 7_000)]),
            Value::Array(vec![range(0, 5, Value::Int(1), 7_000)]),
            Value::Array(vec![range(0, 5, host(), 70_000)]),
        ] {
            assert_eq!(owned(&wrong, "a").unwrap_err().kind(), ErrorKind::Corrupt, "{wrong:?}");
        }
    }

    #[test]
    fn addresses_are_parsed() {
        assert_eq!(redirection(Some("3999 127.0.0.1:6381")).as_deref(), Some("127.0.0.1:6381"));
        assert_eq!(redirection(Some("3999")), None);
        assert_eq!(host_and_port("::1:7000").unwrap(), ("::1", 7_000));
        assert!(host_and_port("localhost").is_err());
    }
}
