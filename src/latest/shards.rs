//! The shards, each behind a lock, and the time that they agree on.
//!
//! A check takes one lock, that of its id's shard, reads the time under it, and decides. So of two
//! versions of one id one is decided first, and the other is compared with it.

use super::index::Index;
use super::shard::{ENTRIES_MAX, Moment, Shard};
use super::stats::Counts;
use super::verdict::VersionVerdict;
use crate::clock::Reading;
use crate::digest::Digest;
use crate::process::{Held, Rank, Rest};
use crate::rules::{Rule, obeys};
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, unpoisoned};
use crate::{Error, Timestamp};
use std::io;

/// The most shards, a power of two.
const SHARDS_MAX: usize = 64;

/// The fewest ids for which a further shard is worth it: with fewer, some would be full long before
/// the others.
const IDS_PER_SHARD: usize = 1_024;

/// The versions of all ids.
pub(super) struct Shards {
    shards: Box<[Locked]>,
    time: Agreed,
    retention_nanos: u64,
}

/// A shard in cache lines of its own, in pairs, since some processors fetch them in pairs.
#[repr(align(128))]
struct Locked {
    index: Index,
    shard: Mutex<Shard>,
}

/// The latest time that any call has given, alone in its cache lines.
#[repr(align(128))]
struct Agreed(AtomicU64);

impl Agreed {
    /// Returns the time of a call: no earlier than any other.
    ///
    /// Relaxed: under the lock of a shard, where the times of calls grow since each call sees what
    /// the one before has seen.
    #[inline(always)]
    fn agree(&self, at: u64) -> u64 {
        let latest = self.0.load(Ordering::Relaxed);
        if at <= latest { latest } else { self.0.fetch_max(at, Ordering::Relaxed).max(at) }
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Returns the number of shards for this many ids, and the room of each.
pub(super) fn sizes(capacity: usize) -> (usize, usize) {
    let shards = (capacity / IDS_PER_SHARD).clamp(1, SHARDS_MAX);
    let shards = 1 << shards.ilog2();
    let mean = capacity.div_ceil(shards);
    // Ids fall on shards by chance: six standard deviations more than the mean is what one in 10^9
    // shards gets beyond.
    let room = if shards == 1 { mean } else { mean.saturating_add(6 * (mean.isqrt() + 1)) };
    (shards, room)
}

/// Returns the memory of shards of this room.
pub(super) fn bytes_for(shards: usize, room: usize) -> usize {
    let words = Index::words_for(room).saturating_mul(size_of::<u64>());
    shards.saturating_mul(Shard::bytes_for(room).saturating_add(words).saturating_add(size_of::<Locked>()))
}

/// The most ids of a capacity.
pub(super) const CAPACITY_MAX: usize = ENTRIES_MAX / 2;

impl Shards {
    pub(super) fn new(capacity: usize, retention_nanos: u64) -> Result<Self, Error> {
        let (shards, room) = sizes(capacity);
        let shard = |_| Ok(Locked { index: Index::new(room)?, shard: Mutex::new(Shard::new(room)?) });
        let shards: Result<Box<[Locked]>, std::collections::TryReserveError> = (0..shards).map(shard).collect();
        let shards = shards.map_err(|error| {
            let (shards, room) = sizes(capacity);
            let source = io::Error::new(io::ErrorKind::OutOfMemory, error);
            Error::OutOfMemory { tier: "memory of versions", bytes: bytes_for(shards, room), source }
        })?;
        Ok(Shards { shards, time: Agreed(AtomicU64::new(0)), retention_nanos })
    }

    /// Asks for the memory that a check of an id needs first.
    #[inline(always)]
    pub(super) fn prefetch(&self, id: Digest) {
        self.of(id).index.prefetch(id);
    }

    /// Accepts a version of an id if it is higher than the one that is known.
    #[inline]
    pub(super) fn advance(&self, id: Digest, version: u64, at: Reading) -> VersionVerdict {
        let locked = self.of(id);
        if !obeys(Rule::AdvanceAsOne) {
            return self.advance_in_two_steps(locked, id, version, at);
        }
        let mut shard = locked.lock();
        let moment = self.moment(at);
        shard.advance(&locked.index, id, version, &moment)
    }

    /// Advances as a program would that looks, and then writes.
    #[cold]
    fn advance_in_two_steps(&self, locked: &Locked, id: Digest, version: u64, at: Reading) -> VersionVerdict {
        let known = locked.lock().known(&locked.index, id, &self.moment(at));
        match known {
            Some(known) if known == version => VersionVerdict::Duplicate,
            Some(known) if known > version => VersionVerdict::Stale { known },
            _ => {
                // Where another thread may come between: with few processors it hardly ever would.
                std::thread::yield_now();
                let mut shard = locked.lock();
                let moment = self.moment(at);
                let _ = shard.forget(&locked.index, id, &moment);
                shard.advance(&locked.index, id, version, &moment)
            }
        }
    }

    /// Returns the version of an id that is known at a time. Moves no time.
    pub(super) fn known(&self, id: Digest, at: Timestamp) -> Option<u64> {
        let locked = self.of(id);
        let shard = locked.lock();
        shard.known(&locked.index, id, &self.moment_at_rest(at))
    }

    /// Forgets an id; returns the version that was known.
    pub(super) fn forget(&self, id: Digest, at: Timestamp) -> Option<u64> {
        let locked = self.of(id);
        let mut shard = locked.lock();
        shard.forget(&locked.index, id, &self.moment_at_rest(at))
    }

    pub(super) fn clear(&self) {
        self.shards.iter().for_each(|locked| locked.lock().clear(&locked.index));
    }

    /// Moves the time on.
    pub(super) fn advance_time(&self, at: Timestamp) {
        self.time.agree(at.as_nanos());
    }

    /// Returns the latest time that a call has given; 0 if there was none.
    pub(super) fn latest(&self) -> Timestamp {
        Timestamp::from_nanos(self.time.get())
    }

    /// Returns what all shards have counted, the number of live entries, and the age of the oldest.
    pub(super) fn counts(&self, at: Timestamp) -> (Counts, usize, u64) {
        let moment = self.moment_at_rest(at);
        self.shards.iter().fold((Counts::default(), 0, 0), |(counts, live, oldest), locked| {
            let shard = locked.lock();
            let (here, age) = shard.live(&moment);
            (counts.plus(shard.counts), live + here, oldest.max(age))
        })
    }

    pub(super) fn bytes(&self) -> usize {
        let indices: usize = self.shards.iter().map(|locked| locked.index.bytes()).sum();
        let entries: usize = self.shards.iter().map(|locked| Shard::bytes_for(locked.lock().room())).sum();
        indices + entries + size_of_val(&*self.shards)
    }

    pub(super) fn room(&self) -> usize {
        self.shards.iter().map(|locked| locked.lock().room()).sum()
    }

    #[inline(always)]
    fn of(&self, id: Digest) -> &Locked {
        // Not the bits by which the index places ids, the uppermost.
        #[expect(clippy::cast_possible_truncation, reason = "a few of its bits")]
        let bits = id.place as usize;
        &self.shards[bits & (self.shards.len() - 1)]
    }

    /// Returns the moment of a call that moves time. Under the lock of a shard.
    #[inline(always)]
    fn moment(&self, at: Reading) -> Moment {
        let now = self.time.agree(at.time.as_nanos());
        Moment { now, stamp: now.saturating_add(at.lag_nanos), retention: self.retention_nanos }
    }

    /// Returns the moment of a call that only reads.
    fn moment_at_rest(&self, at: Timestamp) -> Moment {
        let now = at.as_nanos().max(self.time.get());
        Moment { now, stamp: now, retention: self.retention_nanos }
    }
}

impl Locked {
    #[inline(always)]
    fn lock(&self) -> MutexGuard<'_, Shard> {
        // Nothing of ours panics under the lock.
        unpoisoned(self.shard.lock())
    }
}

/// All shards are at rest while the process forks: a child has versions of its own.
impl Rest for Shards {
    fn rank(&self) -> Rank {
        Rank::Latest
    }

    fn hold<'s>(&'s self, held: &mut Vec<Box<dyn Held + 's>>) {
        held.extend(self.shards.iter().map(|locked| Box::new(locked.lock()) as Box<dyn Held>));
    }
}

impl Held for MutexGuard<'_, Shard> {}
