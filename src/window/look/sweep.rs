//! Sweeps: the clearing of entries that expired long ago, before ten bits of ticks become
//! ambiguous.
//!
//! Each shard (a run of buckets) remembers when it was swept last, in full ticks. A caller that is
//! about to use a shard that was swept [`SWEEP_EVERY`] ticks ago sweeps it first; callers that come
//! meanwhile do the same work rather than wait. No caller writes to the shard before it is swept,
//! so the ticks of its slots lie within SWEEP_KEEPS before and SWEEP_EVERY after the last sweep,
//! however long the window lay idle.
//!
//! Shards that are in use are swept within moments of each other. So one word says for most checks
//! that their shard is ready: a tick before which no shard is due. Whoever has swept raises it to
//! the earliest tick at which one is, unless one still is due; if two of them miss each other, so
//! that it stays too low, the shards' own words are asked until the next sweep.

use crate::mutation::{Rule, obeys};
use crate::sync::{AtomicU64, Ordering};
use crate::window::bits::slot::Slot;
use crate::window::bits::tick::{SWEEP_EVERY, SinceSweep};
use std::ops::Range;

/// The number of buckets in a shard: 64 KiB of them. (In models a table of four has two shards.)
pub(crate) const SHARD_BUCKETS: usize = if cfg!(modelled) { 2 } else { 1024 };

/// The times of the shards' last sweeps.
pub(crate) struct Sweeps {
    /// The tick from which on each shard must be swept again before it is used; 0: it was never
    /// used.
    due: Box<[AtomicU64]>,
    /// A tick that is no later than any of these, once all of them were used. Before that, the
    /// number of the table's life: a tick so early that there is nothing to sweep yet.
    all_due: AtomicU64,
}

impl Sweeps {
    pub(crate) fn new(buckets: usize) -> Self {
        let shards = buckets.div_ceil(SHARD_BUCKETS);
        Sweeps { due: (0..shards).map(|_| AtomicU64::new(0)).collect(), all_due: AtomicU64::new(0) }
    }

    /// Resets them for another life of the table, as if no shard had ever been used.
    pub(crate) fn restart(&self, life: u64) {
        self.due.iter().for_each(|due| due.store(0, Ordering::Relaxed));
        // After the others, and a value that it never had: so a caller that has stalled in `raise`
        // since an earlier life fails. Release: partner of the acquire there, for one that reads
        // this value, and must not read what the others were before.
        self.all_due.store(life, Ordering::Release);
    }

    /// Returns a tick before which no shard must be swept.
    #[inline(always)]
    pub(crate) fn all_due(&self) -> u64 {
        // Acquire: partner of the release in `raise`. A thread that sees the tick sees the slots
        // of all shards cleared.
        self.all_due.load(Ordering::Acquire)
    }

    /// Raises that tick, if no shard is due at it any more.
    fn raise(&self) {
        let seen = self.all_due();
        // Acquire: partner of the release in `sweep`, and handed on by the release below. (Within a
        // life they only grow, so what was read is no later than what they are.)
        let mut dues = self.due.iter().map(|due| due.load(Ordering::Acquire));
        let earliest = dues.try_fold(u64::MAX, |earliest, due| match due > seen {
            true => Some(earliest.min(due)),
            false if obeys(Rule::AllSwept) => None,
            false => Some(earliest),
        });
        if let Some(earliest) = earliest {
            // Release: partner of the acquire in `all_due`. If it fails, another caller has raised
            // it.
            let order = if obeys(Rule::SweptInOrder) { Ordering::Release } else { Ordering::Relaxed };
            let _ = self.all_due.compare_exchange(seen, earliest, order, Ordering::Relaxed);
        }
    }

    /// Returns the tick from which on a bucket's shard must be swept before it is used.
    #[inline(always)]
    pub(crate) fn due(&self, bucket: usize) -> u64 {
        // Acquire: partner of the release in `sweep`. A thread that sees that the shard was swept
        // sees its slots cleared.
        self.due[bucket / SHARD_BUCKETS].load(Ordering::Acquire)
    }

    /// Sweeps a bucket's shard if it is due. `buckets` gives a run of buckets, `has_old` tells
    /// whether there may be something to clear in one. In a window that is in use there hardly ever
    /// is, so the cost of a sweep is that of asking.
    #[cold]
    pub(crate) fn sweep<'a, const SLOTS: usize, L: Iterator<Item = &'a [AtomicU64; SLOTS]>>(
        &self,
        bucket: usize,
        now: u64,
        buckets: impl Fn(Range<usize>) -> L,
        has_old: impl Fn(&[AtomicU64; SLOTS], SinceSweep) -> bool,
    ) {
        let shard = bucket / SHARD_BUCKETS;
        let due = &self.due[shard];
        loop {
            let seen = due.load(Ordering::Acquire);
            if now < seen {
                return;
            }
            if seen != 0 {
                let ages = SinceSweep::new(seen - SWEEP_EVERY, now);
                let still_due = || due.load(Ordering::Relaxed) == seen || !obeys(Rule::SweepWhileDue);
                let buckets = buckets(shard * SHARD_BUCKETS..(shard + 1) * SHARD_BUCKETS);
                buckets
                    .filter(|bucket| has_old(bucket, ages))
                    .flatten()
                    .for_each(|slot| clear_if_old(slot, ages, still_due));
            }
            // Release: partner of the acquire in `due`. If it fails, another caller has swept:
            // perhaps for a time so much earlier that the shard is due again.
            let swept = due.compare_exchange(seen, now + SWEEP_EVERY, Ordering::Release, Ordering::Relaxed);
            if swept.is_ok() {
                return self.raise();
            }
            if !obeys(Rule::SweepAgain) {
                return;
            }
        }
    }

    /// Returns how the slots of a bucket's shard age until `now`.
    pub(crate) fn ages(&self, bucket: usize, now: u64) -> SinceSweep {
        SinceSweep::new(self.due(bucket).saturating_sub(SWEEP_EVERY), now)
    }

    /// Returns the memory for this many buckets.
    pub(crate) fn bytes_of(buckets: usize) -> usize {
        buckets.div_ceil(SHARD_BUCKETS) * size_of::<AtomicU64>()
    }
}

/// Returns true if a bucket has something to clear. Without branches.
#[inline(always)]
pub(crate) fn has_old<const SLOTS: usize>(bucket: &[AtomicU64; SLOTS], ages: SinceSweep) -> bool {
    // Relaxed: only to find out where to look again.
    let old = bucket.each_ref().map(|slot| {
        let slot = Slot(slot.load(Ordering::Relaxed));
        ages.is_old(slot.0) & (slot != slot.swept())
    });
    old.iter().fold(false, |any, old| any | old)
}

/// Counts the slots of a shard's buckets that were taken less than so many ticks ago, for three
/// numbers of ticks. What was forgotten takes its place until the ring comes round.
pub(crate) fn count_younger<'a, const SLOTS: usize>(
    buckets: impl Iterator<Item = &'a [AtomicU64; SLOTS]>,
    ages: SinceSweep,
    than: [u64; 3],
) -> [u32; 3] {
    let mut counts = [0; 3];
    for slot in buckets.flatten() {
        let slot = Slot(slot.load(Ordering::Relaxed));
        let age_ticks = ages.age_ticks(slot.0);
        let is_younger = than.map(|ticks| slot.is_taken() & (age_ticks < ticks));
        counts.iter_mut().zip(is_younger).for_each(|(count, is_younger)| *count += u32::from(is_younger));
    }
    counts
}

/// Clears a slot whose entry, flag and tick are not needed any more.
#[inline(always)]
fn clear_if_old(slot: &AtomicU64, ages: SinceSweep, still_due: impl Fn() -> bool) {
    loop {
        // Acquire: partner of the release of an insertion. A caller that inserted after the shard
        // was swept had seen the new `due`; so if we see that insertion, `still_due` sees the new
        // `due` as well.
        let old = Slot(slot.load(Ordering::Acquire));
        let used = old != old.swept();
        if !used || !ages.is_old(old.0) || !still_due() {
            return;
        }
        // Relaxed: it publishes nothing that `due` does not. It fails if the slot has changed: an
        // equal entry inserted since has another version.
        if slot.compare_exchange(old.0, old.swept().0, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            return;
        }
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use crate::window::bits::slot::SLOTS;

    #[test]
    fn one_word_says_when_the_first_of_all_shards_is_due_once_all_are_used() {
        let sweeps = Sweeps::new(2 * SHARD_BUCKETS + 2);
        let sweep = |bucket, now| {
            let nothing = |_| std::iter::empty::<&[AtomicU64; SLOTS]>();
            sweeps.sweep(bucket, now, nothing, |_, _| false);
            sweeps.all_due()
        };
        let used = [(0, 1_000), (2 * SHARD_BUCKETS, 1_010), (1, 1_100), (SHARD_BUCKETS, 1_200)];
        assert_eq!(used.map(|(bucket, now)| sweep(bucket, now)), [0, 0, 0, 1_480]);
        let due = [(0, 1_480), (SHARD_BUCKETS, 1_500), (2 * SHARD_BUCKETS, 1_490), (SHARD_BUCKETS, 1_700)];
        assert_eq!(due.map(|(bucket, now)| sweep(bucket, now)), [1_490, 1_490, 1_680, 1_960]);
        sweeps.restart(1);
        assert_eq!([sweeps.all_due(), sweeps.due(0)], [1, 0], "another life of the table");
        assert_eq!(used.map(|(bucket, now)| sweep(bucket, now + 1_000)), [1, 1, 1, 2_480]);
    }
}
