//! The client that asks the store for a handle: the parts that all requests share.

use super::batchers::SingleFlights;
use super::caller::Caller;
use super::grants::DroppedGrants;
use super::nodes::{Node, Nodes};
use crate::StoreError;
use crate::tiered::lost_answers::{LostAttempts, LostMarks};
use crate::tiered::overdue::OverdueIds;
use tokio::runtime::Handle;
use tokio::sync::SemaphorePermit;

/// A client of the store that gathers requests, remembers lost answers, and writes behind.
pub(crate) struct Client {
    pub(crate) caller: Caller,
    pub(crate) nodes: Nodes,
    pub(crate) single_flights: SingleFlights,
    pub(crate) lost_marks: LostMarks,
    pub(crate) lost_attempts: LostAttempts,
    pub(super) overdue: OverdueIds,
    pub(crate) dropped: DroppedGrants,
    pub(crate) runtime: Handle,
}

impl Client {
    /// Returns a client that spawns its tasks on the current runtime.
    pub(crate) fn new(caller: Caller, nodes: Nodes, lost_marks: LostMarks, max_dropped: usize) -> Self {
        Client {
            caller,
            nodes,
            single_flights: SingleFlights::default(),
            lost_marks,
            lost_attempts: LostAttempts::default(),
            overdue: OverdueIds::default(),
            dropped: DroppedGrants::new(max_dropped),
            runtime: Handle::current(),
        }
    }

    /// Waits for permits to write behind.
    pub(crate) async fn permits<'n>(&self, node: &'n Node, ids: usize) -> Result<SemaphorePermit<'n>, StoreError> {
        if let Some(permits) = node.write_behind.try_permits(ids) {
            return Ok(permits);
        }
        self.caller.patiently(node.write_behind.permits(ids)).await
    }

    /// Waits until a node has the records that were decided without it.
    pub(crate) async fn settle(&self, node: &Node) -> Result<(), StoreError> {
        match node.write_behind.len() {
            0 => Ok(()),
            _ => self.caller.patiently(node.write_behind.settle()).await,
        }
    }
}
