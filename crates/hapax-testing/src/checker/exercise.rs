//! The rules that a history has exercised, and the number of ids that were live at once.

use super::rules::{Rule, Rules};
use super::state::Effective;
use crate::operation::{Event, Operation};
use crate::subject::{Semantics, Time};
use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap};

/// Follows a right history in the order in which its operations were invoked. What overlaps may
/// have happened in another order, so counts are near the truth, and not exact.
#[derive(Debug)]
pub(crate) struct Exercise {
    window: u64,
    lease: Option<u64>,
    refresh: bool,
    time: Time,
    ids: HashMap<u64, Stay>,
    /// The times at which to look at an id: when it expires, and when nothing of it matters.
    due: BinaryHeap<Reverse<(u64, u64)>>,
    live: u64,
    now: u64,
    edges: Edges,
    pub(crate) live_max: u64,
    pub(crate) seen: Rules,
}

/// An id's stay in the subject.
#[derive(Clone, Copy, Debug)]
struct Stay {
    /// The time of its acceptance, or of its claim; and the time of the last duplicate that may
    /// have extended it.
    since: u64,
    last: u64,
    /// True if `since` is exact.
    is_exact: bool,
    is_claimed: bool,
    is_live: bool,
    /// The last batch that had the id: its thread, its number, and its call.
    batch: (u16, u32, u64),
}

/// The edges of the window at which ids were asked for.
#[derive(Clone, Copy, Debug, Default)]
struct Edges {
    just_before: bool,
    at: bool,
}

impl Exercise {
    pub(crate) fn new(semantics: &Semantics) -> Self {
        let nanos = |duration: std::time::Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Exercise {
            window: nanos(semantics.window),
            lease: semantics.lease.map(nanos),
            refresh: semantics.refresh_on_duplicate,
            time: semantics.time,
            ids: HashMap::new(),
            due: BinaryHeap::new(),
            live: 0,
            now: 0,
            edges: Edges::default(),
            live_max: 0,
            seen: Rules::default(),
        }
    }

    /// Follows the operations of a piece.
    pub(crate) fn follow(&mut self, operations: &[Operation], effective: &[Effective]) {
        // The sort finds runs that are already sorted: each thread's.
        let mut by_invoked: Vec<_> = (0..operations.len()).collect();
        by_invoked.sort_by_key(|&i| operations[i].interval.invoked);
        for i in by_invoked {
            self.observe(&operations[i], effective[i]);
        }
        let Edges { just_before, at } = self.edges;
        self.seen.add_if(Rule::Edges, just_before && at);
    }

    fn observe(&mut self, operation: &Operation, at: Effective) {
        self.now = self.now.max(at.earliest);
        self.expire();
        let behind = self.time == Time::LargestSoFar && operation.at.as_nanos() < at.earliest;
        self.seen.add_if(Rule::ClocksThatDiffer, behind);
        if let Some(stay) = self.ids.get(&operation.id).copied() {
            self.ask(operation, &stay, at);
        }
        match operation.event {
            Event::Fresh | Event::Claimed | Event::Completed | Event::Renewed => self.enter(operation, at),
            Event::Released | Event::Forget | Event::Evict => self.leave(operation.id),
            Event::Duplicate => self.extend(operation, at),
            Event::Unanswered | Event::InProgress | Event::Lost | Event::Mismatch => {}
        }
    }

    /// Notes what it exercises that an id is asked for.
    fn ask(&mut self, operation: &Operation, stay: &Stay, at: Effective) {
        let age = at.earliest.saturating_sub(stay.since);
        let is_over = at.earliest.saturating_sub(stay.last) >= self.window;
        let takes = matches!(operation.event, Event::Fresh | Event::Claimed);
        let lapsed = self.lease.is_some_and(|lease| at.latest.saturating_sub(stay.since) >= lease);
        self.seen.add_if(Rule::Expiry, !stay.is_claimed && is_over);
        self.seen.add_if(Rule::TakeOver, stay.is_claimed && takes && lapsed);
        let batch = (operation.thread, operation.batch, operation.interval.invoked);
        self.seen.add_if(Rule::TwiceInABatch, operation.batch != 0 && stay.batch == batch);
        let is_duplicate = operation.event == Event::Duplicate;
        self.seen.add_if(Rule::Extension, self.refresh && is_duplicate && !stay.is_claimed && age >= self.window);
        if stay.is_exact && !stay.is_claimed && at.earliest == at.latest {
            self.edges.just_before |= age.checked_add(1) == Some(self.window);
            self.edges.at |= age == self.window;
        }
    }

    /// Notes that an id is in the subject from now on.
    fn enter(&mut self, operation: &Operation, at: Effective) {
        let is_claimed = matches!(operation.event, Event::Claimed | Event::Renewed);
        let stay = Stay {
            since: at.earliest,
            last: at.earliest,
            is_exact: at.earliest == at.latest,
            is_claimed,
            is_live: true,
            batch: (operation.thread, operation.batch, operation.interval.invoked),
        };
        if !self.ids.insert(operation.id, stay).is_some_and(|before| before.is_live) {
            self.live += 1;
            self.live_max = self.live_max.max(self.live);
        }
        if !is_claimed {
            self.due.push(Reverse((at.earliest.saturating_add(self.window), operation.id)));
        }
    }

    fn extend(&mut self, operation: &Operation, at: Effective) {
        if let Some(stay) = self.ids.get_mut(&operation.id) {
            if self.refresh && !stay.is_claimed {
                stay.last = stay.last.max(at.earliest);
            }
            stay.batch = (operation.thread, operation.batch, operation.interval.invoked);
        }
    }

    fn leave(&mut self, id: u64) {
        if self.ids.remove(&id).is_some_and(|stay| stay.is_live) {
            self.live -= 1;
        }
    }

    /// Takes out what has expired. It stays known for a window more, to see whether it is asked for
    /// again.
    fn expire(&mut self) {
        while let Some(&Reverse((due, id))) = self.due.peek()
            && due <= self.now
        {
            self.due.pop();
            let Entry::Occupied(mut entry) = self.ids.entry(id) else { continue };
            let stay = entry.get_mut();
            let ends = stay.last.saturating_add(self.window);
            if stay.is_claimed {
                continue;
            }
            if ends > self.now {
                self.due.push(Reverse((ends, id)));
            } else if stay.is_live {
                stay.is_live = false;
                self.live -= 1;
                self.due.push(Reverse((ends.saturating_add(self.window), id)));
            } else if ends.saturating_add(self.window) <= self.now {
                entry.remove();
            }
        }
    }
}

/// Returns the rules that a subject with this specification has, as far as one can tell.
pub(crate) fn rules_of(semantics: &Semantics, seen: Rules) -> Rules {
    let mut rules = Rules::default();
    for rule in [
        Rule::Overlap,
        Rule::Expiry,
        Rule::Edges,
        Rule::TwiceInABatch,
        Rule::Forgetting,
        Rule::Claims,
        Rule::Restart,
        Rule::Eviction,
    ] {
        rules.add_if(rule, true);
    }
    rules.add_if(Rule::ClocksThatDiffer, semantics.time == Time::LargestSoFar);
    rules.add_if(Rule::Extension, semantics.refresh_on_duplicate);
    // Of what the subject may not have at all, one line says enough.
    rules.add_if(Rule::ForgettingMeanwhile, seen.has(Rule::Forgetting));
    let claims = seen.has(Rule::Claims);
    rules.add_if(Rule::Mismatch, claims);
    for rule in [Rule::TakeOver, Rule::Renewal, Rule::LateHolder] {
        rules.add_if(rule, claims && semantics.lease.is_some());
    }
    rules
}
