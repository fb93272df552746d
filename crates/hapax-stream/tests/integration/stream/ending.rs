//! Consumers are shut down, and partitions are taken away from them.

use super::*;
use hapax_stream::{Acks, Delivery};
use hapax_testing::store::Fault;

const DEADLINE: Duration = Duration::from_secs(5);

/// Returns the time that a message takes: those at odd places take long.
fn takes(message: &Message) -> Duration {
    if message.offset % 2 == 1 { 100 * LEASE } else { 20 * MOMENT }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_finishes_what_was_begun_and_gives_the_rest_back() {
    for acks in [Acks::Each, Acks::Cumulative] {
        let world = World::new();
        let engine = world.shared().await;
        let (broker, effects) = (Broker::new(&world.store, acks), Effects::new(&world.store));
        (0..20).for_each(|n| _ = broker.send_id(0, Some(n.to_string())));
        let consumer = consumer(&engine).max_in_flight(10).drain(DEADLINE).build().unwrap();
        let begun = Instant::now();
        let handler = effects.handler(|_| 20 * MOMENT);
        let stats = consumer.run(&broker, handler, tokio::time::sleep(MOMENT)).await.unwrap();
        assert!(begun.elapsed() < 30 * MOMENT, "nobody waits for a deadline: {:?}", begun.elapsed());
        assert_eq!((effects.total(), stats.handled, stats.acknowledged, stats.abandoned), (10, 10, 10, 0), "{acks:?}");
        let given_back = broker.state().retried.clone();
        let expected: Vec<_> = (10..20).map(|offset| (offset, Duration::ZERO)).collect();
        assert_eq!(given_back, if acks == Acks::Each { expected } else { Vec::new() });
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_at_its_deadline_and_releases_what_is_not_done() {
    for acks in [Acks::Each, Acks::Cumulative] {
        let world = World::new();
        let (here, there) = (world.shared().await, world.shared().await);
        let (broker, effects) = (Broker::new(&world.store, acks), Effects::new(&world.store));
        (0..10).for_each(|n| _ = broker.send_id(0, Some(n.to_string())));
        let consumer = consumer(&here).drain(DEADLINE).build().unwrap();
        let begun = Instant::now();
        let stats = consumer.run(&broker, effects.handler(takes), tokio::time::sleep(MOMENT)).await.unwrap();
        assert!(begun.elapsed() >= DEADLINE && begun.elapsed() < DEADLINE + 10 * MOMENT, "{:?}", begun.elapsed());
        let acknowledged = if acks == Acks::Each { 5 } else { 1 };
        assert_eq!((stats.handled, stats.abandoned, stats.acknowledged), (5, 5, acknowledged), "{acks:?}");
        for n in 0..10 {
            let attempt = orders(&there).claim(n.to_string()).await.unwrap();
            assert_eq!((attempt.is_duplicate(), attempt.claimed().is_some()), (n % 2 == 0, n % 2 == 1), "{n}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn of_a_revoked_partition_what_is_done_by_the_deadline_is_acknowledged_and_the_rest_is_the_next_owners() {
    for acks in [Acks::Each, Acks::Cumulative] {
        let world = World::new();
        let (here, there) = (world.shared().await, world.shared().await);
        let (broker, effects) = (Broker::new(&world.store, acks), Effects::new(&world.store));
        // Ten are begun, of partition 7 the short ones 0, 4, 8 and the long ones 1, 5, 9; of 8, 2
        // and 6, and 3 and 7.
        (0..16).for_each(|n| _ = broker.send_id(7 + n / 2 % 2, Some(n.to_string())));
        let consumer = consumer(&here).max_in_flight(10).drain(DEADLINE).build().unwrap();
        let stop = tokio::sync::Notify::new();
        let run = consumer.run(&broker, effects.handler(takes), stop.notified());
        let (stats, ()) = tokio::join!(run, async {
            tokio::time::sleep(MOMENT).await;
            broker.revoke([7]);
            tokio::time::sleep(DEADLINE / 2).await;
            assert!(broker.state().releases.is_empty(), "handlers may go on");
            assert_eq!([0, 4, 8].map(|n| effects.of(&n.to_string())), [1; 3]);
            let due = if acks == Acks::Each { vec![0, 4, 8] } else { vec![0] };
            let of_7 = |offset: &usize| [0, 1].contains(&(offset % 4));
            let acknowledged: Vec<usize> = broker.state().acknowledged.iter().copied().filter(of_7).collect();
            assert_eq!(acknowledged, due, "those before which nothing is unfinished");
            tokio::time::sleep(DEADLINE / 2 + MOMENT).await;
            assert_eq!(broker.state().releases, [[super::broker::partition(7)]]);
            for n in [0, 1, 4, 5, 8, 9, 12, 13] {
                let attempt = orders(&there).claim(n.to_string()).await.unwrap();
                let is_done = [0, 4, 8].contains(&n);
                assert_eq!((attempt.is_duplicate(), attempt.claimed().is_some()), (is_done, !is_done), "{n}");
            }
            assert_eq!([1, 5, 9, 12, 13].map(|n| effects.of(&n.to_string())), [0; 5]);
            // The other partition goes on, and this one may come back.
            assert_eq!([2, 6, 10, 14].map(|n| effects.of(&n.to_string())), [1; 4], "{acks:?}");
            let again = broker.send(7, "again");
            broker.state().reassign(7);
            tokio::time::sleep(LEASE).await;
            assert_eq!(effects.of("again"), 1);
            let is_acknowledged = broker.state().acknowledged.contains(&again);
            assert_eq!(is_acknowledged, acks == Acks::Each, "1 is before it, and takes long");
            stop.notify_one();
        });
        assert_eq!(stats.unwrap().abandoned, 3 + 8, "the long ones, at the revocation and at the shutdown");
    }
}

#[tokio::test(start_paused = true)]
async fn a_partition_of_which_nothing_is_in_the_works_is_released_at_once() {
    let world = World::new();
    let engine = world.shared().await;
    let (broker, effects) = (Broker::new(&world.store, Acks::Cumulative), Effects::new(&world.store));
    (0..4).for_each(|n| _ = broker.send_id(n, Some(n.to_string())));
    let consumer = consumer(&engine).drain(DEADLINE).build().unwrap();
    let run = consumer.run(&broker, effects.handler(|_| MOMENT), tokio::time::sleep(LEASE));
    let (stats, ()) = tokio::join!(run, async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        broker.revoke([0, 1]);
        broker.revoke([2]);
        tokio::time::sleep(MOMENT).await;
        let partition = super::broker::partition;
        assert_eq!(broker.state().releases, [vec![partition(0), partition(1)], vec![partition(2)]]);
    });
    assert_eq!(stats.unwrap().acknowledged, 4);
}

#[tokio::test(start_paused = true)]
async fn a_revocation_is_seen_while_there_is_no_room_and_the_store_fails() {
    let world = World::new();
    let engine = world.engine().retries(0).build().await.unwrap();
    let (broker, effects) = (Broker::new(&world.store, Acks::Cumulative), Effects::new(&world.store));
    (0..40).for_each(|n| _ = broker.send_id(n % 2, Some(n.to_string())));
    world.store.always(Fault::Fails(hapax_store::ErrorKind::Unavailable));
    let consumer = consumer(&engine).max_in_flight(5).max_unacknowledged(20).drain(DEADLINE).build().unwrap();
    let run = consumer.run(&broker, effects.handler(|_| MOMENT), tokio::time::sleep(4 * LEASE));
    let (stats, ()) = tokio::join!(run, async {
        tokio::time::sleep(LEASE).await;
        broker.revoke([0]);
        tokio::time::sleep(DEADLINE).await;
        assert_eq!(broker.state().releases.len(), 1);
        world.store.always(Fault::None);
        tokio::time::sleep(LEASE).await;
        assert_eq!(effects.total(), 20, "the other partition's");
    });
    assert_eq!(stats.unwrap().acknowledged, 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_blocks_its_thread_cannot_hold_up_a_revocation_and_is_not_acknowledged_after_it() {
    let world = World::new();
    let engine = world.shared().await;
    let broker = Broker::new(&world.store, Acks::Each);
    broker.send(0, "blocks");
    let (unblock, blocked) = std::sync::mpsc::channel::<()>();
    let (blocked, begun) = (std::sync::Mutex::new(blocked), Arc::new(tokio::sync::Notify::new()));
    let begins = Arc::clone(&begun);
    let handler = move |_: Delivery<Message>| {
        begins.notify_one();
        let _ = blocked.lock().unwrap().recv();
        std::future::ready(Ok::<(), String>(()))
    };
    let consumer = consumer(&engine).drain(MOMENT).build().unwrap();
    let stop = tokio::sync::Notify::new();
    let run = consumer.run(&broker, handler, stop.notified());
    let (stats, ()) = tokio::join!(run, async {
        begun.notified().await;
        broker.revoke([0]);
        while broker.state().releases.is_empty() {
            tokio::time::sleep(MOMENT).await;
        }
        unblock.send(()).unwrap();
        while !orders(&engine).claim("blocks").await.unwrap().is_duplicate() {
            tokio::time::sleep(MOMENT).await;
        }
        stop.notify_one();
    });
    assert_eq!((stats.unwrap().acknowledged, broker.out()), (0, vec![0]));
    assert!(orders(&engine).claim("blocks").await.unwrap().is_duplicate(), "its claim was good, and it was done");
}

#[tokio::test(start_paused = true)]
async fn a_partition_that_comes_back_begins_anew() {
    for acks in [Acks::Each, Acks::Cumulative] {
        let world = World::new();
        let engine = world.shared().await;
        let (broker, effects) = (Broker::new(&world.store, acks), Effects::new(&world.store));
        (0..30).for_each(|n| _ = broker.send_id(n % 2, Some(n.to_string())));
        let consumer = consumer(&engine).max_in_flight(10).drain(DEADLINE).build().unwrap();
        let handler = effects.handler(|message| if message.deliveries == 1 { takes(message) } else { MOMENT });
        let run = consumer.run(&broker, handler, tokio::time::sleep(10 * LEASE));
        let (stats, ()) = tokio::join!(run, async {
            tokio::time::sleep(MOMENT).await;
            broker.revoke([0, 1]);
            tokio::time::sleep(2 * DEADLINE).await;
            assert_eq!(broker.state().releases.len(), 1);
            [0, 1].into_iter().for_each(|partition| broker.state().reassign(partition));
            broker.send(0, "new");
        });
        assert_eq!(stats.unwrap().abandoned, 5, "the long ones");
        assert!(broker.is_done(), "{acks:?}: {:?}", broker.out());
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_during_a_revocation_reports_the_release() {
    let world = World::new();
    let engine = world.shared().await;
    let (broker, effects) = (Broker::new(&world.store, Acks::Cumulative), Effects::new(&world.store));
    broker.send(0, "a");
    let consumer = consumer(&engine).drain(DEADLINE).build().unwrap();
    let run = consumer.run(&broker, effects.handler(|_| 100 * MOMENT), tokio::time::sleep(20 * MOMENT));
    let (stats, ()) = tokio::join!(run, async {
        tokio::time::sleep(10 * MOMENT).await;
        broker.revoke([0]);
    });
    assert_eq!((stats.unwrap().acknowledged, broker.state().releases.len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_acknowledgement_that_takes_too_long_is_cancelled_and_that_of_others_is_made_again() {
    let world = World::new();
    let engine = world.shared().await;
    let mut broker = Broker::new(&world.store, Acks::Each);
    broker.takes = 3 * DEADLINE;
    let effects = Effects::new(&world.store);
    (0..4).for_each(|n| _ = broker.send_id(n % 2, Some(n.to_string())));
    let consumer = consumer(&engine).drain(DEADLINE).build().unwrap();
    let run = consumer.run(&broker, effects.handler(|_| MOMENT), tokio::time::sleep(LEASE));
    let (stats, ()) = tokio::join!(run, async {
        tokio::time::sleep(5 * MOMENT).await;
        broker.revoke([0]);
    });
    assert_eq!((stats.unwrap().acknowledged, broker.state().releases.len()), (2, 1));
    assert_eq!(broker.state().acknowledged, [1, 3], "those of the other partition");
}

#[tokio::test(start_paused = true)]
async fn what_was_not_put_aside_before_the_fence_is_not_completed() {
    let world = World::new();
    let engine = world.shared().await;
    let mut broker = Broker::new(&world.store, Acks::Each);
    broker.takes = 3 * DEADLINE;
    ["first", "second"].into_iter().for_each(|id| _ = broker.send(0, id));
    let consumer = consumer(&engine).max_attempts(1).drain(DEADLINE).build().unwrap();
    let handler = |message: Delivery<Message>| async move {
        tokio::time::sleep(MOMENT * (1 + message.offset as u32)).await;
        Err("no")
    };
    let run = consumer.run(&broker, handler, tokio::time::sleep(5 * DEADLINE));
    let (stats, ()) = tokio::join!(run, async {
        tokio::time::sleep(5 * MOMENT).await;
        broker.revoke([0]);
    });
    assert_eq!(stats.unwrap().acknowledged, 0);
    assert_eq!(broker.state().dead.keys().collect::<Vec<_>>(), [&0]);
    assert!(orders(&engine).claim("first").await.unwrap().claimed().is_some(), "it was put aside, and is not done");
    assert!(orders(&engine).claim("second").await.unwrap().claimed().is_some(), "the next owner's to put aside");
}

#[tokio::test(start_paused = true)]
async fn what_comes_of_a_revoked_partition_is_ignored_and_what_is_being_claimed_is_not_begun() {
    for acks in [Acks::Each, Acks::Cumulative] {
        let world = World::new();
        let (here, there) = (world.shared().await, world.shared().await);
        let (broker, effects) = (Broker::new(&world.store, acks), Effects::new(&world.store));
        ["long", "claimed"].into_iter().for_each(|id| _ = broker.send(0, id));
        let consumer = consumer(&here).max_in_flight(2).batch(1).drain(DEADLINE).build().unwrap();
        let handler = effects.handler(|message| if message.offset == 0 { LEASE } else { MOMENT });
        let run = consumer.run(&broker, handler, tokio::time::sleep(3 * DEADLINE));
        world.store.next(Fault::None);
        world.store.next(Fault::Delays(10 * MOMENT));
        let (stats, ()) = tokio::join!(run, async {
            tokio::time::sleep(MOMENT).await;
            broker.revoke([0]);
            tokio::time::sleep(MOMENT).await;
            broker.send(0, "late");
            tokio::time::sleep(2 * DEADLINE).await;
            assert!(orders(&there).claim("claimed").await.unwrap().claimed().is_some(), "it was given back");
        });
        assert_eq!((stats.unwrap().received, effects.total()), (2, 0), "{acks:?}");
        assert_eq!(broker.state().releases.len(), 1);
    }
}
