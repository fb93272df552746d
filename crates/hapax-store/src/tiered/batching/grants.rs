//! The bound of grants to callers that are gone, which are being given back.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Permits to give back ids, of which no more than a number are given back at a time.
pub(crate) struct DroppedGrants {
    permits: Arc<Semaphore>,
    max: usize,
}

impl DroppedGrants {
    pub(super) fn new(max: usize) -> Self {
        DroppedGrants { permits: Arc::new(Semaphore::new(max)), max }
    }

    /// Returns permits to give back this many ids, unless these are too many at a time.
    pub(crate) fn permits(&self, ids: usize) -> Option<OwnedSemaphorePermit> {
        let ids = u32::try_from(ids).unwrap_or(u32::MAX);
        Arc::clone(&self.permits).try_acquire_many_owned(ids).ok()
    }

    /// Returns the number of ids that are being given back.
    pub(crate) fn len(&self) -> usize {
        self.max - self.permits.available_permits()
    }
}
