//! `quick_cache`: a cache that evicts by S3-FIFO, in shards with a lock each.

use super::Id;
use super::expiring::{Hasher, Map, Moment, SHARDS_PER_THREAD};
use quick_cache::sync::{Cache, DefaultLifecycle, EntryAction, EntryResult};
use quick_cache::{OptionsBuilder, UnitWeighter};

pub(super) type Accepted<K> = Cache<K, u32, UnitWeighter, Hasher>;

/// Its capacity is no limit here, as an id that is evicted is an id lost: four times what is purged to, in whatever shard it falls.
impl<I: Id + ?Sized> Map<I> for Accepted<I::Owned> {
    const NAME: &'static str = "quick_cache";

    fn new(ids: usize, threads: usize) -> Self {
        let options = OptionsBuilder::new()
            .shards(threads * SHARDS_PER_THREAD)
            .estimated_items_capacity(ids)
            .weight_capacity(4 * ids as u64)
            .ghost_allocation(0.0)
            .build()
            .expect("both capacities are set");
        let cache = Cache::with_options(options, UnitWeighter, Hasher::default(), DefaultLifecycle::default());
        cache.reserve(ids);
        cache
    }

    #[inline(always)]
    fn accept(&self, id: &I, now: Moment) -> bool {
        match self.entry(id, None, |_, accepted| EntryAction::Retain(now.renew(accepted))) {
            EntryResult::Retained(fresh) => fresh,
            EntryResult::Vacant(place) => {
                // Fails only if the place was removed meanwhile, and purges remove entries.
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
