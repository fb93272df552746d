//! Scopes with policies of their own; shadow mode; expiry.

use super::*;
use hapax::Outcome;
use hapax_store::{ErrorKind, OnStoreError, Policy, TieredAttempt};
use hapax_testing::store::Fault;

#[tokio::test]
async fn each_scope_has_its_retention_window_and_lease() {
    let world = World::new();
    let policy = Policy::new().window(WINDOW / 10).retention(RETENTION / 10).lease(Duration::from_secs(5));
    let engine = world.engine().policy("short", policy).build().await.unwrap();
    let (short, other) = (engine.with_scope("short").unwrap(), engine.with_scope("other").unwrap());
    for handle in [&engine, &short, &other] {
        assert!(is_fresh(handle, "a").await);
    }
    match short.claim("b").await.unwrap() {
        TieredAttempt::Claimed(claim) => {
            let TieredAttempt::InProgress { lease_left, .. } = short.claim("b").await.unwrap() else {
                panic!("it is claimed")
            };
            assert!(lease_left <= Duration::from_secs(5));
            claim.release().await.unwrap();
        }
        attempt => panic!("{attempt:?}"),
    }
    world.clock.advance(WINDOW / 5);
    let requests = world.store.requests();
    assert!(!is_fresh(&short, "a").await && !is_fresh(&other, "a").await);
    assert_eq!(world.store.requests() - requests, 1, "only the short window has to ask");
    world.clock.advance(RETENTION / 5);
    assert!(is_fresh(&short, "a").await);
    assert!(!is_fresh(&engine, "a").await && !is_fresh(&other, "a").await);
    assert_eq!(short.scope_stats().fresh, 3);
    assert_eq!(engine.stats().decided.fresh, 5);
}

#[tokio::test(start_paused = true)]
async fn each_scope_has_its_failure_policy() {
    let world = World::new();
    let policy = Policy::new().on_store_error(OnStoreError::Admit);
    let engine = world.engine().retries(0).policy("clicks", policy).build().await.unwrap();
    let clicks = engine.with_scope("clicks").unwrap();
    world.store.always(Fault::Fails(ErrorKind::Unavailable));
    assert!(engine.check("a").await.is_err());
    assert!(clicks.check("a").await.unwrap().is_fresh());
    assert_eq!((clicks.scope_stats().admitted, engine.scope_stats().admitted), (1, 0));
}

#[tokio::test]
async fn in_a_shadow_everything_is_decided_and_nothing_is_dropped() {
    let world = World::new();
    let engine = world.engine().policy("*", hapax_store::Policy::new().shadow(true)).build().await.unwrap();
    let verdicts = engine.check_batch(["a", "a", "b"]).await;
    let verdicts: Vec<_> = verdicts.into_iter().map(|verdict| verdict.unwrap()).collect();
    assert!(verdicts.iter().all(|verdict| verdict.is_fresh()));
    let decided: Vec<Outcome> = verdicts.iter().map(|verdict| verdict.decided()).collect();
    assert_eq!(decided, [Outcome::Fresh, Outcome::Duplicate, Outcome::Fresh]);

    let first = engine.claim("c").await.unwrap().claimed().unwrap();
    let second = engine.claim("c").await.unwrap().claimed().unwrap();
    assert!(first.is_verified() && !second.is_verified());
    second.complete().await.unwrap();
    assert_eq!(engine.check("c").await.unwrap().decided(), Outcome::InProgress);
    first.complete().await.unwrap();
    assert_eq!(engine.check("c").await.unwrap().decided(), Outcome::Duplicate);
    assert!(engine.claim("a").await.unwrap().claimed().is_some());
    let decided = engine.stats().decided;
    assert_eq!((decided.fresh, decided.shadowed), (3, 5));
}

#[tokio::test(start_paused = true)]
async fn what_has_expired_is_removed_a_few_at_a_time() {
    let world = World::new();
    let engine = world.engine().expiry((Duration::from_secs(10), 100)).build().await.unwrap();
    for i in 0..1_000 {
        assert!(is_fresh(&engine, &format!("{i}")).await);
    }
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(world.store.inner().len(), 1_000);
    world.clock.advance(RETENTION + WINDOW);
    let calls = world.store.calls();
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(world.store.inner().len(), 0);
    assert!(world.store.calls() - calls >= 10);
}

#[tokio::test(start_paused = true)]
async fn while_it_is_bypassed_everything_passes_and_nothing_is_asked_or_learned() {
    let world = World::new();
    for is_exclusive in [false, true] {
        let mut builder = world.engine().retries(0).scope(if is_exclusive { "one" } else { "many" });
        if is_exclusive {
            builder = builder.ownership(hapax_store::Ownership::ExclusiveAs("one".into()));
        }
        let engine = builder.build().await.unwrap();
        let (beneath, apart) = (engine.with_subscope("orders").unwrap(), engine.with_own_bypass());
        assert!(is_fresh(&engine, "a").await);
        let before = engine.claim("b").await.unwrap().claimed().unwrap();
        engine.flush().await.unwrap();

        world.store.always(Fault::Fails(ErrorKind::Unavailable));
        let calls = world.store.calls();
        apart.bypass(true);
        assert!((apart.is_bypassed(), engine.is_bypassed()) == (true, false), "a switch beneath concerns nobody else");
        assert!(apart.check("a").await.unwrap().is_fresh());
        engine.bypass(true);
        apart.bypass(false);
        assert!(apart.is_bypassed(), "the one above is on");
        for handle in [&engine, &beneath, &apart] {
            let verdicts = handle.check_batch(["a", "a", "c"]).await;
            assert!(
                verdicts.iter().flatten().filter(|it| it.is_fresh() && !it.is_certain()).count() == 3,
                "{verdicts:?}"
            );
            assert!(handle.check("a").await.unwrap().is_fresh());
            for attempt in handle.claim_batch(["b", "b"]).await.into_iter().chain([handle.claim("b").await]) {
                let claim = attempt.unwrap().claimed().expect("all pass");
                assert_eq!((claim.is_verified(), claim.token().as_u64()), (false, 0));
                claim.complete().await.unwrap();
            }
        }
        assert_eq!(world.store.calls(), calls, "nobody is asked");
        assert_eq!(engine.scope_stats().bypassed, 1 + 3 * (3 + 1 + 3));

        world.store.always(Fault::None);
        engine.bypass(false);
        before.complete().await.unwrap();
        assert!(engine.claim("b").await.unwrap().is_duplicate(), "a claim from before is one");
        assert!(!is_fresh(&engine, "a").await && is_fresh(&engine, "c").await);
        engine.shutdown(Duration::from_secs(5)).await.unwrap();
        assert!(engine.check("d").await.is_err());
        engine.bypass(true);
        assert!(engine.check("d").await.unwrap().is_fresh(), "also then");
    }
}
