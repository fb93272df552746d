//! Exclusive ownership of a store: a claim like any other, in a scope of hapax's own, renewed as long as the engine lives.

use super::inner::{Inner, Ownership};
use crate::store::Held;
use crate::store::erased::Erased;
use crate::store::{ClaimRequest, Claimed, ErrorKind, Fingerprint, Hold, Known, RecordKey, Renewal, Scope, StoreError};
use std::time::Duration;
use tokio::time::Instant;

/// How long after the owner has died its store is still its own.
pub(super) const LEASE: Duration = Duration::from_secs(15);

/// The claim of an exclusive engine.
pub(super) struct Owned {
    hold: Hold,
    /// When it was asked for: no later than its lease began.
    pub(super) asked_at: Instant,
}

fn key() -> RecordKey {
    RecordKey::new(&Scope::reserved("owner"), "")
}

fn conflict(backend: &'static str, lease_left: Duration) -> StoreError {
    let taken = format!("another engine has claimed this store for itself, for at least {lease_left:?} more");
    StoreError::new(ErrorKind::Conflict, backend, taken)
}

/// Claims the store for an exclusive engine, and makes sure for a shared one that nobody has.
pub(super) async fn claim(inner: &Inner, name: Option<&str>) -> Result<Option<Owned>, StoreError> {
    let (store, backend) = (&inner.store, inner.store.backend());
    if store.is_private() {
        // The store itself lets nobody else in.
        return Ok(None);
    }
    if inner.ownership == Ownership::Shared {
        return match first(store.look_up(&[key()]).await)? {
            Known::InProgress { lease_left, .. } => Err(conflict(backend, lease_left)),
            _ => Ok(None),
        };
    }
    // Whoever has the same name makes the same attempt, which a store grants again.
    let attempt = match name {
        Some(name) => u64::from_le_bytes(Fingerprint::of(name).0[..8].try_into().unwrap_or_default()) >> 1,
        None => inner.number(),
    };
    let asked_at = Instant::now();
    let request = ClaimRequest { key: key(), attempt, lease: LEASE, fingerprint: None };
    match first(store.claim(&[request]).await)? {
        Claimed::Claimed { token } => Ok(Some(Owned { hold: Hold { key: key(), token }, asked_at })),
        Claimed::InProgress { lease_left } => Err(conflict(backend, lease_left)),
        other => {
            let wrong = format!("the record of the store's owner is none: a claim says {other:?}");
            Err(StoreError::new(ErrorKind::Corrupt, backend, wrong))
        }
    }
}

impl Owned {
    /// Says that the engine lives. `Err`: it is the owner no more, and must not go on as if it were.
    pub(super) async fn renew(&self, store: &dyn Erased) -> Result<Held, StoreError> {
        first(store.renew(&[Renewal { hold: self.hold.clone(), lease: LEASE }]).await)
    }

    pub(super) async fn release(&self, store: &dyn Erased) -> Result<Held, StoreError> {
        first(store.release(std::slice::from_ref(&self.hold)).await)
    }
}

fn first<A>(answers: crate::store::Answers<A>) -> Result<A, StoreError> {
    let none = || StoreError::new(ErrorKind::Corrupt, "hapax", "no answer to one request");
    answers?.pop().unwrap_or_else(|| Err(none()))
}
