//! The place from which claims look for messages that are due: a state machine without a server.
//!
//! In front of what waits there may be millions of rows that are gone, which the server cannot
//! remove as long as some transaction may see them. So a claim looks from where the last one found
//! the first message that was due.
//!
//! Why no message is missed: a transaction has its number before it reads the clock, and stores no
//! message that is due earlier. A marked look reads the clock, takes a number, sees which
//! transactions with smaller ones are open, and looks. Whatever it does not see is written by one
//! of those, or by one with a larger number, and then it is due later than the clock was. Each open
//! transaction is remembered with the clock of the marked look before the one that saw it: once it
//! has ended, the next look begins there. A look that is not marked sees no more, and so moves no
//! place beyond the last one that was.
//!
//! A crash or a failover may undo what was committed last, so that a claimed message is due as it
//! was before. It ends all of the server's processes, too. So whenever one answers that has not
//! answered before, everything is looked through, and so it is after each error, when the clock was
//! set back, and now and then for whatever is outside of this reasoning.

use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tokio::time::Instant;

/// The least time between two looks at everything; and how much longer than the look it is, at
/// least.
const WHOLE_EVERY: Duration = Duration::from_secs(30);
const WHOLE_SHARE: u32 = 20;
/// The time after which everything is looked through again, where that took too long.
const WHOLE_LATER: Duration = Duration::from_secs(300);
/// The processes of the server that are remembered.
const BACKENDS_MAX: usize = 256;
/// The time between two marked looks that find nothing: each of them uses a number up.
const MARK_EVERY: Duration = Duration::from_secs(1);
/// The names whose places are known.
const NAMES_MAX: usize = 1_024;

/// A place: a time in microseconds since 1970, and of the messages that have been due since then
/// and have no key, the first position. Zero is the beginning.
pub(crate) type Place = [i64; 2];

/// The answer to a look.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    pub places: Vec<(String, Place)>,
    /// The transactions that were open when it began, if it was marked.
    pub open: Option<Vec<i64>>,
    /// Those of the transactions seen before that have ended.
    pub ended: Vec<i64>,
    /// The server's clock before that.
    pub at: i64,
    /// The server's process.
    pub backend: i64,
}

#[derive(Debug, Default)]
pub(crate) struct Places {
    of: HashMap<String, Known>,
    /// Transactions that were open, each with the clock of the marked look before it was seen.
    open: HashMap<i64, i64>,
    /// The clock of the last look, and of the last that was marked.
    at: i64,
    marked_at: i64,
    /// The time at which the next look is to be marked; none: now.
    mark_at: Option<Instant>,
    /// The server's processes that have answered.
    backends: HashSet<i64>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    place: Place,
    /// The time at which everything is looked through.
    whole_at: Instant,
}

impl Places {
    /// Returns the place from which to look for messages of a name.
    pub(crate) fn of(&self, name: &str, now: Instant) -> Place {
        self.of.get(name).filter(|known| now < known.whole_at).map_or([0; 2], |known| known.place)
    }

    /// Returns the transactions that were open, and the time from which on to look if one has
    /// ended.
    pub(crate) fn open(&self) -> (Vec<i64>, Vec<i64>) {
        self.open.iter().unzip()
    }

    /// Returns up to `most` of the names behind this one whose places are known, in order, and the
    /// times from which on something of them may be due.
    pub(crate) fn behind(&self, name: &str, most: usize, now: Instant) -> (Vec<String>, Vec<i64>) {
        let mut known: Vec<&String> = self.of.keys().filter(|known| known.as_str() > name).collect();
        known.sort_unstable();
        known.into_iter().take(most).map(|name| (name.clone(), self.of(name, now)[0])).unzip()
    }

    /// Returns true if the next look is to be marked.
    pub(crate) fn is_to_mark(&self, now: Instant) -> bool {
        self.mark_at.is_none_or(|at| now >= at)
    }

    /// Records a look that began and ended at these times.
    pub(crate) fn looked(&mut self, looked: Looked, began: Instant, now: Instant) {
        if self.backends.len() >= BACKENDS_MAX {
            self.backends.clear();
        }
        if self.backends.insert(looked.backend) || looked.at < self.at {
            // The server may have crashed, or this is another one, or its clock was set back.
            *self = Places { backends: std::mem::take(&mut self.backends), at: looked.at, ..Places::default() };
            return;
        }
        self.at = looked.at;
        if let Some(low) = looked.ended.iter().filter_map(|number| self.open.remove(number)).min() {
            for known in self.of.values_mut().filter(|known| known.place[0] >= low) {
                known.place = [low, 0];
            }
        }
        // What such a look finds is about to be written, so the next one needs a number anyway.
        let has_found = looked.places.iter().any(|(_, place)| place[0] < looked.at);
        if let Some(open) = looked.open {
            for number in open {
                self.open.entry(number).or_insert(self.marked_at);
            }
            (self.marked_at, self.mark_at) = (looked.at, Some(now + MARK_EVERY));
        }
        if has_found {
            self.mark_at = None;
        }
        let whole_at = now + WHOLE_EVERY.max((now - began) * WHOLE_SHARE);
        for (name, place) in looked.places {
            let place = if place[0] >= self.marked_at { [self.marked_at, 0] } else { place };
            let before = self.of.get(&name).filter(|known| began < known.whole_at);
            let whole_at = before.map_or(whole_at, |known| known.whole_at);
            if self.of.len() < NAMES_MAX || self.of.contains_key(&name) {
                self.of.insert(name, Known { place, whole_at });
            }
        }
    }

    /// Records a look that failed, and whether that was for want of time.
    pub(crate) fn failed(&mut self, names: &[String], was_late: bool, now: Instant) {
        if !was_late {
            *self = Places { backends: std::mem::take(&mut self.backends), ..Places::default() };
            return;
        }
        for name in names {
            if let Some(known) = self.of.get_mut(name).filter(|known| now >= known.whole_at) {
                known.whole_at = now + WHOLE_LATER;
            }
        }
    }
}

#[cfg(test)]
mod tests;
