//! The tables that a window has, in one word: so a caller sees all of them at one moment, and sees
//! whether that has changed. Pure.
//!
//! ```text
//!  63        44 43                              4 3    0
//! | starts 20  | indices 10 x 4, newest lowest    | len 4 |
//! ```
//!
//! An index is the place of a table; `starts` counts the tables that were started, modulo 2^20.
//! Tables are started as the newest and retired as the oldest, so `starts` tells which of them are
//! newer than any moment. A caller that stalls while exactly 2^20 tables, about a million, are
//! started could be fooled.

#![allow(clippy::cast_possible_truncation, reason = "bits are cut out of words")]

/// The number of places for tables.
pub(crate) const INDICES: usize = 1 << INDEX_BITS;

const INDEX_BITS: u32 = 4;
const INDICES_SHIFT: u32 = 4;
const STARTS_SHIFT: u32 = 44;
const LEN_MASK: u64 = (1 << INDICES_SHIFT) - 1;
const INDICES_MASK: u64 = (1 << (STARTS_SHIFT - INDICES_SHIFT)) - 1;
const STARTS_MASK: u64 = (1 << (64 - STARTS_SHIFT)) - 1;

/// The tables that there are, from the newest to the oldest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Roster(pub(crate) u64);

impl Roster {
    /// The most tables that a roster names.
    pub(crate) const LEN_MAX: usize = ((STARTS_SHIFT - INDICES_SHIFT) / INDEX_BITS) as usize;

    /// Returns a roster of the first table.
    pub(crate) fn first(index: usize) -> Self {
        Roster((index as u64) << INDICES_SHIFT | 1)
    }

    #[inline(always)]
    pub(crate) fn newest(self) -> usize {
        (self.0 >> INDICES_SHIFT) as usize % INDICES
    }

    /// Returns true if the table at index 0 is the only one. (One byte says so.)
    #[inline(always)]
    pub(crate) fn is_first_alone(self) -> bool {
        self.0 as u8 == 1
    }

    #[inline(always)]
    pub(crate) fn is_single(self) -> bool {
        self.len() == 1
    }

    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        (self.0 & LEN_MASK) as usize
    }

    /// Returns the indices of all tables, the newest first.
    pub(crate) fn indices(self) -> impl DoubleEndedIterator<Item = usize> {
        let index = move |i| (self.0 >> (INDICES_SHIFT + INDEX_BITS * i)) as usize % INDICES;
        (0..self.len() as u32).map(index)
    }

    pub(crate) fn oldest(self) -> usize {
        self.indices().next_back().unwrap_or_else(|| self.newest())
    }

    /// Returns the number of tables, from the newest on, that were started after `earlier` was
    /// read.
    pub(crate) fn started_since(self, earlier: Self) -> usize {
        let starts = (self.0 >> STARTS_SHIFT).wrapping_sub(earlier.0 >> STARTS_SHIFT) & STARTS_MASK;
        self.len().min(starts as usize)
    }

    /// Returns the roster with one more table, unless there is no room for it, or it is there.
    pub(crate) fn started(self, index: usize) -> Option<Self> {
        debug_assert!(index < INDICES);
        let has_room = self.len() < Self::LEN_MAX && self.indices().all(|other| other != index);
        let starts = ((self.0 >> STARTS_SHIFT) + 1) & STARTS_MASK;
        let indices = (self.0 >> INDICES_SHIFT << INDEX_BITS | index as u64) & INDICES_MASK;
        let next = starts << STARTS_SHIFT | indices << INDICES_SHIFT | (self.len() as u64 + 1);
        has_room.then_some(Roster(next))
    }

    /// Returns the roster without the oldest table, unless it is the only one.
    pub(crate) fn without_oldest(self) -> Option<Self> {
        let len = self.len() as u32 - 1;
        let indices = self.0 >> INDICES_SHIFT & ((1 << (INDEX_BITS * len)) - 1);
        let starts = self.0 >> STARTS_SHIFT;
        (len > 0).then_some(Roster(starts << STARTS_SHIFT | indices << INDICES_SHIFT | u64::from(len)))
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn a_roster_is_a_queue(steps in proptest::collection::vec(proptest::option::of(0..INDICES), 0..200)) {
            let mut roster = Roster::first(3);
            let mut model = VecDeque::from([3]);
            let (mut rosters, mut starts) = (vec![roster], vec![0_usize]);
            for step in steps {
                let next = match step {
                    Some(index) => {
                        let room = model.len() < Roster::LEN_MAX && !model.contains(&index);
                        prop_assert_eq!(roster.started(index).is_some(), room);
                        roster.started(index).inspect(|_| model.push_front(index))
                    }
                    None => {
                        prop_assert_eq!(roster.without_oldest().is_some(), model.len() > 1);
                        roster.without_oldest().inspect(|_| { model.pop_back(); })
                    }
                };
                let started = usize::from(step.is_some() && next.is_some());
                roster = next.unwrap_or(roster);
                starts.iter_mut().for_each(|starts| *starts += started);
                rosters.push(roster);
                starts.push(0);
                prop_assert_eq!(roster.indices().collect::<VecDeque<_>>(), model.clone());
                prop_assert_eq!((roster.newest(), roster.oldest()), (model[0], model[model.len() - 1]));
                prop_assert_eq!((roster.len(), roster.is_single()), (model.len(), model.len() == 1));
                prop_assert_eq!(roster.is_first_alone(), model == [0]);
                for (earlier, starts) in rosters.iter().zip(&starts) {
                    prop_assert_eq!(roster.started_since(*earlier), model.len().min(*starts));
                }
            }
        }
    }

    #[cfg(not(miri))] // a million steps of arithmetic
    #[test]
    fn starts_wrap() {
        let mut roster = Roster::first(0);
        for i in 0..STARTS_MASK {
            roster = roster.started(1 + i as usize % 2).and_then(Roster::without_oldest).expect("there is room");
        }
        let wrapped = roster.started(5).expect("there is room");
        assert_eq!((wrapped.newest(), wrapped.len(), wrapped.started_since(roster)), (5, 2, 1));
    }
}
