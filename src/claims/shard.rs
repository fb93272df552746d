//! One shard: a map behind a lock, and what checks see of it without the lock.

use super::filter::Filter;
use super::map::Map;
use crate::Timestamp;
use crate::digest::Digest;
use crate::mutation::{Rule, obeys};
use crate::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering, fence, unpoisoned};
use std::time::Duration;

/// A shard, in pairs of cache lines, since some processors fetch lines in pairs.
#[repr(align(128))]
pub(super) struct Shard {
    /// The ids of the map; some that have gone; and, while an attempt is under way, its id. Written
    /// under the lock.
    filter: Filter,
    /// The number of fingerprints. Written under the lock.
    fingerprints: AtomicU64,
    map: Mutex<Map>,
    /// Notified when an entry has gone that a thread waits for.
    gone: Condvar,
}

impl Shard {
    /// Returns a shard whose next token is larger than this one.
    pub(super) fn new(last_token: u64) -> Self {
        let map = Mutex::new(Map::new(last_token));
        Shard { filter: Filter::new(), fingerprints: AtomicU64::new(0), map, gone: Condvar::new() }
    }

    /// Returns true if an id may be claimed, or a check may have to know that it was.
    #[inline(always)]
    pub(super) fn may_have(&self, id: Digest) -> bool {
        self.filter.may_have(id)
    }

    /// Returns true if an id of the shard may have a fingerprint.
    #[inline(always)]
    pub(super) fn has_fingerprints(&self) -> bool {
        // Acquire: partner of the release in `publish`.
        self.fingerprints.load(Ordering::Acquire) != 0
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Map> {
        // Nothing of ours panics under the lock; if a clock or an allocation does, the map is still
        // consistent.
        unpoisoned(self.map.lock())
    }

    /// Announces an attempt for an id, which is about to look at the window, after
    /// [`after_announcing`](Self::after_announcing). Under the lock.
    #[inline(always)]
    pub(super) fn announce(&self, id: Digest) {
        self.filter.add(id);
    }

    #[inline(always)]
    pub(super) fn after_announcing() {
        if obeys(Rule::AnnounceInOrder) {
            // Partner: a check's sequentially consistent insertion and its load of the id's bit
            // after it. If the insertion comes before this fence, we see it; if it comes after, the
            // check sees the announcement.
            fence(Ordering::SeqCst);
        }
    }

    /// Publishes the number of fingerprints that there are now, and now and then which ids. Under
    /// the lock.
    #[inline(always)]
    pub(super) fn publish(&self, map: &Map) {
        let fingerprints = map.fingerprints.len() as u64;
        if self.fingerprints.load(Ordering::Relaxed) != fingerprints {
            // Release: partner of the load in `has_fingerprints`.
            self.fingerprints.store(fingerprints, Ordering::Release);
        }
        if self.filter.is_stale(map.len()) {
            self.filter.renew(map.ids());
        }
        // (Not of many, which would take too long; models look for what comes of it.)
        debug_assert!(cfg!(modelled) || map.len() > 64 || map.ids().all(|id| self.filter.may_have(id)));
    }

    /// Unlocks the shard after an entry has gone, and wakes waiting threads.
    #[inline(always)]
    pub(super) fn unlock(&self, map: MutexGuard<'_, Map>) {
        self.publish(&map);
        let waiting = map.waiting;
        // Before the wake-up, so that woken threads find the lock free.
        drop(map);
        if waiting > 0 {
            self.gone.notify_all();
        }
    }

    /// Waits until an id is not in flight any more, but no longer than `longest`.
    pub(super) fn wait(&self, id: Digest, now: Timestamp, longest: Duration) {
        let mut map = self.lock();
        if map.is_in_progress(id, now) {
            map.waiting += 1;
            // No loop: after a spurious wake-up the caller only looks again.
            let (mut map, _) = unpoisoned(self.gone.wait_timeout(map, longest));
            map.waiting -= 1;
        }
    }
}
