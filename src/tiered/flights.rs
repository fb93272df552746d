//! Ids that are being asked about, so that those who want to know the same need not ask.

use crate::digest::Digest;
use crate::sync::{Mutex, MutexGuard};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use tokio::sync::oneshot;

/// By id, who else wants to know.
pub(super) struct Flights<A> {
    shards: Box<[Mutex<Shard<A>>]>,
}

type Shard<A> = HashMap<Digest, Vec<oneshot::Sender<Option<A>>>, BuildHasherDefault<Uniform>>;

/// How many locks there are.
const SHARDS: usize = 32;

impl<A> Default for Flights<A> {
    fn default() -> Self {
        Flights { shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }
}

impl<A> Flights<A> {
    /// The shard of an id. (Its map uses other bits of it.)
    fn shard(&self, id: Digest) -> MutexGuard<'_, Shard<A>> {
        let shard = &self.shards[(id.mark >> 32) as usize % SHARDS];
        // Nothing that can panic is done while it is held.
        shard.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Whoever is the first must ask, and [land](Flights::land) the id afterwards. The others are told: `None` means that there is nothing
    /// that they could be told, and they must ask themselves.
    pub(super) fn join(&self, id: Digest) -> Option<oneshot::Receiver<Option<A>>> {
        match self.shard(id).entry(id) {
            std::collections::hash_map::Entry::Vacant(first) => {
                first.insert(Vec::new());
                None
            }
            std::collections::hash_map::Entry::Occupied(mut others) => {
                let (tell, told) = oneshot::channel();
                others.get_mut().push(tell);
                Some(told)
            }
        }
    }

    /// Nobody asks about the id any more. Who wants to know.
    pub(super) fn land(&self, id: Digest) -> Vec<oneshot::Sender<Option<A>>> {
        self.shard(id).remove(&id).unwrap_or_default()
    }
}

/// A digest is as good a hash as any.
#[derive(Default)]
pub(super) struct Uniform(u64);

impl Hasher for Uniform {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, half: u64) {
        self.0 ^= half;
    }
}
