//! The trigger of the management of a window's tables: callers note what may mean that there is
//! something to do, and when there is enough of it, one of them does it.

use crate::sync::{Ordering, StdAtomicU64};
use std::sync::OnceLock;

/// Fires when more entries are displaced than in a table that is not full, and when it is time for
/// something that was put off.
pub(crate) struct GrowthTrigger {
    displaced: StdAtomicU64,
    /// The distance of counted buckets: displacements count in one of this many buckets.
    sample: StdAtomicU64,
    /// The number of displacements in the sample of buckets at which it fires …
    displaced_max: StdAtomicU64,
    /// … and the tick from which on it fires.
    due: StdAtomicU64,
    handler: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl GrowthTrigger {
    /// Returns the distance of the buckets, a power of two, in which displacements are counted in a
    /// table of this many buckets: small enough to count often, and large enough that callers do
    /// not all compete for the counter. In a small table, where few are displaced before it is
    /// full, more buckets count.
    pub(crate) fn sample(buckets: usize) -> usize {
        if buckets < 1 << 15 { 4 } else { 16 }
    }

    pub(crate) fn new() -> Self {
        let never = || StdAtomicU64::new(u64::MAX);
        let zero = || StdAtomicU64::new(0);
        GrowthTrigger {
            displaced: zero(),
            sample: zero(),
            displaced_max: never(),
            due: never(),
            handler: OnceLock::new(),
        }
    }

    /// Sets the function that is called from now on when it fires.
    pub(crate) fn connect(&self, handler: impl Fn() + Send + Sync + 'static) {
        let _ = self.handler.set(Box::new(handler));
    }

    /// Sets when to fire next.
    pub(crate) fn set(&self, sample: usize, displaced_max: u64, due: u64) {
        debug_assert!(sample.is_power_of_two());
        self.displaced.store(0, Ordering::Relaxed);
        self.sample.store(sample as u64, Ordering::Relaxed);
        self.displaced_max.store(displaced_max, Ordering::Relaxed);
        self.due.store(due, Ordering::Relaxed);
    }

    /// Returns true if as many again were displaced since it fired.
    pub(crate) fn is_urgent(&self) -> bool {
        let displaced = self.displaced.load(Ordering::Relaxed);
        displaced >= self.displaced_max.load(Ordering::Relaxed).saturating_mul(2)
    }

    /// Notes that the agreed time has advanced to a tick.
    #[inline(always)]
    pub(crate) fn note_time(&self, now: u64) {
        if now >= self.due.load(Ordering::Relaxed) {
            self.fire();
        }
    }

    /// Notes that an entry that must be kept was displaced in a bucket.
    pub(crate) fn note_displaced(&self, bucket: usize) {
        // (Before the first `set` the mask has all bits, so that only bucket 0 counts.)
        if bucket as u64 & (self.sample.load(Ordering::Relaxed).wrapping_sub(1)) == 0 {
            let displaced = self.displaced.fetch_add(1, Ordering::Relaxed);
            if displaced >= self.displaced_max.load(Ordering::Relaxed) {
                self.fire();
            }
        }
    }

    #[cold]
    fn fire(&self) {
        if let Some(handler) = self.handler.get() {
            handler();
        }
    }
}
