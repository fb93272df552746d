//! Sets of the ids of a chunk, by their number in it. Pure.

#![allow(clippy::cast_possible_truncation, reason = "there are 64 ids at most")]

use std::num::NonZeroU64;

/// The most ids that are looked up together: as many as there are bits in a word. This is more than
/// the misses that a core can have under way (measured: 32 are no faster).
pub(crate) const CHUNK: usize = u64::BITS as usize;

/// A set of ids of a chunk, by their number: a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IdSet(u64);

impl IdSet {
    pub(crate) const EMPTY: IdSet = IdSet(0);

    /// Returns the set of the first `n` ids.
    #[inline(always)]
    pub(crate) fn first(n: usize) -> Self {
        debug_assert!(n <= CHUNK);
        // (A shift by all bits is no shift to the processor.)
        IdSet(1_u64.checked_shl(n as u32).unwrap_or(0).wrapping_sub(1))
    }

    /// Adds an id.
    #[inline(always)]
    pub(crate) fn insert(&mut self, i: usize) {
        self.insert_if(i, true);
    }

    /// Adds an id on a condition, without a branch.
    #[inline(always)]
    pub(crate) fn insert_if(&mut self, i: usize, condition: bool) {
        debug_assert!(i < CHUNK);
        self.0 |= u64::from(condition) << i;
    }

    /// Adds those of eight ids that have a bit: those from number `8 * eight` on.
    #[inline(always)]
    pub(crate) fn insert_eight(&mut self, eight: usize, bits: u8) {
        debug_assert!(eight < CHUNK / 8);
        self.0 |= u64::from(bits) << (8 * eight);
    }

    /// Returns all but this id.
    #[inline(always)]
    pub(crate) fn without(self, i: usize) -> Self {
        debug_assert!(i < CHUNK);
        IdSet(self.0 & !(1 << i))
    }

    #[inline(always)]
    pub(crate) fn contains(self, i: usize) -> bool {
        debug_assert!(i < CHUNK);
        self.0 >> i & 1 != 0
    }

    #[inline(always)]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[inline(always)]
    pub(crate) fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    #[inline(always)]
    pub(crate) fn union(self, other: Self) -> Self {
        IdSet(self.0 | other.0)
    }

    #[inline(always)]
    pub(crate) fn intersection(self, other: Self) -> Self {
        IdSet(self.0 & other.0)
    }

    /// Returns the ids that are not in the other set.
    #[inline(always)]
    pub(crate) fn difference(self, other: Self) -> Self {
        IdSet(self.0 & !other.0)
    }

    /// Returns the ids from number `i` on.
    #[inline(always)]
    pub(crate) fn starting_at(self, i: usize) -> Self {
        debug_assert!(i < CHUNK);
        IdSet(self.0 & !0 << i)
    }

    /// Returns the ids that meet a condition, which is asked about each once, in order.
    #[inline(always)]
    pub(crate) fn filter(self, mut condition: impl FnMut(usize) -> bool) -> Self {
        let mut met = IdSet::EMPTY;
        self.iter().for_each(|i| met.insert_if(i, condition(i)));
        met
    }

    /// Returns the ids in order.
    #[inline(always)]
    pub(crate) fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            // (Of a word that is not 0, so that the compiler knows that the number is below 64.)
            let i = NonZeroU64::new(rest)?.trailing_zeros() as usize;
            rest &= rest - 1;
            Some(i)
        })
    }

    /// Returns a byte for each of eight ids, the first in the lowest: 1 for those in the set, else
    /// 0. `few` is how many eights come before them.
    #[inline(always)]
    pub(crate) fn bytes(self, few: usize) -> u64 {
        const BITS: u64 = 0x8040_2010_0804_0201;
        const SEVENS: u64 = 0x7f7f_7f7f_7f7f_7f7f;
        let copies = (self.0 >> (8 * few) & 0xff) * BYTES;
        ((copies & BITS) + SEVENS) >> 7 & BYTES
    }
}

/// A word of eight bytes that are 1.
pub(crate) const BYTES: u64 = 0x0101_0101_0101_0101;

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn model(set: IdSet) -> BTreeSet<usize> {
        set.iter().collect()
    }

    proptest! {
        #[test]
        fn it_is_a_set(a: u64, b: u64, n in 0..=CHUNK, i in 0..CHUNK) {
            let (a, b) = (IdSet(a), IdSet(b));
            let (one, other) = (model(a), model(b));
            prop_assert_eq!((a.len(), a.is_empty()), (one.len(), one.is_empty()));
            prop_assert_eq!(a.contains(i), one.contains(&i));
            prop_assert_eq!(model(a.union(b)), &one | &other);
            prop_assert_eq!(model(a.intersection(b)), &one & &other);
            prop_assert_eq!(model(a.difference(b)), &one - &other);
            prop_assert_eq!(model(IdSet::first(n)), (0..n).collect::<BTreeSet<_>>());
            prop_assert_eq!(model(a.starting_at(i)), one.range(i..).copied().collect::<BTreeSet<_>>());
            prop_assert_eq!(model(a.without(i)), one.iter().copied().filter(|other| *other != i).collect());
            prop_assert_eq!(a.filter(|i| b.contains(i)), a.intersection(b));
            for few in 0..CHUNK / 8 {
                let bytes = a.bytes(few).to_le_bytes();
                prop_assert!((0..8).all(|i| bytes[i] == u8::from(a.contains(8 * few + i))));
            }
            let mut more = a;
            more.insert(i);
            more.insert_if(CHUNK - 1 - i, false);
            prop_assert_eq!(more, a.union(IdSet(1 << i)));
        }
    }
}
