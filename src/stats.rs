//! Counting verdicts without slowing them down.

use crate::sync::{Ordering, StdAtomicU64};
use crate::{HistoryStats, Outcome, Timestamp, Verdict, WindowStats};

/// What an engine has counted, and what it holds.
///
/// ```
/// let dedup = hapax::Dedup::builder().build()?;
/// dedup.check("a");
/// dedup.check("a");
/// let stats = dedup.stats();
/// assert_eq!((stats.checks(), stats.fresh, stats.duplicates_by_window), (2, 1, 1));
/// assert_eq!(stats.window.live, 1);
/// # Ok::<(), hapax::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Checks that answered fresh, those of [`fresh_unconfirmed`](Stats::fresh_unconfirmed) among them.
    pub fresh: u64,
    /// Checks that answered fresh although the history said "maybe", as the policy has it.
    pub fresh_unconfirmed: u64,
    /// Checks that the window answered with duplicate.
    pub duplicates_by_window: u64,
    /// Checks that the history's guess answered with duplicate.
    pub duplicates_by_history: u64,
    /// The window.
    pub window: WindowStats,
    /// The history, if there is one.
    pub history: Option<HistoryStats>,
    /// Memory of the whole engine, in bytes.
    pub bytes: usize,
    /// The time that ages were measured with.
    pub at: Timestamp,
}

impl Stats {
    /// Checks, of single ids, that were answered.
    pub fn checks(&self) -> u64 {
        self.fresh + self.duplicates_by_window + self.duplicates_by_history
    }
}

/// What verdicts are counted as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Fresh,
    FreshUnconfirmed,
    DuplicateByWindow,
    DuplicateByHistory,
}

const KINDS: usize = 4;

impl Kind {
    /// No branches: the verdict depends on memory that may not have arrived.
    #[inline(always)]
    fn of(verdict: Verdict) -> usize {
        let duplicate = verdict.outcome as usize * Kind::DuplicateByWindow as usize;
        let second = match verdict.outcome {
            Outcome::Fresh => verdict.certainty as usize,
            Outcome::Duplicate => verdict.tier as usize,
        };
        duplicate + second
    }
}

/// Counts of verdicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts([u64; KINDS]);

impl Counts {
    #[inline(always)]
    pub(crate) fn add(&mut self, verdict: Verdict) {
        self.0[Kind::of(verdict)] += 1;
    }

    /// Adds a chunk of verdicts, of which so many are fresh and the others duplicates by the window.
    #[inline(always)]
    pub(crate) fn add_chunk(&mut self, len: usize, fresh: u32) {
        self.0[Kind::Fresh as usize] += u64::from(fresh);
        self.0[Kind::DuplicateByWindow as usize] += len as u64 - u64::from(fresh);
    }

    pub(crate) fn fresh_unconfirmed(self) -> u64 {
        self.0[Kind::FreshUnconfirmed as usize]
    }

    pub(crate) fn fresh(self) -> u64 {
        self.0[Kind::Fresh as usize] + self.fresh_unconfirmed()
    }

    pub(crate) fn duplicates_by_window(self) -> u64 {
        self.0[Kind::DuplicateByWindow as usize]
    }

    pub(crate) fn duplicates_by_history(self) -> u64 {
        self.0[Kind::DuplicateByHistory as usize]
    }
}

/// Threads that count without atomic operations. More share the last shard.
const OWNERS: usize = 31;

/// Counters, a shard a thread: an owner adds with a load and a store, an atomic addition would cost as much as the check of a
/// cached id.
pub(crate) struct Counters {
    shards: Box<[Shard; OWNERS + 1]>,
}

/// Two cache lines, since some processors fetch lines in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Shard([StdAtomicU64; KINDS]);

impl Counters {
    pub(crate) fn new() -> Self {
        Counters { shards: Default::default() }
    }

    pub(crate) const BYTES: usize = size_of::<[Shard; OWNERS + 1]>();

    #[inline(always)]
    pub(crate) fn add_one(&self, verdict: Verdict) {
        let shard = shard();
        self.count(shard, Kind::of(verdict), 1);
    }

    pub(crate) fn add(&self, counts: Counts) {
        let shard = shard();
        counts.0.iter().enumerate().for_each(|(kind, &n)| self.count(shard, kind, n));
    }

    #[inline(always)]
    fn count(&self, shard: usize, kind: usize, n: u64) {
        let counter = &self.shards[shard].0[kind];
        if shard < OWNERS {
            // Nobody else writes here, until this thread has given the shard back.
            counter.store(counter.load(Ordering::Relaxed) + n, Ordering::Relaxed);
        } else {
            counter.fetch_add(n, Ordering::Relaxed);
        }
    }

    pub(crate) fn sum(&self) -> Counts {
        let counter = |i: usize| self.shards.iter().map(|shard| shard.0[i].load(Ordering::Relaxed)).sum();
        Counts(std::array::from_fn(counter))
    }
}

/// The shard in which this thread counts.
#[inline(always)]
fn shard() -> usize {
    // A thread that is being torn down has no shard of its own any more.
    OWNED.try_with(|owned| owned.0).unwrap_or(OWNERS)
}

/// The shard that a thread owns, in every engine; `OWNERS` if all are taken.
struct Owned(usize);

thread_local! {
    static OWNED: Owned = Owned::take();
}

/// One bit for each shard that is owned.
static TAKEN: StdAtomicU64 = StdAtomicU64::new(0);

impl Owned {
    fn take() -> Self {
        let lowest_free = |taken: u64| (!taken).trailing_zeros() as usize;
        let free = |taken| (lowest_free(taken) < OWNERS).then(|| taken | 1 << lowest_free(taken));
        // Acquire: partner of the release in `drop`. The new owner sees what the last one has counted.
        match TAKEN.fetch_update(Ordering::Acquire, Ordering::Relaxed, free) {
            Ok(taken) => Owned(lowest_free(taken)),
            Err(_) => Owned(OWNERS),
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if self.0 < OWNERS {
            TAKEN.fetch_and(!(1 << self.0), Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tier;

    #[test]
    fn nothing_is_lost_with_more_threads_than_shards_that_come_and_go() {
        let counters = Counters::new();
        for _ in 0..20 {
            std::thread::scope(|scope| {
                for _ in 0..OWNERS + 9 {
                    scope.spawn(|| {
                        for _ in 0..100 {
                            counters.add(Counts([1, 0, 0, 2]));
                            counters.add_one(Verdict::exact(Outcome::Duplicate, Tier::Window));
                        }
                    });
                }
            });
        }
        let n = 20 * (OWNERS as u64 + 9) * 100;
        assert_eq!(counters.sum(), Counts([n, 0, n, 2 * n]));
    }

    #[test]
    fn every_verdict_is_counted_as_what_it_is() {
        let exact = |outcome, tier| Kind::of(Verdict::exact(outcome, tier));
        assert_eq!(exact(Outcome::Fresh, Tier::Window), Kind::Fresh as usize);
        assert_eq!(exact(Outcome::Fresh, Tier::History), Kind::Fresh as usize);
        assert_eq!(exact(Outcome::Duplicate, Tier::Window), Kind::DuplicateByWindow as usize);
        assert_eq!(Kind::of(Verdict::guess(Outcome::Fresh)), Kind::FreshUnconfirmed as usize);
        assert_eq!(Kind::of(Verdict::guess(Outcome::Duplicate)), Kind::DuplicateByHistory as usize);
    }
}
