//! The messages that a consumer holds: received and not acknowledged.

use super::lanes::Lanes;
use crate::order::Ticket;
use crate::source::Partition;
use crate::telemetry::meters::KindMeters;
use hapax_store::attempt_count::Sent;
use hapax_store::{SideRecord, StoredId};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// A message that is held.
pub(crate) struct Message<M> {
    pub(crate) message: Arc<M>,
    pub(crate) received: Instant,
    pub(crate) partition: Partition,
    /// The id; `None` if there is none, and the message is handled all the same.
    pub(crate) id: Option<Vec<u8>>,
    /// The key within which messages are handled in order, if it has one.
    pub(crate) lane: Option<Arc<[u8]>>,
    /// The metrics of its kind, if it is told apart.
    pub(crate) kind: Option<Arc<KindMeters>>,
    /// The delivery, as its broker tells it.
    pub(crate) sent: Sent,
    /// The number of failures, as far as they are known here.
    pub(crate) failures: u32,
    /// True if its failures are counted here, and not in the store.
    pub(crate) counts_here: bool,
    /// True if a handler has begun with it here.
    pub(crate) was_tried: bool,
    /// The place where the store keeps its count, if it has one.
    pub(crate) note: Option<SideRecord>,
    /// True if something is under way for it: not while it waits to be claimed or tried again, or
    /// for earlier messages.
    pub(crate) is_busy: bool,
    /// True if it may be acknowledged, perhaps after earlier messages.
    pub(crate) is_done: bool,
    pub(crate) stage: Stage,
    /// The stop of its handler, which works by dropping, too.
    pub(crate) stop: Option<oneshot::Sender<()>>,
}

impl<M> Message<M> {
    /// Returns the id by which failures are told apart: another name, if it has none.
    pub(crate) fn whose(&self, ticket: Ticket) -> StoredId {
        self.id.as_ref().map_or_else(|| StoredId::new(&ticket.to_le_bytes()), |id| StoredId::new(id))
    }

    /// Returns true if it was never tried, as far as this is known.
    fn is_new(&self) -> bool {
        !self.was_tried && self.sent.deliveries.is_none_or(|deliveries| deliveries <= 1)
    }
}

/// The progress of a message, as its broker sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It is handled, or will be.
    Here,
    /// Its work is done, or it is put aside, and that is to be recorded.
    Handled,
    /// The broker is told that it is done, or gets it back.
    Leaving,
}

/// All messages. Results for a message that was removed are ignored.
pub(crate) struct Messages<M> {
    held: HashMap<Ticket, Message<M>>,
    waiting: VecDeque<Ticket>,
    later: BTreeSet<(Instant, Ticket)>,
    /// Ids that are claimed, or about to be: the message that claims, and the messages that wait
    /// for that.
    in_flight: HashMap<Key, (Ticket, Vec<Ticket>)>,
    lanes: Lanes,
    /// True if ids of different partitions are different.
    by_partition: bool,
    next: Ticket,
}

/// An id, within its partition if that makes a difference.
type Key = (Option<Partition>, Vec<u8>);

impl<M> Messages<M> {
    pub(crate) fn new(by_partition: bool) -> Self {
        Messages {
            held: HashMap::new(),
            waiting: VecDeque::new(),
            later: BTreeSet::new(),
            in_flight: HashMap::new(),
            lanes: Lanes::default(),
            by_partition,
            next: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.held.len()
    }

    pub(crate) fn insert(&mut self, message: Message<M>) -> Ticket {
        self.next += 1;
        if let Some(lane) = &message.lane {
            self.lanes.enter(lane, self.next);
        }
        self.held.insert(self.next, message);
        self.next
    }

    pub(crate) fn get(&self, ticket: Ticket) -> Option<&Message<M>> {
        self.held.get(&ticket)
    }

    pub(crate) fn get_mut(&mut self, ticket: Ticket) -> Option<&mut Message<M>> {
        self.held.get_mut(&ticket)
    }

    pub(crate) fn remove(&mut self, ticket: Ticket) -> Option<Message<M>> {
        self.set_idle(ticket);
        let removed = self.held.remove(&ticket)?;
        self.leave_lane(removed.lane.as_ref(), ticket);
        Some(removed)
    }

    /// Notes that a message need not be handled again: the next one of its key may begin.
    pub(crate) fn done(&mut self, ticket: Ticket) {
        self.set_idle(ticket);
        let Some(held) = self.held.get_mut(&ticket) else { return };
        held.is_done = true;
        let lane = held.lane.clone();
        self.leave_lane(lane.as_ref(), ticket);
    }

    fn leave_lane(&mut self, lane: Option<&Arc<[u8]>>, ticket: Ticket) {
        if let Some(next) = lane.and_then(|lane| self.lanes.leave(lane, ticket)) {
            self.waiting.push_back(next);
        }
    }

    fn key(&self, held: &Message<M>) -> Option<Key> {
        Some((self.by_partition.then(|| held.partition.clone()), held.id.clone()?))
    }

    /// Ends what was under way for it, so that other messages of its id may be claimed.
    pub(crate) fn set_idle(&mut self, ticket: Ticket) {
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

    /// Returns the messages of these tickets.
    pub(crate) fn of(&self, tickets: &[Ticket]) -> Vec<Arc<M>> {
        tickets.iter().filter_map(|&ticket| self.get(ticket)).map(|held| Arc::clone(&held.message)).collect()
    }

    /// Queues a message to be claimed: now, or when all of its key that are before it are done.
    pub(crate) fn wait(&mut self, ticket: Ticket) {
        let lane = self.held.get(&ticket).and_then(|held| held.lane.as_ref());
        if lane.is_none_or(|lane| self.lanes.is_first(lane, ticket)) {
            self.waiting.push_back(ticket);
        }
    }

    /// Queues a message to be claimed at this time.
    pub(crate) fn wait_until(&mut self, due: Instant, ticket: Ticket) {
        self.set_idle(ticket);
        self.later.insert((due, ticket));
    }

    /// Moves the messages that are due to those that wait to be claimed.
    pub(crate) fn wake(&mut self, now: Instant) {
        while let Some(&(due, ticket)) = self.later.first()
            && due <= now
        {
            self.later.pop_first();
            self.waiting.push_back(ticket);
        }
    }

    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.later.first().map(|(due, _)| *due)
    }

    /// Sets the stage of a message.
    pub(crate) fn set_stage(&mut self, stage: Stage, ticket: Ticket) {
        self.held.entry(ticket).and_modify(|held| held.stage = stage);
    }

    /// Returns the number of messages that are handled, or will be.
    pub(crate) fn unhandled(&self) -> usize {
        self.held.values().filter(|held| held.stage == Stage::Here).count()
    }

    /// Returns the messages that the broker must not deliver to others.
    pub(crate) fn staying(&self) -> Vec<Arc<M>> {
        let staying = self.held.values().filter(|held| held.stage != Stage::Leaving);
        staying.map(|held| Arc::clone(&held.message)).collect()
    }

    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Puts the first one that was never tried before all others that wait to be claimed. Returns
    /// true if there is one.
    pub(crate) fn new_ones_first(&mut self) -> bool {
        let held = &self.held;
        let is_new = |ticket: &Ticket| held.get(ticket).is_some_and(|held| held.is_new() && !held.is_busy);
        let Some(at) = self.waiting.iter().position(is_new) else { return false };
        if let Some(ticket) = self.waiting.remove(at) {
            self.waiting.push_front(ticket);
        }
        true
    }

    /// Returns the number of messages that wait to be claimed, or a few more.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the first message that waits to be claimed.
    pub(crate) fn first_waiting(&mut self) -> Option<Ticket> {
        let held = &self.held;
        let is_gone = |ticket: &Ticket| held.get(ticket).is_none_or(|held| held.is_busy || held.is_done);
        while self.waiting.front().is_some_and(is_gone) {
            self.waiting.pop_front();
        }
        self.waiting.front().copied()
    }

    /// Takes the first waiting messages, which are busy from now on. A message whose id is in
    /// flight waits for that instead: when it is done, no further request is needed. If ids of
    /// different partitions are different, all taken messages are of one partition.
    pub(crate) fn take_waiting(&mut self, max: usize) -> Vec<Ticket> {
        let (mut taken, mut partition, mut others) = (Vec::new(), None, VecDeque::new());
        while taken.len() < max
            && let Some(ticket) = self.first_waiting()
            && let Some(held) = self.held.get(&ticket)
        {
            self.waiting.pop_front();
            if self.by_partition && *partition.get_or_insert_with(|| held.partition.clone()) != held.partition {
                others.push_back(ticket);
                continue;
            }
            let key = self.key(held);
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
        if !others.is_empty() {
            others.append(&mut self.waiting);
            self.waiting = others;
        }
        taken
    }

    /// Takes the matching messages that wait to be claimed out of the queues.
    pub(crate) fn take_idle(&mut self, is_such: impl Fn(&Message<M>) -> bool) -> Vec<Ticket> {
        let held = &self.held;
        let is_taken = |ticket: &Ticket| held.get(ticket).is_none_or(&is_such);
        self.waiting.retain(|ticket| !is_taken(ticket));
        self.later.retain(|(_, ticket)| !is_taken(ticket));
        let idle = self.held.iter().filter(|(_, held)| !held.is_busy && !held.is_done && is_such(held));
        let mut taken: Vec<Ticket> = idle.map(|(&ticket, _)| ticket).collect();
        taken.sort_unstable();
        taken
    }

    /// Returns all matching messages.
    pub(crate) fn matching(&self, is_such: impl Fn(&Message<M>) -> bool) -> Vec<Ticket> {
        self.held.iter().filter(|(_, held)| is_such(held)).map(|(&ticket, _)| ticket).collect()
    }
}
