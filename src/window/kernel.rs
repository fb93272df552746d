//! Which way of looking at lines a window uses: decided once, when it is built.

use super::batch::{self, Chunk, Decided};
use super::line::{Overtaken, Place};
use super::table::Table;
use super::tick::Tick;
use crate::Outcome;

/// A way of looking at lines. All give the same answers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kernel {
    Portable,
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    Avx2(super::avx2::Avx2),
}

impl Kernel {
    /// The fastest one that this processor can do.
    pub(crate) fn best() -> Self {
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        if let Some(avx2) = super::avx2::Avx2::detect() {
            return Kernel::Avx2(avx2);
        }
        Kernel::Portable
    }

    #[inline(always)]
    pub(crate) fn check_one(self, table: &Table, id: Place, tick: Tick, refresh: bool) -> Result<Outcome, Overtaken> {
        match self {
            Kernel::Portable => batch::check_one(table, id, tick, refresh),
            #[cfg(all(target_arch = "x86_64", not(loom)))]
            // SAFETY: an `Avx2` exists only if the processor has AVX2 and BMI1.
            Kernel::Avx2(avx2) => unsafe { vector::check_one(avx2, table, id, tick, refresh) },
        }
    }

    #[inline(always)]
    pub(crate) fn check_chunk(self, table: &Table, chunk: &mut Chunk, todo: u64, tick: Tick, refresh: bool) -> Decided {
        match self {
            Kernel::Portable => chunk.check(table, todo, tick, refresh),
            #[cfg(all(target_arch = "x86_64", not(loom)))]
            // SAFETY: an `Avx2` exists only if the processor has AVX2 and BMI1.
            Kernel::Avx2(avx2) => unsafe { vector::check_chunk(avx2, table, chunk, todo, tick, refresh) },
        }
    }
}

// Functions that may use AVX2 are compiled as a whole for it; what they inline is, too.
#[cfg(all(target_arch = "x86_64", not(loom)))]
mod vector {
    use super::super::avx2::{self, Avx2};
    use super::super::line::{self, LineMemory, Lost};
    use super::super::slot::{Key, SLOTS, Slot};
    use super::super::table::Line;
    use super::super::tick::Moment;
    use super::super::view::View;
    use super::*;
    use crate::memory::prefetch;
    use crate::sync::{Ordering, fence};

    #[target_feature(enable = "avx2,bmi1")]
    pub(super) fn check_one(
        avx2: Avx2,
        table: &Table,
        id: Place,
        tick: Tick,
        refresh: bool,
    ) -> Result<Outcome, Overtaken> {
        batch::check_one(&VectorTable::new(table, avx2), id, tick, refresh)
    }

    #[target_feature(enable = "avx2,bmi1")]
    pub(super) fn check_chunk(
        avx2: Avx2,
        table: &Table,
        chunk: &mut Chunk,
        todo: u64,
        tick: Tick,
        refresh: bool,
    ) -> Decided {
        chunk.check(&VectorTable::new(table, avx2), todo, tick, refresh)
    }

    #[target_feature(enable = "avx2,bmi1")]
    fn check_thoroughly(table: &VectorTable, id: Place, tick: Tick, refresh: bool) -> Result<Outcome, Overtaken> {
        line::check(table, id, &table.moment(tick), refresh)
    }

    /// A table that is looked at with AVX2.
    struct VectorTable<'a> {
        table: &'a Table,
        /// The table's, at hand.
        lines: &'a [Line<SLOTS>],
        _proof: Avx2,
    }

    impl<'a> VectorTable<'a> {
        #[inline(always)]
        fn new(table: &'a Table, proof: Avx2) -> Self {
            VectorTable { table, lines: table.as_lines(), _proof: proof }
        }
    }

    impl LineMemory for VectorTable<'_> {
        const SLOTS: usize = <Table>::SLOTS;
        const LAP_MASK: u64 = <Table>::LAP_MASK;

        #[inline(always)]
        fn view(&self, line: usize, key: Key, moment: &Moment) -> View {
            // SAFETY: this table holds an `Avx2`, which exists only if the processor has AVX2 and BMI1.
            let view = unsafe { avx2::view(&self.lines[line].0, key, moment) };
            // As in the portable view.
            fence(Ordering::Acquire);
            view
        }

        #[inline(always)]
        fn lines(&self) -> usize {
            self.lines.len()
        }

        #[inline(always)]
        fn load(&self, line: usize, slot: usize) -> Slot {
            Slot(self.lines[line].0[slot].load(Ordering::Acquire))
        }

        #[inline(always)]
        fn replace(&self, line: usize, slot: usize, old: Slot, new: Slot, lost: Option<Lost>) -> bool {
            self.table.replace(line, slot, old, new, lost)
        }

        #[inline(always)]
        fn prefetch(&self, line: usize) {
            prefetch(&self.lines[line]);
        }

        #[inline(always)]
        fn is_ready(&self, line: usize, moment: &Moment) -> bool {
            self.table.is_ready(line, moment)
        }

        #[inline(always)]
        fn ready(&self, line: usize, moment: &Moment) {
            self.table.ready(line, moment);
        }

        #[inline(always)]
        fn overtaken(&self, moment: &Moment) -> bool {
            self.table.overtaken(moment)
        }

        fn repaired(&self) {
            self.table.repaired();
        }

        #[inline(always)]
        fn moment(&self, tick: Tick) -> Moment {
            self.table.moment(tick)
        }

        #[inline(always)]
        fn check_thoroughly(&self, id: Place, tick: Tick, refresh: bool) -> Result<Outcome, Overtaken> {
            // SAFETY: this table holds an `Avx2`, which exists only if the processor has AVX2 and BMI1.
            unsafe { check_thoroughly(self, id, tick, refresh) }
        }
    }
}
