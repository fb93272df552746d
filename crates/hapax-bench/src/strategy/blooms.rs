//! Bloom filters of other crates. They do not forget, so they are compared with our history, and
//! never run beyond their rated number of ids.

use super::expiring::Hasher;
use super::{Allowance, FALSE_POSITIVE_RATE, Failure, Id, Plan, Sort, Strategy};
use bloomfilter::Bloom;
use fastbloom::AtomicBloomFilter;
use hapax::Timestamp;
use std::sync::{Mutex, PoisonError};

const ALLOWANCE: Allowance = Allowance { missed: 0.0, invented: FALSE_POSITIVE_RATE };

pub(super) type Fast = AtomicBloomFilter<Hasher>;

impl<I: Id + ?Sized> Strategy<I> for Fast {
    const NAME: &'static str = "fastbloom";
    const SORT: Sort = Sort::Filter;
    const EXPIRES: bool = false;

    fn new(plan: &Plan) -> Result<Self, Failure> {
        let filter = AtomicBloomFilter::with_false_pos(FALSE_POSITIVE_RATE).hasher(Hasher::default());
        Ok(filter.expected_items(plan.live))
    }

    #[inline(always)]
    fn check(&self, id: &I, _now: Timestamp) -> bool {
        !self.insert(id)
    }

    fn allowance(_plan: &Plan) -> Allowance {
        ALLOWANCE
    }
}

/// A filter that is not concurrent: behind a lock, and with SipHash, its default.
pub(super) type Locked<I> = Mutex<Bloom<I>>;

impl<I: Id + ?Sized> Strategy<I> for Locked<I> {
    const NAME: &'static str = "Mutex<bloomfilter>";
    const SORT: Sort = Sort::Filter;
    const EXPIRES: bool = false;

    fn new(plan: &Plan) -> Result<Self, Failure> {
        let mut filter = Bloom::new_for_fp_rate(plan.live, FALSE_POSITIVE_RATE)?;
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

    fn allowance(_plan: &Plan) -> Allowance {
        ALLOWANCE
    }
}
