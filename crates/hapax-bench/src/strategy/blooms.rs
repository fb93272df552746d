//! A Bloom filter of another crate. It does not forget, so it is compared with our history, and
//! never runs beyond its rated number of ids.

use super::expiring::Hasher;
use super::{Allowance, FALSE_POSITIVE_RATE, Failure, Id, Plan, Sort, Strategy};
use fastbloom::AtomicBloomFilter;
use hapax::Timestamp;

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
        Allowance { invented: FALSE_POSITIVE_RATE, ..Allowance::NONE }
    }
}
