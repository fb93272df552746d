//! Bloom filters of other crates. They do not forget, so they are compared with our history, and never run beyond what they are
//! rated for.

use super::expiring::Hasher;
use super::{Allowance, FALSE_POSITIVE_RATE, Failure, Id, Plan, Strategy};
use crate::Timestamp;
use crate::measure::Sort;
use bloomfilter::Bloom;
use fastbloom::AtomicBloomFilter;
use std::sync::{Mutex, PoisonError};

/// What all filters may answer.
const ALLOWANCE: Allowance = Allowance { invented: FALSE_POSITIVE_RATE, ..Allowance::NONE };

pub(super) type Fast = AtomicBloomFilter<Hasher>;

impl<I: Id + ?Sized> Strategy<I> for Fast {
    const NAME: &'static str = "fastbloom";
    const SORT: Sort = Sort::Filter;
    const EXPIRES: bool = false;

    fn new(plan: &Plan) -> Result<Self, Failure> {
        let builder = AtomicBloomFilter::with_false_pos(FALSE_POSITIVE_RATE).hasher(Hasher::default());
        Ok(builder.expected_items(plan.live))
    }

    #[inline(always)]
    fn check(&self, id: &I, _now: Timestamp) -> bool {
        !self.insert(id)
    }

    fn allowance() -> Allowance {
        ALLOWANCE
    }
}

/// Not concurrent: behind a lock, and with SipHash, which it brings along.
pub(super) type Locked<I> = Mutex<Bloom<I>>;

impl<I: Id + ?Sized> Strategy<I> for Locked<I> {
    const NAME: &'static str = "Mutex<bloomfilter>";
    const SORT: Sort = Sort::Filter;
    const BATCHES: bool = true;
    const EXPIRES: bool = false;

    fn new(plan: &Plan) -> Result<Self, Failure> {
        let mut filter = Bloom::new_for_fp_rate(plan.live, FALSE_POSITIVE_RATE).expect("the system has randomness");
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

    fn allowance() -> Allowance {
        ALLOWANCE
    }
}
