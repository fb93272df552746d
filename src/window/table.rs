//! The window's memory: lines, their shards, and the time that all callers agree on.

use super::line::{LineMemory, Lost};
use super::slot::{Key, LAP_BITS, SLOTS, Slot};
use super::sweep::{self, SHARD_LINES, Sweeps};
use super::tally::Tally;
use super::tick::{GRACE, Limits, Moment, SinceSweep, Tick};
use super::view::View;
use crate::Error;
use crate::memory::{LINE_BYTES, Lines, Zeroed, prefetch};
use crate::sync::{AtomicU64, Ordering, fence};
use std::ops::Range;

/// The share of slots that live ids take at the rated capacity: 18.4 bytes an id, and about 1.5 ids in a million lost before
/// their time.
const RATED_LOAD: f64 = 0.4348;

/// No table is smaller: the fewer lines, the shorter the stall in which a line's laps can wrap (see `slot`).
const LINES_MIN: usize = 1024;

/// A line of slots, alone in its cache line.
#[repr(align(64))]
pub(crate) struct Line<const SLOTS: usize>(pub(crate) [AtomicU64; SLOTS]);

impl<const SLOTS: usize> Default for Line<SLOTS> {
    fn default() -> Self {
        Line(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

// SAFETY: an array of atomics and nothing else: all-zero bytes are a value, there is nothing to drop, and it is Sync.
unsafe impl<const SLOTS: usize> Zeroed for Line<SLOTS> {}

const _: () = assert!(cfg!(loom) || size_of::<Line<SLOTS>>() == LINE_BYTES);

/// The lines of a window. Models have fewer slots and lap bits.
pub(crate) struct Table<const SLOTS: usize = { self::SLOTS }, const LAP_BITS: u32 = { self::LAP_BITS }> {
    lines: Lines<Line<SLOTS>>,
    sweeps: Sweeps,
    /// The latest time at which anybody was here, as [`Tick::pack`] has it.
    latest: AtomicU64,
    limits: Limits,
    window_ticks: u64,
    pub(crate) tally: Tally,
}

/// Lines for a number of live ids.
pub(crate) fn lines_for(capacity: usize) -> Option<usize> {
    let lines = (capacity as f64 / (SLOTS as f64 * RATED_LOAD)).ceil();
    // Beyond 2^53 an f64 no longer counts; no machine has that much memory.
    (lines < (1_u64 << 53) as f64).then(|| (lines as usize).next_multiple_of(2).max(LINES_MIN))
}

impl<const SLOTS: usize, const LAP_BITS: u32> Table<SLOTS, LAP_BITS> {
    /// A table of `lines` lines, an even number.
    pub(crate) fn new(lines: usize, window_ticks: u64) -> Result<Self, Error> {
        assert!(lines.is_multiple_of(2) && SLOTS <= self::SLOTS && LAP_BITS <= self::LAP_BITS);
        Ok(Table {
            lines: Lines::new(lines, "window")?,
            sweeps: Sweeps::new(lines),
            latest: AtomicU64::new(0),
            limits: Limits::of_window(window_ticks),
            window_ticks,
            tally: Tally::new(window_ticks),
        })
    }

    /// The tick of a caller, who from now on is among those that agree on the time: no earlier than any other's.
    #[inline(always)]
    pub(crate) fn agree(&self, tick: Tick) -> Tick {
        // Relaxed: whoever inserts at a tick has raised `latest` to it before, and publishes both with the insertion.
        let latest = self.latest.load(Ordering::Relaxed);
        let packed = tick.pack();
        if packed > latest {
            self.latest.fetch_max(packed, Ordering::Relaxed);
        }
        Tick::unpack(packed.max(latest))
    }

    /// The same for a caller that only reads: it does not set the time for others.
    pub(crate) fn agree_at_rest(&self, tick: Tick) -> Tick {
        Tick::unpack(tick.pack().max(self.latest.load(Ordering::Relaxed)))
    }

    #[cfg(all(target_arch = "x86_64", not(loom)))]
    #[inline(always)]
    pub(crate) fn as_lines(&self) -> &[Line<SLOTS>] {
        &self.lines
    }

    #[inline(always)]
    pub(crate) fn line(&self, line: usize) -> &[AtomicU64; SLOTS] {
        &self.lines[line].0
    }

    /// Sweeps the line's shard if it is not ready, given a way to tell whether there is something to clear in a line.
    #[inline(always)]
    pub(crate) fn ready_by(
        &self,
        line: usize,
        moment: &Moment,
        has_old: impl Fn(&[AtomicU64; SLOTS], SinceSweep) -> bool,
    ) {
        if !self.sweeps.is_ready(line, moment.tick.now) {
            let lines = |range: Range<usize>| {
                let end = range.end.min(self.lines.len());
                self.lines[range.start..end].iter().map(|line| &line.0)
            };
            self.sweeps.sweep(line, moment.tick.now, lines, has_old);
        }
    }

    /// Entries that are live at a moment, counted one by one. An entry that is being moved may be counted twice.
    pub(crate) fn live(&self, moment: &Moment) -> u64 {
        let live_in = |(shard, lines): (usize, &[Line<SLOTS>])| {
            let ages = self.sweeps.ages(shard * SHARD_LINES, moment.tick.now);
            let is_live = |slot: &&AtomicU64| {
                let slot = Slot(slot.load(Ordering::Relaxed));
                !slot.is_vacant() && ages.age_ticks(slot.0) < self.window_ticks
            };
            lines.iter().flat_map(|line| &line.0).filter(is_live).count() as u64
        };
        self.lines.chunks(SHARD_LINES).enumerate().map(live_in).sum()
    }

    /// The latest tick at which anybody was here.
    pub(crate) fn latest(&self) -> u64 {
        Tick::unpack(self.latest.load(Ordering::Relaxed)).now
    }

    pub(crate) fn bytes(&self) -> usize {
        self.lines.bytes() + self.sweeps.bytes() + size_of_val(self)
    }
}

impl<const SLOTS: usize, const LAP_BITS: u32> LineMemory for Table<SLOTS, LAP_BITS> {
    const SLOTS: usize = SLOTS;
    const LAP_MASK: u64 = (1 << LAP_BITS) - 1;

    #[inline(always)]
    fn lines(&self) -> usize {
        self.lines.len()
    }

    #[inline(always)]
    fn view(&self, line: usize, key: Key, moment: &Moment) -> View {
        // Relaxed and one fence: partner of the release in `replace`, by which an entry is published, and before it the copy
        // of the entry that it displaced.
        let slots = self.line(line).each_ref().map(|slot| Slot(slot.load(Ordering::Relaxed)));
        fence(Ordering::Acquire);
        View::of(&slots, key, moment, Self::LAP_MASK)
    }

    #[inline(always)]
    fn load(&self, line: usize, slot: usize) -> Slot {
        // Acquire: partner of the release in `replace`.
        Slot(self.line(line)[slot].load(Ordering::Acquire))
    }

    #[inline(always)]
    fn replace(&self, line: usize, slot: usize, old: Slot, new: Slot, lost: Option<Lost>) -> bool {
        // Release: partner of the acquire fence in `view`. Failure says nothing but that it failed.
        let done = self.line(line)[slot].compare_exchange(old.0, new.0, Ordering::Release, Ordering::Relaxed).is_ok();
        if let (true, Some(lost)) = (done, lost) {
            self.tally.evicted(lost);
        }
        done
    }

    #[inline(always)]
    fn prefetch(&self, line: usize) {
        prefetch(&self.lines[line]);
    }

    #[inline(always)]
    fn is_ready(&self, line: usize, moment: &Moment) -> bool {
        self.sweeps.is_ready(line, moment.tick.now)
    }

    #[inline(always)]
    fn ready(&self, line: usize, moment: &Moment) {
        self.ready_by(line, moment, sweep::has_old);
    }

    #[inline(always)]
    fn overtaken(&self, moment: &Moment) -> bool {
        // Relaxed, after the acquire of a view: whoever wrote an entry that the view shows has raised `latest` before.
        self.latest() > moment.tick.now + GRACE
    }

    fn repaired(&self) {
        self.tally.repaired();
    }

    #[inline(always)]
    fn moment(&self, tick: Tick) -> Moment {
        Moment::new(tick, self.limits)
    }
}
