//! The answers of a server about streams.

use super::entry::StreamEntry;
use crate::resp::answers::unexpected;
use crate::resp::reply::{Replies, Reply};
use hapax_store::StoreError;

/// The entries of a group that are not done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamLag {
    /// The number of entries that consumers have, and have not acknowledged.
    pub pending: u64,
    /// The number of entries that no consumer has read. The server does not always know: not
    /// before Redis 7.0, nor if entries were deleted that the group had not read.
    pub unread: Option<u64>,
}

/// The entries that were taken over, and how to go on.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct TakenOver {
    pub(super) next: String,
    pub(super) entries: Vec<StreamEntry>,
    /// The number of entries that were pending, and have been trimmed or deleted.
    pub(super) gone: u64,
}

/// Reads the answer to `XREADGROUP` of one stream.
pub(super) fn read(answer: Reply<'_>) -> Result<Vec<StreamEntry>, StoreError> {
    let entries = match answer {
        Reply::Nil => return Ok(Vec::new()),
        Reply::Array(streams) => match streams.all() {
            Some([Reply::Array(stream)]) => stream.all::<2>().map(|[_, entries]| entries),
            _ => None,
        },
        _ => None,
    };
    entries.and_then(|entries| all(entries, false)).ok_or_else(|| unexpected("XREADGROUP", answer))
}

/// Reads the answer to `XAUTOCLAIM`, which before Redis 7.0 does not name what is gone.
pub(super) fn taken_over(answer: Reply<'_>) -> Result<TakenOver, StoreError> {
    let read = || {
        let Reply::Array(mut parts) = answer else { return None };
        let (next, entries) = (parts.next()?.text()?.to_owned(), all(parts.next()?, true)?);
        let gone = match parts.next() {
            Some(Reply::Array(gone)) => gone.len() as u64,
            _ => 0,
        };
        Some(TakenOver { next, entries, gone })
    };
    read().ok_or_else(|| unexpected("XAUTOCLAIM", answer))
}

/// Reads the group of this name in the answer to `XINFO GROUPS`.
pub(super) fn lag_of(answer: Reply<'_>, group: &str) -> Result<Option<StreamLag>, StoreError> {
    let Reply::Array(groups) = answer else { return Err(unexpected("XINFO GROUPS", answer)) };
    for one in groups {
        let Reply::Array(mut fields) = one else { return Err(unexpected("XINFO GROUPS", answer)) };
        let (mut is_it, mut lag) = (false, StreamLag::default());
        while let (Some(name), Some(value)) = (fields.next(), fields.next()) {
            match (name.text(), value) {
                (Some("name"), value) => is_it = value.text() == Some(group),
                (Some("pending"), Reply::Int(many)) => lag.pending = u64::try_from(many).unwrap_or_default(),
                (Some("lag"), Reply::Int(many)) => lag.unread = u64::try_from(many).ok(),
                _ => {}
            }
        }
        if is_it {
            return Ok(Some(lag));
        }
    }
    Ok(None)
}

/// Reads entries. One that was deleted, and is pending, has no fields, and is left out.
fn all(entries: Reply<'_>, is_again: bool) -> Option<Vec<StreamEntry>> {
    let Reply::Array(entries) = entries else { return None };
    let mut all = Vec::new();
    for entry in entries {
        let Reply::Array(entry) = entry else {
            match entry {
                Reply::Nil => continue,
                _ => return None,
            }
        };
        match entry.all()? {
            [id, Reply::Array(fields)] => {
                all.push(StreamEntry { id: id.text()?.to_owned(), fields: pairs(fields)?, is_again });
            }
            [_, Reply::Nil] => {}
            _ => return None,
        }
    }
    Some(all)
}

fn pairs(mut fields: Replies<'_>) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let bytes = |reply: Reply<'_>| match reply {
        Reply::Bytes(bytes) | Reply::Word(bytes) => Some(bytes.to_vec()),
        _ => None,
    };
    let mut pairs = Vec::new();
    while let Some(name) = fields.next() {
        pairs.push((bytes(name)?, bytes(fields.next()?)?));
    }
    Some(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::reply::read as parsed;

    const ENTRY: &str = "*2\r\n$3\r\n1-0\r\n*2\r\n$2\r\nid\r\n$1\r\n\n\r\n";

    fn reply(text: &str) -> Reply<'_> {
        parsed(text.as_bytes()).expect("an answer")
    }

    #[test]
    fn entries_are_read_and_those_that_are_gone_are_counted() {
        let read_ = |text: &str| read(reply(text));
        let entry = |is_again| StreamEntry { id: "1-0".into(), fields: vec![(b"id".into(), b"\n".into())], is_again };
        assert_eq!(read_(&format!("*1\r\n*2\r\n$1\r\ns\r\n*1\r\n{ENTRY}")).unwrap(), [entry(false)]);
        assert_eq!((read_("*-1\r\n").unwrap(), read_("$-1\r\n").unwrap()), (vec![], vec![]));

        let taken = taken_over(reply(&format!("*3\r\n$3\r\n2-0\r\n*1\r\n{ENTRY}*2\r\n$3\r\n0-1\r\n$3\r\n0-2\r\n")));
        assert_eq!(taken.unwrap(), TakenOver { next: "2-0".into(), entries: vec![entry(true)], gone: 2 });
        let older = format!("*2\r\n$3\r\n0-0\r\n*3\r\n$-1\r\n{ENTRY}*2\r\n$3\r\n3-0\r\n*-1\r\n");
        let older = taken_over(reply(&older)).unwrap();
        assert_eq!((older.entries.len(), older.gone), (1, 0));
    }

    #[test]
    fn the_lag_is_that_of_the_group() {
        let group = |name: &str, lag: &str| {
            format!("*6\r\n$4\r\nname\r\n${}\r\n{name}\r\n$7\r\npending\r\n:3\r\n$3\r\nlag\r\n{lag}\r\n", name.len())
        };
        let groups = format!("*2\r\n{}{}", group("other", ":9"), group("billing", ":7"));
        let lag = |groups: &str, name| lag_of(reply(groups), name).unwrap();
        assert_eq!(lag(&groups, "billing"), Some(StreamLag { pending: 3, unread: Some(7) }));
        assert_eq!(lag(&format!("*1\r\n{}", group("g", "$-1")), "g"), Some(StreamLag { pending: 3, unread: None }));
        assert_eq!(lag(&groups, "none"), None);
    }

    #[test]
    fn other_answers_are_errors() {
        for wrong in [
            ":1\r\n",
            "*0\r\n",
            "*1\r\n$1\r\na\r\n",
            "*1\r\n*2\r\n$1\r\ns\r\n*1\r\n:1\r\n",
            "*1\r\n*2\r\n$1\r\ns\r\n*1\r\n*2\r\n$1\r\n1\r\n*1\r\n$1\r\na\r\n",
        ] {
            assert!(read(reply(wrong)).is_err() && taken_over(reply(wrong)).is_err(), "{wrong:?}");
        }
        assert!(lag_of(reply("+OK\r\n"), "g").is_err());
    }
}
