//! Tier 1: what was seen within the window, exactly.
//!
//! [`slot`] and [`tick`] are the bits, [`view`] what a look at a line tells, [`line`] the protocol, [`table`] the memory that
//! it runs on; [`batch`] is the common case of it, made fast.

#[cfg(all(target_arch = "x86_64", not(modelled)))]
mod avx2;
#[cfg(all(target_arch = "x86_64", not(modelled)))]
mod avx512;
mod batch;
mod common;
mod forget;
mod fuzzing;
mod kernel;
mod line;
#[cfg(all(test, modelled))]
mod models;
mod slot;
mod sweep;
mod table;
mod tally;
#[cfg(all(test, not(modelled)))]
mod tests;
mod tick;
mod view;

use self::batch::Decided;
pub(crate) use batch::{CHUNK, Chunk, bits};
pub(crate) use tick::Ticks;

use self::common::Common;
use self::kernel::Kernel;
use self::line::{LineMemory, Overtaken, Place};
pub(crate) use self::slot::scale;
use self::slot::{SLOTS, Tag};
use self::table::{Table, TableMemory};
use self::tick::Moment;
use crate::clock::Reading;
use crate::digest::Digest;
use crate::{Error, Outcome, Timestamp};
use std::time::Duration;

/// The window alone: has this digest been seen within the last W?
///
/// ```
/// use hapax::{Digester, Outcome, Timestamp, Window};
/// use std::time::Duration;
///
/// let digester = Digester::random();
/// let window = Window::new(Duration::from_secs(60), 1_000_000)?;
/// let id = digester.digest("order-17");
/// assert_eq!(window.check(id, Timestamp::from_secs(0)), Outcome::Fresh);
/// assert_eq!(window.check(id, Timestamp::from_secs(59)), Outcome::Duplicate);
/// assert_eq!(window.check(id, Timestamp::from_secs(62)), Outcome::Fresh);
/// # Ok::<(), hapax::Error>(())
/// ```
///
/// [`Dedup`](crate::Dedup) is this with a digester, a clock and, if wanted, a [`History`](crate::History) behind it.
///
/// # Guarantees
///
/// - Of any number of threads that check one digest, exactly one is told `Fresh`.
/// - A digest accepted at t is a duplicate whenever t' - t < W, and never once t' - t >= W + 2 [ticks](WindowStats::tick).
///   Time does not run backwards: an earlier time than one already given counts as the latest given.
/// - Unless it had to go before its time, which is counted ([`WindowStats::evicted_live`]): about 1.5 digests in a million at
///   the rated capacity, 4 in ten thousand at 1.35 times that.
/// - Two different digests are taken for one with a probability of 5e-14 a check.
///
/// # Cost
///
/// 18.4 bytes of memory for each digest of the capacity, at least 64 KiB, all allocated by [`new`](Window::new). A check reads one
/// cache line and writes one word with a compare-and-swap; one in ten reads a second line. No locks, no allocation, no thread.
///
/// Idea: set-associative buckets of a cache line each, as in MemC3 (Fan, Andersen, Kaminsky, NSDI 2013), with an alternate
/// bucket as in cuckoo hashing; the ring in each line and the protocol are this crate's own.
pub struct Window {
    table: Table,
    common: Common,
    ticks: Ticks,
    duration: Duration,
    refresh_on_duplicate: bool,
    kernel: Kernel,
}

/// What a [`Window`] has counted, and what it holds.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WindowStats {
    /// Digests that are live. Counted one by one, by reading the whole table: 10 to 20 ms for 10 million digests.
    pub live: u64,
    /// Digests that had to go although they were, or for a caller with a slower clock might have been, live.
    pub evicted_live: u64,
    /// No digest younger than this has been evicted for a window's time: W, unless `evicted_live` has grown.
    pub effective_window: Duration,
    /// The grain of time; see [`Window::tick`].
    pub tick: Duration,
    /// Lines that were found broken and repaired. Takes a thread that stalls while half a million ids go by.
    pub repaired_lines: u64,
    /// Memory, in bytes.
    pub bytes: usize,
    /// The probability that a check of a new digest answers `Duplicate`, for as many digests as are live now.
    pub false_duplicate_rate: f64,
}

/// The share of slots that live ids take at the rated capacity: 18.4 bytes an id, and about 1.5 ids in a million lost before
/// their time.
const RATED_LOAD: f64 = 0.4348;

/// No table is smaller: the fewer lines, the shorter the stall in which a line's laps can wrap (see `slot`).
const LINES_MIN: usize = 1024;

/// Lines for a number of live ids.
fn lines_for(capacity: usize) -> Option<usize> {
    let lines = (capacity as f64 / (SLOTS as f64 * RATED_LOAD)).ceil();
    // Beyond 2^53 an f64 no longer counts; no machine has that much memory.
    (lines < (1_u64 << 53) as f64).then(|| (lines as usize).next_multiple_of(2).max(LINES_MIN))
}

impl Window {
    /// A window of this length for up to `capacity` live digests.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] for a window outside 100 ns to 100 years or a capacity of 0; [`Error::OutOfMemory`] if the
    /// memory cannot be had.
    pub fn new(window: Duration, capacity: usize) -> Result<Self, Error> {
        let ticks = Ticks::of_window(window)?;
        let lines = (capacity > 0).then(|| lines_for(capacity)).flatten();
        let lines = lines.ok_or_else(|| {
            Error::invalid("capacity", capacity, "the number of ids within a window, from 1 to 10^16")
        })?;
        Ok(Window {
            table: Table::new(lines)?,
            common: Common::new(ticks.window),
            ticks,
            duration: window,
            refresh_on_duplicate: false,
            kernel: Kernel::best(),
        })
    }

    /// Whether a duplicate extends its digest's stay, so that the window slides: off unless it is asked for here.
    #[must_use]
    pub fn refresh_on_duplicate(self, refresh_on_duplicate: bool) -> Self {
        Window { refresh_on_duplicate, ..self }
    }

    /// Whether the digest was seen within the window; if not, it is from now on.
    #[inline]
    pub fn check(&self, digest: Digest, at: Timestamp) -> Outcome {
        self.check_at(digest, at.into())
    }

    #[inline]
    pub(crate) fn check_at(&self, digest: Digest, at: Reading) -> Outcome {
        let id = self.place(digest);
        self.memory().prefetch(id.line);
        loop {
            let tick = self.common.agree(self.ticks.at(at));
            match self.kernel.check_one(&self.memory(), id, tick, self.refresh_on_duplicate) {
                Ok(outcome) => return outcome,
                Err(Overtaken) => continue,
            }
        }
    }

    /// Checks many digests at one time, which is faster than one by one: `outcomes` is cleared and then holds one outcome for
    /// each digest, in order. Of equal digests the first is checked first.
    pub fn check_batch(&self, digests: &[Digest], at: Timestamp, outcomes: &mut Vec<Outcome>) {
        outcomes.clear();
        outcomes.reserve(digests.len());
        self.check_chunks(digests.iter().copied(), at.into(), |len, fresh| {
            outcomes.extend((0..len).map(|i| match fresh >> i & 1 {
                0 => Outcome::Duplicate,
                _ => Outcome::Fresh,
            }));
        });
    }

    /// It is no earlier than this.
    #[inline(always)]
    pub(crate) fn advance(&self, at: Reading) {
        self.common.agree(self.ticks.at(at));
    }

    /// Checks digests in order; `decided` gets the size of each chunk of them, and the set of those that are fresh.
    #[inline(always)]
    pub(crate) fn check_chunks(
        &self,
        digests: impl Iterator<Item = Digest>,
        at: Reading,
        mut decided: impl FnMut(usize, u64),
    ) {
        let mut digests = digests.fuse();
        let (mut chunk, mut next) = (&mut Chunk::new(), &mut Chunk::new());
        digests.by_ref().take(CHUNK).for_each(|digest| self.stage(chunk, digest));
        while chunk.len() > 0 {
            next.clear();
            let fresh = self.check_chunk(chunk, !0, at, || {
                if let Some(digest) = digests.next() {
                    self.stage(next, digest);
                }
            });
            decided(chunk.len(), fresh);
            std::mem::swap(&mut chunk, &mut next);
        }
    }

    /// Adds a digest to a chunk that is not full, and asks for the memory that its check will need.
    #[inline(always)]
    pub(crate) fn stage(&self, chunk: &mut Chunk, digest: Digest) {
        chunk.stage(&self.memory(), self.place(digest));
    }

    /// Checks those digests of a chunk that are in `todo`; the set of those that are fresh. `meanwhile` is called once for each digest
    /// of the chunk.
    #[inline(always)]
    pub(crate) fn check_chunk(&self, chunk: &mut Chunk, todo: u64, at: Reading, meanwhile: impl FnMut()) -> u64 {
        let decided = self.decide(chunk, todo, at, meanwhile);
        match decided.overtaken {
            0 => decided.fresh,
            overtaken => decided.fresh | self.check_overtaken(chunk, overtaken, at),
        }
    }

    #[inline(always)]
    fn decide(&self, chunk: &mut Chunk, todo: u64, at: Reading, meanwhile: impl FnMut()) -> Decided {
        let tick = self.common.agree(self.ticks.at(at));
        self.kernel.check_chunk(&self.memory(), chunk, todo, (tick, self.refresh_on_duplicate), meanwhile)
    }

    #[cold]
    fn check_overtaken(&self, chunk: &mut Chunk, todo: u64, at: Reading) -> u64 {
        let (mut fresh, mut todo) = (0, todo);
        while todo != 0 {
            let decided = self.decide(chunk, todo, at, || ());
            fresh |= decided.fresh;
            todo = decided.overtaken;
        }
        fresh
    }

    /// Asks for the memory that a check of this digest will need, without waiting for it.
    #[inline(always)]
    pub fn prefetch(&self, digest: Digest) {
        self.memory().prefetch(self.place(digest).line);
    }

    /// Whether the digest was seen within the window. Changes nothing.
    pub fn contains(&self, digest: Digest, at: Timestamp) -> bool {
        loop {
            if let Ok(found) = line::contains(&self.memory(), self.place(digest), &self.moment(at)) {
                return found;
            }
        }
    }

    /// Forgets a digest; whether it was remembered. A check that begins after this has returned finds it fresh.
    pub fn forget(&self, digest: Digest, at: Timestamp) -> bool {
        forget::forget(&self.memory(), self.place(digest), || self.moment(at), self.refresh_on_duplicate)
    }

    /// Forgets every digest that was accepted before the call. What is accepted meanwhile may be forgotten, too.
    ///
    /// Writes to the whole table: about a second for 10 million digests. Others go on meanwhile.
    pub fn clear(&self, at: Timestamp) {
        forget::forget_all(&self.memory(), || self.moment(at));
    }

    /// What the window holds and has counted. Reads the whole table.
    pub fn stats(&self, at: Timestamp) -> WindowStats {
        let moment = self.common.moment(self.common.agree_at_rest(self.ticks.at(at.into())));
        let live = self.table.live(&moment, self.ticks.window);
        let slots = (self.table.lines() * SLOTS) as f64;
        let tally = &self.common.tally;
        let effective_ticks = tally.effective_window_ticks(moment.tick.now);
        WindowStats {
            live,
            evicted_live: tally.evicted_live(),
            effective_window: if effective_ticks == self.ticks.window {
                self.duration
            } else {
                // Rounded down twice: what was evicted may have been accepted late in its tick, and evicted early in one.
                self.ticks.tick() * (effective_ticks.saturating_sub(1) as u32)
            },
            tick: self.ticks.tick(),
            repaired_lines: tally.repaired_lines(),
            bytes: self.table.bytes(),
            // As many comparisons as a line has live entries on average, each of 46 bits.
            false_duplicate_rate: live as f64 / slots * SLOTS as f64 * (-46_f64).exp2(),
        }
    }

    /// The length of the window.
    pub fn duration(&self) -> Duration {
        self.duration
    }

    /// The grain of time: how much longer than W a digest may be remembered, at most twice. At most W / 100.
    pub fn tick(&self) -> Duration {
        self.ticks.tick()
    }

    /// Digests that had to go before their time; see [`WindowStats::evicted_live`].
    pub fn evicted_live(&self) -> u64 {
        self.common.tally.evicted_live()
    }

    /// The latest time that was given to a call, rounded up to the end of its tick.
    pub(crate) fn latest(&self) -> Timestamp {
        self.ticks.end_of(self.common.latest())
    }

    #[inline(always)]
    fn memory(&self) -> TableMemory<'_> {
        self.table.memory(&self.common)
    }

    #[inline(always)]
    fn place(&self, digest: Digest) -> Place {
        Place { line: scale(digest.place, self.table.lines()), tag: Tag::of(digest.mark) }
    }

    #[inline(always)]
    fn moment(&self, at: Timestamp) -> Moment {
        self.common.moment(self.common.agree(self.ticks.at(at.into())))
    }
}

impl std::fmt::Debug for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Window")
            .field("duration", &self.duration)
            .field("lines", &self.table.lines())
            .field("kernel", &self.kernel)
            .finish_non_exhaustive()
    }
}
