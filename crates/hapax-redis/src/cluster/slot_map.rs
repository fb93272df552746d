//! The map from slots to nodes.

use super::node::Node;
use std::sync::Arc;

pub(crate) struct SlotMap {
    /// The nodes, sorted by address.
    pub(crate) nodes: Vec<Arc<Node>>,
    /// The node of each slot, if it has one. Empty for a single server.
    owners: Vec<Option<u16>>,
}

impl SlotMap {
    /// Creates the map of a single server, if there is one.
    pub(crate) fn of_all(nodes: Vec<Arc<Node>>) -> Self {
        SlotMap { nodes, owners: Vec::new() }
    }

    /// Creates a map of nodes and of the slots that each of them owns.
    pub(crate) fn sorted(nodes: Vec<Arc<Node>>, mut owners: Vec<Option<u16>>) -> Self {
        debug_assert!(owners.iter().flatten().all(|owner| usize::from(*owner) < nodes.len()), "owners are nodes");
        let mut order: Vec<usize> = (0..nodes.len()).collect();
        order.sort_by(|a, b| nodes[*a].address().cmp(nodes[*b].address()));
        let mut places = vec![0; nodes.len()];
        order.iter().enumerate().for_each(|(place, node)| places[*node] = place as u16);
        owners.iter_mut().flatten().for_each(|owner| *owner = places[usize::from(*owner)]);
        SlotMap { nodes: order.into_iter().map(|node| Arc::clone(&nodes[node])).collect(), owners }
    }

    pub(crate) fn owner(&self, slot: u16) -> Option<&Arc<Node>> {
        let owner = match self.owners.get(usize::from(slot)) {
            Some(owner) => usize::from((*owner)?),
            None => 0, // the only one
        };
        self.nodes.get(owner)
    }
}
