//! Scans of completed ids, node after node.

use super::RedisStore;
use crate::cluster::node::Node;
use crate::resp::answers::{self, unexpected};
use crate::resp::commands::Commands;
use crate::resp::errors::{error, refused};
use crate::resp::reply::Reply;
use crate::resp::value;
use hapax_store::*;
use std::sync::Arc;

/// The position of a scan: the server's own cursor, and its server.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct At {
    cursor: u64,
    address: String,
}

impl At {
    pub(super) fn parse(Cursor(text): &Cursor) -> Result<Self, StoreError> {
        let parts = std::str::from_utf8(text).ok().and_then(|text| text.split_once(' '));
        match parts.and_then(|(cursor, address)| Some((cursor.parse().ok()?, address))) {
            Some((cursor, address)) => Ok(At { cursor, address: address.into() }),
            None => Err(error(ErrorKind::Misconfigured, format!("no scan ended at {}", text.escape_ascii()))),
        }
    }

    pub(super) fn cursor(&self) -> Cursor {
        Cursor(format!("{} {}", self.cursor, self.address).into())
    }
}

impl RedisStore {
    pub(super) async fn page(&self, from: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        let from = from.map(At::parse).transpose()?.unwrap_or(At { cursor: 0, address: String::new() });
        // Nodes are in the order of their addresses: a scan whose node is gone goes on with the
        // next.
        let mut nodes = self.servers.nodes().into_iter().skip_while(|node| node.address() < from.address.as_str());
        let Some(node) = nodes.next() else { return Ok(Listing::default()) };
        let cursor = if node.address() == from.address { from.cursor } else { 0 };
        let (cursor, names) = self.names(&node, cursor, limit).await?;
        let mut page = Listing::default();
        let found = |name: &Vec<u8>, found: answers::Found<'_>| match found {
            Some((kept, ttl)) => {
                let Inspected { state, expires_in, in_doubt, .. } = value::inspected(kept, ttl)?;
                Ok(Some(Listed::new(self.keys.parse(name)?, state, expires_in).in_doubt(in_doubt)))
            }
            None => Ok(None),
        };
        let key = |name: &Vec<u8>, commands: &mut Commands| commands.parts([name]);
        for found in self.look(&names, value::BEGINNING_BYTES as i64 - 1, key, found).await? {
            page.listed.extend(found?);
        }
        page.next = match (cursor, nodes.next()) {
            (0, None) => None,
            (0, Some(next)) => Some(At { cursor: 0, address: next.address().into() }.cursor()),
            (cursor, _) => Some(At { cursor, address: node.address().into() }.cursor()),
        };
        Ok(page)
    }

    async fn names(&self, node: &Arc<Node>, cursor: u64, limit: usize) -> Result<(u64, Vec<Vec<u8>>), StoreError> {
        let mut scan = Commands::default();
        scan.begin(8);
        scan.text("SCAN");
        scan.number(cursor);
        scan.text("MATCH");
        scan.word(&self.keys.pattern());
        scan.text("COUNT");
        scan.number(limit.max(1) as u64);
        ["TYPE", "string"].iter().for_each(|word| scan.text(word));
        scan.end(0);
        let answered = node.ask(Arc::new(scan)).await?;
        match answered.replies().next().unwrap_or(Reply::Nil) {
            Reply::Refusal(refusal) => Err(refused(refusal)),
            answer => names_of(answer).ok_or_else(|| unexpected("SCAN", answer)),
        }
    }
}

fn names_of(answer: Reply<'_>) -> Option<(u64, Vec<Vec<u8>>)> {
    let Reply::Array(parts) = answer else { return None };
    let [Reply::Bytes(cursor), Reply::Array(names)] = parts.all()? else { return None };
    let name = |name: Reply<'_>| match name {
        Reply::Bytes(name) => Some(name.to_vec()),
        _ => None,
    };
    Some((std::str::from_utf8(cursor).ok()?.parse().ok()?, names.map(name).collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_are_read_back() {
        let at = At { cursor: u64::MAX, address: "[::1]:7000".into() };
        assert_eq!(At::parse(&at.cursor()).unwrap(), at);
        for wrong in ["", "1", "x y", "-1 a"] {
            assert_eq!(At::parse(&Cursor(wrong.into())).unwrap_err().kind(), ErrorKind::Misconfigured, "{wrong:?}");
        }
    }
}
