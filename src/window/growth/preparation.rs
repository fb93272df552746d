//! The preparation of a table, part by part, by every caller that has time for one.
//!
//! A part is a huge page: it takes some tenths of a millisecond, and that is the longest that a
//! caller that helps has to wait. (On a virtual machine whose host gives it memory at the first
//! touch it was 5 ms, once for each part.)

use crate::mutation::{Place, meanwhile};
use crate::sync::{Ordering, StdAtomicBool, StdAtomicU64};
use crate::window::table_set::tables::Tables;

/// A table that is being made ready.
pub(crate) struct Preparation {
    pub(crate) index: usize,
    pub(crate) size: usize,
    /// The life of the table that begins, if it is not the first.
    life: Option<u64>,
    parts: u64,
    /// The first part that no caller has begun.
    next: StdAtomicU64,
    done: StdAtomicU64,
    failed: StdAtomicBool,
}

/// The result of helping with a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Done,
    /// The part was the last one, and the table is ready; or it is not, since there was no memory.
    Last {
        ready: bool,
    },
    /// All parts have been begun, if not finished.
    NoneLeft,
}

impl Preparation {
    /// Creates the preparation of a table that was reserved.
    pub(crate) fn new(tables: &Tables, index: usize, size: usize, life: Option<u64>) -> Self {
        Preparation {
            index,
            size,
            life,
            parts: tables.table(index).parts() as u64,
            next: StdAtomicU64::new(0),
            done: StdAtomicU64::new(0),
            failed: StdAtomicBool::new(false),
        }
    }

    /// Returns true if there is a part that no caller has begun.
    pub(crate) fn has_more(&self) -> bool {
        self.next.load(Ordering::Relaxed) < self.parts
    }

    /// Makes one part ready.
    pub(crate) fn help(&self, tables: &Tables) -> Part {
        // Relaxed: it hands out numbers, and nothing else. (It exceeds the parts by as many as
        // there are calls, far from 2^64.)
        let part = self.next.fetch_add(1, Ordering::Relaxed);
        if part >= self.parts {
            return Part::NoneLeft;
        }
        // Relaxed: published by `done`.
        let is_in_vain = self.failed.load(Ordering::Relaxed);
        if part + 1 == self.parts {
            meanwhile(Place::LastPart);
        }
        #[expect(clippy::cast_possible_truncation, reason = "parts of a table in memory")]
        let part = part as usize;
        if !is_in_vain && tables.table(self.index).prepare(part, self.life).is_err() {
            self.failed.store(true, Ordering::Relaxed);
        }
        // Release and acquire, partners of each other: the caller that finishes the last part sees
        // all others, and publishes them with the roster.
        if self.done.fetch_add(1, Ordering::AcqRel) + 1 < self.parts {
            return Part::Done;
        }
        Part::Last { ready: !self.failed.load(Ordering::Relaxed) }
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use crate::window::table_set::table::Table;

    #[test]
    fn each_part_is_done_once_and_one_caller_learns_that_it_was_the_last() {
        let tables = Tables::new(Table::new(1_024).unwrap(), 100);
        let life = tables.reserve(1, 500_000).unwrap();
        let preparation = &Preparation::new(&tables, 1, 1, life);
        let helped: Vec<Part> = std::thread::scope(|scope| {
            let help = || (0..10).map(|_| preparation.help(&tables)).collect::<Vec<_>>();
            let helpers: Vec<_> = (0..3).map(|_| scope.spawn(help)).collect();
            helpers.into_iter().flat_map(|helper| helper.join().unwrap()).collect()
        });
        let count = |of: Part| helped.iter().filter(|part| **part == of).count();
        // 32 MB in huge pages of 2 MiB.
        assert_eq!((count(Part::Done), count(Part::Last { ready: true }), count(Part::NoneLeft)), (15, 1, 14));
    }
}
