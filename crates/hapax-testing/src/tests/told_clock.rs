//! A virtual clock for subjects that read one of their own: its time passes with the threads'
//! operations. A thread that the system keeps waiting keeps the others waiting at their next
//! meeting, so no stall is longer than the steps in between, however busy the machine is.

use hapax::{Clock, Timestamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Shows the largest time that any thread has told it.
#[derive(Clone, Default)]
pub(crate) struct Told(Arc<AtomicU64>);

impl Told {
    pub(crate) fn tell(&self, at: Timestamp) {
        self.0.fetch_max(at.as_nanos(), Ordering::SeqCst);
    }
}

impl Clock for Told {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.0.load(Ordering::SeqCst))
    }
}
