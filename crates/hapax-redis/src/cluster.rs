//! The servers of a store: one, or the nodes of a cluster, each with its slots.

pub(super) mod keys;
pub(super) mod node;
pub(super) mod servers;
mod slot_map;
mod stragglers;
pub(super) mod topology;
