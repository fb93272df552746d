//! Tombstones: what stays of an id after its claim, for checks that are still under way and have
//! inserted, or seen, the id too early. In one shard, under its lock.

use super::name::{ByName, Name};
use crate::Timestamp;
use crate::digest::Digest;

/// With fewer ids, expired ones may stay.
const FEW_IDS: usize = 64;

/// The map's knowledge of an id that a check has asked the window about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Nothing,
    InProgress,
    Done,
    /// Nobody has the id, but the window may have forgotten what the check has inserted, or seen.
    Free,
}

/// Ids that completed, or whose insertion was taken back, within the last window, by the window's
/// time.
#[derive(Debug, Default)]
pub(super) struct Tombstones {
    ids: ByName<Entry>,
    /// The number of ids from which on expired ones are looked for.
    clean_at: usize,
    /// The time when all of them have expired.
    over: Timestamp,
}

#[derive(Debug)]
struct Entry {
    /// The time until which the id is done, which is no longer than the window would remember it;
    /// after that it is free.
    done_until: Timestamp,
    until: Timestamp,
    /// True if the window has the id from a check that is still under way.
    is_inserted: bool,
}

impl Tombstones {
    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn contains(&self, id: Digest) -> bool {
        self.ids.contains_key(&Name::of(id))
    }

    /// Returns what is known of an id.
    pub(super) fn known(&mut self, id: Digest, now: impl FnOnce() -> Timestamp) -> Known {
        if self.ids.is_empty() {
            return Known::Nothing;
        }
        let now = now();
        self.clean(now);
        match self.ids.get(&Name::of(id)) {
            Some(entry) if now < entry.done_until => Known::Done,
            Some(entry) if now < entry.until => Known::Free,
            _ => Known::Nothing,
        }
    }

    /// Returns true if an id is done.
    #[inline(always)]
    pub(super) fn is_done(&self, id: Digest, now: impl FnOnce() -> Timestamp) -> bool {
        !self.ids.is_empty() && self.is_done_at(id, now())
    }

    #[inline(never)]
    fn is_done_at(&self, id: Digest, now: Timestamp) -> bool {
        self.ids.get(&Name::of(id)).is_some_and(|entry| now < entry.done_until)
    }

    /// Keeps an id as free: the check that has inserted it will have it, or a caller that has
    /// claimed it meanwhile has it.
    pub(super) fn keep_free(&mut self, id: Digest, until: Timestamp) {
        self.keep(id, Entry { done_until: Timestamp::default(), until, is_inserted: false });
    }

    /// Keeps an id as done: a check that has inserted it did not come first. `is_inserted` says
    /// that there is such a check.
    pub(super) fn keep_done(&mut self, id: Digest, until: Timestamp, is_inserted: bool) {
        self.keep(id, Entry { done_until: until, until, is_inserted });
    }

    /// Notes that a check has inserted an id that is done. Returns true if the insertion was new to
    /// the window: then it has to be taken back, or the window would remember the id for too long.
    pub(super) fn takes_back(&mut self, id: Digest, until: Timestamp) -> bool {
        let Some(entry) = self.ids.get_mut(&Name::of(id)) else {
            return false;
        };
        if std::mem::take(&mut entry.is_inserted) {
            return false;
        }
        entry.until = until;
        self.over = self.over.max(until);
        true
    }

    fn keep(&mut self, id: Digest, entry: Entry) {
        self.over = self.over.max(entry.until);
        self.ids.insert(Name::of(id), entry);
    }

    /// Notes that an id that is done was asked for again, and the window slides.
    pub(super) fn refresh(&mut self, id: Digest, until: Timestamp) {
        if let Some(entry) = self.ids.get_mut(&Name::of(id)) {
            entry.done_until = until;
            entry.until = entry.until.max(until);
            self.over = self.over.max(until);
        }
    }

    /// Notes that an id is forgotten.
    pub(super) fn free(&mut self, id: Digest) {
        if let Some(entry) = self.ids.get_mut(&Name::of(id)) {
            entry.done_until = Timestamp::default();
        }
    }

    /// Notes that all ids are forgotten.
    pub(super) fn free_all(&mut self) {
        self.ids.values_mut().for_each(|entry| entry.done_until = Timestamp::default());
    }

    /// Drops expired ids: everything at once if all have expired; if there are many, each of those
    /// that have.
    pub(super) fn clean(&mut self, now: Timestamp) {
        if self.over <= now {
            self.ids.clear();
        } else if self.ids.len() >= self.clean_at.max(FEW_IDS) {
            self.ids.retain(|_, entry| now < entry.until);
            self.clean_at = 2 * self.ids.len();
        }
    }

    pub(super) fn bytes(&self) -> usize {
        self.ids.capacity() * size_of::<(Name, Entry)>()
    }
}
