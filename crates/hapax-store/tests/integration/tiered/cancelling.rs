//! Callers that are dropped while they wait.

use super::*;
use hapax_testing::store::Fault;
use std::future::Future;

const DELAY: Duration = Duration::from_millis(10);

/// Drops a future that has begun, after this long.
async fn cancel(future: impl Future, after: Duration) {
    assert!(tokio::time::timeout(after, future).await.is_err(), "there was nothing to cancel");
}

#[tokio::test(start_paused = true)]
async fn those_who_asked_the_same_do_not_suffer() {
    let world = World::new();
    let engine = world.shared().await;
    for round in 0..20 {
        let id = format!("{round}");
        world.store.next(if round % 2 == 0 { Fault::AnswersLate(DELAY) } else { Fault::Delays(DELAY) });
        let (leader, others) = (engine.clone(), engine.clone());
        let (led, asked) = (id.clone(), id.clone());
        let first = tokio::spawn(async move { leader.check(led).await });
        tokio::task::yield_now().await;
        let followers: Vec<_> = (0..5)
            .map(|_| {
                let (engine, id) = (others.clone(), asked.clone());
                tokio::spawn(async move { engine.check(id).await })
            })
            .collect();
        tokio::time::sleep(DELAY / 2).await;
        first.abort();
        let mut fresh = 0;
        for follower in followers {
            fresh += u32::from(follower.await.unwrap().unwrap().is_fresh());
        }
        assert_eq!(fresh, 1, "{id}: whoever was first is gone, so one of the others is");
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_dropped_is_released() {
    let (world, other) = (World::new(), World::new());
    for engine in [world.shared().await, other.exclusive().await] {
        drop(engine.claim("a").await.unwrap());
        tokio::time::sleep(DELAY).await;
        engine.claim("a").await.unwrap().claimed().expect("it was released").complete().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_completion_whose_caller_is_dropped_is_recorded() {
    let world = World::new();
    let engine = world.shared().await;
    let claim = engine.claim("a").await.unwrap().claimed().unwrap();
    world.store.next(Fault::Delays(DELAY));
    cancel(claim.complete(), DELAY / 2).await;
    tokio::time::sleep(DELAY).await;
    assert!(engine.claim("a").await.unwrap().is_duplicate());
}

#[tokio::test]
async fn the_end_of_the_runtime_is_an_error_not_a_hang() {
    let world = World::new();
    let other = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let store = Arc::clone(&world.store);
    let engine =
        other.spawn(async move { TieredDedup::builder(store).retries(0).build().await.unwrap() }).await.unwrap();
    assert!(engine.check("a").await.unwrap().is_fresh());
    world.store.always(Fault::Hangs);
    let waits = tokio::spawn({
        let engine = engine.clone();
        async move { engine.check("b").await }
    });
    tokio::time::sleep(DELAY).await;
    other.shutdown_background();
    assert!(waits.await.unwrap().is_err());
    assert!(engine.check("c").await.is_err());
    assert!(engine.check("a").await.unwrap().is_duplicate(), "memory needs no runtime");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_when_an_id_is_given_back_does_not_keep_the_others() {
    let world = World::new();
    let engine = world.engine().timeout(10 * DELAY).retries(0).build().await.unwrap();
    for round in 0..5 {
        world.store.next(Fault::AnswersLate(DELAY));
        world.store.next(Fault::Hangs);
        // The leader is dropped; callers that come then wait for the outcome of its call.
        let (leader, follower) = (engine.clone(), engine.clone());
        let first = tokio::spawn(async move { leader.claim(format!("{round}")).await });
        tokio::time::sleep(DELAY / 2).await;
        first.abort();
        tokio::time::sleep(2 * DELAY).await;
        let second = tokio::spawn(async move { follower.claim(format!("{round}")).await });
        let told = tokio::time::timeout(50 * DELAY, second).await.expect("an answer, or an error");
        assert!(told.unwrap().unwrap().is_in_progress(), "nobody could release it");
    }
    assert_eq!(engine.stats().waiting, 0);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_when_an_engine_is_built_is_an_error() {
    let world = World::new();
    world.store.always(Fault::Hangs);
    for ownership in [hapax_store::Ownership::Shared, hapax_store::Ownership::Exclusive] {
        let built = world.engine().ownership(ownership).timeout(DELAY).retries(0).build();
        let built = tokio::time::timeout(50 * DELAY, built).await.expect("an engine, or an error");
        assert_eq!(built.unwrap_err().kind(), hapax_store::ErrorKind::Timeout);
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_is_dropped_while_there_is_no_room_takes_nobody_along() {
    let world = World::new();
    let engine = world.engine().max_waiting(1).build().await.unwrap();
    world.store.next(Fault::Delays(DELAY));
    let spawn = |id: &'static str| {
        let engine = engine.clone();
        tokio::spawn(async move { engine.check(id).await })
    };
    let spawn_batch = |id: &'static str| {
        let engine = engine.clone();
        tokio::spawn(async move { engine.check_batch([id]).await.remove(0) })
    };
    let first = spawn("first");
    tokio::task::yield_now().await;
    // Both wait for room: one to ask about one id, one about a batch of one.
    let (one, batch) = (spawn("one"), spawn_batch("batch"));
    tokio::task::yield_now().await;
    let (follows_one, follows_batch) = (spawn_batch("one"), spawn("batch"));
    tokio::task::yield_now().await;
    one.abort();
    batch.abort();
    assert!(first.await.unwrap().unwrap().is_fresh());
    assert!(follows_one.await.unwrap().expect("it asks itself").is_fresh());
    assert!(follows_batch.await.unwrap().expect("it asks itself").is_fresh());
}

#[tokio::test(start_paused = true)]
async fn whoever_is_dropped_while_there_is_no_room_leaves_what_room_it_had() {
    let world = World::new();
    // A result weighs 1 KiB, and so much may wait.
    let engine = world.engine().max_waiting(1).build().await.unwrap();
    let mut claims = Vec::new();
    for id in ["a", "b", "c"] {
        claims.push(engine.claim(id).await.unwrap().claimed().unwrap());
    }
    world.store.next(Fault::Delays(DELAY));
    let without_result = tokio::spawn(claims.remove(0).complete());
    tokio::task::yield_now().await;
    // It has room for its bytes, and none for itself.
    cancel(claims.remove(0).complete_with([0; 1_024]), DELAY / 2).await;
    without_result.await.unwrap().unwrap();
    let last = claims.remove(0).complete_with([0; 1_024]);
    tokio::time::timeout(10 * DELAY, last).await.expect("there is room").unwrap();
}
