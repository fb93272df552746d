//! `moka`: a cache that expires entries by itself, on its own clock.

use super::expiring::Hasher;
use super::{Allowance, Failure, Id, Plan, Sort, Strategy};
use hapax::Timestamp;
use moka::ops::compute::{CompResult, Op};
use moka::sync::Cache;

/// The only strategy that cannot be given the time of the stream: its clock is private, and an
/// `Expiry` is told times instead of telling them. So a window takes real time here, by which ids
/// come ([`Strategy::OWN_CLOCK`]).
///
/// It does all of its upkeep in calls, and has no thread that would work between them.
pub struct Moka<K>(Cache<K, (), Hasher>);

impl<I: Id + ?Sized> Strategy<I> for Moka<I::Owned> {
    const NAME: &'static str = "moka";
    const SORT: Sort = Sort::Window;
    const EXPIRES: bool = false;
    const OWN_CLOCK: bool = true;

    fn new(plan: &Plan) -> Result<Self, Failure> {
        let cache = Cache::builder().initial_capacity(plan.live).time_to_live(plan.window);
        Ok(Moka(cache.build_with_hasher(Hasher::default())))
    }

    /// Accepts an id that is absent, in one atomic step: the quickest one for new ids.
    /// (`or_insert_with` takes half as long again for those, and less for duplicates; `or_insert`
    /// may tell several callers that an entry is theirs.)
    #[inline(always)]
    fn check(&self, id: &I, _now: Timestamp) -> bool {
        let seen = self.0.entry_by_ref(id).and_compute_with(|known| match known {
            Some(_) => Op::Nop,
            None => Op::Put(()),
        });
        matches!(seen, CompResult::Inserted(_))
    }

    fn allowance(_plan: &Plan) -> Allowance {
        Allowance { missed: 1.0, ..Allowance::NONE }
    }

    fn held(&self) -> Option<u64> {
        self.0.run_pending_tasks(); // without which it may be far behind
        Some(self.0.entry_count())
    }
}
