//! `scc::HashMap`: buckets of a few entries with a lock each.

use super::expiring::{Hasher, Map, Moment, names};
use super::{Failure, Id, Plan};
use scc::HashMap;
use scc::hash_map::Entry;

pub(super) type Accepted<K> = HashMap<K, u32, Hasher>;

impl<I: Id + ?Sized> Map<I> for Accepted<I::Key> {
    const NAMES: [&'static str; 2] = names!("scc");
    const NAMES_OF_DIGESTS: [&'static str; 2] = names!("scc of digests");

    fn new(ids: usize, _plan: &Plan) -> Result<Self, Failure> {
        Ok(HashMap::with_capacity_and_hasher(ids, Hasher::default()))
    }

    #[inline(always)]
    fn accept(&self, id: &I, now: Moment) -> bool {
        match self.entry_sync(id.key()) {
            Entry::Occupied(mut entry) => now.renew(entry.get_mut()),
            Entry::Vacant(entry) => {
                entry.insert_entry(now.stamp());
                true
            }
        }
    }

    fn purge(&self, now: Moment) {
        self.retain_sync(|_, accepted| now.is_live(*accepted));
    }
}
