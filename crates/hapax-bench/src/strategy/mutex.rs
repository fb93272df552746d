//! `Mutex<HashMap>`: the first solution that one would write.

use super::expiring::{Hasher, Map, Moment, names};
use super::{Failure, Id, Plan};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

pub(super) type Entries<K> = HashMap<K, u32, Hasher>;
pub(super) type Accepted<K> = Mutex<Entries<K>>;

impl<I: Id + ?Sized> Map<I> for Accepted<I::Key> {
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

/// Accepts an id in a table under a lock.
#[inline(always)]
pub(super) fn accept<K: std::hash::Hash + Eq>(map: &mut Entries<K>, id: K, now: Moment) -> bool {
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
