//! Standard hash tables in shards, with a lock of `parking_lot` each: the second solution that one
//! would write.

use super::expiring::{Hasher, Map, Moment, SHARDS_PER_THREAD, names};
use super::mutex::{Entries, accept};
use super::{Failure, Id, Plan};
use parking_lot::Mutex;
use std::hash::BuildHasher;

pub(super) struct Accepted<K> {
    shards: Box<[Shard<K>]>,
    /// Not the tables' hash function: an id's shard must tell nothing of its place in the table.
    hasher: Hasher,
}

/// A shard, alone in its cache lines.
#[repr(align(128))]
struct Shard<K>(Mutex<Entries<K>>);

impl<I: Id + ?Sized> Map<I> for Accepted<I::Key> {
    const NAMES: [&'static str; 2] = names!("parking_lot shards");
    const NAMES_OF_DIGESTS: [&'static str; 2] = names!("parking_lot shards of digests");

    fn new(ids: usize, plan: &Plan) -> Result<Self, Failure> {
        let shards = (plan.threads * SHARDS_PER_THREAD).next_power_of_two();
        let table = || Entries::with_capacity_and_hasher(ids.div_ceil(shards), Hasher::default());
        let shards = (0..shards).map(|_| Shard(Mutex::new(table()))).collect();
        Ok(Accepted { shards, hasher: Hasher::default() })
    }

    #[inline(always)]
    fn accept(&self, id: &I, now: Moment) -> bool {
        let hash = self.hasher.hash_one(id);
        let shard = &self.shards[hash as usize & (self.shards.len() - 1)];
        accept(&mut shard.0.lock(), id.key(), now)
    }

    fn purge(&self, now: Moment) {
        self.shards.iter().for_each(|shard| shard.0.lock().retain(|_, accepted| now.is_live(*accepted)));
    }
}
