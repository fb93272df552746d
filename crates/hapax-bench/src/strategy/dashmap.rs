//! `DashMap`: the standard hash table, in shards with a lock each.

use super::expiring::{Hasher, Map, Moment, SHARDS_PER_THREAD, names};
use super::{Failure, Id, Plan};
use dashmap::{DashMap, Entry};

pub(super) type Accepted<K> = DashMap<K, u32, Hasher>;

impl<I: Id + ?Sized> Map<I> for Accepted<I::Key> {
    const NAMES: [&'static str; 2] = names!("DashMap");
    const NAMES_OF_DIGESTS: [&'static str; 2] = names!("DashMap of digests");

    fn new(ids: usize, plan: &Plan) -> Result<Self, Failure> {
        let shards = (plan.threads * SHARDS_PER_THREAD).next_power_of_two();
        Ok(DashMap::with_capacity_and_hasher_and_shard_amount(ids, Hasher::default(), shards))
    }

    #[inline(always)]
    fn accept(&self, id: &I, now: Moment) -> bool {
        match self.entry(id.key()) {
            Entry::Occupied(mut entry) => now.renew(entry.get_mut()),
            Entry::Vacant(entry) => {
                entry.insert(now.stamp());
                true
            }
        }
    }

    fn purge(&self, now: Moment) {
        self.retain(|_, accepted| now.is_live(*accepted));
    }
}
