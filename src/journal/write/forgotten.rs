//! The count of what has been forgotten, by which a check learns whether something was meanwhile.

use crate::mutation::{Rule, obeys};
use crate::sync::{DiskAtomicU64, Ordering};

/// The count of what was forgotten, and of the callers that are forgetting everything. Both change
/// under the lock of the journal's state.
#[derive(Debug, Default)]
pub(in crate::journal) struct ForgottenCount {
    forgotten: DiskAtomicU64,
    clearing: DiskAtomicU64,
}

impl ForgottenCount {
    /// Returns the count so far. A check that begins then does not find what was forgotten before.
    #[inline(always)]
    pub(in crate::journal) fn so_far(&self) -> u64 {
        // Acquire: partner of the release in `add`. An id leaves the window before it is counted.
        self.forgotten.load(Ordering::Acquire)
    }

    /// Returns true unless everything is being forgotten. Under the same lock.
    pub(in crate::journal) fn may_extend(&self) -> bool {
        self.clearing.load(Ordering::Relaxed) == 0 || !obeys(Rule::ForgottenIsNotRecorded)
    }

    /// Returns true if nothing was forgotten since. Under the lock of the journal's state.
    pub(in crate::journal) fn is_still(&self, before: u64) -> bool {
        self.forgotten.load(Ordering::Relaxed) == before || !obeys(Rule::ForgottenIsNotRecorded)
    }

    /// Counts an id that has left the window. Under the same lock.
    pub(in crate::journal) fn add(&self) {
        // Release: partner of the acquire in `so_far`.
        self.forgotten.fetch_add(1, Ordering::Release);
    }

    /// Notes that everything is about to be forgotten. Under the same lock.
    pub(in crate::journal) fn begin_clearing(&self) {
        self.clearing.fetch_add(1, Ordering::Relaxed);
        self.add();
    }

    /// Notes that it has been. Under the same lock.
    pub(in crate::journal) fn end_clearing(&self) {
        self.clearing.fetch_sub(1, Ordering::Relaxed);
        self.add();
    }
}
