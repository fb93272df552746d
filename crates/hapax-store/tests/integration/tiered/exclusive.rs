//! An engine that owns its ids.

use super::*;
use hapax::Tier;
use hapax_store::{ErrorKind, Known, Ownership, RecordKey, Scope, Store as _};
use hapax_testing::store::Fault;

async fn stored(world: &World, id: &str) -> bool {
    let key = RecordKey::new(&Scope::default(), id);
    let mut known = world.store.inner().look_up(&[key]).await.unwrap();
    matches!(known.remove(0).unwrap(), Known::Completed(_))
}

#[tokio::test]
async fn what_the_history_does_not_know_needs_no_round_trip() {
    let world = World::new();
    let engine = world.exclusive().await;
    // The store takes its time, and nobody waits for it.
    world.store.always(Fault::Hangs);
    for i in 0..1_000 {
        let id = format!("{i}");
        assert_eq!(engine.check(&id).await.unwrap().tier(), Tier::History);
        assert!(engine.check(&id).await.unwrap().is_duplicate());
        drop(engine.claim(format!("claim {i}")).await.unwrap().claimed().unwrap());
    }
    assert_eq!(engine.stats().decided.fresh, 2_000);
}

#[tokio::test]
async fn flush_is_the_barrier() {
    let world = World::new();
    let engine = world.exclusive().await;
    let ids: Vec<String> = (0..5_000).map(|i| format!("{i}")).collect();
    assert!(engine.check_batch(&ids).await.into_iter().all(|it| it.unwrap().is_fresh()));
    engine.flush().await.unwrap();
    assert_eq!(engine.stats().behind, 0);
    for id in &ids {
        assert!(stored(&world, id).await);
    }
    engine.flush().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_written_is_written_later_and_flush_says_so() {
    let world = World::new();
    let engine = world.exclusive().await;
    world.store.always(Fault::Fails(ErrorKind::Unavailable));
    assert!(engine.check_batch(["a", "b", "c"]).await.into_iter().all(|it| it.unwrap().is_fresh()));
    assert_eq!(engine.flush().await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert_eq!(engine.stats().behind, 3);
    world.store.always(Fault::None);
    tokio::time::sleep(Duration::from_secs(5)).await;
    engine.flush().await.unwrap();
    assert!(stored(&world, "a").await && stored(&world, "c").await);

    world.store.always(Fault::Hangs);
    assert!(is_fresh(&engine, "d").await);
    assert_eq!(engine.flush().await.unwrap_err().kind(), ErrorKind::Timeout);
    // One record that fails affects no other.
    world.store.always(Fault::None);
    tokio::time::sleep(Duration::from_secs(5)).await;
    engine.flush().await.unwrap();
    assert!(stored(&world, "d").await);
    world.store.next(Fault::FailsOne(ErrorKind::Unavailable));
    engine.check_batch(["e", "f"]).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    engine.flush().await.unwrap();
    assert!(stored(&world, "e").await && stored(&world, "f").await);
}

#[tokio::test(start_paused = true)]
async fn what_is_behind_is_bounded() {
    let world = World::new();
    let engine = world.engine().ownership(Ownership::Exclusive).history(HISTORY).max_waiting(7).build().await.unwrap();
    engine.warm().await.unwrap();
    world.store.always(Fault::Fails(ErrorKind::Unavailable));
    for i in 0..112 {
        assert!(is_fresh(&engine, &format!("{i}")).await);
    }
    let refused = engine.check("one more").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Timeout);
    assert_eq!(engine.stats().behind, 112);
    world.store.always(Fault::None);
    tokio::time::sleep(Duration::from_secs(5)).await;
    // It was not burned.
    assert!(is_fresh(&engine, "one more").await);
    let ids: Vec<String> = (1_000..2_000).map(|i| format!("{i}")).collect();
    assert!(engine.check_batch(&ids).await.into_iter().all(|it| it.unwrap().is_fresh()));
    engine.flush().await.unwrap();
}

#[tokio::test]
async fn until_it_is_warm_every_miss_is_asked() {
    let world = World::new();
    {
        let engine = world.exclusive().await;
        assert!(is_fresh(&engine, "old").await);
        engine.claim("claimed").await.unwrap().claimed().unwrap().complete().await.unwrap();
        engine.shutdown(WINDOW).await.unwrap();
    }
    let engine = world.engine().ownership(Ownership::Exclusive).history(HISTORY).build().await.unwrap();
    assert!(!engine.stats().is_warm);
    let requests = world.store.requests();
    assert!(!is_fresh(&engine, "old").await);
    assert!(engine.claim("claimed").await.unwrap().is_duplicate());
    assert!(is_fresh(&engine, "new").await);
    engine.flush().await.unwrap();
    assert_eq!(world.store.requests() - requests, 4, "three questions and a record");
    assert_eq!(engine.warm().await.unwrap(), 3);
    let requests = world.store.requests();
    assert!(is_fresh(&engine, "newer").await);
    engine.flush().await.unwrap();
    assert_eq!(world.store.requests() - requests, 1, "a record, and no question");
}

#[tokio::test(start_paused = true)]
async fn no_answer_is_wrong_while_it_warms() {
    let stored: usize = testkit::long(20_000, 60_000);
    let world = World::new();
    {
        let engine = world.exclusive().await;
        let ids: Vec<String> = (0..stored).map(|i| format!("old {i}")).collect();
        assert!(engine.check_batch(ids).await.into_iter().all(|it| it.unwrap().is_fresh()));
        engine.shutdown(WINDOW).await.unwrap();
    }
    let engine = world
        .engine()
        .ownership(Ownership::Exclusive)
        .history(HistoryOptions { ids: 200_000, false_positive_rate: 1e-3 })
        .build()
        .await
        .unwrap();
    world.store.always(Fault::Delays(Duration::from_millis(10)));
    let warms = tokio::spawn({
        let engine = engine.clone();
        async move { engine.warm().await }
    });
    let mut checked = 0;
    // Before it is warm, and for a while afterwards.
    while !engine.stats().is_warm || checked < 300 {
        let old = (checked * 7_919) % stored;
        assert!(!is_fresh(&engine, &format!("old {old}")).await, "{old}");
        assert!(engine.claim(format!("old {}", stored - 1 - old)).await.unwrap().is_duplicate());
        assert!(is_fresh(&engine, &format!("new {checked}")).await);
        assert!(!is_fresh(&engine, &format!("new {checked}")).await);
        checked += 1;
    }
    let warmed = warms.await.unwrap().unwrap() as usize;
    assert!((stored..=stored + checked).contains(&warmed), "{warmed}");
}

#[tokio::test]
async fn what_is_evicted_before_it_is_durable_is_a_duplicate_all_the_same() {
    let world = World::new();
    let engine = world
        .engine()
        .ownership(Ownership::Exclusive)
        .capacity(1)
        .max_memory_bytes(64 << 10)
        .history(HistoryOptions { ids: 100_000, false_positive_rate: 1e-3 })
        .build()
        .await
        .unwrap();
    engine.warm().await.unwrap();
    let ids = testkit::long(10_000, 20_000);
    for i in 0..ids {
        assert!(engine.check(format!("{i}")).await.unwrap().is_fresh(), "{i}");
    }
    for i in 0..ids {
        assert!(engine.check(format!("{i}")).await.unwrap().is_duplicate(), "{i}");
    }
    assert!(engine.stats().decided.duplicates_by_store > ids / 4);
}

#[tokio::test]
async fn the_history_sees_no_shadow_of_false_positives() {
    let world = World::new();
    // The rate is so bad that every other new id is asked about.
    let engine = world
        .engine()
        .ownership(Ownership::Exclusive)
        .history(HistoryOptions { ids: 2_000, false_positive_rate: 0.5 })
        .build()
        .await
        .unwrap();
    engine.warm().await.unwrap();
    let ids: Vec<String> = (0..3_000).map(|i| format!("{i}")).collect();
    for chunk in ids.chunks(100) {
        let twice: Vec<&String> = chunk.iter().chain(chunk).collect();
        let verdicts: Vec<bool> =
            engine.check_batch(twice).await.into_iter().map(|it| it.unwrap().is_fresh()).collect();
        assert!(verdicts[..100].iter().all(|fresh| *fresh) && !verdicts[100..].iter().any(|fresh| *fresh));
    }
    engine.flush().await.unwrap();
    for id in &ids {
        assert!(stored(&world, id).await);
        assert!(engine.claim(id).await.unwrap().is_duplicate());
    }
}

#[tokio::test]
async fn one_owner_at_a_time() {
    let world = World::new();
    let exclusive = |name: &'static str| world.engine().ownership(Ownership::ExclusiveAs(name.into())).build();
    let first = exclusive("a").await.unwrap();
    let refused = exclusive("b").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Conflict);
    assert_eq!(world.engine().build().await.unwrap_err().kind(), ErrorKind::Conflict);
    // After a restart, the same one again.
    let again = exclusive("a").await.unwrap();
    assert!(is_fresh(&again, "x").await);
    again.shutdown(WINDOW).await.unwrap();
    drop(first);
    let next = exclusive("b").await.unwrap();
    assert!(!is_fresh(&next, "x").await);
    next.shutdown(WINDOW).await.unwrap();
    world.shared().await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_has_lost_the_store_stops() {
    let world = World::new();
    let engine = world.exclusive().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(is_fresh(&engine, "a").await, "it is renewed");
    // As after a long pause of the process.
    world.clock.advance(Duration::from_secs(60));
    let other = world.engine().ownership(Ownership::ExclusiveAs("other".into())).build().await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    for _ in 0..2 {
        assert_eq!(engine.check("b").await.unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(engine.claim("b").await.unwrap_err().kind(), ErrorKind::Conflict);
    }
    assert!(is_fresh(&other, "b").await);
}

#[tokio::test(start_paused = true)]
async fn shutdown_writes_what_is_left_or_says_what_is_not() {
    let world = World::new();
    let engine = world.exclusive().await;
    world.store.next(Fault::Delays(Duration::from_millis(500)));
    assert!(is_fresh(&engine, "a").await);
    engine.shutdown(Duration::from_secs(2)).await.unwrap();
    assert!(stored(&world, "a").await);
    assert_eq!(engine.check("b").await.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(engine.check_batch(["b"]).await[0].is_err());
    assert!(engine.claim_batch(["b"]).await[0].is_err());
    drop(engine);

    let engine = world.exclusive().await;
    assert!(is_fresh(&engine, "c").await);
    world.store.always(Fault::Fails(ErrorKind::Unavailable));
    assert!(is_fresh(&engine, "d").await);
    let left = engine.shutdown(Duration::from_secs(2)).await.unwrap_err();
    assert_eq!(left.kind(), ErrorKind::Timeout);
    assert!(left.to_string().contains("records are not durable"), "{left}");
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_cannot_renew_stops_when_its_lease_ends_however_long_calls_may_take() {
    for timeout in [1, 4, 10, 60].map(Duration::from_secs) {
        let world = World::new();
        let engine = world.engine().ownership(Ownership::Exclusive).history(HISTORY).timeout(timeout);
        let engine = engine.build().await.unwrap();
        engine.warm().await.unwrap();
        assert!(is_fresh(&engine, "a").await);
        world.store.always(Fault::Hangs);
        tokio::time::sleep(Duration::from_millis(14_900)).await;
        assert!(!is_fresh(&engine, "a").await, "{timeout:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
        // From now on, another engine may have the store.
        assert_eq!(engine.check("a").await.unwrap_err().kind(), ErrorKind::Conflict, "{timeout:?}");
    }
}

#[tokio::test]
async fn claims_of_a_batch_are_asked_about_together() {
    let world = World::new();
    let engine = world.engine().ownership(Ownership::Exclusive).history(HISTORY).build().await.unwrap();
    engine.claim("done").await.unwrap().claimed().unwrap().complete().await.unwrap();
    let other = engine.claim("taken").await.unwrap().claimed().unwrap();
    let (calls, requests) = (world.store.calls(), world.store.requests());
    // It is not warm, so that it asks about all but "done", which the window knows.
    let mut attempts = engine.claim_batch(["a", "done", "b", "taken", "a"]).await.into_iter().map(Result::unwrap);
    assert_eq!((world.store.calls() - calls, world.store.requests() - requests), (1, 3));
    let first = attempts.next().unwrap().claimed().unwrap();
    assert!(attempts.next().unwrap().is_duplicate());
    let third = attempts.next().unwrap().claimed().unwrap();
    assert!(attempts.next().unwrap().is_in_progress());
    assert!(attempts.next().unwrap().is_in_progress(), "the first of the batch has it");
    drop(attempts);
    assert!(engine.complete_batch([first, third, other]).await.into_iter().all(|ended| ended.is_ok()));

    // One look-up that fails is the error of one.
    world.store.next(Fault::FailsOne(ErrorKind::Corrupt));
    let attempts = engine.claim_batch(["c", "d"]).await;
    assert_eq!(attempts.iter().filter(|attempt| attempt.is_err()).count(), 1);
    assert!(engine.claim("a").await.unwrap().is_duplicate());
}

#[tokio::test(start_paused = true)]
async fn completed_claims_leave_nothing_behind() {
    let world = World::new();
    let engine = world.exclusive().await;
    let mut bytes = Vec::new();
    for round in 0..6 {
        for i in 0..testkit::long(2_000, 4_000) {
            let attempt = engine.claim(format!("{round} {i}")).await.unwrap();
            attempt.claimed().unwrap().complete().await.unwrap();
        }
        world.clock.advance(2 * WINDOW);
        bytes.push(engine.stats().memory_bytes);
    }
    // The records of 12,000 ids would take 850 kB, those of 24,000 twice as much.
    assert!(bytes[5] - bytes[0] < 256 << 10, "{bytes:?}");
}
