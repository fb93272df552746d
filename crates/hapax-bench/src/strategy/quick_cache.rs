//! `quick_cache`: a cache that forgets by weight. It has room for all ids here, so only purges
//! remove them.

use super::expiring::{Hasher, Map, Moment, SHARDS_PER_THREAD, names};
use super::{Failure, Id, Plan};
use quick_cache::sync::{Cache, DefaultLifecycle, EntryAction, EntryResult};
use quick_cache::{OptionsBuilder, UnitWeighter};

pub(super) type Accepted<K> = Cache<K, u32, UnitWeighter, Hasher, DefaultLifecycle<K, u32>>;

/// The room in each shard, by its share of the ids: none is ever full.
const ROOM: usize = 2;

impl<I: Id + ?Sized> Map<I> for Accepted<I::Owned> {
    const NAMES: [&'static str; 2] = names!("quick_cache");

    fn new(ids: usize, plan: &Plan) -> Result<Self, Failure> {
        let mut options = OptionsBuilder::new();
        options.shards(plan.threads * SHARDS_PER_THREAD).estimated_items_capacity(ids);
        // It need not remember what it has evicted.
        options.weight_capacity((ROOM * ids) as u64).ghost_allocation(0.0);
        Ok(Cache::with_options(options.build()?, UnitWeighter, Hasher::default(), DefaultLifecycle::default()))
    }

    #[inline(always)]
    fn accept(&self, id: &I, now: Moment) -> bool {
        match self.entry(id, None, |_, accepted| EntryAction::Retain(now.renew(accepted))) {
            EntryResult::Retained(is_fresh) => is_fresh,
            EntryResult::Vacant(place) => place.insert(now.stamp()).is_ok(),
            _ => unreachable!("without a timeout an entry is retained or vacant"),
        }
    }

    fn purge(&self, now: Moment) {
        self.retain(|_, accepted| now.is_live(*accepted));
    }
}
