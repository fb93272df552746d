//! Ids that are done, node after node.

use super::RedisStore;
use super::answers::unexpected;
use super::errors::error;
use super::servers::Node;
use super::value::{self, Kind};
use crate::store::*;
use ::redis::{Pipeline, Value, cmd};
use std::sync::Arc;

/// Where a scan got to: the server's own cursor, and which server's.
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
    pub(super) async fn page(&self, from: Option<&Cursor>, limit: usize) -> Result<Page, StoreError> {
        let from = from.map(At::parse).transpose()?.unwrap_or(At { cursor: 0, address: String::new() });
        // Nodes are in the order of their addresses: whoever was at one that is gone goes on with the next.
        let mut nodes = self.servers.nodes().into_iter().skip_while(|node| node.address() < from.address.as_str());
        let Some(node) = nodes.next() else { return Ok(Page::default()) };
        let cursor = if node.address() == from.address { from.cursor } else { 0 };
        let (cursor, names) = self.names(&node, cursor, limit).await?;
        let mut page = Page::default();
        for (name, kept) in names.iter().zip(self.look(&names, value::MARK_BYTES as i64 - 1).await?) {
            let Some((kept, expires_in)) = kept? else { continue };
            if value::kind(&kept)? != Kind::InProgress {
                page.found.push(Found { key: self.keys.parse(name)?, expires_in });
            }
        }
        page.next = match (cursor, nodes.next()) {
            (0, None) => None,
            (0, Some(next)) => Some(At { cursor: 0, address: next.address().into() }.cursor()),
            (cursor, _) => Some(At { cursor, address: node.address().into() }.cursor()),
        };
        Ok(page)
    }

    async fn names(&self, node: &Arc<Node>, cursor: u64, limit: usize) -> Result<(u64, Vec<Vec<u8>>), StoreError> {
        let mut scan = cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(self.keys.pattern()).arg("COUNT").arg(limit.max(1)).arg("TYPE").arg("string");
        let mut pipeline = Pipeline::new();
        pipeline.add_command(scan);
        let answer = match node.send(&pipeline).await?.remove(0) {
            Value::ServerError(refusal) => return Err(super::refused(&refusal)),
            answer => answer,
        };
        names_of(&answer).ok_or_else(|| unexpected("SCAN", &answer))
    }
}

fn names_of(answer: &Value) -> Option<(u64, Vec<Vec<u8>>)> {
    let Value::Array(parts) = answer else { return None };
    let [Value::BulkString(cursor), Value::Array(names)] = &parts[..] else { return None };
    let name = |name: &Value| match name {
        Value::BulkString(name) => Some(name.clone()),
        _ => None,
    };
    Some((std::str::from_utf8(cursor).ok()?.parse().ok()?, names.iter().map(name).collect::<Option<_>>()?))
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
