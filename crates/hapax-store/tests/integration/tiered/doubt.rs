//! Marks whose maker was never told, found by another instance.

use super::*;
use hapax::{Outcome, Verdict};
use hapax_store::{ErrorKind, InMemoryStore, Mark, Marked, RecordKey, Scope, Store as _};
use hapax_testing::store::{Fault, FaultyStore};
use testkit::random::Random;

/// A grace longer than it takes to notice a lost answer and to take its mark back.
const GRACE: Duration = Duration::from_secs(8);

/// Builds an instance that asks each question once.
fn instance(world: &World) -> TieredBuilder<Store> {
    world.engine().in_doubt(GRACE).retries(0)
}

async fn lost(world: &World, engine: &Engine, id: &str) {
    world.store.next(Fault::LosesAnswer(ErrorKind::Timeout));
    assert_eq!(engine.check(id).await.unwrap_err().kind(), ErrorKind::Timeout);
}

async fn outcome(engine: &Engine, id: &str) -> Outcome {
    engine.check(id).await.unwrap().outcome()
}

/// Lets time pass for the store, and for the engines' tasks.
async fn pass(world: &World, time: Duration) {
    world.clock.advance(time);
    tokio::time::sleep(time).await;
}

#[tokio::test(start_paused = true)]
async fn a_mark_whose_answer_was_lost_is_not_anothers_duplicate() {
    let world = World::new();
    let (here, there) = (instance(&world).build().await.unwrap(), instance(&world).build().await.unwrap());
    lost(&world, &here, "a").await;
    // Nobody was told that it is fresh, so the broker gives it to another instance.
    assert_eq!(outcome(&there, "a").await, Outcome::InProgress);
    let batch: Vec<Verdict> = there.check_batch(["a", "b"]).await.into_iter().map(|it| it.unwrap()).collect();
    assert_eq!(batch.iter().map(|it| it.outcome()).collect::<Vec<_>>(), [Outcome::InProgress, Outcome::Fresh]);
    // The instance that got no answer takes its mark back.
    pass(&world, Duration::from_secs(1)).await;
    assert_eq!(outcome(&there, "a").await, Outcome::Fresh);
    assert_eq!(outcome(&here, "a").await, Outcome::InProgress, "it is young, and another one's");
    pass(&world, GRACE).await;
    assert_eq!(outcome(&here, "a").await, Outcome::Duplicate);
}

#[tokio::test(start_paused = true)]
async fn without_a_doubt_the_message_is_lost() {
    let world = World::new();
    let believes = || instance(&world).in_doubt(Duration::ZERO);
    let (here, there) = (believes().build().await.unwrap(), believes().build().await.unwrap());
    lost(&world, &here, "a").await;
    assert_eq!(outcome(&there, "a").await, Outcome::Duplicate);
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_again_in_the_same_process_is_told_that_it_is_fresh() {
    let world = World::new();
    let (here, there) = (instance(&world).build().await.unwrap(), instance(&world).build().await.unwrap());
    lost(&world, &here, "at once").await;
    assert_eq!(outcome(&here, "at once").await, Outcome::Fresh);
    lost(&world, &here, "later").await;
    pass(&world, Duration::from_secs(1)).await;
    assert_eq!(outcome(&here, "later").await, Outcome::Fresh);
    // A mark of which it was told is not taken back any more.
    pass(&world, GRACE).await;
    for id in ["at once", "later"] {
        assert_eq!(outcome(&there, id).await, Outcome::Duplicate, "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_mark_that_may_be_taken_back_at_any_time_is_nobodys() {
    let world = World::new();
    let here = instance(&world).circuit_breaker(1_000, GRACE).build().await.unwrap();
    lost(&world, &here, "a").await;
    // The store is asked to take it back, and it is unknown when that will be done.
    world.store.always(Fault::Fails(ErrorKind::Unavailable));
    pass(&world, Duration::from_millis(500)).await;
    world.store.always(Fault::None);
    // Under its old number it would be told that it is fresh, and then its mark would be taken
    // back.
    tokio::time::sleep(Duration::from_millis(1)).await;
    let verdict = outcome(&here, "a").await;
    assert!(matches!(verdict, Outcome::Fresh | Outcome::InProgress), "{verdict:?}");
    pass(&world, Duration::from_secs(2)).await;
    let again = outcome(&here, "a").await;
    assert_eq!([verdict, again].iter().filter(|it| **it == Outcome::Fresh).count(), 1, "{verdict:?}, {again:?}");
}

#[tokio::test(start_paused = true)]
async fn taking_back_ends_nothing_else() {
    let world = World::new();
    let (here, there) = (instance(&world).build().await.unwrap(), instance(&world).build().await.unwrap());
    // The mark was not made, and another instance is first.
    world.store.next(Fault::Fails(ErrorKind::Timeout));
    assert!(here.check("marked").await.is_err());
    assert_eq!(outcome(&there, "marked").await, Outcome::Fresh);
    world.store.next(Fault::Fails(ErrorKind::Timeout));
    assert!(here.check("claimed").await.is_err());
    let claim = there.claim("claimed").await.unwrap().claimed().unwrap();
    pass(&world, GRACE).await;
    assert_eq!(outcome(&here, "marked").await, Outcome::Duplicate);
    claim.complete().await.expect("it is held");
    assert_eq!(outcome(&here, "claimed").await, Outcome::Duplicate);
}

#[tokio::test(start_paused = true)]
async fn what_a_store_does_late_is_taken_back_once_more() {
    let world = World::new();
    let (here, there) = (instance(&world).build().await.unwrap(), instance(&world).build().await.unwrap());
    // A server stands still: it has the request, and does it when it continues.
    world.store.next(Fault::Fails(ErrorKind::Timeout));
    assert!(here.check("a").await.is_err());
    pass(&world, Duration::from_millis(500)).await;
    let calls = world.store.calls();
    assert!(calls >= 4, "it was asked to take the mark back: {calls} calls");
    let key = RecordKey::new(&Scope::default(), "a");
    // (Under a number that the engine has not given: what matters is that it asks again.)
    let late = Mark { key, attempt: 1, retention: RETENTION };
    assert_eq!(world.store.inner().mark(&[late]).await.unwrap()[0].as_ref().unwrap(), &Marked::Fresh);
    pass(&world, Duration::from_secs(2)).await;
    assert!(world.store.calls() > calls, "it is asked once more");
    assert_eq!(outcome(&there, "a").await, Outcome::InProgress, "another attempt's mark stays");
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_ends_takes_its_marks_back_first() {
    let world = World::new();
    let (here, there) = (instance(&world).build().await.unwrap(), instance(&world).build().await.unwrap());
    lost(&world, &here, "a").await;
    here.shutdown(Duration::from_secs(5)).await.unwrap();
    assert_eq!(outcome(&there, "a").await, Outcome::Fresh);
    lost(&world, &there, "b").await;
    world.store.always(Fault::Fails(ErrorKind::Unavailable));
    let error = there.shutdown(Duration::from_secs(5)).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Timeout && error.to_string().contains("1 marks"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_is_gone_leaves_no_mark_behind_though_the_store_is_away() {
    let world = World::new();
    // Seeds, since a pause that ends as soon as the store is back would be early enough.
    let [here, there] = [1, 2].map(|seed| instance(&world).attempt_seed(seed).build());
    let (here, there) = (here.await.unwrap(), there.await.unwrap());
    world.store.next(Fault::AnswersLate(Duration::from_millis(100)));
    let patience = Duration::from_millis(50);
    assert!(tokio::time::timeout(patience, here.check("a")).await.is_err());
    world.store.always(Fault::Fails(ErrorKind::Unavailable));
    pass(&world, Duration::from_secs(1)).await;
    world.store.always(Fault::None);
    assert_eq!(outcome(&there, "a").await, Outcome::InProgress);
    pass(&world, Duration::from_secs(3)).await;
    assert_eq!(outcome(&there, "a").await, Outcome::Fresh);
}

#[tokio::test]
async fn a_store_whose_answers_cannot_be_lost_is_believed() {
    let store = Arc::new(InMemoryStore::new());
    let (here, there) = (TieredDedup::builder(Arc::clone(&store)), TieredDedup::builder(store));
    let (here, there) = (here.build().await.unwrap(), there.build().await.unwrap());
    assert!(here.check("a").await.unwrap().is_fresh());
    assert!(there.check("a").await.unwrap().is_duplicate());
}

#[tokio::test(start_paused = true)]
async fn others_believe_a_mark_after_eight_seconds_by_default() {
    let world = World::new();
    let store = Arc::clone(&world.store);
    let engine = || TieredDedup::builder(Arc::clone(&store)).retention(RETENTION).window(WINDOW).expiry(None);
    let (here, there) = (engine().build().await.unwrap(), engine().build().await.unwrap());
    assert_eq!(outcome(&here, "a").await, Outcome::Fresh);
    assert_eq!(outcome(&here, "a").await, Outcome::Duplicate, "its own");
    assert_eq!(outcome(&there, "a").await, Outcome::InProgress);
    pass(&world, Duration::from_millis(7_999)).await;
    assert_eq!(outcome(&there, "a").await, Outcome::InProgress);
    pass(&world, Duration::from_millis(1)).await;
    assert_eq!(outcome(&there, "a").await, Outcome::Duplicate);
    // Completions are no marks, and are believed at once.
    here.claim("b").await.unwrap().claimed().unwrap().complete().await.unwrap();
    assert_eq!(outcome(&there, "b").await, Outcome::Duplicate);
    let _: &FaultyStore<InMemoryStore> = &store;
}

#[tokio::test(start_paused = true)]
async fn by_default_a_mark_is_in_doubt_for_half_of_a_short_retention() {
    let (world, retention) = (World::new(), Duration::from_secs(4));
    let engine = || {
        let engine = TieredDedup::builder(Arc::clone(&world.store)).retention(retention).window(retention);
        engine.clock(world.clock.clone()).expiry(None)
    };
    let (here, there) = (engine().build().await.unwrap(), engine().build().await.unwrap());
    assert_eq!(outcome(&here, "a").await, Outcome::Fresh);
    pass(&world, Duration::from_millis(1_999)).await;
    assert_eq!(outcome(&there, "a").await, Outcome::InProgress);
    pass(&world, Duration::from_millis(1)).await;
    assert_eq!(outcome(&there, "a").await, Outcome::Duplicate);
}

/// Delivers messages to two instances, with a store that loses answers and is away now and then,
/// and a broker that gives unacknowledged messages to the other instance at once, and everything
/// twice. Returns how many messages nobody has handled, and how many were handled twice.
async fn deliver(seed: u64, grace: Duration) -> (usize, usize) {
    const MESSAGES: usize = 40;
    let (world, mut random) = (World::new(), Random(seed));
    let engine = |number: u64| {
        let builder = world.engine().in_doubt(grace).retries(0).attempt_seed(seed << 1 | number);
        builder.circuit_breaker(5, Duration::from_millis(200))
    };
    let engines = [engine(0).build().await.unwrap(), engine(1).build().await.unwrap()];
    let mut handled = [0; MESSAGES];
    let mut waiting: Vec<(usize, usize)> = (0..2 * MESSAGES).map(|i| (i / 2, random.below(2) as usize)).collect();
    random.shuffle(&mut waiting);
    let (mut away, mut turn) = (0, 0);
    let faults = [(150, Fault::LosesAnswer(ErrorKind::Timeout)), (50, Fault::Fails(ErrorKind::Unavailable))];
    world.store.at_random(seed, faults);
    while let Some((message, at)) = waiting.pop() {
        turn += 1;
        assert!(turn < 100_000, "seed {seed}: it comes to no end");
        match engines[at].check(format!("{message}")).await {
            Ok(verdict) if verdict.is_fresh() => handled[message] += 1,
            Ok(verdict) if verdict.is_duplicate() => {}
            // It is not acknowledged: the other instance gets it, now, or after other messages.
            _ if random.percent(50) => waiting.push((message, 1 - at)),
            _ => waiting.insert(0, (message, 1 - at)),
        }
        if away == 0 && random.percent(2) {
            // For up to two seconds, which is less than the grace.
            away = random.within(1, 40);
            world.store.at_random(seed ^ turn, [(1_000, Fault::Fails(ErrorKind::Unavailable))]);
        } else if away > 0 {
            away -= 1;
            if away == 0 {
                world.store.at_random(seed ^ turn, faults);
            }
        }
        pass(&world, Duration::from_millis(random.within(1, 50))).await;
    }
    let count = |is: fn(u32) -> bool| handled.iter().filter(|times| is(**times)).count();
    (count(|times| times == 0), count(|times| times > 1))
}

#[tokio::test(start_paused = true)]
async fn whatever_is_lost_on_the_way_each_message_is_handled_once() {
    let first = std::env::var("HAPAX_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut lost_without = 0;
    let seeds = testkit::long(6, 20);
    for seed in first..first + seeds {
        println!("HAPAX_SEED={seed}");
        assert_eq!(deliver(seed, GRACE).await, (0, 0), "seed {seed}: lost, and handled twice");
        lost_without += deliver(seed, Duration::ZERO).await.0;
    }
    assert!(lost_without as u64 >= seeds, "without a doubt messages are lost, or this shows nothing: {lost_without}");
}
