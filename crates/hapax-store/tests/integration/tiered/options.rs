//! Options that are given with a call.

use super::*;
use hapax_store::{ClaimError, ErrorKind, StoreError, TieredClaimOptions};
use hapax_testing::store::Fault;

const WRONG: [Duration; 2] = [Duration::ZERO, Duration::MAX];

#[track_caller]
fn names(error: &StoreError, option: &str) {
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    let text = error.to_string();
    assert!(text.contains(&format!("`{option}`")) && text.contains("expected"), "{text}");
}

#[track_caller]
fn names_of_claim(ended: Result<(), ClaimError>, option: &str) {
    match ended {
        Err(ClaimError::Store(error)) => names(&error, option),
        other => panic!("`{option}` cannot be, but: {other:?}"),
    }
}

async fn of(engine: &Engine) {
    for lease in WRONG {
        let options = TieredClaimOptions::new().lease(lease);
        names(&engine.claim_with("a", options).await.unwrap_err(), "lease");
        let mut claim = engine.claim("b").await.unwrap().claimed().expect("what was refused has claimed nothing");
        names_of_claim(claim.renew(lease).await, "lease");
        claim.renew(WINDOW).await.expect("it is held as before");
        claim.release().await.unwrap();
    }
    let claim = engine.claim("a").await.unwrap().claimed().expect("what was refused has claimed nothing");
    names_of_claim(claim.fail(Duration::MAX).await, "retry_after");
    tokio::time::sleep(Duration::from_millis(1)).await;
    let claim = engine.claim("a").await.unwrap().claimed().expect("a wrong option does not burn the id");
    claim.fail(Duration::ZERO).await.expect("that is a release");
    let claim = engine.claim("a").await.unwrap().claimed().expect("it was released");
    names(&engine.claim_wait("a", Duration::MAX).await.unwrap_err(), "patience");
    claim.complete().await.unwrap();
    names(&engine.shutdown(Duration::MAX).await.unwrap_err(), "deadline");
    assert!(engine.check("c").await.unwrap().is_fresh(), "it was not shut down");
}

#[tokio::test(start_paused = true)]
async fn a_time_that_cannot_be_is_an_error_that_names_it() {
    of(&World::new().shared().await).await;
    of(&World::new().exclusive().await).await;
    let builder = || World::new().engine();
    for grace in [Duration::MAX, RETENTION] {
        names(&builder().in_doubt(grace).build().await.unwrap_err(), "in_doubt");
    }
    names(&builder().lease(Duration::from_nanos(1)).build().await.unwrap_err(), "lease of scope \"*\"");
}

#[tokio::test(start_paused = true)]
async fn what_is_not_set_fits_what_is_set() {
    let (minute, second) = (Duration::from_secs(60), Duration::from_secs(1));
    let builder = || TieredDedup::builder(hapax_store::InMemoryStore::new());
    let policy = Policy::new().retention(second);
    let engine = builder().retention(minute).max_memory_bytes(1 << 20).policy("brief", policy).build().await.unwrap();
    let bytes = engine.stats().memory_bytes;
    assert!((3 << 20..5 << 20).contains(&bytes), "two windows and their witnesses, of a MiB each: {bytes}");
    assert!(engine.check("a").await.unwrap().is_fresh() && engine.check("a").await.unwrap().is_duplicate());
    let longer = builder().retention(minute).window(2 * minute).build().await.unwrap_err();
    names(&longer, "retention of scope \"*\"");
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_remembered_for_a_time_that_its_engine_can_keep() {
    let hundred_years = Duration::from_secs(100 * 366 * 86_400);
    let nano = Duration::from_nanos(1);
    // An exclusive engine answers from memory what it takes to be forgotten.
    let both = [(World::new().shared().await, hundred_years), (World::new().exclusive().await, RETENTION)];
    for (engine, longest) in both {
        for wrong in [Duration::ZERO, longest + nano] {
            let options = TieredClaimOptions::new().retention(wrong);
            names(&engine.claim_with("a", options).await.unwrap_err(), "retention of a claim");
        }
        for right in [nano, longest] {
            let options = TieredClaimOptions::new().retention(right);
            let claim = engine.claim_with("a", options).await.unwrap().claimed().expect("it is free");
            claim.release().await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_exclusive_engine_that_does_not_own_its_store_says_that_its_policy_does_not_help() {
    let exclusive = |world: &World| {
        let engine = admitting(world.engine());
        engine.ownership(hapax_store::Ownership::ExclusiveAs("test".into()))
    };
    for (kind, is_told) in [(ErrorKind::Unavailable, true), (ErrorKind::Corrupt, false)] {
        let world = World::new();
        world.store.always(Fault::Fails(kind));
        let error = exclusive(&world).build().await.unwrap_err();
        assert_eq!(error.kind(), kind);
        assert_eq!(error.to_string().contains("does not start before it owns the store"), is_told, "{error}");
    }
}
