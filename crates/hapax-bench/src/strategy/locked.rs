//! Standard hash tables under locks: one, the first solution that one would write; and shards with
//! a lock of `parking_lot` each, the second one.

use super::expiring::{Hasher, Map, Moment, SHARDS_PER_THREAD, names};
use super::{Failure, Id, Plan};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, Hash};
use std::sync::{Mutex, MutexGuard, PoisonError};

type Entries<K> = HashMap<K, u32, Hasher>;
pub(super) type Locked<K> = Mutex<Entries<K>>;

pub(super) struct Shards<K> {
    shards: Box<[Shard<K>]>,
    /// Not the tables' hash function: an id's shard must tell nothing of its place in the table.
    hasher: Hasher,
}

/// A shard, alone in its cache lines.
#[repr(align(128))]
struct Shard<K>(parking_lot::Mutex<Entries<K>>);

impl<I: Id + ?Sized> Map<I> for Locked<I::Key> {
    const NAMES: [&'static str; 2] = names!("Mutex<HashMap>");
    const NAMES_OF_DIGESTS: [&'static str; 2] = names!("Mutex<HashMap> of digests");

    fn new(ids: usize, _plan: &Plan) -> Result<Self, Failure> {
        Ok(Mutex::new(HashMap::with_capacity_and_hasher(ids, Hasher::default())))
    }

    #[inline(always)]
    fn accept(&self, id: &I, now: Moment) -> bool {
        accept(&mut locked(self), id.key(), now)
    }

    /// Takes the lock once.
    #[inline(always)]
    fn accept_batch<'a>(&self, ids: impl Iterator<Item = &'a I>, now: Moment, fresh: &mut Vec<bool>) {
        let mut map = locked(self);
        fresh.extend(ids.map(|id| accept(&mut map, id.key(), now)));
    }

    fn purge(&self, now: Moment) {
        locked(self).retain(|_, accepted| now.is_live(*accepted));
    }
}

impl<I: Id + ?Sized> Map<I> for Shards<I::Key> {
    const NAMES: [&'static str; 2] = names!("parking_lot shards");
    const NAMES_OF_DIGESTS: [&'static str; 2] = names!("parking_lot shards of digests");

    fn new(ids: usize, plan: &Plan) -> Result<Self, Failure> {
        let shards = (plan.threads * SHARDS_PER_THREAD).next_power_of_two();
        let table = || Entries::with_capacity_and_hasher(ids.div_ceil(shards), Hasher::default());
        let shards = (0..shards).map(|_| Shard(parking_lot::Mutex::new(table()))).collect();
        Ok(Shards { shards, hasher: Hasher::default() })
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

/// Accepts an id in a table under a lock.
#[inline(always)]
fn accept<K: Hash + Eq>(map: &mut Entries<K>, id: K, now: Moment) -> bool {
    match map.entry(id) {
        Entry::Occupied(mut entry) => now.renew(entry.get_mut()),
        Entry::Vacant(entry) => {
            entry.insert(now.stamp());
            true
        }
    }
}

#[inline(always)]
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
