//! The memory of a table: lines and their shards.

use super::common::Common;
use super::line::{LineMemory, Lost};
use super::slot::{Key, LAP_BITS, SLOTS, Slot};
use super::sweep::{self, SHARD_LINES, Sweeps};
use super::tick::{Moment, SinceSweep, Tick};
use super::view::View;
use crate::Error;
use crate::memory::{LINE_BYTES, Lines, Zeroed, prefetch};
use crate::rules::{Rule, obeys};
use crate::sync::{AtomicU64, Ordering, fence, load_each};
use std::ops::Range;

/// A line of slots, alone in its cache line.
#[repr(align(64))]
pub(crate) struct Line<const SLOTS: usize>(pub(crate) [AtomicU64; SLOTS]);

impl<const SLOTS: usize> Default for Line<SLOTS> {
    fn default() -> Self {
        Line(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

// SAFETY: an array of atomics and nothing else: all-zero bytes are a value, there is nothing to
// drop, and it is Sync.
unsafe impl<const SLOTS: usize> Zeroed for Line<SLOTS> {}

const _: () = assert!(cfg!(modelled) || size_of::<Line<SLOTS>>() == LINE_BYTES);

/// The lines of a table. Models have fewer slots and lap bits.
pub(crate) struct Table<const SLOTS: usize = { self::SLOTS }, const LAP_BITS: u32 = { self::LAP_BITS }> {
    lines: Lines<Line<SLOTS>>,
    sweeps: Sweeps,
}

impl<const SLOTS: usize, const LAP_BITS: u32> Table<SLOTS, LAP_BITS> {
    /// Returns a table of `lines` lines, an even number.
    pub(crate) fn new(lines: usize) -> Result<Self, Error> {
        let table = Self::reserve(lines)?;
        (0..table.parts()).try_for_each(|part| table.prepare(part, None))?;
        Ok(table)
    }

    /// Returns a table whose memory is only promised until all of its parts are
    /// [prepared](Table::prepare).
    pub(crate) fn reserve(lines: usize) -> Result<Self, Error> {
        assert!(lines.is_multiple_of(2) && SLOTS <= self::SLOTS && LAP_BITS <= self::LAP_BITS);
        Ok(Table { lines: Lines::reserve(lines, "window")?, sweeps: Sweeps::new(lines) })
    }

    /// Returns the number of parts in which its memory is prepared.
    pub(crate) fn parts(&self) -> usize {
        self.lines.parts()
    }

    /// Makes a part of the memory ready for use, for the `life`th time; for the first time: `None`.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`].
    pub(crate) fn prepare(&self, part: usize, life: Option<u64>) -> Result<(), Error> {
        let Some(life) = life else {
            return self.lines.populate(part, "window");
        };
        let lap = life & TableMemory::<SLOTS, LAP_BITS>::LAP_MASK;
        let content = if obeys(Rule::LapOfLife) { Slot::default().with_lap(lap) } else { Slot::default() };
        fill(&self.lines[self.lines.part(part)], content);
        Ok(())
    }

    /// Gives back the memory of a table that was retired. A caller that still looks at it sees
    /// vacancies.
    pub(crate) fn release(&self) {
        self.lines.release();
        #[cfg(modelled)]
        fill(&self.lines, Slot::default());
    }

    /// Takes up a table that was retired; then its parts are to be [prepared](Table::prepare) for
    /// its next life.
    ///
    /// Its slots start at a lap of their own. So a caller that has stalled since it was retired and
    /// means to overwrite a slot that it saw unused cannot: unless it stalls through as many lives
    /// as there are laps.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfMemory`], before anything is touched.
    pub(crate) fn revive(&self) -> Result<(), Error> {
        self.lines.is_available("window")?;
        // As if the table had never been used: the ticks that sweeps knew are long past.
        self.sweeps.restart();
        Ok(())
    }

    /// Returns the table as the protocol sees it.
    #[inline(always)]
    pub(crate) fn memory<'a>(&'a self, common: &'a Common) -> TableMemory<'a, SLOTS, LAP_BITS> {
        TableMemory { table: self, common }
    }

    #[inline(always)]
    pub(crate) fn lines(&self) -> usize {
        self.lines.len()
    }

    /// Returns the number of entries that are live at a moment, counted one by one. An entry that
    /// is being moved may be counted twice.
    pub(crate) fn live(&self, moment: &Moment, window_ticks: u64) -> u64 {
        let live_in = |(shard, lines): (usize, &[Line<SLOTS>])| {
            let ages = self.sweeps.ages(shard * SHARD_LINES, moment.tick.now);
            let is_live = |slot: &&AtomicU64| {
                let slot = Slot(slot.load(Ordering::Relaxed));
                !slot.is_vacant() && ages.age_ticks(slot.0) < window_ticks
            };
            lines.iter().flat_map(|line| &line.0).filter(is_live).count() as u64
        };
        self.lines.chunks(SHARD_LINES).enumerate().map(live_in).sum()
    }

    /// Shows the ages of the slots of some lines, up to about `lines`, spread over the table;
    /// `None`: vacant.
    pub(crate) fn sample(&self, lines: usize, now: u64, mut show: impl FnMut(Option<u64>)) {
        let step = self.lines().div_ceil(lines);
        for (at, line) in self.lines.iter().enumerate().step_by(step) {
            let ages = self.sweeps.ages(at, now);
            for slot in &line.0 {
                let slot = Slot(slot.load(Ordering::Relaxed));
                show((!slot.is_vacant()).then(|| ages.age_ticks(slot.0)));
            }
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.lines.bytes() + self.sweeps.bytes() + size_of_val(self)
    }
}

fn fill<const SLOTS: usize>(lines: &[Line<SLOTS>], content: Slot) {
    // Release: partner of the acquire fence in `view`. A thread that sees a slot filled sees that
    // its table was retired before.
    let slots = lines.iter().flat_map(|line| &line.0);
    slots.for_each(|slot| slot.store(content.0, Ordering::Release));
}

/// The lines of a table, and the state that it shares with others: the memory that the protocol of
/// a line runs on.
pub(crate) struct TableMemory<'a, const SLOTS: usize = { self::SLOTS }, const LAP_BITS: u32 = { self::LAP_BITS }> {
    table: &'a Table<SLOTS, LAP_BITS>,
    common: &'a Common,
}

impl<const SLOTS: usize, const LAP_BITS: u32> Clone for TableMemory<'_, SLOTS, LAP_BITS> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<const SLOTS: usize, const LAP_BITS: u32> Copy for TableMemory<'_, SLOTS, LAP_BITS> {}

impl<const SLOTS: usize, const LAP_BITS: u32> TableMemory<'_, SLOTS, LAP_BITS> {
    #[inline(always)]
    pub(crate) fn line(&self, line: usize) -> &[AtomicU64; SLOTS] {
        &self.table.lines[line].0
    }

    /// Sweeps the line's shard if it is not ready, given a way to tell whether there is something
    /// to clear in a line.
    #[inline(always)]
    pub(crate) fn ready_by(
        &self,
        line: usize,
        moment: &Moment,
        has_old: impl Fn(&[AtomicU64; SLOTS], SinceSweep) -> bool,
    ) {
        if !self.is_ready(line, moment) {
            let lines = |range: Range<usize>| {
                let end = range.end.min(self.table.lines.len());
                self.table.lines[range.start..end].iter().map(|line| &line.0)
            };
            self.table.sweeps.sweep(line, moment.tick.now, lines, has_old);
        }
    }
}

impl<const SLOTS: usize, const LAP_BITS: u32> LineMemory for TableMemory<'_, SLOTS, LAP_BITS> {
    const SLOTS: usize = SLOTS;
    const LAP_MASK: u64 = (1 << LAP_BITS) - 1;

    #[inline(always)]
    fn lines(&self) -> usize {
        self.table.lines.len()
    }

    #[inline(always)]
    fn view(&self, line: usize, key: Key, moment: &Moment) -> View {
        // Relaxed and one fence: partner of the release in `replace`, by which an entry is
        // published, and before it the copy of the entry that it displaced.
        let slots = load_each(self.line(line)).map(Slot);
        if obeys(Rule::Acquire) {
            fence(Ordering::Acquire);
        }
        let view = View::of(&slots, key, moment, Self::LAP_MASK);
        #[cfg(explore)]
        crate::explore::remember(SLOTS, view.numbers());
        view
    }

    #[inline(always)]
    fn load(&self, line: usize, slot: usize) -> Slot {
        // Acquire: partner of the release in `replace`.
        let order = if obeys(Rule::Acquire) { Ordering::Acquire } else { Ordering::Relaxed };
        Slot(self.line(line)[slot].load(order))
    }

    #[inline(always)]
    fn replace(&self, line: usize, slot: usize, old: Slot, new: Slot, lost: Option<Lost>) -> bool {
        let slot = &self.line(line)[slot];
        // Release: partner of the acquire fence in `view`. Sequentially consistent, too: partner of
        // the fence in `Tables::looks`, for a caller that looks afterwards which table is the
        // newest. A failure says nothing but that it failed.
        let order = if obeys(Rule::NewestInOrder) { Ordering::SeqCst } else { Ordering::Release };
        let done = match obeys(Rule::Compare) {
            true => slot.compare_exchange(old.0, new.0, order, Ordering::Relaxed).is_ok(),
            false => {
                slot.store(new.0, Ordering::Release);
                true
            }
        };
        if let (true, Some(lost)) = (done, lost) {
            self.common.tally.evicted(lost);
            #[cfg(explore)]
            crate::explore::happened(crate::explore::Effect::Lost(self.line(line)[0].word(), old.0));
        }
        done
    }

    #[inline(always)]
    fn prefetch(&self, line: usize) {
        prefetch(&self.table.lines[line]);
    }

    #[inline(always)]
    fn is_ready(&self, line: usize, moment: &Moment) -> bool {
        !obeys(Rule::SweepFirst) || self.table.sweeps.is_ready(line, moment.tick.now)
    }

    #[inline(always)]
    fn ready(&self, line: usize, moment: &Moment) {
        #[cfg(explore)]
        return crate::explore::sum_up(|| self.ready_by(line, moment, sweep::has_old), |()| 0);
        #[cfg(not(explore))]
        self.ready_by(line, moment, sweep::has_old);
    }

    #[inline(always)]
    fn overtaken(&self, moment: &Moment) -> bool {
        self.common.overtaken(moment)
    }

    fn repaired(&self) {
        self.common.tally.repaired();
        #[cfg(explore)]
        crate::explore::happened(crate::explore::Effect::Repaired);
    }

    fn is_clearing(&self) -> bool {
        self.common.is_clearing()
    }

    fn displaced(&self, line: usize) {
        self.common.displaced(line);
    }

    #[inline(always)]
    fn moment(&self, tick: Tick) -> Moment {
        self.common.moment(tick)
    }
}
