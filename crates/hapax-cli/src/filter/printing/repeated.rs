//! Counts the ids that are repeated most often, in bounded memory. Pure.

use std::collections::HashMap;

/// The most ids that are kept when memory is full.
const KEPT: usize = 50_000;

/// The most ids that are counted at a time. Up to there every count is exact.
pub const COUNTED_MAX: usize = 2 * KEPT;

/// The most bytes that these ids have together.
const BYTES_MAX: usize = 16 << 20;

/// Counts of repetitions by id.
///
/// It is Space-Saving (Metwally and others, 2005), except that room is made for many ids at a time:
/// of the ids that are dropped then, none was repeated more than `floor` times. An id that is not
/// here may be one of them, so it comes back with that much as its error.
pub struct Repeated {
    counts: HashMap<Box<[u8]>, Count>,
    bytes: usize,
    floor: u64,
    kept: usize,
    bytes_max: usize,
}

/// The number of times that an id was repeated, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Count {
    pub at_most: u64,
    pub at_least: u64,
}

impl Repeated {
    pub fn new() -> Self {
        Self::with_limits(KEPT, BYTES_MAX)
    }

    /// Creates counts that keep this many ids when there are twice as many, or when they have this
    /// many bytes.
    fn with_limits(kept: usize, bytes_max: usize) -> Self {
        Repeated { counts: HashMap::new(), bytes: 0, floor: 0, kept, bytes_max }
    }

    /// Counts one repetition of an id.
    pub fn add(&mut self, id: &[u8]) {
        if let Some(count) = self.counts.get_mut(id) {
            count.at_most += 1;
            count.at_least += 1;
            return;
        }
        self.counts.insert(id.into(), Count { at_most: self.floor + 1, at_least: 1 });
        self.bytes += id.len();
        if self.counts.len() > 2 * self.kept || self.bytes > self.bytes_max {
            self.make_room();
        }
    }

    /// Keeps the ids with the largest counts, in half of the memory. One that takes more than is
    /// left of that is dropped, and smaller ones behind it may stay.
    fn make_room(&mut self) {
        let all = self.take_sorted();
        self.bytes = 0;
        for (id, count) in all {
            if self.counts.len() < self.kept && self.bytes + id.len() <= self.bytes_max / 2 {
                self.bytes += id.len();
                self.counts.insert(id, count);
            } else {
                self.floor = self.floor.max(count.at_most);
            }
        }
    }

    fn take_sorted(&mut self) -> Vec<(Box<[u8]>, Count)> {
        let mut all: Vec<_> = self.counts.drain().collect();
        all.sort_unstable_by(|(one, a), (other, b)| b.at_most.cmp(&a.at_most).then_with(|| one.cmp(other)));
        all
    }

    /// Returns the most often that an id can have been repeated which is not counted here: zero if
    /// all are, and all counts are exact.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// Returns the ids and their counts, the largest first.
    pub fn into_sorted(mut self) -> Vec<(Box<[u8]>, Count)> {
        self.take_sorted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::random::Random;

    /// Adds ids, and compares with exact counts.
    fn check(mut repeated: Repeated, ids: impl Iterator<Item = Vec<u8>>) -> (u64, usize) {
        let mut exact: HashMap<Vec<u8>, u64> = HashMap::new();
        let (kept, bytes_max) = (repeated.kept, repeated.bytes_max);
        for id in ids {
            repeated.add(&id);
            *exact.entry(id).or_default() += 1;
            assert!(repeated.counts.len() <= 2 * kept && repeated.bytes <= bytes_max, "memory is bounded");
            assert_eq!(repeated.bytes, repeated.counts.keys().map(|id| id.len()).sum::<usize>());
        }
        let floor = repeated.floor();
        let sorted = repeated.into_sorted();
        assert!(sorted.is_sorted_by(|(_, a), (_, b)| a.at_most >= b.at_most));
        let listed: HashMap<_, _> = sorted.iter().map(|(id, count)| (id.to_vec(), *count)).collect();
        for (id, times) in &exact {
            match listed.get(id) {
                Some(count) => assert!(count.at_least <= *times && *times <= count.at_most, "{times} {count:?}"),
                None => assert!(*times <= floor, "{times} is more than {floor}, and not listed"),
            }
            if floor == 0 {
                let count = Count { at_most: *times, at_least: *times };
                assert_eq!(listed.get(id), Some(&count));
            }
        }
        assert!(listed.keys().all(|id| exact.contains_key(id)));
        (floor, listed.len())
    }

    #[test]
    fn counts_are_exact_up_to_a_number_of_ids_and_bounds_beyond() {
        for seed in 1..=40 {
            println!("seed {seed}");
            let mut random = Random(seed);
            let (kept, of) = (random.within(1, 20) as usize, random.within(1, 200));
            let skewed = random.percent(50);
            let ids = (0..1_500).map(|_| {
                let id = random.below(of);
                (if skewed { random.below(id + 1) } else { id }).to_string().into_bytes()
            });
            let ids: Vec<_> = ids.collect();
            let (floor, _) = check(Repeated::with_limits(kept, 1 << 20), ids.into_iter());
            assert!(floor == 0 || of > 2 * kept as u64, "up to {} ids it is exact", 2 * kept);
        }
    }

    #[test]
    fn long_ids_take_no_more_memory() {
        let mut random = Random(5);
        let ids: Vec<_> = (0..1_000).map(|_| vec![b'x'; random.within(1, 120) as usize]).collect();
        assert!(check(Repeated::with_limits(1_000, 600), ids.into_iter()).0 > 0);
        // One that has no room at all is dropped, and the others stay.
        let ids = [vec![b'x'; 10], vec![b'y'; 700], vec![b'x'; 10]];
        assert_eq!(check(Repeated::with_limits(1_000, 600), ids.into_iter()), (1, 1));
    }

    #[test]
    fn what_is_frequent_is_always_listed() {
        let ids = (0..20_000_u64).map(|i| if i % 4 == 0 { b"hot".to_vec() } else { i.to_string().into_bytes() });
        let mut repeated = Repeated::with_limits(50, 1 << 20);
        ids.for_each(|id| repeated.add(&id));
        let (floor, sorted) = (repeated.floor(), repeated.into_sorted());
        assert!(floor < 5_000 && &*sorted[0].0 == b"hot", "{floor} {:?}", sorted[0]);
        assert_eq!(sorted[0].1, Count { at_most: 5_000, at_least: 5_000 });
    }
}
