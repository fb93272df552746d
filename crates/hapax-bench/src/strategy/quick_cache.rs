//! `quick_cache`: a cache that evicts by S3-FIFO, in shards with a lock each.

use super::expiring::{Map, Moment, SHARDS_PER_THREAD, names};
use super::{Failure, Id, Plan};
use quick_cache::sync::{Cache, DefaultLifecycle, EntryAction, EntryResult};
use quick_cache::{OptionsBuilder, UnitWeighter};

/// The maps' own hash, finished: a shard is chosen by bits in the middle, and of one process in
/// 900 the unfinished hash put most multiples of 2^24 in one shard, which then evicted live ids.
/// (20,000 seeds, 875 ids, 16 shards: up to 512 ids in one; finished, 89.)
type Hasher = foldhash::quality::RandomState;

pub(super) type Accepted<I> = Cache<<I as ToOwned>::Owned, u32, UnitWeighter, Hasher>;

/// A map that does not evict: its capacity is four times the number that is purged to, in whatever
/// shard an id falls, since an evicted id is a lost id.
impl<I: Id + ?Sized> Map<I> for Accepted<I> {
    const NAMES: [&'static str; 2] = names!("quick_cache");

    fn new(ids: usize, plan: &Plan) -> Result<Self, Failure> {
        let mut options = OptionsBuilder::new();
        options.shards(plan.threads * SHARDS_PER_THREAD).estimated_items_capacity(ids);
        options.weight_capacity(4 * ids as u64).ghost_allocation(0.0);
        let cache = Cache::with_options(options.build()?, UnitWeighter, Hasher::default(), DefaultLifecycle::default());
        cache.reserve(ids);
        Ok(cache)
    }

    #[inline(always)]
    fn accept(&self, id: &I, now: Moment) -> bool {
        match self.entry(id, None, |_, accepted| EntryAction::Retain(now.renew(accepted))) {
            EntryResult::Retained(fresh) => fresh,
            EntryResult::Vacant(place) => {
                // It fails only if the place was removed meanwhile, which only purges do.
                let _ = place.insert(now.stamp());
                true
            }
            _ => unreachable!("no timeout was given, and no entry is removed or replaced"),
        }
    }

    fn purge(&self, now: Moment) {
        self.retain(|_, accepted| now.is_live(*accepted));
    }
}
