//! The map of a cluster's slots: when it is asked for, and what is made of the answer.

use super::Servers;
use crate::cluster::keys::SLOTS;
use crate::cluster::node::Node;
use crate::cluster::slot_map::SlotMap;
use crate::cluster::topology::{self, Owned};
use crate::resp::commands::Commands;
use crate::resp::errors::{error, refused};
use crate::resp::reply::Reply;
use crate::transport::endpoint::moved;
use hapax::seam::random;
use hapax_store::sync::{Ordering, lock};
use hapax_store::{ErrorKind, StoreError};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

/// The wait before another node, too, is asked for the owners of slots.
const HEDGE: Duration = Duration::from_millis(100);
/// The shortest time between two requests for the map.
const REFRESH_EVERY: Duration = Duration::from_millis(100);

impl Servers {
    /// Requests the owners of slots in the background, if they may have changed.
    pub(super) fn refresh_if_stale(self: &Arc<Self>) {
        if !self.is_stale.load(Ordering::Relaxed) {
            return;
        }
        // Another caller is doing so, or has just done so: the next caller finds the map stale.
        let Ok(mut last) = Arc::clone(&self.refreshing).try_lock_owned() else { return };
        if last.is_some_and(|last| last.elapsed() < REFRESH_EVERY) {
            return;
        }
        self.is_stale.store(false, Ordering::Relaxed);
        let servers = Arc::clone(self);
        tokio::spawn(async move {
            if servers.refresh(random::any() as usize).await.is_err() {
                servers.is_stale.store(true, Ordering::Relaxed);
            }
            *last = Some(Instant::now());
        });
    }

    /// Asks the nodes for the owners of slots: one, and if it does not answer soon another one as
    /// well, until one has answered.
    pub(super) async fn refresh(&self, first: usize) -> Result<(), StoreError> {
        let mut known = self.nodes();
        let is_new = |seed: &&Arc<Node>| !self.nodes().iter().any(|node| node.address() == seed.address());
        known.extend(self.seeds.iter().filter(is_new).cloned());
        let first = first % known.len().max(1);
        known.rotate_left(first);
        let (mut nodes, mut asked) = (known.into_iter(), JoinSet::new());
        let mut failure = error(ErrorKind::Unavailable, "the cluster has no nodes");
        loop {
            let wait = match nodes.next() {
                Some(node) => {
                    asked.spawn(async move { owned(&node).await });
                    HEDGE
                }
                // Each answers, or fails, within its own time limit.
                None => Duration::MAX,
            };
            match timeout(wait, asked.join_next()).await {
                Ok(Some(Ok(Ok(owned)))) => {
                    self.adopt(owned);
                    return Ok(());
                }
                Ok(Some(Ok(Err(why)))) => failure = why,
                Ok(None) => return Err(failure),
                // It has panicked, or has not answered yet.
                Ok(Some(Err(_))) | Err(_) => {}
            }
        }
    }

    /// Makes a map of the owners. Known nodes keep their connections.
    fn adopt(&self, owned: Vec<Owned>) {
        let known = [self.nodes(), self.seeds.clone()].concat();
        let mut nodes: Vec<Arc<Node>> = Vec::new();
        let mut owners = vec![None; SLOTS.into()];
        for Owned { slots, host, port } in owned {
            let info = moved(&self.like, &host, port);
            let address = info.addr().to_string();
            let is_here = |node: &Arc<Node>| node.address() == address;
            let owner = nodes.iter().position(is_here).unwrap_or_else(|| {
                let node = known.iter().find(|node| is_here(node)).cloned();
                nodes.push(node.unwrap_or_else(|| self.connector.node(&info)));
                nodes.len() - 1
            });
            owners[usize::from(*slots.start())..=usize::from(*slots.end())].fill(Some(owner as u16));
        }
        *lock(&self.map) = Arc::new(SlotMap::sorted(nodes, owners));
    }
}

/// Asks a node for the owners of slots.
async fn owned(node: &Node) -> Result<Vec<Owned>, StoreError> {
    let answered = node.ask(Arc::new(Commands::of(&["CLUSTER", "SLOTS"]))).await?;
    match answered.replies().next() {
        Some(Reply::Refusal(refusal)) => Err(refused(refusal)),
        slots => topology::owned(slots.unwrap_or(Reply::Nil), topology::host_and_port(node.address())?.0),
    }
}
