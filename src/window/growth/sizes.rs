//! The sizes of tables: from the one that a window starts with to the largest that its budget
//! allows. Pure.

#![allow(
    clippy::cast_possible_truncation,
    reason = "sizes that memory can have were checked as such, exponents are few"
)]

use crate::memory::LINE_BYTES;
use crate::window::bits::slot::SLOTS;

/// The share of slots that live ids take at the rated capacity: 21.2 bytes per id, and two ids in
/// ten million lost before their time. With less room checks are slower, with more no faster
/// (`cargo bench -p hapax-bench --bench room`).
pub(crate) const RATED_LOAD: f64 = 0.378;

/// The fewest buckets of a table: the fewer buckets, the shorter the stall in which a bucket's
/// versions can wrap (see `slot`).
const BUCKETS_MIN: usize = 1024;

/// The number of buckets for a million live ids.
const BUCKETS_UNASKED: usize = 330_688;

/// The most sizes: as many as there are pairs of indices, so that another table of a size can be
/// started while one of that size expires.
pub const SIZES_MAX: usize = crate::window::table_set::roster::INDICES / 2;

/// The largest ratio of a size to the one before, if that is possible with this few of them: each
/// table is looked at as long as something in it is live …
const RATIO_MAX: f64 = 3.0;

/// … and if it is not, of so many of the last sizes: a step from a small table takes little memory
/// anyway.
const LAST_STEPS: usize = 4;

/// The numbers of buckets that a window's tables can have.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes(Vec<usize>);

/// Returns the number of buckets for a number of live ids.
pub fn buckets_for(capacity: usize) -> Option<usize> {
    let buckets = (capacity as f64 / (SLOTS as f64 * RATED_LOAD)).ceil();
    // Beyond 2^53 an f64 no longer counts; no machine has that much memory.
    (buckets < (1_u64 << 53) as f64).then(|| (buckets as usize).next_multiple_of(2).max(BUCKETS_MIN))
}

/// Returns the number of buckets to begin with by default: for a million live ids, or as many as a
/// budget has room for.
pub(crate) fn buckets_unasked(budget_bytes: Option<usize>) -> usize {
    let room = budget_bytes.map_or(usize::MAX, |bytes| bytes / LINE_BYTES) & !1;
    room.clamp(BUCKETS_MIN, BUCKETS_UNASKED)
}

/// Returns the number of live ids at the rated load.
pub fn capacity_of(buckets: usize) -> f64 {
    buckets as f64 * SLOTS as f64 * RATED_LOAD
}

impl Sizes {
    /// Chooses sizes from a first table on, in steps of equal ratio if that is small enough, so
    /// that one table of each size is within the budget: a window that grows all the way within its
    /// own length needs all of them at once.
    pub fn new(first_buckets: usize, budget_bytes: usize) -> Self {
        let budget_buckets = (budget_bytes / LINE_BYTES) as f64;
        let first = first_buckets as f64;
        // A size after this many steps, and all up to it together, in first tables.
        let grown = |ratio: f64, step: usize, steps: usize| {
            let early = step.min(steps.saturating_sub(LAST_STEPS));
            ratio.powi(early as i32) * ratio.min(RATIO_MAX).powi((step - early) as i32)
        };
        let sum = |ratio: f64, steps: usize| (0..=steps).map(|i| grown(ratio, i, steps)).sum::<f64>();
        let room = budget_buckets / first;
        let steps = (1..SIZES_MAX).find(|&steps| sum(RATIO_MAX, steps) >= room).unwrap_or(SIZES_MAX - 1);
        let (mut low, mut high) = (1.0, room.max(1.0));
        for _ in 0..100 {
            let ratio = f64::midpoint(low, high);
            if sum(ratio, steps) <= room { low = ratio } else { high = ratio }
        }
        let is_worth_it = low >= 1.25;
        let larger = (1..=steps).filter(|_| is_worth_it).map(|i| (first * grown(low, i, steps)) as usize & !1);
        Sizes(std::iter::once(first_buckets).chain(larger).collect())
    }

    /// Returns the buckets of one of the sizes.
    pub fn buckets(&self, size: usize) -> usize {
        self.0[size]
    }

    /// Returns the number of sizes.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the smallest size for this many live ids; the largest if none suffices.
    pub fn for_live(&self, live: f64) -> usize {
        let smaller = self.0.partition_point(|&buckets| capacity_of(buckets) < live);
        smaller.min(self.count() - 1)
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_million_ids_in_a_gibibyte() {
        let sizes = Sizes::new(buckets_for(1_000_000).unwrap(), 1 << 30);
        let capacities: Vec<_> = sizes.0.iter().map(|&buckets| (capacity_of(buckets) / 1e6).round()).collect();
        assert_eq!(capacities, [1.0, 2.0, 5.0, 13.0, 29.0]);
        assert_eq!(buckets_for(1_000_000), Some(BUCKETS_UNASKED));
        assert_eq!([None, Some(1 << 20), Some(1)].map(buckets_unasked), [BUCKETS_UNASKED, 1 << 14, BUCKETS_MIN]);
        assert_eq!((sizes.for_live(1e3), sizes.for_live(1.1e6), sizes.for_live(1e9)), (0, 1, 4));
    }

    #[test]
    fn the_last_steps_are_no_larger_than_threefold() {
        for (capacity, budget) in [(1_000, 4_usize << 30), (1, 1 << 40), (65_536, 4 << 30)] {
            let sizes = Sizes::new(buckets_for(capacity).unwrap(), budget);
            assert_eq!(sizes.count(), SIZES_MAX);
            let ratios: Vec<_> = sizes.0.windows(2).map(|pair| pair[1] as f64 / pair[0] as f64).collect();
            assert!(ratios[SIZES_MAX - 1 - LAST_STEPS..].iter().all(|ratio| *ratio < 3.01), "{ratios:?}");
            assert!(ratios.windows(2).all(|pair| pair[1] < pair[0] + 0.01), "{ratios:?}");
        }
    }

    proptest! {
        #[test]
        fn one_table_of_each_size_fits_and_few_sizes_use_most_of_it(
            capacity in 1..100_000_000_usize, budget in 0..1_usize << 44
        ) {
            let first = buckets_for(capacity).unwrap();
            let sizes = Sizes::new(first, budget);
            prop_assert_eq!(sizes.buckets(0), first);
            prop_assert!(sizes.count() <= SIZES_MAX);
            prop_assert!(sizes.0.iter().all(|buckets| buckets.is_multiple_of(2)));
            prop_assert!(sizes.0.windows(2).all(|pair| pair[0] < pair[1]));
            let sum: usize = sizes.0.iter().map(|buckets| buckets * LINE_BYTES).sum();
            prop_assert!(sizes.count() == 1 || sum <= budget, "{:?} take {}", sizes, sum);
            if sizes.count() > 1 {
                prop_assert!(sum as f64 > 0.99 * budget as f64, "{:?} take {}", sizes, sum);
            } else {
                prop_assert!((budget as f64) < 2.26 * (first * LINE_BYTES) as f64);
            }
        }
    }
}
