//! One shard of the versions: entries by id, and in the order in which they were accepted. Pure: no
//! clock, no lock.

use super::index::{Index, Position};
use super::stats::Counts;
use super::verdict::VersionVerdict;
use crate::digest::Digest;
use crate::rules::{Rule, obeys};

/// The end of a list.
const NONE: u32 = u32::MAX;

/// The most entries of a shard.
pub(super) const ENTRIES_MAX: usize = NONE as usize - 1;

/// The number of expired entries that one call removes at most: more than it can add.
const EXPIRED_AT_ONCE: usize = 2;

/// An id's highest version.
#[derive(Clone, Copy, Debug)]
struct Entry {
    id: Digest,
    version: u64,
    /// The time at which the version was accepted, in nanoseconds.
    accepted: u64,
    /// The next older entry.
    older: u32,
    /// The next newer entry; of a free entry, the next one that is free.
    newer: u32,
}

/// The moment of a call, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) now: u64,
    /// The latest that the moment can be in truth: the time with which versions are stamped, so
    /// that none is forgotten early.
    pub(super) stamp: u64,
    pub(super) retention: u64,
}

impl Moment {
    fn is_live(&self, entry: &Entry) -> bool {
        self.now.saturating_sub(entry.accepted) < self.retention
    }
}

/// The entries of a shard. The index stands beside the lock under which this is (see there), and is
/// handed to each call.
pub(super) struct Shard {
    entries: Vec<Entry>,
    room: usize,
    oldest: u32,
    newest: u32,
    free: u32,
    /// The number of entries in the list.
    len: usize,
    pub(super) counts: Counts,
}

impl Shard {
    /// Returns a shard for this many entries.
    pub(super) fn new(room: usize) -> Result<Self, std::collections::TryReserveError> {
        debug_assert!(room > 0 && room <= ENTRIES_MAX);
        let mut entries = Vec::new();
        entries.try_reserve_exact(room)?;
        Ok(Shard { entries, room, oldest: NONE, newest: NONE, free: NONE, len: 0, counts: Counts::default() })
    }

    /// Returns the memory of the entries of such a shard.
    pub(super) const fn bytes_for(room: usize) -> usize {
        room * size_of::<Entry>()
    }

    pub(super) fn room(&self) -> usize {
        self.room
    }

    /// Accepts a version of an id if it is higher than the one that is known.
    #[inline]
    pub(super) fn advance(&mut self, index: &Index, id: Digest, version: u64, at: &Moment) -> VersionVerdict {
        self.expire(index, at);
        let verdict = match self.find(index, id) {
            Some((_, entry)) => self.raise(entry, version, at),
            None => {
                self.insert(index, id, version, at);
                VersionVerdict::Newer
            }
        };
        self.counts.add(verdict);
        verdict
    }

    /// Returns the version of an id that is known.
    pub(super) fn known(&self, index: &Index, id: Digest, at: &Moment) -> Option<u64> {
        let (_, entry) = self.find(index, id)?;
        let entry = &self.entries[entry as usize];
        at.is_live(entry).then_some(entry.version)
    }

    /// Forgets an id; returns the version that was known.
    pub(super) fn forget(&mut self, index: &Index, id: Digest, at: &Moment) -> Option<u64> {
        let known = self.known(index, id, at);
        if let Some((position, entry)) = self.find(index, id) {
            self.remove(index, position, entry);
        }
        known
    }

    /// Forgets all ids.
    pub(super) fn clear(&mut self, index: &Index) {
        while self.oldest != NONE {
            self.remove_oldest(index);
        }
    }

    /// Returns the number of entries that are live, and the age of the oldest of them.
    pub(super) fn live(&self, at: &Moment) -> (usize, u64) {
        // From the oldest on, the expired ones come first: no more than have come within a
        // retention and were not removed yet.
        let mut expired = 0;
        let mut next = self.oldest;
        while next != NONE {
            let entry = &self.entries[next as usize];
            if at.is_live(entry) {
                return (self.len - expired, at.now.saturating_sub(entry.accepted));
            }
            expired += 1;
            next = entry.newer;
        }
        (0, 0)
    }

    #[inline(always)]
    fn find(&self, index: &Index, id: Digest) -> Option<(Position, u32)> {
        index.find(id, |entry| self.entries[entry as usize].id == id)
    }

    /// Gives an entry a version, if that is higher, or if the entry has expired.
    fn raise(&mut self, at: u32, version: u64, moment: &Moment) -> VersionVerdict {
        let entry = &mut self.entries[at as usize];
        let known = entry.version;
        if moment.is_live(entry) {
            if version == known {
                return VersionVerdict::Duplicate;
            }
            if version < known && obeys(Rule::VersionRises) {
                return VersionVerdict::Stale { known };
            }
        }
        entry.version = version;
        entry.accepted = moment.stamp;
        self.unlink(at);
        self.link_newest(at);
        VersionVerdict::Newer
    }

    /// Adds an entry. If there is no room, the oldest one goes.
    fn insert(&mut self, index: &Index, id: Digest, version: u64, at: &Moment) {
        if self.len == self.room {
            let oldest = &self.entries[self.oldest as usize];
            self.counts.forgotten_early += u64::from(at.is_live(oldest) && obeys(Rule::CountForgotten));
            self.remove_oldest(index);
        }
        let entry = Entry { id, version, accepted: at.stamp, older: NONE, newer: NONE };
        let place = self.free;
        let place = if place == NONE {
            self.entries.push(entry);
            #[expect(clippy::cast_possible_truncation, reason = "there are at most ENTRIES_MAX")]
            let last = (self.entries.len() - 1) as u32;
            last
        } else {
            self.free = self.entries[place as usize].newer;
            self.entries[place as usize] = entry;
            place
        };
        index.insert(id, place);
        self.len += 1;
        self.link_newest(place);
    }

    /// Removes the oldest entries that have expired, a few at most.
    #[inline(always)]
    fn expire(&mut self, index: &Index, at: &Moment) {
        for _ in 0..EXPIRED_AT_ONCE {
            if self.oldest == NONE || at.is_live(&self.entries[self.oldest as usize]) {
                return;
            }
            self.remove_oldest(index);
        }
    }

    fn remove_oldest(&mut self, index: &Index) {
        let oldest = self.oldest;
        let id = self.entries[oldest as usize].id;
        if let Some((position, _)) = index.find(id, |entry| entry == oldest) {
            self.remove(index, position, oldest);
        }
    }

    fn remove(&mut self, index: &Index, position: Position, entry: u32) {
        index.remove(position);
        self.unlink(entry);
        self.entries[entry as usize].newer = self.free;
        self.free = entry;
        self.len -= 1;
    }

    /// Takes an entry out of the order.
    fn unlink(&mut self, entry: u32) {
        let Entry { older, newer, .. } = self.entries[entry as usize];
        match older {
            NONE => self.oldest = newer,
            older => self.entries[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.entries[newer as usize].older = older,
        }
    }

    /// Makes an entry that is not in the order the newest.
    fn link_newest(&mut self, entry: u32) {
        let newest = self.newest;
        self.entries[entry as usize].older = newest;
        self.entries[entry as usize].newer = NONE;
        match newest {
            NONE => self.oldest = entry,
            newest => self.entries[newest as usize].newer = entry,
        }
        self.newest = entry;
    }
}
