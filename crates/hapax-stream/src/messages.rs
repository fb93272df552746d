//! What a consumer holds: messages that were received and are not acknowledged.

use super::order::Ticket;
use super::source::Partition;
use hapax_store::Note;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// A message that is held.
pub(super) struct Message<M> {
    pub(super) message: Arc<M>,
    pub(super) partition: Partition,
    /// None if there is none, and the message is handled all the same.
    pub(super) id: Option<Vec<u8>>,
    /// The number of deliveries, as the broker says.
    pub(super) deliveries: Option<u32>,
    /// As far as they are known here.
    pub(super) failures: u32,
    /// True if its failures are counted here, and not in the store.
    pub(super) counts_here: bool,
    /// The place where the store keeps its count, if it has one.
    pub(super) note: Option<Note>,
    /// Whether something is under way for it: not while it waits to be claimed or tried again, or for those before it.
    pub(super) is_busy: bool,
    /// Whether it may be acknowledged, perhaps after those before it.
    pub(super) is_done: bool,
    pub(super) stage: Stage,
    /// Stops its handler; dropped, too.
    pub(super) stop: Option<oneshot::Sender<()>>,
}

/// How far a message has come, as its broker sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It is handled, or is to be.
    Here,
    /// Its work is done, or it is put aside, which is to be recorded.
    Handled,
    /// The broker is told that it is done, or gets it back.
    Leaving,
}

/// All of them. One that is removed is let go of: whatever comes of what is under way for it is ignored.
pub(super) struct Messages<M> {
    held: HashMap<Ticket, Message<M>>,
    waiting: VecDeque<Ticket>,
    later: BTreeSet<(Instant, Ticket)>,
    /// Ids that are claimed, or about to be: by which message, and which others wait for that.
    in_flight: HashMap<Key, (Ticket, Vec<Ticket>)>,
    /// Whether ids of different partitions are different.
    by_partition: bool,
    next: Ticket,
}

/// An id, within its partition if that makes a difference.
type Key = (Option<Partition>, Vec<u8>);

impl<M> Messages<M> {
    pub(super) fn new(by_partition: bool) -> Self {
        Messages {
            held: HashMap::new(),
            waiting: VecDeque::new(),
            later: BTreeSet::new(),
            in_flight: HashMap::new(),
            by_partition,
            next: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    pub(super) fn insert(&mut self, message: Message<M>) -> Ticket {
        self.next += 1;
        self.held.insert(self.next, message);
        self.next
    }

    pub(super) fn get(&self, ticket: Ticket) -> Option<&Message<M>> {
        self.held.get(&ticket)
    }

    pub(super) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut Message<M>> {
        self.held.get_mut(&ticket)
    }

    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<Message<M>> {
        self.rest(ticket);
        self.held.remove(&ticket)
    }

    fn key(&self, held: &Message<M>) -> Option<Key> {
        Some((self.by_partition.then(|| held.partition.clone()), held.id.clone()?))
    }

    /// It is not busy any more, and others of its id may be claimed.
    pub(super) fn rest(&mut self, ticket: Ticket) {
        let Some(held) = self.held.get_mut(&ticket) else { return };
        held.is_busy = false;
        if let Some(held) = self.held.get(&ticket)
            && let Some(key) = self.key(held)
            && self.in_flight.get(&key).is_some_and(|(first, _)| *first == ticket)
            && let Some((_, others)) = self.in_flight.remove(&key)
        {
            self.waiting.extend(others);
        }
    }

    /// The messages of these.
    pub(super) fn of(&self, tickets: &[Ticket]) -> Vec<Arc<M>> {
        tickets.iter().filter_map(|&ticket| self.get(ticket)).map(|held| Arc::clone(&held.message)).collect()
    }

    /// It is to be claimed.
    pub(super) fn wait(&mut self, ticket: Ticket) {
        self.waiting.push_back(ticket);
    }

    /// It is to be claimed, then.
    pub(super) fn wait_until(&mut self, due: Instant, ticket: Ticket) {
        self.rest(ticket);
        self.later.insert((due, ticket));
    }

    /// Those that are due wait to be claimed.
    pub(super) fn wake(&mut self, now: Instant) {
        while let Some(&(due, ticket)) = self.later.first()
            && due <= now
        {
            self.later.pop_first();
            self.waiting.push_back(ticket);
        }
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.later.first().map(|(due, _)| *due)
    }

    /// It has come so far.
    pub(super) fn set_stage(&mut self, stage: Stage, ticket: Ticket) {
        self.held.entry(ticket).and_modify(|held| held.stage = stage);
    }

    /// The number of those that are handled, or are to be.
    pub(super) fn unhandled(&self) -> usize {
        self.held.values().filter(|held| held.stage == Stage::Here).count()
    }

    /// Those that the broker is to leave alone.
    pub(super) fn staying(&self) -> Vec<Arc<M>> {
        let staying = self.held.values().filter(|held| held.stage != Stage::Leaving);
        staying.map(|held| Arc::clone(&held.message)).collect()
    }

    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The first ones that wait, from now on busy. Those whose id is in flight wait for that instead: when it is done, they need not ask. If ids of different partitions
    /// are different, they are of one.
    pub(super) fn take_waiting(&mut self, max: usize) -> Vec<Ticket> {
        let (mut taken, mut partition) = (Vec::new(), None);
        while taken.len() < max
            && let Some(&ticket) = self.waiting.front()
        {
            let Some(held) = self.held.get(&ticket).filter(|held| !held.is_busy && !held.is_done) else {
                self.waiting.pop_front();
                continue;
            };
            if self.by_partition && *partition.get_or_insert_with(|| held.partition.clone()) != held.partition {
                break;
            }
            let key = self.key(held);
            self.waiting.pop_front();
            if let Some(key) = key {
                if let Some((_, others)) = self.in_flight.get_mut(&key) {
                    others.push(ticket);
                    continue;
                }
                self.in_flight.insert(key, (ticket, Vec::new()));
            }
            self.held.entry(ticket).and_modify(|held| held.is_busy = true);
            taken.push(ticket);
        }
        taken
    }

    /// Takes those out of the queues that wait to be claimed, and are such ones.
    pub(super) fn take_idle(&mut self, is_such: impl Fn(&Message<M>) -> bool) -> Vec<Ticket> {
        let held = &self.held;
        let is_taken = |ticket: &Ticket| held.get(ticket).is_none_or(&is_such);
        self.waiting.retain(|ticket| !is_taken(ticket));
        self.later.retain(|(_, ticket)| !is_taken(ticket));
        let idle = self.held.iter().filter(|(_, held)| !held.is_busy && !held.is_done && is_such(held));
        let mut taken: Vec<Ticket> = idle.map(|(&ticket, _)| ticket).collect();
        taken.sort_unstable();
        taken
    }

    /// All of them that are such ones.
    pub(super) fn such(&self, is_such: impl Fn(&Message<M>) -> bool) -> Vec<Ticket> {
        self.held.iter().filter(|(_, held)| is_such(held)).map(|(&ticket, _)| ticket).collect()
    }
}
