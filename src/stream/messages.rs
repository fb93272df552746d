//! What a consumer holds: messages that were received and are not acknowledged.

use super::order::Ticket;
use super::source::Partition;
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
    pub(super) failures: u32,
    /// Whether something is under way for it: not while it waits to be claimed or tried again, or for those before it.
    pub(super) is_busy: bool,
    /// Whether it may be acknowledged, perhaps after those before it.
    pub(super) is_done: bool,
    /// Stops its handler; dropped, too.
    pub(super) stop: Option<oneshot::Sender<()>>,
}

/// All of them. One that is removed is let go of: whatever comes of what is under way for it is ignored.
pub(super) struct Messages<M> {
    held: HashMap<Ticket, Message<M>>,
    waiting: VecDeque<Ticket>,
    later: BTreeSet<(Instant, Ticket)>,
    next: Ticket,
}

impl<M> Messages<M> {
    pub(super) fn new() -> Self {
        Messages { held: HashMap::new(), waiting: VecDeque::new(), later: BTreeSet::new(), next: 0 }
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
        self.held.remove(&ticket)
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
        if let Some(held) = self.held.get_mut(&ticket) {
            held.is_busy = false;
            self.later.insert((due, ticket));
        }
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

    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The first ones that wait, from now on busy, as long as they are like the first one.
    pub(super) fn take_waiting(&mut self, max: usize, alike: impl Fn(&Message<M>, &Message<M>) -> bool) -> Vec<Ticket> {
        let mut taken: Vec<Ticket> = Vec::new();
        while taken.len() < max
            && let Some(&ticket) = self.waiting.front()
        {
            if let Some(held) = self.held.get(&ticket) {
                if let Some(first) = taken.first().and_then(|first| self.held.get(first))
                    && !alike(first, held)
                {
                    break;
                }
                taken.push(ticket);
            }
            self.waiting.pop_front();
        }
        for ticket in &taken {
            self.held.entry(*ticket).and_modify(|held| held.is_busy = true);
        }
        taken
    }

    /// Takes those out of the queues that wait to be claimed, and are such ones.
    pub(super) fn take_idle(&mut self, is_such: impl Fn(&Message<M>) -> bool) -> Vec<Ticket> {
        let held = &self.held;
        let is_taken = |ticket: &Ticket| held.get(ticket).is_none_or(|held| is_such(held));
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
