//! The client that asks the store for a handle: the parts that all requests share.

use super::batchers::SingleFlights;
use super::caller::Caller;
use super::nodes::{Node, Nodes};
use crate::StoreError;
use crate::tiered::lost_answers::{LostAttempts, LostMarks};
use crate::tiered::overdue::OverdueIds;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

/// A client of the store that gathers requests, remembers lost answers, and writes behind.
pub(crate) struct Client {
    pub(crate) caller: Caller,
    pub(crate) nodes: Nodes,
    pub(crate) single_flights: SingleFlights,
    pub(crate) lost_marks: LostMarks,
    pub(crate) lost_attempts: LostAttempts,
    pub(super) overdue: OverdueIds,
    /// For ids that are being given back, since their callers are gone.
    given_back: Arc<Semaphore>,
    max_given_back: usize,
    pub(crate) runtime: Handle,
}

impl Client {
    /// Returns a client that spawns its tasks on the current runtime.
    pub(crate) fn new(caller: Caller, nodes: Nodes, lost_marks: LostMarks, max_given_back: usize) -> Self {
        Client {
            caller,
            nodes,
            single_flights: SingleFlights::default(),
            lost_marks,
            lost_attempts: LostAttempts::default(),
            overdue: OverdueIds::default(),
            given_back: Arc::new(Semaphore::new(max_given_back)),
            max_given_back,
            runtime: Handle::current(),
        }
    }

    /// Returns permits to give back this many ids, unless these are too many at a time.
    pub(crate) fn may_give_back(&self, ids: usize) -> Option<OwnedSemaphorePermit> {
        let ids = u32::try_from(ids).unwrap_or(u32::MAX);
        Arc::clone(&self.given_back).try_acquire_many_owned(ids).ok()
    }

    /// Returns the number of ids that are being given back.
    pub(crate) fn len_given_back(&self) -> usize {
        self.max_given_back - self.given_back.available_permits()
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
