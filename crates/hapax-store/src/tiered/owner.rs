//! Exclusive ownership of a store: a claim like any other, in a scope of hapax's own, renewed as
//! long as the engine lives.

use super::few::all;
use super::inner::{Inner, Ownership};
use super::observe::Asked;
use crate::erased::Erased;
use crate::sync::{Ordering, StdAtomicU64};
use crate::{ClaimRequest, Claimed, ErrorKind, Fingerprint, Held, Hold, Known, RecordKey, Renewal, Scope, StoreError};
use std::time::Duration;
use tokio::time::Instant;

/// The time after the owner's death for which its store is still its own.
pub(super) const LEASE: Duration = Duration::from_secs(15);

/// The claim of an exclusive engine.
pub(super) struct Owned {
    hold: Hold,
    /// The time at which it was requested: no later than its lease began.
    pub(super) asked_at: Instant,
    /// The earliest time of its renewal: nanoseconds after `asked_at`.
    renewed_nanos: StdAtomicU64,
}

fn key() -> RecordKey {
    RecordKey::new(&Scope::reserved("owner"), "")
}

fn conflict(backend: &'static str, lease_left: Duration) -> StoreError {
    let taken = format!("another engine has claimed this store for itself, for at least {lease_left:?} more");
    StoreError::new(ErrorKind::Conflict, backend, taken)
}

/// Claims the store for an exclusive engine, and makes sure for a shared one that no other engine
/// has.
pub(super) async fn claim(inner: &Inner, name: Option<&str>) -> Result<Option<Owned>, StoreError> {
    let (store, backend) = (&inner.store, inner.store.backend());
    if store.is_private() {
        // The store itself lets no other process in.
        return Ok(None);
    }
    if inner.ownership == Ownership::Shared {
        return nobody(inner).await.map(|()| None);
    }
    // An engine with the same name makes the same attempt, which a store grants again.
    let attempt = match name {
        Some(name) => u64::from_le_bytes(Fingerprint::of(name).0[..8].try_into().unwrap_or_default()) >> 1,
        None => inner.number(),
    };
    let asked_at = Instant::now();
    let request = ClaimRequest { key: key(), attempt, lease: LEASE, fingerprint: None };
    match first(store.claim(&[request]).await)? {
        Claimed::Claimed { token } => {
            Ok(Some(Owned { hold: Hold { key: key(), token }, asked_at, renewed_nanos: StdAtomicU64::new(0) }))
        }
        Claimed::InProgress { lease_left } => Err(conflict(backend, lease_left)),
        other => {
            let wrong = format!("the record of the store's owner is none: a claim says {other:?}");
            Err(StoreError::new(ErrorKind::Corrupt, backend, wrong))
        }
    }
}

/// Makes sure that no engine has claimed the store for itself.
pub(super) async fn nobody(inner: &Inner) -> Result<(), StoreError> {
    match first(inner.store.look_up(&[key()]).await)? {
        Known::InProgress { lease_left, .. } => Err(conflict(inner.store.backend(), lease_left)),
        _ => Ok(()),
    }
}

/// Returns true if a node of the store answers other than the one that knows the owner.
pub(super) async fn others_answer(inner: &Inner) -> bool {
    let scope = Scope::reserved("owner");
    // None of these is ever written. There need not be one of each node: one that answers is
    // enough.
    let keys = (0..64).map(|number| RecordKey::new(&scope, format!("{number}")));
    let silent = inner.node(&key());
    let parts = inner.by_node(keys.filter(|key| !inner.is_of(silent, key)).enumerate(), |key| key);
    let asked = parts.into_iter().map(|part| async move {
        let look_up = async { first(inner.store.look_up(&part.asked[..1]).await) };
        inner.in_time(Asked::Own, 1, look_up).await.is_ok()
    });
    all(asked).await.contains(&true)
}

impl Owned {
    /// Notes a renewal that was requested at this time.
    pub(super) fn renewed(&self, at: Instant) {
        let nanos = at.saturating_duration_since(self.asked_at).as_nanos() as u64;
        // Relaxed: a number that orders nothing else.
        self.renewed_nanos.store(nanos, Ordering::Relaxed);
    }

    /// Returns true if its lease may have ended, so that another engine may own the store by now,
    /// whether or not this was noticed.
    pub(super) fn is_over(&self) -> bool {
        let renewed = Duration::from_nanos(self.renewed_nanos.load(Ordering::Relaxed));
        self.asked_at.elapsed() >= renewed + LEASE
    }

    /// Renews the ownership. `Err`: it is no longer the owner, and must not go on as if it were.
    pub(super) async fn renew(&self, store: &dyn Erased) -> Result<Held, StoreError> {
        first(store.renew(&[Renewal { hold: self.hold.clone(), lease: LEASE }]).await)
    }

    pub(super) async fn release(&self, store: &dyn Erased) -> Result<Held, StoreError> {
        first(store.release(std::slice::from_ref(&self.hold)).await)
    }
}

fn first<A>(answers: crate::Answers<A>) -> Result<A, StoreError> {
    let none = || StoreError::new(ErrorKind::Corrupt, "hapax", "no answer to one request");
    answers?.pop().unwrap_or_else(|| Err(none()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_over_unless_it_was_renewed() {
        let hold = Hold { key: key(), token: 1 };
        let owned = Owned { hold, asked_at: Instant::now(), renewed_nanos: StdAtomicU64::new(0) };
        tokio::time::advance(LEASE - Duration::from_nanos(1)).await;
        assert!(!owned.is_over());
        owned.renewed(Instant::now());
        tokio::time::advance(LEASE - Duration::from_nanos(1)).await;
        assert!(!owned.is_over());
        tokio::time::advance(Duration::from_nanos(1)).await;
        assert!(owned.is_over());
    }
}
