//! Counters of verdicts that do not slow verdicts down.

use crate::sync::{Ordering, StdAtomicU64};
use crate::{ClaimStats, Outcome, Refusal, Tier, Timestamp, Verdict, WindowStats};
use std::cell::Cell;
use std::fmt;

/// The counters of an engine, and its contents.
///
/// ```
/// let dedup = hapax::Dedup::builder().build()?;
/// dedup.check("a");
/// dedup.check("a");
/// let stats = dedup.stats();
/// assert_eq!((stats.checks(), stats.fresh, stats.duplicates_by_window), (2, 1, 1));
/// assert_eq!(stats.window.live, 1);
/// println!("{stats}"); // one line, for people
/// # Ok::<(), hapax::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Checks that answered fresh, those of [`fresh_unconfirmed`](Stats::fresh_unconfirmed) among
    /// them.
    pub fresh: u64,
    /// Checks that answered fresh although the history said "maybe", as the policy has it.
    pub fresh_unconfirmed: u64,
    /// Checks that the window answered with duplicate.
    pub duplicates_by_window: u64,
    /// Checks that the history's guess answered with duplicate.
    pub duplicates_by_history: u64,
    /// Checks that the segments of a long memory answered with duplicate.
    pub duplicates_by_segments: u64,
    /// Checks that found the id claimed.
    pub in_progress: u64,
    /// Checks that were refused because their time is too far [ahead](Refusal::Ahead).
    pub refused_ahead: u64,
    /// Checks that were refused because they come too [late](Refusal::Late).
    pub refused_late: u64,
    /// The number of times that stream time was [reset](crate::Dedup::reset_stream_time).
    pub stream_time_resets: u64,
    /// Claims, and the attempts at them, which are no checks.
    pub claims: ClaimStats,
    /// The window.
    pub window: WindowStats,
    /// The journal, if there is one.
    pub journal: Option<crate::JournalStats>,
    /// The long memory, if there is one.
    pub long_memory: Option<crate::LongMemoryStats>,
    /// The probability that the history takes a new id for a known one now, measured on a sample of
    /// its filter; `None` without a history.
    pub history_false_positive_rate: Option<f64>,
    /// The memory of the history, in bytes.
    pub history_bytes: usize,
    /// The memory of the whole engine, in bytes.
    pub bytes: usize,
    /// The time to which ages refer, as callers give it.
    pub at: Timestamp,
}

impl Stats {
    /// Returns the number of checks, of single ids, that were answered.
    pub fn checks(&self) -> u64 {
        let refused = self.refused_ahead + self.refused_late;
        let beyond = self.duplicates_by_history + self.duplicates_by_segments;
        self.fresh + self.duplicates_by_window + beyond + self.in_progress + refused
    }
}

/// Prints what an operator looks at first, in one line. Parts that the engine lacks, and claims if
/// there were none, are left out.
impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stats { fresh, claims, window, in_progress, .. } = self;
        let duplicates = self.duplicates_by_window + self.duplicates_by_history + self.duplicates_by_segments;
        write!(f, "{} checks: {fresh} fresh, {duplicates} duplicates, {in_progress} in progress", self.checks())?;
        let refused = self.refused_ahead + self.refused_late;
        if refused > 0 {
            write!(f, ", {refused} refused for their time")?;
        }
        let ClaimStats { live, claimed, completed, released, failed, taken_over, .. } = claims;
        if *claimed > 0 {
            write!(f, "; {claimed} claims: {completed} completed, {released} released, {failed} failed, ")?;
            write!(f, "{taken_over} taken over, {live} held now")?;
        }
        write!(f, "; {} ids in the window, {} forgotten early", window.live, window.evicted_live)?;
        if window.evicted_live > 0 {
            write!(f, " (the shortest stay {:?})", window.effective_window)?;
        }
        if let Some(rate) = self.history_false_positive_rate {
            write!(f, "; the history takes {rate:.1e} of new ids for known")?;
        }
        if let Some(long) = &self.long_memory {
            write!(
                f,
                "; {} ids in {} segments, {} in doubt",
                long.segments.ids, long.segments.segments, long.in_doubt
            )?;
            long.failed.iter().try_for_each(|error| write!(f, ", none is sealed: {error}"))?;
        }
        if let Some(journal) = &self.journal {
            write!(f, "; {} of {} ids durable", journal.durable, journal.appended)?;
            journal.failed.iter().try_for_each(|error| write!(f, ", it has failed: {error}"))?;
        }
        write!(f, "; {:.1} MB of memory", self.bytes as f64 / 1e6)
    }
}

/// The counts of verdicts, one for each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts([u64; Verdict::VALUES]);

impl Counts {
    #[inline(always)]
    pub(crate) fn add(&mut self, verdict: Verdict, n: u64) {
        self.0[verdict.index()] += n;
    }

    /// Counts one verdict in place of another that was counted before.
    pub(crate) fn replace(&mut self, before: Verdict, verdict: Verdict) {
        self.0[before.index()] -= 1;
        self.0[verdict.index()] += 1;
    }

    fn of(&self, outcome: Outcome, tier: Tier) -> u64 {
        self.0[Verdict::exact(outcome, tier).index()]
    }

    pub(crate) fn fresh_unconfirmed(&self) -> u64 {
        self.0[Verdict::guess(Outcome::Fresh).index()]
    }

    pub(crate) fn fresh(&self) -> u64 {
        let of = |tier| self.of(Outcome::Fresh, tier);
        of(Tier::Window) + of(Tier::History) + of(Tier::Segments) + self.fresh_unconfirmed()
    }

    pub(crate) fn duplicates_by_window(&self) -> u64 {
        self.of(Outcome::Duplicate, Tier::Window)
    }

    pub(crate) fn in_progress(&self) -> u64 {
        self.of(Outcome::InProgress, Tier::Claims)
    }

    pub(crate) fn refused(&self, refusal: Refusal) -> u64 {
        self.0[Verdict::refused(refusal).index()]
    }

    pub(crate) fn duplicates_by_segments(&self) -> u64 {
        self.of(Outcome::Duplicate, Tier::Segments)
    }

    pub(crate) fn duplicates_by_history(&self) -> u64 {
        self.0[Verdict::guess(Outcome::Duplicate).index()]
    }
}

/// The number of threads that count without atomic operations. More threads share the last shard.
const OWNERS: usize = 31;

/// Counters, with a shard for each thread: an owner adds with a load and a store; an atomic
/// addition would cost as much as the check of a cached id.
pub(crate) struct Counters {
    shards: Box<[Shard; OWNERS + 1]>,
}

/// A shard in two cache lines, since some processors fetch lines in pairs.
#[repr(align(128))]
#[derive(Default)]
struct Shard([StdAtomicU64; Verdict::VALUES]);

impl Counters {
    pub(crate) fn new() -> Self {
        Counters { shards: Default::default() }
    }

    pub(crate) const BYTES: usize = size_of::<[Shard; OWNERS + 1]>();

    /// Counts a verdict, and returns it.
    #[inline(always)]
    pub(crate) fn add_one(&self, verdict: Verdict) -> Verdict {
        // No branches by the verdict: it depends on memory that may not have arrived.
        let shard = SHARD.get();
        if shard >= OWNERS {
            return self.add_elsewhere(verdict);
        }
        self.count(shard, verdict.index(), 1);
        verdict
    }

    /// Counts the first verdict of a thread, and those of threads that own no shard.
    #[cold]
    #[inline(never)]
    fn add_elsewhere(&self, verdict: Verdict) -> Verdict {
        self.count(shard(), verdict.index(), 1);
        // (So that the compiler does not know, and has nothing to do after the call.)
        std::hint::black_box(verdict)
    }

    pub(crate) fn add(&self, counts: Counts) {
        let shard = shard();
        counts.0.iter().enumerate().for_each(|(verdict, &n)| self.count(shard, verdict, n));
    }

    #[inline(always)]
    fn count(&self, shard: usize, verdict: usize, n: u64) {
        let counter = &self.shards[shard].0[verdict];
        if shard < OWNERS {
            // No other thread writes here, until this thread has given the shard back.
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

/// Returns the shard in which this thread counts.
fn shard() -> usize {
    // A thread that is being torn down has no shard of its own any more.
    OWNED.try_with(|owned| owned.0).unwrap_or(OWNERS)
}

/// The shard that a thread owns, in every engine; `OWNERS` if all are taken.
struct Owned(usize);

thread_local! {
    static OWNED: Owned = Owned::take();
    /// The shard that this thread owns; `OWNERS` as long as it owns none. (Reading it calls
    /// nothing.)
    static SHARD: Cell<usize> = const { Cell::new(OWNERS) };
}

/// The owned shards, one bit for each.
static TAKEN: StdAtomicU64 = StdAtomicU64::new(0);

impl Owned {
    fn take() -> Self {
        let lowest_free = |taken: u64| (!taken).trailing_zeros() as usize;
        let free = |taken| (lowest_free(taken) < OWNERS).then(|| taken | 1 << lowest_free(taken));
        // Acquire: partner of the release in `drop`. The new owner sees what the last one has
        // counted.
        match TAKEN.fetch_update(Ordering::Acquire, Ordering::Relaxed, free) {
            Ok(taken) => {
                SHARD.set(lowest_free(taken));
                Owned(lowest_free(taken))
            }
            Err(_) => Owned(OWNERS),
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if self.0 < OWNERS {
            SHARD.set(OWNERS);
            TAKEN.fetch_and(!(1 << self.0), Ordering::Release);
        }
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_with_more_threads_than_shards_that_come_and_go() {
        let counters = Counters::new();
        for _ in 0..20 {
            std::thread::scope(|scope| {
                for _ in 0..OWNERS + 9 {
                    scope.spawn(|| {
                        for _ in 0..100 {
                            let mut counts = Counts::default();
                            counts.add(Verdict::guess(Outcome::Duplicate), 2);
                            counters.add(counts);
                            let _ = counters.add_one(Verdict::exact(Outcome::Fresh, Tier::Window));
                        }
                    });
                }
            });
        }
        let n = 20 * (OWNERS as u64 + 9) * 100;
        let sum = counters.sum();
        assert_eq!((sum.fresh(), sum.duplicates_by_history()), (n, 2 * n));
        assert_eq!((sum.fresh_unconfirmed(), sum.duplicates_by_window()), (0, 0));
    }
}
