//! The engine's random numbers: attempts' numbers and jitter, the same again for one seed.

use crate::sync::{Ordering, StdAtomicU64};
use hapax::seam::random::mix;

/// A generator of random numbers that any thread may use.
#[derive(Debug)]
pub(crate) struct Random(StdAtomicU64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Random(StdAtomicU64::new(seed))
    }

    pub(crate) fn next(&self) -> u64 {
        // Relaxed: it only matters that it is another one each time. A fork has a copy of it.
        mix(self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed) ^ hapax::seam::salt())
    }
}
