//! Attempts are counted, and deliveries are not: of a broker that delivers messages that wait, are
//! in progress elsewhere, or have killed their consumer.

use super::*;
use hapax_store::ErrorKind;
use hapax_stream::Delivery;
use hapax_testing::store::Fault;
use std::collections::HashMap;
use std::future::pending;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::sync::Notify;

/// The attempts at each id that have begun: their numbers, and whether each was the last.
type Begun = Arc<Mutex<HashMap<String, Vec<(u32, bool)>>>>;

fn begins(begun: &Begun, message: &Delivery<Received>) -> usize {
    let mut begun = begun.lock().unwrap();
    let of_it = begun.entry(message.id.clone()).or_default();
    of_it.push((message.attempt(), message.is_last_attempt()));
    of_it.len()
}

fn of(begun: &Begun, id: &str) -> Vec<(u32, bool)> {
    begun.lock().unwrap().get(id).cloned().unwrap_or_default()
}

/// Makes a handler that takes this long, and fails this often for each id.
fn handler(
    begun: &Begun,
    takes: Duration,
    fails: usize,
) -> impl Fn(Delivery<Received>) -> Handling + Send + Sync + 'static {
    let begun = Arc::clone(begun);
    move |message| {
        let nth = begins(&begun, &message);
        Box::pin(async move {
            tokio::time::sleep(takes).await;
            if nth > fails { Ok(()) } else { Err("a failure that was asked for".to_owned()) }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_backlog_that_becomes_visible_again_and_again_is_handled_and_nothing_is_put_aside() {
    let world = World::new();
    let mut queue = Queue::of(Duration::from_millis(200), (0..100).map(|n| n.to_string()));
    queue.is_hoarded = true;
    let (begun, first, second) = (Begun::default(), world.shared().await, world.shared().await);
    let (slow, quick) = (soon_again(&first).max_in_flight(2).build().unwrap(), soon_again(&second).build().unwrap());
    let slowly = slow.run(&queue, handler(&begun, SECOND, 0), queue.emptied());
    let (one, other) = tokio::join!(slowly, async {
        tokio::time::sleep(4 * SECOND).await;
        quick.run(&queue, handler(&begun, MOMENT, 0), queue.emptied()).await
    });
    assert_eq!(queue.dead(), Vec::<String>::new());
    assert!((0..100).any(|n| queue.deliveries(&n.to_string()) > 10), "deliveries are counted, and there are many");
    assert_eq!((0..100).map(|n| of(&begun, &n.to_string())).collect::<Vec<_>>(), vec![vec![(1, false)]; 100]);
    assert_eq!(one.unwrap().handled + other.unwrap().handled, 100);
}

#[tokio::test(start_paused = true)]
async fn a_message_in_progress_elsewhere_has_all_its_attempts_when_that_worker_has_died() {
    let world = World::new();
    let (queue, begun) = (Queue::of(SECOND, ["a"]), Begun::default());
    let (here, elsewhere) = (world.shared().await, world.shared().await);
    let mut claim = orders(&elsewhere).claim("a").await.unwrap().claimed().unwrap();
    let consumer = soon_again(&here).max_attempts(4).build().unwrap();
    let (stats, ()) = tokio::join!(consumer.run(&queue, handler(&begun, MOMENT, 2), queue.emptied()), async {
        while queue.deliveries("a") < 10 {
            tokio::time::sleep(SECOND).await;
            claim.renew(LEASE).await.unwrap();
        }
        // It dies: nobody releases it.
        std::mem::forget(claim);
    });
    let stats = stats.unwrap();
    assert!(stats.in_progress >= 10, "{stats:?}");
    assert_eq!(of(&begun, "a"), [(1, false), (2, false), (3, false)]);
    assert_eq!((stats.handled, stats.failed, stats.dead_lettered), (1, 2, 0));
}

#[tokio::test(start_paused = true)]
async fn what_fails_after_many_deliveries_is_put_aside_after_as_many_attempts_as_it_may_have() {
    for max in 1..=4 {
        let world = World::new();
        let (queue, begun) = (Queue::of(SECOND, ["poison"]), Begun::default());
        for _ in 0..7 {
            queue.receive_in_vain();
        }
        let engine = world.shared().await;
        let consumer = soon_again(&engine).max_attempts(max).build().unwrap();
        let stats = consumer.run(&queue, handler(&begun, MOMENT, usize::MAX), queue.emptied()).await.unwrap();
        assert_eq!(of(&begun, "poison"), (1..=max).map(|n| (n, n == max)).collect::<Vec<_>>());
        assert_eq!(queue.put_aside("poison"), ["a failure that was asked for"]);
        assert_eq!((stats.failed, stats.dead_lettered), (u64::from(max), 1));
    }
}

/// Runs consumers that are dropped when the poison has begun, each with an engine of its own, two
/// at a time. Returns what has begun by the end, of that queue.
async fn killed_by(poison: &'static str, good: usize, max: u32, in_batches: bool) -> (Queue, Begun, usize) {
    let world = World::new();
    let queue = Queue::of(SECOND, (0..good).map(|n| n.to_string()).chain([poison.to_owned()]));
    let (begun, mut deaths) = (Begun::default(), 0);
    loop {
        assert!(deaths < 50, "it goes on for ever: {begun:?}");
        let engines = [world.shared().await, world.shared().await];
        let kill = Arc::new(Notify::new());
        let consumers = engines.each_ref().map(|engine| soon_again(engine).max_attempts(max).build().unwrap());
        let handle = || {
            let (begun, kill) = (Arc::clone(&begun), Arc::clone(&kill));
            move |message: Delivery<Received>| {
                begins(&begun, &message);
                let is_poison = message.id == poison;
                let kill = Arc::clone(&kill);
                async move {
                    if is_poison {
                        tokio::time::sleep(5 * MOMENT).await;
                        kill.notify_one();
                        pending::<()>().await;
                    }
                    tokio::time::sleep(10 * MOMENT).await;
                    Ok::<(), String>(())
                }
            }
        };
        let runs = async {
            let [one, other] = consumers.each_ref().map(|it| {
                let (queue, handle) = (&queue, handle());
                async move {
                    if !in_batches {
                        return it.run(queue, handle, queue.emptied()).await;
                    }
                    let all = move |batch: Vec<_>| futures_util::future::try_join_all(batch.into_iter().map(&handle));
                    let all = move |batch| {
                        let all = all(batch);
                        async move { all.await.map(drop) }
                    };
                    it.run_batches(queue, all, queue.emptied()).await
                }
            });
            tokio::join!(one, other)
        };
        let is_killed = tokio::select! {
            _ = runs => false,
            () = kill.notified() => {
                // As processes die: nobody releases their claims.
                world.store.always(Fault::Fails(ErrorKind::Unavailable));
                true
            }
        };
        if !is_killed {
            return (queue, begun, deaths);
        }
        deaths += 1;
        tokio::time::sleep(LEASE + SECOND).await;
        world.store.always(Fault::None);
    }
}

#[tokio::test(start_paused = true)]
async fn what_kills_its_consumers_is_put_aside_by_the_count_that_the_store_keeps() {
    for max in [1, 3] {
        let (queue, begun, deaths) = killed_by("poison", 0, max, false).await;
        // The first delivery is not counted when it begins.
        assert_eq!(deaths, max as usize + 1);
        let expected: Vec<u32> = std::iter::once(1).chain(1..=max).collect();
        assert_eq!(of(&begun, "poison").iter().map(|call| call.0).collect::<Vec<_>>(), expected);
        let why = queue.put_aside("poison");
        assert!(why.len() == 1 && why[0].contains(&format!("{max} of {max} attempts")), "{why:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_handled_beside_a_message_that_kills_its_consumers_is_not_put_aside_with_it() {
    for in_batches in [false, true] {
        let (queue, begun, deaths) = killed_by("poison", 20, 3, in_batches).await;
        assert_eq!(queue.dead(), ["poison"]);
        assert!(deaths <= 5, "{deaths} deaths: {begun:?}");
        assert!((0..20).all(|n| !of(&begun, &n.to_string()).is_empty()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_while_attempts_are_counted_loses_none_and_counts_none_twice() {
    // The number of calls that succeed first: the claim, the look-up, the record, the recorded end,
    // the failed claim.
    let cases = (0..10).flat_map(|after| [(after, 5 * SECOND), (after, 2 * LEASE)]);
    for (after, away) in cases.step_by(testkit::long(3, 1)) {
        let world = World::new();
        let (queue, begun) = (Queue::of(SECOND, ["a"]), Begun::default());
        queue.receive_in_vain();
        tokio::time::sleep(SECOND).await;
        let engine = world.engine().retries(0).build().await.unwrap();
        let consumer = soon_again(&engine).max_attempts(9).build().unwrap();
        let started = world.store.calls();
        let (stats, ()) = tokio::join!(consumer.run(&queue, handler(&begun, MOMENT, 2), queue.emptied()), async {
            while world.store.calls() < started + after {
                tokio::time::sleep(Duration::from_micros(100)).await;
            }
            world.store.always(Fault::Fails(ErrorKind::Unavailable));
            tokio::time::sleep(away).await;
            world.store.always(Fault::None);
        });
        let (stats, calls) = (stats.unwrap(), of(&begun, "a"));
        assert_eq!((stats.dead_lettered, queue.is_empty()), (0, true), "{after} {away:?}");
        assert!(stats.store_error > 0 || stats.handled == 1, "{after} {away:?}: {stats:?}");
        let attempts: Vec<u32> = calls.iter().map(|call| call.0).collect();
        // An attempt that was lost with its lease is counted, also if its handler was not
        // called yet; none is counted twice.
        assert!(attempts.is_sorted() && attempts.len() >= 3, "{after} {away:?}: {attempts:?}");
        assert!(attempts[0] <= 2 && attempts.windows(2).all(|pair| pair[1] - pair[0] <= 2), "{attempts:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn faults_of_the_store_and_lapsing_visibility_put_nothing_aside_that_would_be_handled() {
    for seed in 1..=testkit::long(3, 8) {
        println!("seed {seed}");
        let world = World::new();
        let engine = world.engine().retries(1).attempt_seed(seed).build().await.unwrap();
        let queue = Queue::of(Duration::from_millis(300), (0..60).map(|n| n.to_string()));
        let (fails, loses) = (Fault::Fails(ErrorKind::Unavailable), Fault::LosesAnswer(ErrorKind::Timeout));
        let one = Fault::FailsOne(ErrorKind::Unavailable);
        let faults = [(150, fails), (100, loses), (50, one), (50, Fault::Delays(MOMENT)), (20, Fault::Hangs)];
        world.store.at_random(seed, faults);
        let begun = Begun::default();
        let consumer = soon_again(&engine).max_in_flight(6).max_attempts(8).build().unwrap();
        let stats = consumer.run(&queue, handler(&begun, 10 * MOMENT, 1), queue.emptied()).await.unwrap();
        assert_eq!(queue.dead(), Vec::<String>::new(), "seed {seed}: {stats:?}");
        assert!((0..60).all(|n| of(&begun, &n.to_string()).len() >= 2), "seed {seed}: each fails once");
        assert!(stats.store_error > 0, "{stats:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_was_stopped_is_not_counted() {
    let world = World::new();
    let (queue, begun) = (Queue::of(SECOND, ["a"]), Begun::default());
    for _ in 0..6 {
        let engine = world.shared().await;
        let consumer = soon_again(&engine).max_attempts(2).drain(SECOND).build().unwrap();
        let shutdown = tokio::time::sleep(10 * SECOND);
        let stats = consumer.run(&queue, handler(&begun, 60 * SECOND, 0), shutdown).await.unwrap();
        assert_eq!((stats.abandoned, stats.dead_lettered), (1, 0));
        tokio::time::sleep(2 * SECOND).await;
    }
    assert_eq!(of(&begun, "a"), [(1, false); 6]);
    let engine = world.shared().await;
    let consumer = soon_again(&engine).max_attempts(2).build().unwrap();
    consumer.run(&queue, handler(&begun, MOMENT, 0), queue.emptied()).await.unwrap();
    assert_eq!((of(&begun, "a").len(), queue.dead().len()), (7, 0));
}

#[tokio::test(start_paused = true)]
async fn copies_of_a_message_share_its_attempts() {
    let (world, begun) = (World::new(), Begun::default());
    let engine = world.shared().await;
    let consumer = soon_again(&engine).max_attempts(3).build().unwrap();
    let of_one = Queue::of(SECOND, ["poison"]);
    let shutdown = async {
        while of(&begun, "poison").len() < 2 {
            tokio::time::sleep(MOMENT).await;
        }
    };
    consumer.run(&of_one, handler(&begun, MOMENT, usize::MAX), shutdown).await.unwrap();
    tokio::time::sleep(LEASE).await;
    // For its broker, the copy is a message of its own, and delivered for the first time.
    let of_another = Queue::of(SECOND, ["poison"]);
    let stats = consumer.run(&of_another, handler(&begun, MOMENT, usize::MAX), of_another.emptied()).await.unwrap();
    assert_eq!(of(&begun, "poison"), [(1, false), (2, false), (1, false)]);
    assert_eq!((stats.failed, stats.dead_lettered), (3, 1), "{stats:?}");
    assert_eq!(of_another.put_aside("poison"), ["a failure that was asked for"]);
    // What was put aside is not done: the other copy has all its attempts, and is put aside, too.
    let stats = consumer.run(&of_one, handler(&begun, MOMENT, usize::MAX), of_one.emptied()).await.unwrap();
    assert_eq!((stats.failed, stats.dead_lettered, stats.duplicate), (6, 2, 0), "{stats:?}");
}

#[tokio::test(start_paused = true)]
async fn a_first_delivery_costs_no_call_and_a_later_one_two() {
    let calls = async |deliveries: u32| {
        let world = World::new();
        let (queue, begun) = (Queue::of(SECOND, (0..50).map(|n| n.to_string())), Begun::default());
        for _ in 1..deliveries {
            queue.receive_in_vain();
            tokio::time::sleep(2 * SECOND).await;
        }
        let (engine, before) = (world.shared().await, world.store.requests());
        let consumer = soon_again(&engine).build().unwrap();
        consumer.run(&queue, handler(&begun, MOMENT, 0), queue.emptied()).await.unwrap();
        world.store.requests() - before
    };
    // Claimed and completed; and looked up, recorded, and forgotten.
    assert_eq!((calls(1).await, calls(2).await), (50 * 2, 50 * 5));
}

#[tokio::test(start_paused = true)]
async fn whoever_replays_a_dead_letter_has_it_handled_with_all_attempts() {
    let world = World::new();
    let (queue, begun, engine) = (Queue::of(SECOND, ["a"]), Begun::default(), world.shared().await);
    let consumer = soon_again(&engine).max_attempts(3).build().unwrap();
    consumer.run(&queue, handler(&begun, MOMENT, usize::MAX), queue.emptied()).await.unwrap();
    assert_eq!(queue.put_aside("a").len(), 1);
    queue.send("a");
    consumer.run(&queue, handler(&begun, MOMENT, 5), queue.emptied()).await.unwrap();
    let calls: Vec<u32> = of(&begun, "a").iter().map(|call| call.0).collect();
    assert_eq!((calls, queue.put_aside("a").len()), (vec![1, 2, 3, 1, 2, 3], 1));
    queue.send("a");
    let stats = consumer.run(&queue, handler(&begun, MOMENT, 5), queue.emptied()).await.unwrap();
    assert_eq!((of(&begun, "a").len(), stats.duplicate), (6, 1), "now it is done");
}

#[tokio::test(start_paused = true)]
async fn an_id_that_is_forgotten_while_it_fails_has_all_attempts_again() {
    let world = World::new();
    let (queue, begun, engine) = (Queue::of(SECOND, ["a"]), Begun::default(), world.shared().await);
    let consumer = soon_again(&engine).max_attempts(4).retry_delay(10 * SECOND, 10 * SECOND).build().unwrap();
    let (stats, ()) = tokio::join!(consumer.run(&queue, handler(&begun, MOMENT, 4), queue.emptied()), async {
        while of(&begun, "a").len() < 3 {
            tokio::time::sleep(MOMENT).await;
        }
        // It has failed, and is tried again in five seconds at the earliest.
        tokio::time::sleep(SECOND).await;
        assert_eq!(of(&begun, "a").len(), 3);
        assert!(orders(&engine).forget("a").await.unwrap());
    });
    assert_eq!(of(&begun, "a").iter().map(|call| call.0).collect::<Vec<_>>(), [1, 2, 3, 1, 2]);
    assert_eq!(stats.unwrap().dead_lettered, 0);
}

#[tokio::test(start_paused = true)]
async fn an_exclusive_engine_counts_attempts_and_does_not_take_the_counts_for_ids() {
    let world = World::new();
    let (queue, begun) = (Queue::of(SECOND, ["a", "b"]), Begun::default());
    let fails = Arc::new(AtomicBool::new(true));
    let mut of_the_first = 0;
    for _ in 0..2 {
        of_the_first = of(&begun, "a").len();
        let engine = world.exclusive().await;
        let warmed = engine.warm().await.unwrap();
        assert_eq!(warmed, 0, "what the store keeps for attempts is no id");
        let consumer = soon_again(&engine).max_attempts(9).build().unwrap();
        let (calls, failing) = (AtomicUsize::new(0), Arc::clone(&fails));
        let of_begun = Arc::clone(&begun);
        let handle = move |message: Delivery<Received>| {
            begins(&of_begun, &message);
            calls.fetch_add(1, Ordering::Relaxed);
            let fails = failing.load(Ordering::Relaxed);
            async move { if fails { Err("it fails") } else { Ok(()) } }
        };
        consumer.run(&queue, handle, tokio::time::sleep(500 * MOMENT / 10)).await.unwrap();
        engine.shutdown(SECOND).await.unwrap();
        fails.store(false, Ordering::Relaxed);
        tokio::time::sleep(2 * SECOND).await;
    }
    for id in ["a", "b"] {
        let calls: Vec<u32> = of(&begun, id).iter().map(|call| call.0).collect();
        assert_eq!(calls, (1..=calls.len() as u32).collect::<Vec<_>>(), "counted across both engines");
    }
    let all = of(&begun, "a").len();
    assert!(of_the_first >= 2 && all > of_the_first, "{of_the_first} of {all}");
    assert!(queue.is_empty());
}
