//! One shard: a map behind a lock, and a word from which checks see, without the lock, whether the
//! map concerns them.

use super::done::DoneIds;
use super::map::Map;
use crate::Timestamp;
use crate::digest::Digest;
use crate::rules::{Rule, obeys};
use crate::sync::{AtomicU64, Condvar, Mutex, MutexGuard, Ordering, fence, unpoisoned};
use std::time::Duration;

/// A shard, in two cache lines, since some processors fetch lines in pairs.
#[repr(align(128))]
pub(super) struct Shard {
    /// The number of entries that the map has; or more, while an attempt is under way. Above them,
    /// times [`FINGERPRINT`]: the number of fingerprints. Written under the lock.
    announced: AtomicU64,
    map: Mutex<Map>,
    /// Notified when an entry has gone that a thread waits for.
    gone: Condvar,
}

/// One fingerprint in the shard's word; the lower half counts entries of the map.
const FINGERPRINT: u64 = 1 << 32;

/// Returns true if a shard's word counts entries of its map.
#[inline(always)]
fn holds_claims(announced: u64) -> bool {
    !announced.is_multiple_of(FINGERPRINT)
}

impl Shard {
    /// Returns a shard whose next token is larger than this one.
    pub(super) fn new(last_token: u64) -> Self {
        Shard { announced: AtomicU64::new(0), map: Mutex::new(Map::new(last_token)), gone: Condvar::new() }
    }

    /// Returns true if an id of the shard may be claimed.
    #[inline(always)]
    pub(super) fn may_hold_claims(&self) -> bool {
        holds_claims(self.announced())
    }

    /// Returns true if a check that has asked the window has to look at the shard: an id of it may
    /// be claimed, or have a fingerprint that is to be extended, since the window slides, or to be
    /// removed, since the id was forgotten before its time and is accepted again.
    #[inline(always)]
    pub(super) fn concerns(&self, inserted: bool, done: &impl DoneIds) -> bool {
        let announced = self.announced();
        holds_claims(announced) || (announced != 0 && (done.slides() || (inserted && done.forgets_early())))
    }

    #[inline(always)]
    fn announced(&self) -> u64 {
        // Sequentially consistent: partner of the fence in `after_announcing`. This load sees a
        // claim that has looked too early to see our insertion. It also sees a claim for which
        // another check is about to take back the insertion that we found.
        self.announced.load(Ordering::SeqCst)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Map> {
        // Nothing of ours panics under the lock; if a clock or an allocation does, the map is still
        // consistent.
        unpoisoned(self.map.lock())
    }

    /// Announces attempts that are about to look at the window, after
    /// [`after_announcing`](Self::after_announcing). Under the lock.
    #[inline(always)]
    pub(super) fn announce(&self, attempts: u64) {
        let announced = self.announced.load(Ordering::Relaxed);
        self.announced.store(announced + attempts, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn after_announcing() {
        if obeys(Rule::AnnounceInOrder) {
            // Partner: a check's sequentially consistent insertion and its load of `announced`
            // after it. If the insertion comes before this fence, we see it; if it comes after, the
            // check sees the announcement.
            fence(Ordering::SeqCst);
        }
    }

    /// Publishes the number of entries and fingerprints that there are now. Under the lock.
    #[inline(always)]
    pub(super) fn publish(&self, map: &Map) {
        let announced = map.len() as u64 + map.fingerprints.len() as u64 * FINGERPRINT;
        if self.announced.load(Ordering::Relaxed) != announced {
            // Release: partner of the load in `confirm`. A thread that sees that an entry is gone
            // also sees what became of its id.
            self.announced.store(announced, Ordering::Release);
        }
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
