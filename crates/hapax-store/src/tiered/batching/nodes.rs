//! The nodes of a store. Each has queues and a circuit breaker of its own, so that one that hangs
//! delays and fails its own keys only.

use super::batcher::{Batcher, QueueOptions};
use super::batchers::{Batched, Batchers};
use crate::dyn_store::Erased;
use crate::sync::{Mutex, MutexGuard, lock};
use crate::tiered::breaker::{Breaker, BreakerOptions, BreakerState};
use crate::tiered::join_all::join_all;
use crate::tiered::write_behind::WriteBehind;
use crate::{MAX_NODES, RecordKey, StoreError};
use std::sync::{Arc, OnceLock};

/// The parameters of a node's queues and breaker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeOptions {
    pub(crate) queues: QueueOptions,
    pub(crate) breaker: BreakerOptions,
    pub(crate) max_behind: usize,
}

/// The part of a store that answers for some of the keys.
pub(crate) struct Node {
    pub(crate) number: u32,
    pub(crate) batchers: Batchers,
    /// Completed ids that are not yet written there.
    pub(crate) write_behind: WriteBehind,
    pub(super) breaker: Mutex<Breaker>,
}

impl Node {
    fn new(number: u32, options: &NodeOptions) -> Self {
        Node {
            number,
            batchers: Batchers::new(&options.queues),
            write_behind: WriteBehind::new(options.max_behind),
            breaker: Mutex::new(Breaker::new(options.breaker)),
        }
    }

    pub(crate) fn batcher<O: Batched>(&self) -> &Batcher<O> {
        O::batcher(&self.batchers)
    }

    pub(crate) fn breaker(&self) -> MutexGuard<'_, Breaker> {
        // Nothing that can panic is done while it is held.
        lock(&self.breaker)
    }
}

/// The nodes that keys have been requested from so far. Most stores are one node, whose number is
/// 0: it is there from the beginning, and found without a look at the table of the others.
pub(crate) struct Nodes {
    store: Arc<dyn Erased>,
    options: NodeOptions,
    first: Node,
    others: OnceLock<Box<[OnceLock<Box<Node>>]>>,
    /// True if no further request is let in. It is held while a node is made, so that none is
    /// missed.
    is_closed: Mutex<bool>,
}

impl Nodes {
    pub(crate) fn new(store: Arc<dyn Erased>, options: NodeOptions) -> Self {
        let first = Node::new(0, &options);
        Nodes { store, options, first, others: OnceLock::new(), is_closed: Mutex::new(false) }
    }

    /// Returns the number by which a node is known here.
    #[inline]
    fn known_as(number: u32) -> u32 {
        number % MAX_NODES
    }

    /// Returns the node of this number.
    #[inline]
    pub(super) fn numbered(&self, number: u32) -> &Node {
        match Self::known_as(number) {
            0 => &self.first,
            number => self.other(number),
        }
    }

    fn other(&self, number: u32) -> &Node {
        let others = self.others.get_or_init(|| (0..MAX_NODES).map(|_| OnceLock::new()).collect());
        let place = &others[number as usize];
        if let Some(node) = place.get() {
            return node;
        }
        let is_closed = self.lock();
        let node = place.get_or_init(|| Box::new(Node::new(number, &self.options)));
        if *is_closed {
            node.batchers.close();
        }
        node
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        lock(&self.is_closed)
    }

    /// Returns the nodes that have been used, in the order of their numbers, and the first in any
    /// case.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Node> {
        let others = self.others.get().into_iter().flat_map(|others| others.iter());
        std::iter::once(&self.first).chain(others.filter_map(|place| place.get().map(|node| &**node)))
    }

    /// Returns the number of requests that wait or are under way.
    pub(crate) fn len(&self) -> usize {
        self.iter().map(|node| node.batchers.len()).sum()
    }

    /// Returns the number of records that are not in the store yet.
    pub(crate) fn len_behind(&self) -> u64 {
        self.iter().map(|node| node.write_behind.len()).sum()
    }

    /// Waits until all records that were pushed before are durable, or one has failed to be
    /// written.
    pub(crate) async fn settle(&self) -> Result<(), StoreError> {
        let settled = self.iter().map(|node| node.write_behind.settle());
        join_all(settled).await.into_iter().collect()
    }

    /// Closes all batchers: no further request is let in.
    pub(crate) fn close(&self) {
        let mut is_closed = self.lock();
        *is_closed = true;
        self.iter().for_each(|node| node.batchers.close());
    }

    /// Returns the state of the breaker that lets the fewest calls through.
    pub(crate) fn worst_breaker(&self) -> BreakerState {
        let states = self.iter().map(|node| node.breaker().state());
        states.max_by_key(|state| state.severity()).unwrap_or(BreakerState::Closed)
    }

    /// Returns the node that answers for a key.
    #[inline]
    pub(crate) fn node(&self, key: &RecordKey) -> &Node {
        self.numbered(self.store.node_of(key))
    }

    /// Returns true if this node answers for a key.
    pub(crate) fn is_of(&self, node: &Node, key: &RecordKey) -> bool {
        Self::known_as(self.store.node_of(key)) == node.number
    }

    /// Returns the node that answers for all of these keys, if it is one.
    pub(crate) fn only_node<'k>(&self, mut keys: impl Iterator<Item = &'k RecordKey>) -> Option<&Node> {
        let node = self.node(keys.next()?);
        keys.all(|key| self.is_of(node, key)).then_some(node)
    }

    /// Divides items, each with its place, by node.
    pub(crate) fn by_node<T>(
        &self,
        asked: impl Iterator<Item = (usize, T)>,
        key: impl Fn(&T) -> &RecordKey,
    ) -> Vec<OfNode<'_, T>> {
        let mut parts: Vec<OfNode<'_, T>> = Vec::new();
        for (place, asked) in asked {
            let node = self.node(key(&asked));
            // Nodes are few; keys of one often come one after the other, and nearly always it is
            // one.
            let known = parts.iter().rposition(|part| part.node.number == node.number);
            let at = known.unwrap_or_else(|| {
                parts.push(OfNode { node, asked: Vec::new(), places: Vec::new() });
                parts.len() - 1
            });
            parts[at].asked.push(asked);
            parts[at].places.push(place);
        }
        parts
    }
}

/// The items that belong to one node, with their places.
pub(crate) struct OfNode<'n, T> {
    pub(crate) node: &'n Node,
    pub(crate) asked: Vec<T>,
    pub(crate) places: Vec<usize>,
}

/// Returns the answers of several nodes, in the order of the requests. Each has one.
pub(crate) fn in_order<A>(count: usize, answers: Vec<(Vec<usize>, Vec<A>)>) -> Vec<A> {
    let mut placed: Vec<Option<A>> = (0..count).map(|_| None).collect();
    for (place, answer) in answers.into_iter().flat_map(|(places, answers)| places.into_iter().zip(answers)) {
        placed[place] = Some(answer);
    }
    debug_assert!(placed.iter().all(Option::is_some), "each request has one answer");
    placed.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InMemoryStore;
    use crate::tiered::batching::Marks;
    use std::time::Duration;

    fn nodes() -> Nodes {
        let queues = QueueOptions { max_waiting: 10, max_waiting_bytes: 1_024, batch: 10, under_way: 2 };
        let breaker = BreakerOptions { failures: 1, rest: Duration::from_secs(1) };
        Nodes::new(Arc::new(InMemoryStore::new()), NodeOptions { queues, breaker, max_behind: 10 })
    }

    #[test]
    fn nodes_are_made_when_they_are_asked_for_and_no_more_than_the_limit() {
        let nodes = nodes();
        let numbers = || nodes.iter().map(|node| node.number).collect::<Vec<_>>();
        assert_eq!(numbers(), [0]);
        assert_eq!(nodes.numbered(7).number, 7);
        assert!(std::ptr::eq(nodes.numbered(7), nodes.numbered(7 + MAX_NODES)));
        assert!(std::ptr::eq(nodes.numbered(0), nodes.numbered(MAX_NODES)));
        assert_eq!(nodes.numbered(u32::MAX).number, MAX_NODES - 1);
        assert_eq!(numbers(), [0, 7, MAX_NODES - 1]);
    }

    #[test]
    fn the_worst_breaker_is_shown() {
        let (nodes, now) = (nodes(), std::time::Instant::now());
        assert_eq!(nodes.worst_breaker(), BreakerState::Closed);
        assert!(nodes.numbered(3).breaker().failed(now));
        assert_eq!(nodes.worst_breaker(), BreakerState::Open);
        assert_eq!(nodes.numbered(0).breaker().state(), BreakerState::Closed);
        assert!(nodes.numbered(3).breaker().admits(now + Duration::from_secs(1)));
        assert_eq!(nodes.worst_breaker(), BreakerState::HalfOpen);
    }

    #[test]
    fn a_node_that_is_made_after_the_end_lets_nobody_in() {
        let nodes = nodes();
        nodes.numbered(1);
        nodes.close();
        assert!([0, 1, 2].into_iter().all(|number| nodes.numbered(number).batcher::<Marks>().is_closed()));
    }
}
