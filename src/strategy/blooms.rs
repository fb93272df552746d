//! Bloom filters of other crates. They do not forget, so they are compared with our history, and never run beyond what they are
//! rated for.

use super::expiring::Hasher;
use super::{Allowance, FALSE_POSITIVE_RATE, Failure, Id, Plan, Strategy};
use crate::Timestamp;
use crate::measure::Sort;
use bloomfilter::Bloom;
use fastbloom::AtomicBloomFilter;
use std::f64::consts::LN_2;
use std::sync::{Mutex, PoisonError};

/// What a filter in that budget may answer, if its number of hash functions is the best one: (1 - e^(-k n / m))^k.
fn allowance(plan: &Plan) -> Allowance {
    let invented = plan.budget_bytes.map_or(FALSE_POSITIVE_RATE, |bytes| {
        let bits_an_id = 8.0 * bytes as f64 / plan.live as f64;
        let hashes = (bits_an_id * LN_2).round().max(1.0);
        (1.0 - (-hashes / bits_an_id).exp()).powf(hashes)
    });
    Allowance { invented, ..Allowance::NONE }
}

/// A budget as a size; that of nothing is no filter.
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
                AtomicBloomFilter::with_num_bits(8 * size_in(bytes)?).hasher(hasher).expected_items(plan.live)
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

/// Not concurrent: behind a lock, and with SipHash, which it brings along.
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
            Some(bytes) => Bloom::new(size_in(bytes)?, plan.live)?,
        };
        // Its memory is only promised so far, and it is filled from empty: no page is to be fetched while the clock runs.
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
