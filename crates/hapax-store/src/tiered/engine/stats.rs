//! Counts of an asynchronous engine.

use super::ownership_state::OwnershipState;
use super::policy::PolicyState;
use crate::tiered::batching::{Client, Node};
use crate::tiered::breaker::BreakerState;
use crate::tiered::observe::Verdicts;
use hapax::{Outcome, Tier};
use std::sync::Arc;

/// Counts of decisions, in ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScopeStats {
    /// Fresh by the store's answer, or by an exclusive engine's own; including those that were
    /// admitted.
    pub fresh: u64,
    /// Duplicates that memory knew.
    pub duplicates_by_memory: u64,
    /// Duplicates that the store knew.
    pub duplicates_by_store: u64,
    /// Found in progress.
    pub in_progress: u64,
    /// Admitted since the store could not be asked.
    pub admitted: u64,
    /// In shadow mode: ids that would not have been fresh.
    pub shadowed: u64,
    /// Passed undecided, while the engine was [bypassed](crate::TieredDedup::bypass): in no other
    /// count.
    pub bypassed: u64,
}

/// The state of a node of a store; a store of one node has number 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeStats {
    /// Its number, from [`Store::node_of`](crate::Store::node_of), below
    /// [`MAX_NODES`](crate::MAX_NODES).
    pub node: u32,
    /// Its circuit breaker: those of other nodes may be in another state.
    pub breaker: BreakerState,
    /// Requests that wait for it or are under way.
    pub waiting: usize,
    /// Completed ids that are not durable there yet.
    pub behind: u64,
}

/// The counts and sizes of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TieredStats {
    /// Decisions in all scopes.
    pub decided: ScopeStats,
    /// Calls of the store, each a batch.
    pub store_calls: u64,
    /// Requests in them.
    pub store_requests: u64,
    /// Calls that failed or got no answer in time.
    pub failed_calls: u64,
    /// Calls that were made again.
    pub retries: u64,
    /// Calls that were not made since the circuit breaker was open.
    pub refusals: u64,
    /// The number of times that the circuit breaker opened.
    pub breaker_opened: u64,
    /// Its current state: of a store of several [nodes](crate::Store::node_of), that of the
    /// one that lets the fewest calls through.
    pub breaker: BreakerState,
    /// The state of each node that was called, in the order of their numbers.
    pub nodes: Vec<NodeStats>,
    /// Requests that wait or are under way.
    pub waiting: usize,
    /// Completed ids that are not durable yet.
    pub behind: u64,
    /// Attempts with an unknown outcome, which are made again when their id comes again.
    pub unresolved: usize,
    /// True if the history knows the ids that the store knows.
    pub is_warm: bool,
    /// Memory of the windows and histories, in bytes.
    pub memory_bytes: usize,
}

impl NodeStats {
    fn of(node: &Node) -> Self {
        let (breaker, waiting, behind) = (node.breaker().state(), node.batchers.len(), node.write_behind.len());
        NodeStats { node: node.number, breaker, waiting, behind }
    }
}

impl ScopeStats {
    /// Adds up the verdicts of these policies.
    pub(crate) fn of<'p>(policies: impl Iterator<Item = &'p Arc<PolicyState>> + Clone) -> Self {
        let sum = |count: &dyn Fn(&Verdicts) -> u64| policies.clone().map(|policy| count(&policy.verdicts)).sum();
        let of = |outcome, tiers: &[Tier]| sum(&|verdicts| tiers.iter().map(|tier| verdicts.of(outcome, *tier)).sum());
        let all = [Tier::Window, Tier::History, Tier::Claims, Tier::Store];
        ScopeStats {
            fresh: of(Outcome::Fresh, &all),
            duplicates_by_memory: of(Outcome::Duplicate, &[Tier::Window, Tier::History, Tier::Claims]),
            duplicates_by_store: of(Outcome::Duplicate, &[Tier::Store]),
            in_progress: of(Outcome::InProgress, &all),
            admitted: sum(&|verdicts| verdicts.admitted.get()),
            shadowed: sum(&|verdicts| verdicts.shadowed.get()),
            bypassed: sum(&|verdicts| verdicts.bypassed.get()),
        }
    }
}

impl TieredStats {
    pub(crate) fn of<'p>(
        client: &Client,
        ownership: &OwnershipState,
        policies: impl Iterator<Item = &'p Arc<PolicyState>> + Clone,
    ) -> Self {
        let decided = ScopeStats::of(policies.clone());
        let (mut memories, mut memory_bytes) = (Vec::new(), 0);
        for policy in policies {
            let memory = Arc::as_ptr(&policy.memory);
            if !memories.contains(&memory) {
                memories.push(memory);
                memory_bytes += policy.memory.stats().bytes;
            }
        }
        let seen = &client.caller.observer;
        let [store_calls, store_requests, failed_calls] = seen.called();
        TieredStats {
            decided,
            store_calls,
            store_requests,
            failed_calls,
            retries: seen.retries(),
            refusals: seen.refusals(),
            breaker_opened: seen.opened.get(),
            breaker: client.nodes.worst_breaker(),
            nodes: client.nodes.iter().map(NodeStats::of).collect(),
            waiting: client.nodes.len(),
            behind: client.nodes.len_behind(),
            unresolved: client.lost_attempts.len(),
            is_warm: ownership.is_warm(),
            memory_bytes,
        }
    }
}
