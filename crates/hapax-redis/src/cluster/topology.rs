//! The owners of slots, as nodes report them.

use super::keys::SLOTS;
use crate::resp::errors::error;
use crate::resp::reply::{Replies, Reply};
use hapax_store::{ErrorKind, StoreError};
use std::ops::RangeInclusive;

/// A range of slots, and the address of their owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owned {
    pub(crate) slots: RangeInclusive<u16>,
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// Reads the answer to `CLUSTER SLOTS` of a node that was reached at `asked`, which is the address
/// of a node that reports none.
pub(crate) fn owned(answer: Reply<'_>, asked: &str) -> Result<Vec<Owned>, StoreError> {
    let wrong = || error(ErrorKind::Corrupt, format!("a node does not say who owns which slots, but {answer:?}"));
    let Reply::Array(ranges) = answer else { return Err(wrong()) };
    ranges.map(|range| owned_range(range, asked).ok_or_else(wrong)).collect()
}

fn owned_range(range: Reply<'_>, asked: &str) -> Option<Owned> {
    let number = |parts: &mut Replies<'_>| match parts.next()? {
        Reply::Int(number) => Some(number),
        _ => None,
    };
    let Reply::Array(mut range) = range else { return None };
    let (first, last) = (number(&mut range)?, number(&mut range)?);
    let slots = u16::try_from(first).ok()?..=u16::try_from(last).ok().filter(|&last| last < SLOTS)?;
    let Reply::Array(mut owner) = range.next()? else { return None };
    let host = match owner.next()? {
        Reply::Nil => "",
        host => host.text()?,
    };
    let host = if host.is_empty() || host == "?" { asked } else { host };
    Some(Owned { slots, host: host.into(), port: u16::try_from(number(&mut owner)?).ok()? })
}

/// Returns the target of `MOVED 3999 127.0.0.1:6381`, or of `ASK`, if it is complete: a node that
/// does not know its own name reports nothing but a port.
pub(crate) fn redirection(details: &str) -> Option<String> {
    let address = details.split_ascii_whitespace().nth(1)?;
    (!address.starts_with([':', '?'])).then(|| address.to_owned())
}

/// Returns the parts of an address, which for IPv6 has colons of its own.
pub(crate) fn host_and_port(address: &str) -> Result<(&str, u16), StoreError> {
    let parts = address.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    parts.ok_or_else(|| error(ErrorKind::Misconfigured, format!("{address:?} is not the host and port of a node")))
}

/// Returns the error that no node owns the slot.
pub(crate) fn no_owner() -> StoreError {
    error(ErrorKind::Unavailable, "no node of the cluster owns the key's slot")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::reply::read;

    fn owned(answer: &str, asked: &str) -> Result<Vec<Owned>, StoreError> {
        super::owned(read(answer.as_bytes()).expect("an answer"), asked)
    }

    fn range(first: i64, last: i64, host: &str, port: i64) -> String {
        let owner = format!("*3\r\n{host}\r\n:{port}\r\n$4\r\n0123\r\n");
        format!("*4\r\n:{first}\r\n:{last}\r\n{owner}{owner}")
    }

    #[test]
    fn nodes_are_where_they_say_or_where_they_were_asked() {
        let answer = ["*2\r\n", &range(0, 5, "$8\r\n10.0.0.1", 7_000), &range(6, 16_383, "$-1", 7_001)].concat();
        let parsed = owned(&answer, "10.0.0.9").unwrap();
        assert_eq!(parsed[0], Owned { slots: 0..=5, host: "10.0.0.1".into(), port: 7_000 });
        assert_eq!(parsed[1], Owned { slots: 6..=16_383, host: "10.0.0.9".into(), port: 7_001 });
    }

    #[test]
    fn nonsense_is_an_error() {
        let host = "$1\r\na";
        for wrong in [
            "$-1\r\n".to_owned(),
            "*1\r\n$-1\r\n".to_owned(),
            ["*1\r\n", &range(0, 16_384, host, 7_000)].concat(),
            ["*1\r\n", &range(-1, 5, host, 7_000)].concat(),
            ["*1\r\n", &range(0, 5, ":1", 7_000)].concat(),
            ["*1\r\n", &range(0, 5, host, 70_000)].concat(),
        ] {
            assert_eq!(owned(&wrong, "a").unwrap_err().kind(), ErrorKind::Corrupt, "{wrong:?}");
        }
    }

    #[test]
    fn addresses_are_parsed() {
        assert_eq!(redirection("3999 127.0.0.1:6381").as_deref(), Some("127.0.0.1:6381"));
        for silent in ["3999", "3999 :6381", "3999 ?:6381", ""] {
            assert_eq!(redirection(silent), None, "{silent:?}");
        }
        assert_eq!(host_and_port("::1:7000").unwrap(), ("::1", 7_000));
        assert!(host_and_port("localhost").is_err());
    }
}
