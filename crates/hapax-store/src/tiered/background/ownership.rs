//! Exclusive ownership of a store: a claim like any other, in a scope of hapax's own, renewed as
//! long as the engine lives.

use super::ticks::{Served, ticks};
use crate::tiered::batching::Client;
use crate::tiered::breaker::back_off;
use crate::tiered::engine::{LEASE, OwnerLease, Ownership, OwnershipState, only, owner_key};
use crate::tiered::join_all::join_all;
use crate::tiered::observe::RequestKind;
use crate::{ClaimRequest, Claimed, ErrorKind, Fingerprint, Held, Known, RecordKey, Scope, StoreError};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

fn conflict(backend: &'static str, lease_left: Duration) -> StoreError {
    let taken = format!("another engine has claimed this store for itself, for at least {lease_left:?} more");
    StoreError::new(ErrorKind::Conflict, backend, taken)
}

/// Claims the store for an exclusive engine, and makes sure for a shared one that no other engine
/// has.
pub(crate) async fn claim(client: &Client, ownership: &Ownership) -> Result<Option<OwnerLease>, StoreError> {
    let (store, backend) = (&client.caller.store, client.caller.store.backend());
    if store.is_private() {
        // The store itself lets no other process in.
        return Ok(None);
    }
    let attempt = match ownership {
        Ownership::Shared => return nobody(client).await.map(|()| None),
        Ownership::Exclusive => client.lost_marks.number(),
        // An engine with the same name makes the same attempt, which a store grants again.
        Ownership::ExclusiveAs(name) => {
            u64::from_le_bytes(Fingerprint::of(name).0[..8].try_into().unwrap_or_default()) >> 1
        }
    };
    let asked_at = Instant::now();
    let (fingerprint, held_by) = (None, None);
    let request = ClaimRequest { key: owner_key(), attempt, lease: LEASE, fingerprint, held_by, doubt: Duration::ZERO };
    match only(store.claim(&[request]).await)? {
        Claimed::Claimed { token, .. } => Ok(Some(OwnerLease::new(token, asked_at))),
        Claimed::InProgress { lease_left, .. } => Err(conflict(backend, lease_left)),
        other => {
            let wrong = format!("the record of the store's owner is none: a claim says {other:?}");
            Err(StoreError::new(ErrorKind::Corrupt, backend, wrong))
        }
    }
}

/// Makes sure that no engine has claimed the store for itself.
pub(crate) async fn nobody(client: &Client) -> Result<(), StoreError> {
    match only(client.caller.store.look_up(&[owner_key()]).await)? {
        Known::InProgress { lease_left, .. } => Err(conflict(client.caller.store.backend(), lease_left)),
        _ => Ok(()),
    }
}

/// Returns true if a node of the store answers other than the one that knows the owner.
pub(crate) async fn others_answer(client: &Client) -> bool {
    let scope = Scope::reserved("owner");
    // None of these is ever written. There need not be one of each node: one that answers is
    // enough.
    let keys = (0..64).map(|number| RecordKey::new(&scope, format!("{number}")));
    let silent = client.nodes.node(&owner_key());
    let parts = client.nodes.by_node(keys.filter(|key| !client.nodes.is_of(silent, key)).enumerate(), |key| key);
    let asked = parts.into_iter().map(|part| async move {
        let look_up = async { only(client.caller.store.look_up(&part.asked[..1]).await) };
        client.caller.in_time(RequestKind::Own, 1, look_up).await.is_ok()
    });
    join_all(asked).await.contains(&true)
}

/// Starts to renew the ownership of an engine that has claimed its store, until the last handle of
/// the engine is dropped, or the engine is shut down.
pub(crate) fn start(client: &Arc<Client>, ownership: &Arc<OwnershipState>) {
    client.runtime.spawn(stay_owner(Served::of(client, ownership)));
}

async fn stay_owner(engine: Served) {
    let Served { ownership, .. } = &engine;
    let Some(lease) = ownership.owner_lease() else { return };
    let mut renewed = lease.asked_at;
    let period = LEASE / 5;
    let mut ticks = ticks(renewed + period, period);
    loop {
        let lease_end = renewed + LEASE;
        let Ok(tick) = timeout_at(lease_end, engine.at_next(&mut ticks)).await else {
            // The ownership is unknown; from now on, another engine may be the owner.
            let client = engine.client.upgrade();
            return client.iter().for_each(|client| lost(client, ownership, "it could not be renewed in time"));
        };
        let Some(client) = tick else { return };
        let (begun, caller) = (Instant::now(), &client.caller);
        match timeout_at(lease_end, caller.in_time(RequestKind::Own, 1, lease.renew(&*caller.store))).await {
            Ok(Ok(Held::Done)) => {
                renewed = begun;
                lease.renewed(begun);
            }
            Ok(Ok(Held::Lost)) => lost(&client, ownership, "another engine may have taken it over"),
            // The next tick or the end of the lease comes first.
            Ok(Err(_)) | Err(_) => {}
        }
    }
}

fn lost(client: &Client, ownership: &OwnershipState, why: &str) {
    let what = format!("this engine is no longer the owner of the store: {why}. Build another one");
    ownership.refuse(StoreError::new(ErrorKind::Conflict, client.caller.store.backend(), what));
    client.caller.observer.lost(why);
}

/// Starts to ask for the owner of the store until there is an answer, for a shared engine that was
/// started without one.
pub(crate) fn find_owner(client: &Arc<Client>, ownership: &Arc<OwnershipState>) {
    let engine = Served::of(client, ownership);
    client.runtime.spawn(async move {
        for tries in 0_u32.. {
            let Some(random) = engine.client.upgrade().map(|client| client.caller.random.next()) else { return };
            tokio::time::sleep(back_off(tries, random)).await;
            let Some(client) = engine.client() else { return };
            match client.caller.in_time(RequestKind::Own, 1, nobody(&client)).await {
                Ok(()) => return client.caller.owner_is_known(),
                Err(error) if error.kind().is_transient() => {}
                // Another engine has claimed the store for itself.
                Err(error) => return engine.ownership.refuse(error),
            }
        }
    });
}
