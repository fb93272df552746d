//! A switch with which everything passes undecided.

use crate::sync::{Ordering, StdAtomicBool};
use std::sync::Arc;

/// A switch of some handles, and those of the handles that they were made of.
#[derive(Default)]
pub(crate) struct Bypass {
    is_on: StdAtomicBool,
    above: Option<Arc<Bypass>>,
}

impl Bypass {
    /// Creates a switch beneath this one, which is off.
    pub(crate) fn beneath(self: &Arc<Self>) -> Arc<Self> {
        Arc::new(Bypass { is_on: StdAtomicBool::new(false), above: Some(Arc::clone(self)) })
    }

    pub(crate) fn turn(&self, on: bool) {
        // Relaxed: the switch orders nothing.
        self.is_on.store(on, Ordering::Relaxed);
    }

    /// Returns true if this switch, or one above it, is on.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        // Relaxed, as above.
        self.is_on.load(Ordering::Relaxed) || self.above.as_ref().is_some_and(|above| above.is_on())
    }
}
