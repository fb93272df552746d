//! Which way of looking at lines a window uses: decided once, when it is built.

use super::batch::{self, Chunk, Decided};
use super::line::{LineMemory, Overtaken, Place};
use super::table::Table;
use super::tick::{Moment, Tick};
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
            Kernel::Portable => batch::check_one(table, id, &table.moment(tick), refresh),
            #[cfg(all(target_arch = "x86_64", not(loom)))]
            // SAFETY: an `Avx2` exists only if the processor has AVX2 and BMI1.
            Kernel::Avx2(avx2) => unsafe { vector::check_one(avx2, table, id, tick, refresh) },
        }
    }

    #[inline(always)]
    pub(crate) fn check_chunk(self, table: &Table, chunk: &mut Chunk, todo: u64, tick: Tick, refresh: bool) -> Decided {
        match self {
            Kernel::Portable => chunk.check(table, todo, &table.moment(tick), refresh),
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
    use super::super::line::{self, Lost};
    use super::super::slot::{Key, Slot};
    use super::super::view::View;
    use super::*;
    use crate::sync::{Ordering, fence};

    #[target_feature(enable = "avx2,bmi1")]
    pub(super) fn check_one(
        avx2: Avx2,
        table: &Table,
        id: Place,
        tick: Tick,
        refresh: bool,
    ) -> Result<Outcome, Overtaken> {
        batch::check_one(&VectorTable(table, avx2), id, &table.moment(tick), refresh)
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
        chunk.check(&VectorTable(table, avx2), todo, &table.moment(tick), refresh)
    }

    #[target_feature(enable = "avx2,bmi1")]
    fn check_thoroughly(table: &VectorTable, id: Place, moment: &Moment, refresh: bool) -> Result<Outcome, Overtaken> {
        line::check(table, id, moment, refresh)
    }

    /// A table that is looked at with AVX2.
    struct VectorTable<'a>(&'a Table, Avx2);

    impl LineMemory for VectorTable<'_> {
        const SLOTS: usize = <Table>::SLOTS;
        const LAP_MASK: u64 = <Table>::LAP_MASK;

        #[inline(always)]
        fn view(&self, line: usize, key: Key, moment: &Moment) -> View {
            // SAFETY: this table holds an `Avx2`, which exists only if the processor has AVX2 and BMI1.
            let view = unsafe { avx2::view(self.0.line(line), key, moment) };
            // As in the portable view.
            fence(Ordering::Acquire);
            view
        }

        #[inline(always)]
        fn lines(&self) -> usize {
            self.0.lines()
        }

        #[inline(always)]
        fn load(&self, line: usize, slot: usize) -> Slot {
            self.0.load(line, slot)
        }

        #[inline(always)]
        fn replace(&self, line: usize, slot: usize, old: Slot, new: Slot, lost: Option<Lost>) -> bool {
            self.0.replace(line, slot, old, new, lost)
        }

        #[inline(always)]
        fn prefetch(&self, line: usize) {
            self.0.prefetch(line);
        }

        #[inline(always)]
        fn is_ready(&self, line: usize, moment: &Moment) -> bool {
            self.0.is_ready(line, moment)
        }

        #[inline(always)]
        fn ready(&self, line: usize, moment: &Moment) {
            self.0.ready(line, moment);
        }

        #[inline(always)]
        fn overtaken(&self, moment: &Moment) -> bool {
            self.0.overtaken(moment)
        }

        fn repaired(&self) {
            self.0.repaired();
        }

        #[inline(always)]
        fn check_thoroughly(&self, id: Place, moment: &Moment, refresh: bool) -> Result<Outcome, Overtaken> {
            // SAFETY: this table holds an `Avx2`, which exists only if the processor has AVX2 and BMI1.
            unsafe { check_thoroughly(self, id, moment, refresh) }
        }
    }
}
