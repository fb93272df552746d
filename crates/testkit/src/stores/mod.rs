//! Requests to stores, and what the tests of several stores have in common.

pub mod killed;
pub mod restored;

use hapax::{ManualClock, Timestamp};
use hapax_store::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub const DAY: Duration = Duration::from_secs(86_400);
pub const LEASE: Duration = Duration::from_secs(3_600);

pub fn clock_at(nanos: u64) -> ManualClock {
    let clock = ManualClock::new();
    clock.set(Timestamp::from_secs(1_700_000_000) + Duration::from_nanos(nanos));
    clock
}

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

pub fn key(id: impl AsRef<[u8]>) -> RecordKey {
    RecordKey::new(&Scope::new("test").unwrap(), id)
}

/// Returns a mark by a new attempt.
pub fn mark_of(id: impl AsRef<[u8]>, retention: Duration) -> Mark {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    Mark { key: key(id), attempt: NEXT.fetch_add(1, Ordering::Relaxed), retention }
}

pub fn one<A>(answers: Answers<A>) -> A {
    answers.unwrap().remove(0).unwrap()
}

pub async fn mark(store: &impl Store, id: &str) -> Marked {
    one(store.mark(&[mark_of(id, DAY)]).await)
}

pub async fn is_done(store: &impl Store, id: &str) -> bool {
    matches!(one(store.look_up(&[key(id)]).await), Known::Completed(_))
}

pub async fn expire_all(store: &impl Store) -> u64 {
    let mut records = 0;
    for _ in 0..10_000 {
        let expired = store.expire(1_000).await.unwrap();
        records += expired.records;
        if !expired.more {
            return records;
        }
    }
    panic!("expiry comes to no end")
}

pub async fn claim(store: &impl Store, id: &str) -> u64 {
    let Mark { key, attempt, .. } = mark_of(id, DAY); // a new attempt
    match one(store
        .claim(&[ClaimRequest { key, attempt, lease: LEASE, fingerprint: None, held_by: None, doubt: Duration::ZERO }])
        .await)
    {
        Claimed::Claimed { token, .. } => token,
        other => panic!("{id} can be had, but a claim says {other:?}"),
    }
}

pub fn hold(id: &str, token: u64) -> Hold {
    Hold { key: key(id), token }
}

pub async fn complete(store: &impl Store, id: &str, token: u64, result: &str) -> Held {
    one(store.complete(&[Completion { hold: hold(id, token), retention: DAY, result: Some(result.into()) }]).await)
}

/// Ends and renews what may be another's, in every way.
pub async fn is_lost(store: &impl Store, id: &str, token: u64) -> bool {
    let hold = hold(id, token);
    let answers = [
        complete(store, id, token, "too late").await,
        one(store.renew(&[Renewal { hold: hold.clone(), lease: 3 * LEASE }]).await),
        one(store.fail(&[ClaimFailure { hold: hold.clone(), retry_after: LEASE }]).await),
        one(store.release(&[hold]).await),
    ];
    answers == [Held::Lost; 4]
}

/// Overwrites the record of an id and forgets it, so that nothing is left that has its token.
pub async fn wipe(store: &impl Store, id: &str) {
    one(store.record(&[Record { key: key(id), retention: LEASE, fingerprint: None, result: None }]).await);
    assert!(one(store.forget(&[key(id)]).await));
}
