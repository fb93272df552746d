//! A Bloom filter of two generations: ids go into the current one, both are asked, the other one is
//! cleared before it becomes current.
//!
//! Each shard of blocks turns by itself, when it is used and its current generation is a horizon
//! old. One caller clears the shard's old generation; the others go on with the current one until
//! that is done, so nobody waits. Bits are only ever cleared where no caller sets any, except one
//! that has stalled for a horizon.
//!
//! A generation takes ids for less than a horizon, so never more than the ids that it was made for.
//! These must be remembered for a horizon, and are: the generation is cleared only when the next
//! one, which began later, is over, too. A caller that inserts into it while the other one is being
//! cleared comes later than that: it first says in the shard's word that the next generation begins
//! after it ([`Turn::put_off`]).

use super::block::{Shape, WORDS};
use super::sizing::Size;
use super::turn::Turn;
use crate::clock::{HUNDRED_YEARS, nanos_of};
use crate::digest::Digest;
use crate::error::check;
use crate::id_set::CHUNK;
use crate::memory::{LINE_BYTES, Lines, Zeroed};
use crate::mutation::{Rule, obeys};
use crate::sync::{AtomicU64, Ordering};
use crate::window::scale;
use crate::{Error, Outcome, Timestamp};
use std::time::Duration;

/// The history alone. It answers whether a digest has, possibly, been seen within the horizon.
///
/// ```
/// use hapax::seam::HistoryTier;
/// use hapax::seam::Digester;
/// use hapax::{Outcome, Timestamp};
/// use std::time::Duration;
///
/// let digester = Digester::random()?;
/// let history = HistoryTier::new(Duration::from_secs(3600), 1e-3, 1_000_000)?;
/// let id = digester.digest("order-17");
/// assert_eq!(history.check(id, Timestamp::from_secs(0)), Outcome::Fresh);
/// assert_eq!(history.check(id, Timestamp::from_secs(3600)), Outcome::Duplicate);
/// # Ok::<(), hapax::Error>(())
/// ```
///
/// # Guarantees
///
/// - `Fresh` is certain: a digest inserted at t is found at every t' - t <= horizon, also while
///   others insert and while generations turn, however long a caller stalls anywhere.
/// - `Duplicate` is a guess: wrong with at most the configured rate as long as no more than `ids`
///   digests are inserted within any horizon, however unevenly. With more, the horizon is kept and
///   the rate rises; see [`HistoryStats::false_positive_rate`]. (The horizon is rounded up to a
///   multiple of 4 ns. Time is the largest that was given. Digests that other threads insert while
///   one makes a new generation ready, a few microseconds for each 64 KiB, go into the generation
///   before.)
/// - A digest may be remembered for two horizons; after traffic has paused, for one horizon from
///   when it resumed.
/// - Two threads that check one new digest at the same moment may both be told `Fresh`. (In an
///   engine the window has decided between them before.)
///
/// # Cost
///
/// That of the options, [`History`](crate::History): memory, all allocated by
/// [`new`](HistoryTier::new); a check reads one cache line, an insertion sets bits with two or four
/// atomic operations. No locks, no allocation, no thread.
///
/// Idea: blocked Bloom filters (Putze, Sanders and Singler, 2007); two buffers in turn as in the
/// double-buffering Bloom filters of Chang, Feng and Li (2004), here side by side in one cache
/// line.
pub struct HistoryTier {
    pub(super) blocks: Lines<Block>,
    /// The state of each shard: when its current generation began, and which one that is.
    pub(super) turns: Box<[AtomicU64]>,
    pub(super) shape: Shape,
    #[cfg(all(target_arch = "x86_64", not(modelled)))]
    pub(super) draws: super::avx2::Draws,
    /// The time for which a generation takes insertions, and for which each is found at least.
    pub(super) horizon_ticks: u64,
}

/// The contents of a [`HistoryTier`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HistoryStats {
    /// The probability that a check of a new digest answers `Duplicate` now, measured on a sample
    /// of the filter's blocks.
    pub false_positive_rate: f64,
    /// The memory, in bytes.
    pub bytes: usize,
}

/// Two generations side by side.
#[repr(align(64))]
#[derive(Default)]
pub(super) struct Block(pub(super) [[AtomicU64; WORDS]; 2]);

// SAFETY: an array of atomics and nothing else: all-zero bytes are a value, there is nothing to
// drop, and it is Sync.
unsafe impl Zeroed for Block {}

const _: () = assert!(cfg!(modelled) || size_of::<Block>() == LINE_BYTES);

/// The number of blocks in a shard: 64 KiB of them.
pub(super) const SHARD_BLOCKS: usize = 1024;

/// Nanoseconds per tick: any time fits into a shard's word.
pub(super) const TICK_NANOS: u64 = 4;

impl HistoryTier {
    /// Returns a history of `horizon` for up to `ids` digests within any horizon.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] for a horizon outside 1 ms to 100 years, a rate outside (0, 1), or
    /// `ids` of 0; [`Error::OutOfMemory`] if the memory is not available.
    pub fn new(horizon: Duration, false_positive_rate: f64, ids: usize) -> Result<Self, Error> {
        const HORIZON_MIN: Duration = Duration::from_millis(1);
        let has_end = (HORIZON_MIN..=HUNDRED_YEARS).contains(&horizon);
        check(has_end, "history.horizon", horizon, "a duration from 1ms to 100 years")?;
        let rate = format_args!("{false_positive_rate}");
        let is_rate = false_positive_rate > 0.0 && false_positive_rate < 1.0;
        check(is_rate, "history.false_positive_rate", rate, "a rate above 0 and below 1")?;
        check(ids > 0, "history.ids", ids, "the number of ids within a horizon, at least 1")?;
        Self::of_size(horizon, Size::of(false_positive_rate, ids))
    }

    /// Returns a history of these dimensions.
    pub(crate) fn of_size(horizon: Duration, size: Size) -> Result<Self, Error> {
        Ok(HistoryTier {
            blocks: Lines::new(size.blocks, "history")?,
            turns: (0..Self::shards_of(size.blocks)).map(|_| AtomicU64::new(Turn::UNUSED.0)).collect(),
            shape: size.shape,
            #[cfg(all(target_arch = "x86_64", not(modelled)))]
            draws: super::avx2::Draws::of(size.shape),
            horizon_ticks: nanos_of(horizon).div_ceil(TICK_NANOS),
        })
    }

    /// Checks whether the digest may have been seen within the horizon; if not, it has been from
    /// now on.
    #[inline]
    pub fn check(&self, digest: Digest, at: Timestamp) -> Outcome {
        self.check_at_tick(digest, self.tick(at))
    }

    /// Checks many digests at one time, which is faster than one by one: `outcomes` is cleared and
    /// then holds one outcome for each digest, in order.
    pub fn check_batch(&self, digests: &[Digest], at: Timestamp, outcomes: &mut Vec<Outcome>) {
        outcomes.clear();
        outcomes.reserve(digests.len());
        let now = self.tick(at);
        // Each digest's memory is asked for while a chunk of others is checked.
        digests.iter().take(CHUNK).for_each(|&digest| self.prefetch(digest));
        let mut ahead = digests.iter().skip(CHUNK);
        outcomes.extend(digests.iter().map(|&digest| {
            if let Some(&digest) = ahead.next() {
                self.prefetch(digest);
            }
            self.check_at_tick(digest, now)
        }));
    }

    /// Returns true if the digest may have been seen within the horizon. `false` is certain.
    #[inline]
    pub fn contains(&self, digest: Digest) -> bool {
        self.look(&digest).1
    }

    /// Remembers a digest.
    #[inline]
    pub fn insert(&self, digest: Digest, at: Timestamp) {
        self.insert_looked(&self.look(&digest).0, self.tick(at));
    }

    #[inline(always)]
    fn check_at_tick(&self, digest: Digest, now: u64) -> Outcome {
        let (look, seen) = self.look(&digest);
        if seen {
            return Outcome::Duplicate;
        }
        self.insert_looked(&look, now);
        Outcome::Fresh
    }

    /// Asks for the memory that a check of this digest will need, without waiting for it.
    #[inline(always)]
    pub fn prefetch(&self, digest: Digest) {
        self.blocks.prefetch(scale(digest.place, self.blocks.len()));
    }

    /// Forgets every digest that was inserted before the call. Digests that are inserted meanwhile
    /// may be forgotten, too.
    pub fn clear(&self) {
        for word in self.blocks.iter().flat_map(|block| block.0.as_flattened()) {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Returns the history's contents and rates. Reads up to 4,096 of its blocks.
    pub fn stats(&self) -> HistoryStats {
        const SAMPLE: usize = 4096;
        let step = self.blocks.len().div_ceil(SAMPLE);
        let sample = self.blocks.iter().step_by(step);
        let samples = sample.len() as f64;
        HistoryStats {
            false_positive_rate: sample.map(|block| self.rate_of(block)).sum::<f64>() / samples,
            bytes: Self::bytes_of(self.blocks.len()),
        }
    }

    /// Returns the memory of a history of this many blocks.
    pub(crate) fn bytes_of(blocks: usize) -> usize {
        let turns = Self::shards_of(blocks) * size_of::<AtomicU64>();
        blocks.saturating_mul(size_of::<Block>()).saturating_add(turns + size_of::<Self>())
    }

    fn shards_of(blocks: usize) -> usize {
        blocks.div_ceil(SHARD_BLOCKS)
    }

    /// Returns the probability that a block has the bits of an id that is not in it.
    fn rate_of(&self, block: &Block) -> f64 {
        let absent = |words: &[AtomicU64; WORDS]| {
            // For each word: the probability that some bits drawn at random are all set.
            let full = words.each_ref().map(|word| {
                let set = f64::from(word.load(Ordering::Relaxed).count_ones());
                (set / 64.0).powi(self.shape.bits as i32)
            });
            let found = if self.shape.words == WORDS {
                full.iter().product::<f64>()
            } else {
                // The mean over the six pairs: ((sum)^2 - sum of squares) / 2 / 6.
                let sum: f64 = full.iter().sum();
                (sum * sum - full.iter().map(|full| full * full).sum::<f64>()) / 12.0
            };
            1.0 - found
        };
        1.0 - absent(&block.0[0]) * absent(&block.0[1])
    }

    /// Returns the generation into which a shard's insertions go now.
    #[inline(always)]
    pub(super) fn current(&self, shard: usize, now: u64) -> usize {
        // Acquire: partner of the release in `clear_other`. A thread that sees that a generation is
        // current also sees it cleared.
        let turn = Turn(self.turns[shard].load(Ordering::Acquire));
        if turn.takes(now, self.horizon_ticks) { turn.current() } else { self.turn(shard, turn, now) }
    }

    /// Returns the same when the current generation is over: makes the other one the current one,
    /// unless another caller does.
    #[cold]
    pub(super) fn turn(&self, shard: usize, mut seen: Turn, now: u64) -> usize {
        let word = &self.turns[shard];
        // A thread whose exchange fails here was overtaken by one that has got further, so all of
        // them together make progress.
        while !seen.takes(now, self.horizon_ticks) {
            let next = match seen.is_clearing() {
                false => Some(seen.clearing(now)),
                true if obeys(Rule::PutOff) => seen.put_off(now),
                true => None,
            };
            let Some(next) = next else {
                return seen.current();
            };
            // Acquire, also for the load if it fails: as in `current`; and so that clearings happen
            // one after another. (The loop only goes on with values that the release below has
            // published, so a thread that reads one has seen that.)
            match word.compare_exchange(seen.0, next.0, Ordering::Acquire, Ordering::Relaxed) {
                // This generation is cleared when the one that begins there is over, so no earlier
                // than a horizon after `now`.
                Ok(_) if seen.is_clearing() => return seen.current(),
                Ok(_) => return self.clear_other(shard, seen, next),
                Err(_) if !obeys(Rule::ClearOnce) => return self.clear_other(shard, seen, next),
                Err(_) => seen = Turn(word.load(Ordering::Acquire)),
            }
        }
        seen.current()
    }

    /// Clears a shard's old generation and makes it the current one. `before` is the state that the
    /// caller has changed to `clearing`.
    pub(super) fn clear_other(&self, shard: usize, before: Turn, clearing: Turn) -> usize {
        let (word, other) = (&self.turns[shard], 1 - before.current());
        if !obeys(Rule::ClearFirst) {
            word.store(clearing.cleared().0, Ordering::Release);
        }
        if before != Turn::UNUSED {
            // No thread sets bits there, except one that has stalled since the generation was
            // current: for more than a horizon.
            let end = ((shard + 1) * SHARD_BLOCKS).min(self.blocks.len());
            for block in &self.blocks[shard * SHARD_BLOCKS..end] {
                block.0[other].iter().for_each(|word| word.store(0, Ordering::Relaxed));
            }
        }
        let mut clearing = clearing;
        // Release: partner of the acquire in `current`. It fails only if another caller has put off
        // when the generation begins.
        while clearing.is_clearing() {
            match word.compare_exchange(clearing.0, clearing.cleared().0, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                // Relaxed: no earlier than the value with which the exchange has failed.
                Err(_) => clearing = Turn(word.load(Ordering::Relaxed)),
            }
        }
        other
    }

    /// Returns a time in ticks, counted from 1 (0 is for `UNUSED`).
    #[inline(always)]
    pub(crate) fn tick(&self, at: Timestamp) -> u64 {
        (at.as_nanos() / TICK_NANOS).max(1)
    }
}

impl std::fmt::Debug for HistoryTier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HistoryTier")
            .field("blocks", &self.blocks.len())
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}
