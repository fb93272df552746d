//! Stores that are away when handlers have done their work: no completed work is repeated, as long
//! as the lease lasts.

use super::*;
use hapax_store::{ErrorKind, Known, RecordKey, Scope, Store as _};
use hapax_stream::Acks;
use hapax_testing::store::Fault;
use std::future::pending;

/// The time that handlers take. Those of all messages are at work when the store goes, and end
/// while it is away.
const TAKES: Duration = Duration::from_millis(100);
const HANDLERS: u32 = 64;
const SHORT: Duration = Duration::from_secs(5);
const DOWN: Fault = Fault::Fails(ErrorKind::Unavailable);

async fn short_lease(world: &World) -> Engine {
    world.engine().lease(SHORT).build().await.unwrap()
}

fn queued(world: &World, acks: Acks) -> (Broker, Effects) {
    let broker = Broker::new(&world.store, acks);
    (0..HANDLERS).for_each(|n| _ = broker.send_id(n % 3, Some(n.to_string())));
    broker.close();
    (broker, Effects::new(&world.store))
}

/// Makes the store unavailable for this long, soon after the handlers have begun.
async fn away(world: &World, how: Fault, away: Duration) {
    tokio::time::sleep(TAKES / 2).await;
    world.store.always(how);
    tokio::time::sleep(away).await;
    world.store.always(Fault::None);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_for_less_than_a_lease_repeats_no_effect() {
    for acks in [Acks::Each, Acks::Cumulative] {
        for how in [DOWN, Fault::LosesAnswer(ErrorKind::Timeout), Fault::Hangs, Fault::FailsOne(ErrorKind::Timeout)] {
            for time in [SECOND * 3 / 10, SECOND, 3 * SECOND] {
                let world = World::new();
                let engine = short_lease(&world).await;
                let (broker, effects) = queued(&world, acks);
                let consumer = consumer(&engine).build().unwrap();
                let run = consumer.run(&broker, effects.handler(|_| TAKES), pending());
                let (stats, ()) = tokio::join!(run, away(&world, how, time));
                let stats = stats.unwrap();
                let twice = (0..HANDLERS).filter(|n| effects.of(&n.to_string()) > 1).count();
                assert_eq!(twice, 0, "of {HANDLERS} effects done twice: {acks:?}, {how:?} for {time:?}: {stats:?}");
                assert_eq!((effects.total(), stats.acknowledged), (HANDLERS, u64::from(HANDLERS)));
                assert_eq!((stats.retried, stats.lost, broker.state().retried.len()), (0, 0, 0), "{stats:?}");
                assert!(stats.store_error > 0 || how != DOWN, "{stats:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn leases_outlast_a_store_that_is_away_while_handlers_work() {
    for how in [DOWN, Fault::Hangs] {
        let world = World::new();
        let engine = world.engine().lease(10 * SECOND).build().await.unwrap();
        let (broker, effects) = queued(&world, Acks::Each);
        let consumer = consumer(&engine).build().unwrap();
        let run = consumer.run(&broker, effects.handler(|_| 40 * SECOND), pending());
        let (stats, ()) = tokio::join!(run, async {
            // At two renewals of three: a third one a third of the lease later would be too late.
            for _ in 0..4 {
                tokio::time::sleep(3 * SECOND).await;
                world.store.always(how);
                tokio::time::sleep(4 * SECOND).await;
                world.store.always(Fault::None);
                tokio::time::sleep(3 * SECOND).await;
            }
        });
        let stats = stats.unwrap();
        assert_eq!((effects.total(), stats.lost, stats.handled), (HANDLERS, 0, u64::from(HANDLERS)), "{how:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn leases_of_those_that_are_handled_while_a_completion_hangs_last() {
    let world = World::new();
    let engine = short_lease(&world).await;
    let (broker, effects) = queued(&world, Acks::Each);
    let consumer = consumer(&engine).build().unwrap();
    // The first one's completion hangs for as long as the engine lets it; the others are handled
    // meanwhile, at the end of their leases, but for the renewal.
    let run = consumer.run(&broker, effects.handler(|it| if it.offset == 0 { TAKES } else { 12 * TAKES }), pending());
    let (stats, ()) = tokio::join!(run, async {
        tokio::time::sleep(TAKES / 2).await;
        (0..4).for_each(|_| world.store.next(Fault::Hangs));
    });
    let stats = stats.unwrap();
    assert_eq!((effects.total(), stats.lost, stats.retried), (HANDLERS, 0, 0), "{stats:?}");
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_is_stopped_while_the_store_is_away_records_and_acknowledges_what_was_done() {
    for acks in [Acks::Each, Acks::Cumulative] {
        let world = World::new();
        let engine = short_lease(&world).await;
        let (broker, effects) = queued(&world, acks);
        let consumer = consumer(&engine).drain(10 * SECOND).build().unwrap();
        let run = consumer.run(&broker, effects.handler(|_| TAKES), tokio::time::sleep(3 * TAKES));
        let (stats, ()) = tokio::join!(run, away(&world, DOWN, 2 * SECOND));
        let stats = stats.unwrap();
        assert_eq!((effects.total(), stats.acknowledged, broker.is_done()), (HANDLERS, u64::from(HANDLERS), true));
    }
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_is_stopped_and_does_not_see_the_store_again_leaves_what_was_done_to_its_lease() {
    for is_dropped in [false, true] {
        let world = World::new();
        let (here, there) = (short_lease(&world).await, short_lease(&world).await);
        let (broker, effects) = queued(&world, Acks::Each);
        let consumer = consumer(&here).drain(SECOND).build().unwrap();
        let begun = Instant::now();
        let shutdown = async move {
            tokio::time::sleep(2 * TAKES).await;
            if is_dropped {
                pending::<()>().await;
            }
        };
        let run = consumer.run(&broker, effects.handler(|_| TAKES), shutdown);
        let stopped = async {
            if is_dropped {
                assert!(tokio::time::timeout(2 * TAKES, run).await.is_err());
                // What it had under way ends with it.
                tokio::time::sleep(MOMENT).await;
                consumer.stats().acknowledged
            } else {
                run.await.unwrap().acknowledged
            }
        };
        let (acknowledged, ()) = tokio::join!(stopped, async {
            tokio::time::sleep(TAKES / 2).await;
            world.store.always(DOWN);
        });
        assert!(begun.elapsed() < 3 * SECOND, "it does not wait for the store for ever: {:?}", begun.elapsed());
        assert_eq!((acknowledged, effects.total()), (0, HANDLERS));
        world.store.always(Fault::None);
        tokio::time::sleep(SECOND).await;
        for n in 0..HANDLERS {
            let attempt = orders(&there).claim(n.to_string()).await.unwrap();
            assert!(attempt.is_in_progress(), "the work is done, and is not given to the next one: {attempt:?}");
        }
        tokio::time::sleep(SHORT).await;
        assert!(orders(&there).claim("0").await.unwrap().claimed().is_some(), "then the lease is over");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_lost_while_the_store_is_away_is_not_completed_over_whoever_has_it_now() {
    for acks in [Acks::Each, Acks::Cumulative] {
        for they_are_done in [true, false] {
            let world = World::new();
            let (here, there) = (short_lease(&world).await, short_lease(&world).await);
            let (broker, effects) = (Broker::new(&world.store, acks), Effects::new(&world.store));
            broker.send(0, "a");
            broker.close();
            let consumer = consumer(&here).build().unwrap();
            let run = consumer.run(&broker, effects.handler(|_| TAKES), pending());
            let (stats, ()) = tokio::join!(run, async {
                away(&world, DOWN, SHORT).await;
                // So far from here alone: another worker sees the store again first.
                let theirs =
                    orders(&there).claim_wait("a", SECOND / 20).await.unwrap().claimed().expect("the lease is over");
                world.store.always(DOWN);
                tokio::time::sleep(SECOND).await;
                world.store.always(Fault::None);
                if !they_are_done {
                    tokio::time::sleep(SECOND).await;
                    assert_eq!(broker.state().acknowledged, Vec::<usize>::new());
                }
                theirs.complete_with("theirs").await.unwrap();
            });
            let stats = stats.unwrap();
            assert_eq!((effects.of("a"), stats.acknowledged), (1, 1), "{stats:?}");
            let key = RecordKey::new(&Scope::new("orders").unwrap(), "a");
            match world.store.inner().look_up(&[key]).await.unwrap().remove(0).unwrap() {
                Known::Completed(done) => assert_eq!(done.result.as_deref(), Some(b"theirs".as_slice())),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_is_revoked_while_the_store_is_away_is_released_when_what_was_done_is_recorded() {
    for acks in [Acks::Each, Acks::Cumulative] {
        let world = World::new();
        let engine = short_lease(&world).await;
        let (broker, effects) = queued(&world, acks);
        let consumer = consumer(&engine).drain(10 * SECOND).build().unwrap();
        let run = consumer.run(&broker, effects.handler(|_| TAKES), tokio::time::sleep(20 * SECOND));
        let (stats, (), ()) = tokio::join!(run, away(&world, DOWN, 2 * SECOND), async {
            tokio::time::sleep(2 * TAKES).await;
            broker.revoke([0, 1, 2]);
            tokio::time::sleep(SECOND).await;
            assert_eq!(broker.state().releases.len(), 0);
        });
        assert_eq!((stats.unwrap().acknowledged, broker.state().releases.len()), (u64::from(HANDLERS), 1));
        assert!(broker.is_done() && effects.total() == HANDLERS);
    }
}
