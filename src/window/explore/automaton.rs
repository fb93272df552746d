//! Operations as automata, found by running them: they tell what a caller does next.

use super::scenario::Op;
use super::state::MixedMap;
use super::subject::Subject;
use crate::sync::explored::{Access, Effect, Memory, Replay, Suspended, machine};
use crate::window::bits::tick::Tick;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Everything that operations have been seen to do. A node is an operation and what it remembers.
pub(crate) struct Automaton<'a> {
    subject: &'a dyn Subject,
    ops: Vec<Op>,
    nodes: Vec<Node>,
    known: MixedMap<(usize, Vec<u64>), usize>,
}

pub(crate) struct Node {
    pub(crate) op: usize,
    pub(crate) next: Next,
    pub(crate) tick: Option<Tick>,
    /// One of the histories that lead here.
    pub(crate) observed: Vec<u64>,
    /// The nodes to which observations lead.
    edges: Vec<(u64, Edge)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Access(usize, Access),
    /// The operation has returned, with one bit for each id that it has found fresh.
    Done(u16),
    Panicked(String),
}

#[derive(Clone)]
pub(crate) struct Edge {
    pub(crate) to: usize,
    pub(crate) effects: Vec<Effect>,
}

impl<'a> Automaton<'a> {
    pub(crate) fn new(subject: &'a dyn Subject) -> Self {
        Automaton { subject, ops: Vec::new(), nodes: Vec::new(), known: MixedMap::default() }
    }

    /// Returns the node where an operation begins.
    pub(crate) fn start(&mut self, op: &Op) -> usize {
        let number = self.ops.iter().position(|known| known == op).unwrap_or_else(|| {
            self.ops.push(op.clone());
            self.ops.len() - 1
        });
        self.run(number, Vec::new(), Vec::new()).to
    }

    pub(crate) fn node(&self, node: usize) -> &Node {
        &self.nodes[node]
    }

    pub(crate) fn op(&self, node: usize) -> &Op {
        &self.ops[self.nodes[node].op]
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the node and the effects that follow on an observation, in a state with these words.
    pub(crate) fn follow(&mut self, node: usize, value: u64, words: impl FnOnce() -> Vec<u64>) -> (usize, &[Effect]) {
        let known = self.nodes[node].edges.iter().position(|(observed, _)| *observed == value);
        let edge = known.unwrap_or_else(|| {
            let observed = [&self.nodes[node].observed[..], &[value]].concat();
            let edge = self.run(self.nodes[node].op, observed, words());
            self.nodes[node].edges.push((value, edge));
            self.nodes[node].edges.len() - 1
        });
        let edge = &self.nodes[node].edges[edge].1;
        (edge.to, &edge.effects)
    }

    /// Runs an operation as far as it gets with what it has observed, and then on while it loads
    /// what these words have.
    fn run(&mut self, op: usize, observed: Vec<u64>, words: Vec<u64>) -> Edge {
        let given = observed.len();
        machine(|machine| machine.replay = Some(Replay::of(observed, words)));
        let ended = catch_unwind(AssertUnwindSafe(|| self.subject.run(&self.ops[op])));
        let replay = machine(|machine| machine.replay.take()).expect("it was put there");
        let end = match ended {
            Ok(fresh) => Some(Next::Done(fresh)),
            Err(payload) if payload.is::<Suspended>() => None,
            Err(payload) => Some(Next::Panicked(match payload.downcast_ref::<String>() {
                Some(message) => message.clone(),
                None => "a panic".into(),
            })),
        };
        let stops = replay.stops.into_iter().map(|(memory, word, access)| (memory, Next::Access(word, access)));
        let places = stops.chain(end.map(|next| (replay.memory, next))).zip(given..);
        let mut edges: Vec<Edge> =
            places.map(|((memory, next), length)| self.edge_to(op, &replay.observed[..length], memory, next)).collect();
        for (i, &value) in replay.observed[given..].iter().enumerate().rev() {
            let next = edges.remove(i + 1);
            let from = &mut self.nodes[edges[i].to].edges;
            if from.iter().all(|(observed, _)| *observed != value) {
                from.push((value, next));
            }
        }
        edges.remove(0)
    }

    /// Returns the way to the node with this memory, which is added if there is none.
    fn edge_to(&mut self, op: usize, observed: &[u64], memory: Memory, next: Next) -> Edge {
        let nodes = &mut self.nodes;
        let to = *self.known.entry((op, memory.observed)).or_insert_with(|| {
            nodes.push(Node {
                op,
                next: next.clone(),
                tick: memory.tick.map(Tick::unpack),
                observed: observed.to_vec(),
                edges: Vec::new(),
            });
            nodes.len() - 1
        });
        assert_eq!(self.nodes[to].next, next, "one memory, two futures: {:?}", self.ops[op]);
        Edge { to, effects: memory.effects }
    }
}
