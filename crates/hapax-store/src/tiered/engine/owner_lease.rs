//! The lease of an exclusive engine on its store.

use crate::dyn_store::Erased;
use crate::sync::{Ordering, StdAtomicU64};
use crate::{ErrorKind, Held, Hold, RecordKey, Renewal, Scope, StoreError};
use std::time::Duration;
use tokio::time::Instant;

/// The time after the owner's death for which its store is still its own.
pub(crate) const LEASE: Duration = Duration::from_secs(15);

/// The claim of an exclusive engine.
pub(crate) struct OwnerLease {
    hold: Hold,
    /// The time at which it was requested: no later than its lease began.
    pub(crate) asked_at: Instant,
    /// The earliest time of its renewal: nanoseconds after `asked_at`.
    renewed_nanos: StdAtomicU64,
}

/// Returns the key under which a store has its owner.
pub(crate) fn owner_key() -> RecordKey {
    RecordKey::new(&Scope::reserved("owner"), "")
}

impl OwnerLease {
    /// Returns the lease of a claim that was granted with this token, and requested at this time.
    pub(crate) fn new(token: u64, asked_at: Instant) -> Self {
        OwnerLease { hold: Hold { key: owner_key(), token }, asked_at, renewed_nanos: StdAtomicU64::new(0) }
    }

    /// Notes a renewal that was requested at this time.
    pub(crate) fn renewed(&self, at: Instant) {
        let nanos = at.saturating_duration_since(self.asked_at).as_nanos() as u64;
        // Relaxed: a number that orders nothing else.
        self.renewed_nanos.store(nanos, Ordering::Relaxed);
    }

    /// Returns true if its lease may have ended, so that another engine may own the store by now,
    /// whether or not this was noticed.
    pub(crate) fn is_over(&self) -> bool {
        // Relaxed: as above.
        let renewed = Duration::from_nanos(self.renewed_nanos.load(Ordering::Relaxed));
        self.asked_at.elapsed() >= renewed + LEASE
    }

    /// Renews the ownership. `Err`: it is no longer the owner, and must not go on as if it were.
    pub(crate) async fn renew(&self, store: &dyn Erased) -> Result<Held, StoreError> {
        only(store.renew(&[Renewal { hold: self.hold.clone(), lease: LEASE }]).await)
    }

    pub(crate) async fn release(&self, store: &dyn Erased) -> Result<Held, StoreError> {
        only(store.release(std::slice::from_ref(&self.hold)).await)
    }
}

/// Returns the answer to one request.
pub(crate) fn only<A>(answers: crate::Answers<A>) -> Result<A, StoreError> {
    let none = || StoreError::new(ErrorKind::Corrupt, "hapax", "no answer to one request");
    answers?.pop().unwrap_or_else(|| Err(none()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_over_unless_it_was_renewed() {
        let owned = OwnerLease::new(1, Instant::now());
        tokio::time::advance(LEASE - Duration::from_nanos(1)).await;
        assert!(!owned.is_over());
        owned.renewed(Instant::now());
        tokio::time::advance(LEASE - Duration::from_nanos(1)).await;
        assert!(!owned.is_over());
        tokio::time::advance(Duration::from_nanos(1)).await;
        assert!(owned.is_over());
    }
}
