//! Engines that share a store.

use super::*;
use hapax::Tier;
use hapax_store::{ClaimRequest, Claimed, ErrorKind, Hold, Ownership, RecordKey, Scope, Store as _};
use hapax_testing::store::Fault;

#[tokio::test]
async fn the_window_spares_the_store_and_the_store_decides() {
    let world = World::new();
    let (here, there) = (world.shared().await, world.shared().await);
    let asked = world.store.requests();
    let verdict = here.check("a").await.unwrap();
    assert!(verdict.is_fresh());
    assert_eq!((verdict.tier(), verdict.is_certain()), (Tier::Store, true));
    for _ in 0..10 {
        let verdict = here.check("a").await.unwrap();
        assert!(verdict.is_duplicate());
        assert_eq!(verdict.tier(), Tier::Window);
    }
    assert_eq!(world.store.requests() - asked, 1);

    let verdict = there.check("a").await.unwrap();
    assert!(verdict.is_duplicate());
    assert_eq!(verdict.tier(), Tier::Store);
    assert_eq!(there.check("a").await.unwrap().tier(), Tier::Window);
    let decided = there.stats().decided;
    assert_eq!((decided.fresh, decided.duplicates_by_store, decided.duplicates_by_memory), (0, 1, 1));
}

#[tokio::test]
async fn a_batch_is_answered_in_order_with_one_call() {
    let world = World::new();
    let engine = world.shared().await;
    assert!(is_fresh(&engine, "known").await);
    let calls = world.store.calls();
    let fresh: Vec<bool> =
        engine.check_batch(["a", "a", "known", "b", "a"]).await.into_iter().map(|it| it.unwrap().is_fresh()).collect();
    assert_eq!(fresh, [true, false, false, true, false]);
    assert_eq!(world.store.calls() - calls, 1);
    assert!(engine.check_batch(["a", "b"]).await.into_iter().all(|it| it.unwrap().is_duplicate()));
    assert!(engine.check_batch([""; 0]).await.is_empty());
    assert_eq!(world.store.calls() - calls, 1);
}

#[tokio::test]
async fn what_the_window_has_forgotten_the_store_knows() {
    let world = World::new();
    // A, B, A over a cache of next to nothing.
    let engine = world.engine().capacity(1).max_memory_bytes(64 << 10).build().await.unwrap();
    let ids = testkit::long(10_000, 20_000);
    for i in 0..ids {
        assert!(engine.check(format!("{i}")).await.unwrap().is_fresh());
    }
    for i in 0..ids {
        assert!(engine.check(format!("{i}")).await.unwrap().is_duplicate(), "{i}");
    }
    let by_store = engine.stats().decided.duplicates_by_store;
    assert!(by_store > ids / 2, "a window of 64 KiB has no room for {ids} ids, but knew all but {by_store}");

    world.clock.advance(WINDOW + WINDOW / 2);
    assert_eq!(engine.check(format!("{}", ids - 1)).await.unwrap().tier(), Tier::Store);
}

#[tokio::test]
async fn memory_never_remembers_longer_than_the_store() {
    let world = World::new();
    let (here, there) = (world.shared().await, world.shared().await);
    assert!(is_fresh(&here, "a").await);
    // So late that the window would remember it when the store has forgotten it.
    world.clock.advance(RETENTION - WINDOW / 2);
    assert!(!is_fresh(&there, "a").await);
    assert!(!is_fresh(&there, "a").await);
    assert_eq!(there.stats().decided.duplicates_by_store, 2, "memory must not have learned it");
    world.clock.advance(WINDOW / 2);
    assert!(is_fresh(&there, "a").await);
}

#[tokio::test]
async fn scopes_and_long_ids() {
    let world = World::new();
    let engine = world.shared().await;
    let orders = engine.with_scope("orders").unwrap();
    for id in ["a".to_owned(), String::new(), "x".repeat(47), "x".repeat(48), "x".repeat(10_000)] {
        assert!(is_fresh(&engine, &id).await);
        assert!(is_fresh(&orders, &id).await);
        assert!(!is_fresh(&orders, &id).await);
    }
    assert_eq!(engine.with_scope("a\0b").unwrap_err().kind(), ErrorKind::Misconfigured);
}

#[tokio::test]
async fn what_is_forgotten_is_fresh() {
    let world = World::new();
    let engine = world.shared().await;
    assert!(!engine.forget("a").await.unwrap());
    assert!(is_fresh(&engine, "a").await);
    assert!(engine.forget("a").await.unwrap());
    assert!(is_fresh(&engine, "a").await);
}

#[tokio::test]
async fn options_that_cannot_be_are_refused() {
    let world = World::new();
    let refused = |engine: TieredBuilder<Store>| async { engine.build().await.unwrap_err() };
    for (engine, names) in [
        (world.engine().window(Duration::ZERO), "window"),
        (world.engine().retention(WINDOW / 2), "retention"),
        (world.engine().lease(Duration::ZERO), "lease"),
        (world.engine().timeout(Duration::ZERO), "timeout"),
        (world.engine().retries(1_000), "retries"),
        (world.engine().circuit_breaker(0, WINDOW), "circuit_breaker"),
        (world.engine().max_waiting(0), "max_waiting"),
        (world.engine().expiry((Duration::ZERO, 1)), "expiry"),
        (world.engine().history(HistoryOptions { ids: 1_000, false_positive_rate: 1e-6 }), "history"),
        (world.engine().scope("a\nb"), "scope"),
        (world.engine().policy("a\nb", hapax_store::Policy::new()), "scope"),
        (world.engine().policy("a", hapax_store::Policy::new().lease(Duration::ZERO)), "lease"),
        (world.engine().policy("a", hapax_store::Policy::new().window(2 * RETENTION)), "retention"),
        (
            world
                .engine()
                .ownership(Ownership::Exclusive)
                .history(HistoryOptions { ids: 1_000, false_positive_rate: 7.7 }),
            "false_positive_rate",
        ),
    ] {
        let error = refused(engine).await;
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert!(error.to_string().contains(names), "{error} does not name {names}");
    }
}

#[tokio::test]
async fn engines_of_one_seed_are_not_taken_for_each_other() {
    let world = World::new();
    // Two processes of one configuration, or one process before and after a restart.
    let (here, there) = (world.engine().seed(7).build().await.unwrap(), world.engine().seed(7).build().await.unwrap());
    assert!(is_fresh(&here, "a").await);
    assert!(!is_fresh(&there, "a").await);
    let claim = here.claim("b").await.unwrap().claimed().unwrap();
    assert!(there.claim("b").await.unwrap().is_in_progress());
    claim.complete().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_answered_late_is_not_remembered_for_longer_than_in_the_store() {
    let world = World::new();
    let retention = WINDOW + WINDOW / 10;
    let build = || world.engine().retention(retention).timeout(WINDOW).build();
    let (here, there) = (build().await.unwrap(), build().await.unwrap());
    assert!(there.check("id").await.unwrap().is_fresh());
    world.store.next(Fault::AnswersLate(WINDOW / 5));
    let late = tokio::spawn({
        let here = here.clone();
        async move { here.check("id").await }
    });
    tokio::time::sleep(WINDOW / 100).await;
    world.clock.advance(WINDOW / 5);
    assert!(late.await.unwrap().unwrap().is_duplicate());
    world.clock.advance(WINDOW * 95 / 100);
    assert!(here.check("id").await.unwrap().is_fresh(), "accepted 1.15 windows ago, and kept for 1.1");
}

#[tokio::test]
async fn tokens_grow_over_those_of_records_that_were_removed() {
    let world = World::new();
    let (store, key) = (world.store.inner(), RecordKey::new(&Scope::default(), "id"));
    let mut tokens = Vec::new();
    for attempt in 0..3 {
        let claim = ClaimRequest {
            key: key.clone(),
            attempt,
            lease: WINDOW,
            fingerprint: None,
            held_by: None,
            doubt: Duration::ZERO,
        };
        let Claimed::Claimed { token, .. } = store.claim(&[claim]).await.unwrap().remove(0).unwrap() else {
            panic!("nobody has it");
        };
        tokens.push(token);
        let _ = store.release(&[Hold { key: key.clone(), token }]).await.unwrap().remove(0).unwrap();
        assert_eq!(store.expire(10).await.unwrap().records, 1);
    }
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

#[tokio::test]
async fn forgetting_reaches_other_instances_when_their_window_has_passed() {
    let world = World::new();
    let (here, there) = (world.shared().await, world.shared().await);
    assert!(is_fresh(&here, "a").await && !is_fresh(&there, "a").await);
    assert!(here.forget("a").await.unwrap());
    // The other engine has learned it, and does not ask the store: until its window has passed, and
    // two ticks.
    assert!(!is_fresh(&there, "a").await);
    world.clock.advance(WINDOW - Duration::from_secs(1));
    assert!(!is_fresh(&there, "a").await);
    world.clock.advance(Duration::from_secs(1) + WINDOW / 50);
    assert!(is_fresh(&there, "a").await);

    // A scope whose ids are forgotten now and then has a shorter window.
    let policy = || hapax_store::Policy::new().window(Duration::from_secs(1));
    let (here, there) = (world.engine().policy("payments", policy()), world.engine().policy("payments", policy()));
    let (here, there) = (here.build().await.unwrap(), there.build().await.unwrap());
    let (here, there) = (here.with_scope("payments").unwrap(), there.with_scope("payments").unwrap());
    assert!(is_fresh(&here, "b").await && !is_fresh(&there, "b").await);
    assert!(here.forget("b").await.unwrap());
    world.clock.advance(Duration::from_secs(1) + Duration::from_millis(20));
    assert!(is_fresh(&there, "b").await);
}
