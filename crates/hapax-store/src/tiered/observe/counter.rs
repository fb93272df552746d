//! Counters.

use crate::sync::{Ordering, StdAtomicU64};

/// A counter that any thread may add to.
#[derive(Debug, Default)]
pub(crate) struct Counter(StdAtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        // Relaxed: counters order nothing.
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        // Relaxed: counters order nothing.
        self.0.load(Ordering::Relaxed)
    }
}
