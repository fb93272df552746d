//! Bloom filters of other crates. They do not forget, so they are compared with our history, and
//! never run beyond their rated number of ids.
//!
//! In a budget, all of its bits are theirs, but with no more hash functions than [`ENOUGH`] takes.

use super::expiring::Hasher;
use super::{Allowance, FALSE_POSITIVE_RATE, Failure, Id, Plan, Sort, Strategy};
use bloomfilter::Bloom;
use fastbloom::AtomicBloomFilter;
use hapax::Timestamp;
use std::f64::consts::LN_2;
use std::sync::{Mutex, PoisonError};

/// A rate that no run is long enough to tell from zero. With memory in plenty, the best number of
/// hash functions would only make a filter slow: 133 of them at 24 bytes an id, for one wrong
/// answer of 1e40.
const ENOUGH: f64 = 1e-9;

/// Returns how often a filter answers wrongly: (1 - e^(-k n / m))^k.
fn rate(hashes: u32, bits_an_id: f64) -> f64 {
    (1.0 - (-f64::from(hashes) / bits_an_id).exp()).powf(hashes.into())
}

/// Returns the number of hash functions: the best one, or the least that is good enough.
fn hashes_in(budget_bytes: u64, live: usize) -> u32 {
    let bits_an_id = 8.0 * budget_bytes as f64 / live as f64;
    let best = (bits_an_id * LN_2).round().max(1.0) as u32;
    // Where the best number is just good enough, it is 30; with more bits, fewer are enough.
    (1..best).find(|&hashes| rate(hashes, bits_an_id) <= ENOUGH).unwrap_or(best)
}

fn allowance(plan: &Plan) -> Allowance {
    let invented = plan
        .budget_bytes
        .map_or(FALSE_POSITIVE_RATE, |bytes| rate(hashes_in(bytes, plan.live), 8.0 * bytes as f64 / plan.live as f64));
    Allowance { invented, ..Allowance::NONE }
}

/// Returns a budget as a size; an empty budget is an error, since it holds no filter.
fn size_in(budget_bytes: u64) -> Result<usize, Failure> {
    let bytes = usize::try_from(budget_bytes).ok().filter(|&bytes| bytes > 0 && bytes < usize::MAX / 8);
    bytes.ok_or_else(|| format!("a budget of {budget_bytes} bytes; from 1 to {} are possible", usize::MAX / 8).into())
}

pub(super) type Fast = AtomicBloomFilter<Hasher>;

impl<I: Id + ?Sized> Strategy<I> for Fast {
    const NAME: &'static str = "fastbloom";
    const SORT: Sort = Sort::Filter;
    const TAKES_BUDGET: bool = true;
    const EXPIRES: bool = false;

    fn new(plan: &Plan) -> Result<Self, Failure> {
        let hasher = Hasher::default();
        Ok(match plan.budget_bytes {
            None => AtomicBloomFilter::with_false_pos(FALSE_POSITIVE_RATE).hasher(hasher).expected_items(plan.live),
            Some(bytes) => {
                let hashes = hashes_in(bytes, plan.live);
                AtomicBloomFilter::with_num_bits(8 * size_in(bytes)?).hasher(hasher).hashes(hashes)
            }
        })
    }

    #[inline(always)]
    fn check(&self, id: &I, _now: Timestamp) -> bool {
        !self.insert(id)
    }

    fn allowance(plan: &Plan) -> Allowance {
        allowance(plan)
    }
}

/// A filter that is not concurrent: behind a lock, and with SipHash, its default.
pub(super) type Locked<I> = Mutex<Bloom<I>>;

impl<I: Id + ?Sized> Strategy<I> for Locked<I> {
    const NAME: &'static str = "Mutex<bloomfilter>";
    const SORT: Sort = Sort::Filter;
    const TAKES_BUDGET: bool = true;
    const BATCHES: bool = true;
    const EXPIRES: bool = false;

    fn new(plan: &Plan) -> Result<Self, Failure> {
        let mut filter = match plan.budget_bytes {
            None => Bloom::new_for_fp_rate(plan.live, FALSE_POSITIVE_RATE)?,
            Some(bytes) => {
                let size = size_in(bytes)?;
                // The crate takes no number of hash functions, only the number of ids for which
                // that number is the best.
                let ids = 8.0 * size as f64 * LN_2 / f64::from(hashes_in(bytes, plan.live));
                Bloom::new(size, (ids.round() as usize).max(1))?
            }
        };
        // The allocator has only promised the memory. It is touched now, so that no page is fetched
        // while the clock runs.
        filter.clear();
        Ok(Mutex::new(filter))
    }

    #[inline(always)]
    fn check(&self, id: &I, _now: Timestamp) -> bool {
        !self.lock().unwrap_or_else(PoisonError::into_inner).check_and_set(id)
    }

    /// Takes the lock once.
    #[inline(always)]
    fn check_batch<'a>(&self, ids: impl Iterator<Item = &'a I>, _now: Timestamp, fresh: &mut Vec<bool>) {
        let mut filter = self.lock().unwrap_or_else(PoisonError::into_inner);
        fresh.clear();
        fresh.extend(ids.map(|id| !filter.check_and_set(id)));
    }

    fn allowance(plan: &Plan) -> Allowance {
        allowance(plan)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::Place;
    use std::time::Duration;

    #[test]
    fn hash_functions_are_the_best_number_or_enough() {
        let hashes = |bytes_an_id: u64| hashes_in(bytes_an_id * 10_000, 10_000);
        // 8, 16 and 32 bits an id, times ln 2; beyond that ever fewer are enough.
        assert_eq!([1, 2, 4].map(hashes), [6, 11, 22]);
        assert_eq!([6, 12, 24, 48].map(hashes), [18, 9, 6, 5]);
        assert_eq!(hashes_in(1, 10_000), 1);
        for bytes_an_id in [6, 12, 24, 48] {
            assert!(rate(hashes(bytes_an_id), 8.0 * bytes_an_id as f64) <= ENOUGH);
        }
    }

    #[test]
    fn both_filters_take_that_number() {
        for bytes_an_id in [1, 2, 4, 5, 6, 12, 24, 48] {
            let budget_bytes = Some(bytes_an_id * 10_000);
            let window = Duration::from_secs(100);
            let plan = Plan { window, live: 10_000, threads: 1, budget_bytes, place: Place::Memory };
            let expected = hashes_in(bytes_an_id * 10_000, 10_000);
            let fast = <Fast as Strategy<u64>>::new(&plan).unwrap();
            assert_eq!((fast.num_hashes(), fast.num_bits()), (expected, bytes_an_id as usize * 80_000));
            let locked = <Locked<u64> as Strategy<u64>>::new(&plan).unwrap().into_inner().unwrap();
            assert_eq!((locked.number_of_hash_functions(), locked.len()), (expected, bytes_an_id * 80_000));
        }
    }
}
