//! Handlers fail and panic, stores fail, brokers refuse. Nothing is lost, and nothing is
//! acknowledged that is not done.

use super::*;
use hapax_store::sync::lock;
use hapax_store::{ErrorKind, OnStoreError};
use hapax_stream::{Acks, ConsumerError, Delivery};
use hapax_testing::store::Fault;
use std::future::pending;
use std::sync::Mutex;

/// The times at which a handler was called, and for which attempt.
type Calls = Arc<Mutex<Vec<(Instant, u32, bool)>>>;

/// Makes a handler that fails or panics this often.
fn failing(
    times: usize,
    panics: bool,
    calls: &Calls,
) -> impl Fn(Delivery<Message>) -> std::future::Ready<Result<(), String>> + Send + Sync + 'static {
    let calls = Arc::clone(calls);
    move |message| {
        let mut calls = lock(&calls);
        calls.push((Instant::now(), message.attempt(), message.is_last_attempt()));
        assert!(!panics || calls.len() > times, "a panic that was asked for");
        std::future::ready(if calls.len() > times { Ok(()) } else { Err("a failure that was asked for".to_owned()) })
    }
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_tried_again_later_each_time() {
    for (acks, panics) in [(Acks::Each, false), (Acks::Each, true), (Acks::Cumulative, false), (Acks::Cumulative, true)]
    {
        for counts in [false, true] {
            let world = World::new();
            let engine = world.shared().await;
            let broker = Broker::new(&world.store, acks);
            let broker = if counts && acks == Acks::Each { broker.counting_deliveries() } else { broker };
            broker.send(0, "a");
            broker.close();
            let calls = Calls::default();
            let consumer = consumer(&engine).build().unwrap();
            let stats = consumer.run(&broker, failing(3, panics, &calls), pending()).await.unwrap();
            assert_eq!((stats.failed, stats.panicked), (3, if panics { 3 } else { 0 }));
            assert_eq!((stats.handled, stats.acknowledged, stats.dead_lettered), (1, 1, 0));
            let calls = lock(&calls);
            assert_eq!(calls.iter().map(|call| call.1).collect::<Vec<_>>(), [1, 2, 3, 4]);
            for (i, pair) in calls.windows(2).enumerate() {
                let (waited, longest) = (pair[1].0 - pair[0].0, Duration::from_millis(100 << i));
                let as_long = longest / 2..longest + 3 * MOMENT;
                assert!(as_long.contains(&waited), "{waited:?} after failure {}", i + 1);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_fails_too_often_is_put_aside_until_it_is_sent_anew() {
    for acks in [Acks::Each, Acks::Cumulative] {
        let world = World::new();
        let engine = world.shared().await;
        let broker = Broker::new(&world.store, acks);
        let first = broker.send(0, "poison");
        let calls = Calls::default();
        let consumer = consumer(&engine).max_attempts(3).build().unwrap();
        let run = consumer.run(&broker, failing(usize::MAX, false, &calls), pending());
        let (stats, ()) = tokio::join!(run, async {
            tokio::time::sleep(Duration::from_secs(10)).await;
            broker.send(0, "poison");
            broker.close();
        });
        let calls = calls.lock().unwrap().clone();
        let each = [(1, false), (2, false), (3, true)];
        assert_eq!(calls.iter().map(|call| (call.1, call.2)).collect::<Vec<_>>(), [each; 2].concat(), "{acks:?}");
        assert_eq!(broker.state().dead.get(&first).unwrap(), "a failure that was asked for");
        let stats = stats.unwrap();
        assert_eq!((stats.dead_lettered, stats.duplicate, stats.acknowledged), (2, 0, 2));
        assert!(orders(&engine).claim("poison").await.unwrap().claimed().is_some(), "it is not done");
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_fails_holds_up_what_may_be_acknowledged_and_nothing_else() {
    let world = World::new();
    let engine = world.shared().await;
    let broker = Broker::new(&world.store, Acks::Cumulative);
    for n in 0..20 {
        broker.send_id(n % 2, Some(n.to_string()));
    }
    let consumer = consumer(&engine).retry_delay(LEASE, LEASE).build().unwrap();
    let failed = std::sync::atomic::AtomicBool::new(false);
    let handler = move |message: Delivery<Message>| {
        let fails = message.offset == 6 && !failed.swap(true, std::sync::atomic::Ordering::Relaxed);
        async move { if fails { Err("once") } else { Ok(()) } }
    };
    let run = consumer.run(&broker, handler, pending());
    let (stats, ()) = tokio::join!(run, async {
        tokio::time::sleep(LEASE / 2).await;
        assert_eq!(consumer.stats().handled, 19);
        assert_eq!(broker.out(), [6, 8, 10, 12, 14, 16, 18], "these are behind it");
        broker.close();
    });
    assert_eq!(stats.unwrap().handled, 20);
    let even: Vec<usize> = broker.state().acknowledged.iter().copied().filter(|offset| offset % 2 == 0).collect();
    assert_eq!(even, (0..20).step_by(2).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn messages_wait_while_the_store_fails() {
    for acks in [Acks::Each, Acks::Cumulative] {
        let world = World::new();
        let engine = world.engine().retries(0).build().await.unwrap();
        let (broker, effects) = (Broker::new(&world.store, acks), Effects::new(&world.store));
        (0..100).for_each(|n| _ = broker.send_id(0, Some(n.to_string())));
        broker.close();
        world.store.always(Fault::Fails(ErrorKind::Unavailable));
        let consumer = consumer(&engine).max_in_flight(10).max_unacknowledged(30).build().unwrap();
        let run = consumer.run(&broker, effects.handler(|_| MOMENT), pending());
        let (stats, ()) = tokio::join!(run, async {
            tokio::time::sleep(2 * LEASE).await;
            assert_eq!((broker.out().len(), effects.total()), (30, 0), "no more are received than may wait");
            assert!(broker.state().retried.is_empty(), "they wait here");
            // Pauses double, and are shortened at random by up to a half.
            assert!(world.store.calls() < 100, "{} calls: the store is left alone", world.store.calls());
            world.store.always(Fault::None);
        });
        assert_eq!((effects.total(), stats.unwrap().acknowledged), (100, 100));
    }
}

#[tokio::test(start_paused = true)]
async fn what_could_not_be_completed_is_not_acknowledged() {
    // A transient error is retried; after any other the id waits until its lease has passed, and
    // then it is not known that it was done.
    for (kind, times) in [(ErrorKind::Unavailable, 1), (ErrorKind::Corrupt, 2)] {
        let world = World::new();
        let engine = world.engine().retries(0).build().await.unwrap();
        let (broker, effects) = (Broker::new(&world.store, Acks::Each), Effects::new(&world.store));
        broker.send(0, "a");
        broker.close();
        world.store.next(Fault::None);
        (0..3).for_each(|_| world.store.next(Fault::Fails(kind)));
        let consumer = consumer(&engine).build().unwrap();
        let run = consumer.run(&broker, effects.handler(|_| MOMENT), pending());
        let (stats, ()) = tokio::join!(run, async {
            tokio::time::sleep(MOMENT * 3 / 2).await;
            assert_eq!((effects.of("a"), broker.is_done(), consumer.stats().store_error), (1, false, 1));
        });
        let stats = stats.unwrap();
        assert_eq!((effects.of("a"), stats.acknowledged), (times, 1), "{kind:?}: {stats:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn faults_of_the_store_lose_nothing_and_nothing_runs_that_is_done() {
    for seed in 1..=8 {
        let acks = [Acks::Each, Acks::Cumulative][seed as usize % 2];
        println!("seed {seed}, {acks:?}");
        let world = World::new();
        let engine = world.engine().retries(1).attempt_seed(seed).build().await.unwrap();
        let (broker, effects) = (Broker::new(&world.store, acks), Effects::new(&world.store));
        for n in (0..150).chain(0..150) {
            broker.send_id(n % 4, Some(n.to_string()));
        }
        broker.close();
        let (fails, loses) = (Fault::Fails(ErrorKind::Unavailable), Fault::LosesAnswer(ErrorKind::Timeout));
        let one = Fault::FailsOne(ErrorKind::Unavailable);
        let faults = [(150, fails), (100, loses), (50, one), (50, Fault::Delays(MOMENT)), (20, Fault::Hangs)];
        world.store.at_random(seed, faults);
        let handler = effects.handler(|message| Duration::from_millis(message.offset as u64 * 31 % 200));
        let stats = consumer(&engine).build().unwrap().run(&broker, handler, pending()).await.unwrap();
        assert!(broker.is_done());
        assert!((0..150).all(|n| effects.of(&n.to_string()) >= 1));
        assert!(stats.store_error > 0, "{stats:?}");
        // Twice only what was done, and whose lease was lost before its completion was recorded.
        assert!(u64::from(effects.total()) <= 150 + stats.lost, "{} effects: {stats:?}", effects.total());
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_admitted_without_a_store_is_handled_and_acknowledged() {
    let world = World::new();
    let engine = world
        .engine()
        .policy("*", hapax_store::Policy::new().on_store_error(OnStoreError::Admit))
        .retries(0)
        .build()
        .await
        .unwrap();
    let mut broker = Broker::new(&world.store, Acks::Each);
    broker.lenient = true;
    let effects = Effects::new(&world.store);
    world.store.always(Fault::Fails(ErrorKind::Unavailable));
    ["a", "b"].into_iter().for_each(|id| _ = broker.send(0, id));
    broker.close();
    let run = consumer(&engine).build().unwrap();
    let stats = run.run(&broker, effects.handler(|_| MOMENT), pending()).await.unwrap();
    assert_eq!((effects.of("a"), effects.of("b"), stats.unrecorded, stats.acknowledged), (1, 1, 2, 2));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_belongs_to_somebody_else_ends_the_run() {
    for kind in [ErrorKind::Conflict, ErrorKind::Misconfigured] {
        let world = World::new();
        let engine = world.shared().await;
        let (broker, effects) = (Broker::new(&world.store, Acks::Each), Effects::new(&world.store));
        broker.send(0, "a");
        world.store.always(Fault::Fails(kind));
        let consumer = consumer(&engine).build().unwrap();
        let error = consumer.run(&broker, effects.handler(|_| MOMENT), pending()).await.unwrap_err();
        assert!(matches!(&error, ConsumerError::Store(error) if error.kind() == kind), "{error}");
        assert_eq!((effects.total(), broker.state().acknowledged.len()), (0, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_refuses_ends_the_run_and_what_had_begun_is_finished() {
    for (call, completed, acknowledged) in
        [("receive", 2, 2), ("acknowledge", 2, 0), ("retry", 2, 2), ("dead_letter", 2, 2)]
    {
        let world = World::new();
        let engine = world.shared().await;
        let (broker, effects) = (Broker::new(&world.store, Acks::Each), Effects::new(&world.store));
        ["a", "b", "fails", "poison"].into_iter().for_each(|id| _ = broker.send(0, id));
        broker.refuse(call);
        if call == "receive" {
            broker.refuses.lock().unwrap().clear();
        }
        let attempts = if call == "dead_letter" { 1 } else { 5 };
        let consumer = consumer(&engine).max_attempts(attempts).retry_delay(LEASE, LEASE).build().unwrap();
        let of_effects = effects.clone();
        let handler = move |message: Delivery<Message>| {
            let effects = of_effects.clone();
            async move {
                match message.id.as_deref() {
                    Some("fails" | "poison") => return Err("as it was asked to".to_owned()),
                    _ => effects.handle(&message, 10 * MOMENT).await,
                }
                Ok(())
            }
        };
        let run = consumer.run(&broker, handler, pending());
        let (outcome, ()) = tokio::join!(run, async {
            tokio::time::sleep(MOMENT).await;
            broker.refuse(call);
            broker.send(0, "later");
        });
        let error = outcome.unwrap_err();
        assert!(matches!(error, ConsumerError::Source(_)), "{call}: {error}");
        let done = ["a", "b"].iter().filter(|id| effects.of(id) == 1).count();
        assert_eq!((done, broker.state().acknowledged.len()), (completed, acknowledged), "{call}");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_acknowledged_before_what_an_exclusive_engine_owes_is_durable() {
    let world = World::new();
    world.store.be_private();
    let engine = world.exclusive().await;
    let (broker, effects) = (Broker::new(&world.store, Acks::Each), Effects::new(&world.store));
    world.store.always(Fault::Fails(ErrorKind::Unavailable));
    assert!(orders(&engine).check("checked").await.unwrap().is_fresh(), "it is written behind");
    broker.send(0, "checked");
    broker.close();
    let consumer = consumer(&engine).build().unwrap();
    let run = consumer.run(&broker, effects.handler(|_| MOMENT), pending());
    let (stats, ()) = tokio::join!(run, async {
        tokio::time::sleep(LEASE).await;
        assert_eq!((consumer.stats().duplicate, broker.out()), (1, vec![0]), "known, and not durable");
        world.store.always(Fault::None);
    });
    assert_eq!((effects.total(), stats.unwrap().acknowledged), (0, 1));
}
