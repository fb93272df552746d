//! Requests that come together are sent together; those of one id are merged into one.

use super::*;
use hapax_store::{InMemoryStore, TieredAttempt};
use hapax_testing::store::Fault;
use tokio::task::JoinSet;

#[tokio::test(start_paused = true)]
async fn what_comes_while_a_batch_is_under_way_is_the_next_batch() {
    let world = World::new();
    let engine = world.shared().await;
    world.store.always(Fault::Delays(Duration::from_millis(10)));
    let calls = world.store.calls();
    let begun = tokio::time::Instant::now();
    let mut callers = JoinSet::new();
    for i in 0..1_000 {
        let engine = engine.clone();
        callers.spawn(async move { engine.check(format!("{i}")).await.unwrap().is_fresh() });
    }
    assert!(callers.join_all().await.into_iter().all(|fresh| fresh));
    assert!(world.store.calls() - calls <= 6, "1,000 ids took {} calls", world.store.calls() - calls);
    assert!(begun.elapsed() <= Duration::from_millis(40), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn one_caller_waits_for_nobody() {
    let world = World::new();
    let engine = world.shared().await;
    world.store.always(Fault::Delays(Duration::from_millis(10)));
    for i in 0..10 {
        let begun = tokio::time::Instant::now();
        assert!(is_fresh(&engine, &format!("{i}")).await);
        assert!(begun.elapsed() <= Duration::from_millis(12), "{:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_thousand_callers_of_one_id_are_one_question() {
    let world = World::new();
    let engine = world.shared().await;
    world.store.always(Fault::Delays(Duration::from_millis(10)));
    let requests = world.store.requests();
    let mut callers = JoinSet::new();
    for _ in 0..1_000 {
        let engine = engine.clone();
        callers.spawn(async move { u32::from(engine.check("a").await.unwrap().is_fresh()) });
    }
    assert_eq!(callers.join_all().await.into_iter().sum::<u32>(), 1);
    assert_eq!(world.store.requests() - requests, 1);

    let mut callers = JoinSet::new();
    for _ in 0..1_000 {
        let engine = engine.clone();
        callers.spawn(async move {
            match engine.claim("b").await.unwrap() {
                TieredAttempt::Claimed(claim) => claim.complete().await.map(|()| 1).unwrap(),
                TieredAttempt::InProgress { .. } => 0,
                other => panic!("{other:?}"),
            }
        });
    }
    assert_eq!(callers.join_all().await.into_iter().sum::<u32>(), 1);
    assert!(world.store.requests() - requests <= 3, "a check, a claim, a completion");
}

#[tokio::test(start_paused = true)]
async fn queues_are_bounded_whoever_comes_then_waits() {
    let world = World::new();
    let engine = world.engine().max_waiting(100).retries(0).timeout(Duration::from_secs(1)).build().await.unwrap();
    world.store.always(Fault::Hangs);
    let mut callers = JoinSet::new();
    for i in 0..10_000 {
        let engine = engine.clone();
        callers.spawn(async move { engine.check(format!("{i}")).await.is_err() });
    }
    for _ in 0..100 {
        tokio::task::yield_now().await;
        assert!(engine.stats().waiting <= 100, "{}", engine.stats().waiting);
    }
    assert!(callers.join_all().await.into_iter().all(|failed| failed), "a store that hangs has said something");
    assert_eq!(engine.stats().waiting, 0);
}

#[tokio::test(start_paused = true)]
async fn results_under_way_are_bounded_too() {
    let world = World::new();
    let engine = world.engine().max_waiting(64).build().await.unwrap();
    let mut claims = Vec::new();
    for i in 0..100 {
        claims.push(engine.claim(format!("{i}")).await.unwrap().claimed().unwrap());
    }
    world.store.always(Fault::Delays(Duration::from_millis(10)));
    let begun = tokio::time::Instant::now();
    let mut callers = JoinSet::new();
    for claim in claims {
        callers.spawn(claim.complete_with(vec![7; 32 << 10]));
    }
    assert!(callers.join_all().await.into_iter().all(|end| end.is_ok()));
    // Two at a time.
    assert!(begun.elapsed() >= Duration::from_millis(490), "{:?}", begun.elapsed());
    // A batch that is larger than all that may be under way is sent alone.
    let claim = engine.claim("large").await.unwrap().claimed().unwrap();
    claim.complete_with(vec![7; 1 << 20]).await.unwrap();
}

#[tokio::test]
async fn large_batches_are_divided() {
    let world = World::new();
    let engine = world.engine().max_waiting(500).build().await.unwrap();
    let ids: Vec<String> = (0..10_000).map(|i| format!("{}", i % 7_000)).collect();
    let fresh = engine.check_batch(&ids).await.into_iter().filter(|it| it.as_ref().unwrap().is_fresh()).count();
    assert_eq!(fresh, 7_000);
    assert_eq!(engine.stats().waiting, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_store_that_answers_at_once_is_asked_by_each_caller_itself() {
    const IDS: usize = 3_000;
    let engine = TieredDedup::builder(Arc::new(InMemoryStore::new())).capacity(10_000).build().await.unwrap();
    let mut callers = JoinSet::new();
    for caller in 0..8 {
        let engine = engine.clone();
        callers.spawn(async move {
            let ids: Vec<String> = (0..IDS).map(|i| format!("{i}")).collect();
            let mut fresh = 0;
            // One by one, and more than the store takes at a time.
            if caller % 2 == 0 {
                for id in &ids {
                    fresh += usize::from(engine.check(id).await.unwrap().is_fresh());
                }
            } else {
                let verdicts = engine.check_batch(&ids).await;
                fresh += verdicts.into_iter().filter(|verdict| verdict.as_ref().unwrap().is_fresh()).count();
            }
            fresh
        });
    }
    assert_eq!(callers.join_all().await.into_iter().sum::<usize>(), IDS);
    let requests = engine.stats().store_requests;
    assert!(engine.check("0").await.unwrap().is_duplicate());
    assert_eq!(engine.stats().store_requests, requests, "memory has learned it");
    let claim = engine.claim("claimed").await.unwrap().claimed().unwrap();
    engine.shutdown(Duration::from_secs(1)).await.unwrap();
    assert!(claim.complete().await.is_err(), "nothing is asked any more");
}
