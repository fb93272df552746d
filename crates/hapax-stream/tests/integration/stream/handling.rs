//! Messages are handled once, and acknowledged when they are done.

use super::*;
use hapax_store::{ErrorKind, TieredAttempt};
use hapax_stream::{Acks, Delivery, OnMismatch, OnMissing};
use hapax_testing::store::Fault;
use std::future::pending;

#[tokio::test(start_paused = true)]
async fn each_message_is_handled_once_however_often_it_is_delivered() {
    for acks in [Acks::Each, Acks::Cumulative] {
        for is_exclusive in [false, true] {
            let world = World::new();
            let engine = if is_exclusive { world.exclusive().await } else { world.shared().await };
            let (broker, effects) = (Broker::new(&world.store, acks), Effects::new(&world.store));
            for n in (0..500).chain(0..500).chain(0..100) {
                broker.send_id(n % 3, Some(format!("m-{n}")));
            }
            broker.close();
            let handler = effects.handler(|message| Duration::from_millis(message.offset as u64 * 7 % 13));
            let stats = consumer(&engine).build().unwrap().run(&broker, handler, pending()).await.unwrap();
            assert!((0..500).all(|n| effects.of(&format!("m-{n}")) == 1), "{acks:?}");
            assert_eq!(effects.total(), 500);
            assert!(broker.is_done());
            assert_eq!((stats.handled, stats.acknowledged), (500, 1_100), "{acks:?} {stats:?}");
            assert_eq!(
                (stats.duplicate, stats.in_progress),
                (600, 0),
                "those of an id in flight wait for it: {stats:?}"
            );
            assert_eq!(stats.received, 1_100 + broker.state().retried.len() as u64, "{stats:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_more_handlers_run_and_no_more_messages_are_held_than_may() {
    let world = World::new();
    let engine = world.shared().await;
    let (broker, effects) = (Broker::new(&world.store, Acks::Each), Effects::new(&world.store));
    (0..200).for_each(|n| _ = broker.send_id(0, Some(n.to_string())));
    broker.close();
    let consumer = consumer(&engine).max_in_flight(7).batch(10).max_unacknowledged(20).build().unwrap();
    consumer.run(&broker, effects.handler(|_| MOMENT), pending()).await.unwrap();
    assert_eq!(effects.most_running(), 7);
    assert!(broker.state().most_out <= 20, "{}", broker.state().most_out);
    assert!(broker.state().most_out > 10, "a batch waits while another one is handled");
}

#[tokio::test(start_paused = true)]
async fn ids_are_claimed_and_completed_in_batches() {
    let world = World::new();
    let engine = world.shared().await;
    let (broker, effects) = (Broker::new(&world.store, Acks::Each), Effects::new(&world.store));
    (0..640).for_each(|n| _ = broker.send_id(0, Some(n.to_string())));
    broker.close();
    consumer(&engine).build().unwrap().run(&broker, effects.handler(|_| MOMENT), pending()).await.unwrap();
    let stats = engine.stats();
    assert_eq!(stats.store_requests, 1_280);
    assert!(stats.store_calls <= 2 * 640 / 64 + 20, "{} calls", stats.store_calls);
}

#[tokio::test(start_paused = true)]
async fn what_somebody_else_is_at_comes_again_when_the_lease_has_passed() {
    let world = World::new();
    let (here, there) = (world.shared().await, world.shared().await);
    let (broker, effects) = (Broker::new(&world.store, Acks::Each), Effects::new(&world.store));
    let TieredAttempt::Claimed(theirs) = orders(&there).claim("a").await.unwrap() else { panic!("nobody else has it") };
    broker.send(0, "a");
    broker.close();
    let consumer = consumer(&here).retry_delay(MOMENT, Duration::from_secs(3600)).build().unwrap();
    let begun = Instant::now();
    let stats = consumer.run(&broker, effects.handler(|_| MOMENT), pending()).await.unwrap();
    assert!(theirs.complete().await.is_err(), "it was not renewed");
    assert_eq!((effects.of("a"), stats.in_progress, stats.retried), (1, 1, 1));
    let (_, after) = broker.state().retried[0];
    assert!(after > LEASE - MOMENT && after <= LEASE, "{after:?}");
    assert!(begun.elapsed() >= LEASE);
}

#[tokio::test(start_paused = true)]
async fn a_partition_does_not_wait_for_the_whole_lease_of_somebody_who_is_done() {
    let world = World::new();
    let (here, there) = (world.shared().await, world.shared().await);
    let broker = Broker::new(&world.store, Acks::Cumulative);
    let theirs = orders(&there).claim("a").await.unwrap().claimed().expect("nobody else has it");
    broker.send(0, "a");
    broker.close();
    let consumer = consumer(&here).retry_delay(MOMENT, Duration::from_secs(3600)).build().unwrap();
    let begun = Instant::now();
    let handler = |_: Delivery<Message>| async { Err::<(), _>("it was done elsewhere") };
    let (stats, ()) = tokio::join!(consumer.run(&broker, handler, pending()), async {
        tokio::time::sleep(5 * MOMENT).await;
        theirs.complete().await.unwrap();
    });
    assert_eq!(stats.unwrap().duplicate, 1);
    assert!(begun.elapsed() < 8 * MOMENT && 8 * MOMENT < LEASE, "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn repetitions_wait_for_the_one_that_is_handled_here_and_no_longer() {
    for (acks, fails) in [(Acks::Each, false), (Acks::Cumulative, false), (Acks::Each, true), (Acks::Cumulative, true)]
    {
        let world = World::new();
        let engine = world.shared().await;
        let broker = Broker::new(&world.store, acks);
        (0..5).for_each(|_| _ = broker.send(0, "a"));
        broker.close();
        let failures = std::sync::atomic::AtomicU32::new(if fails { 1 } else { 0 });
        let handler = move |_| {
            use std::sync::atomic::Ordering::Relaxed;
            let fails = failures.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
            async move {
                tokio::time::sleep(MOMENT).await;
                if fails { Err("once") } else { Ok(()) }
            }
        };
        let begun = Instant::now();
        let stats = consumer(&engine).build().unwrap().run(&broker, handler, pending()).await.unwrap();
        assert_eq!((stats.handled, stats.duplicate, stats.acknowledged), (1, 4, 5), "{acks:?}");
        let longest = if fails { Duration::from_millis(100) } else { Duration::ZERO };
        let as_long = longest / 2..longest + 5 * MOMENT;
        assert!(as_long.contains(&begun.elapsed()), "{acks:?}: {:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_whose_lease_is_lost_is_dropped_and_does_not_complete() {
    for acks in [Acks::Each, Acks::Cumulative] {
        let world = World::new();
        let (here, there) = (world.engine().retries(0).build().await.unwrap(), world.shared().await);
        let (broker, effects) = (Broker::new(&world.store, acks), Effects::new(&world.store));
        broker.send(0, "a");
        broker.close();
        let consumer = consumer(&here).build().unwrap();
        let run = consumer.run(&broker, effects.handler(|_| 3 * LEASE), pending());
        let (stats, ()) = tokio::join!(run, async {
            tokio::time::sleep(MOMENT).await;
            world.store.always(Fault::Fails(ErrorKind::Unavailable));
            tokio::time::sleep(LEASE + MOMENT).await;
            world.store.always(Fault::None);
            let TieredAttempt::Claimed(theirs) = orders(&there).claim("a").await.unwrap() else {
                panic!("the lease is over")
            };
            tokio::time::sleep(LEASE / 2).await;
            assert_eq!((consumer.stats().lost, effects.total()), (1, 0), "its renewal told it");
            theirs.complete().await.unwrap();
        });
        let stats = stats.unwrap();
        assert_eq!((stats.handled, stats.acknowledged, effects.total()), (0, 1, 0), "{acks:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_runs_as_a_task_of_its_own() {
    let world = World::new();
    let engine = world.shared().await;
    let (broker, effects) = (Broker::new(&world.store, Acks::Each), Effects::new(&world.store));
    (0..100).for_each(|n| _ = broker.send_id(0, Some((n % 50).to_string())));
    broker.close();
    let (consumer, handler) = (consumer(&engine).build().unwrap(), effects.handler(|_| Duration::from_millis(1)));
    let task = tokio::spawn(async move { consumer.run(&broker, handler, pending()).await });
    assert_eq!(task.await.unwrap().unwrap().acknowledged, 100);
    assert_eq!(effects.total(), 50);
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_renewed_while_its_handler_runs() {
    for acks in [Acks::Each, Acks::Cumulative] {
        let world = World::new();
        let (here, there) = (world.shared().await, world.shared().await);
        let (broker, effects) = (Broker::new(&world.store, acks), Effects::new(&world.store));
        broker.send(0, "slow");
        broker.close();
        let consumer = consumer(&here).build().unwrap();
        let run = consumer.run(&broker, effects.handler(|_| 10 * LEASE), pending());
        let others = async {
            for _ in 0..99 {
                tokio::time::sleep(LEASE / 10).await;
                assert!(orders(&there).claim("slow").await.unwrap().is_in_progress());
            }
        };
        let (stats, ()) = tokio::join!(run, others);
        assert_eq!((stats.unwrap().lost, effects.of("slow")), (0, 1));
        assert!(orders(&there).claim("slow").await.unwrap().is_duplicate());
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_without_an_id_is_what_was_chosen() {
    for blank in [None, Some(""), Some(" \t")] {
        let world = World::new();
        let engine = world.shared().await;
        let run = async |on_missing| {
            let mut broker = Broker::new(&world.store, Acks::Each);
            broker.lenient = true;
            broker.send(3, blank);
            broker.close();
            let handled = Arc::new(std::sync::atomic::AtomicU32::new(0));
            let count = Arc::clone(&handled);
            let handler = move |message: hapax_stream::Delivery<Message>| {
                assert_eq!(message.token().as_u64(), 0);
                count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                async { Ok::<(), String>(()) }
            };
            let consumer = consumer(&engine).on_missing(on_missing).build().unwrap();
            let outcome = consumer.run(&broker, handler, pending()).await.map_err(|error| error.to_string());
            let dead: Vec<String> = broker.state().dead.values().cloned().collect();
            let handled = handled.load(std::sync::atomic::Ordering::Relaxed);
            (outcome, handled, broker.is_done(), dead, consumer.stats().missing)
        };
        let (outcome, handled, is_done, _, missing) = run(OnMissing::Error).await;
        let error = outcome.unwrap_err();
        assert!(error.contains("partition topic/3 has no id"), "{error}");
        assert_eq!((handled, is_done, missing), (0, false, 1));
        let (outcome, handled, is_done, dead, _) = run(OnMissing::Pass).await;
        assert_eq!((outcome.is_ok(), handled, is_done, dead.len()), (true, 1, true, 0));
        let (outcome, handled, is_done, dead, _) = run(OnMissing::Drop).await;
        assert_eq!((outcome.is_ok(), handled, is_done, dead.len()), (true, 0, true, 0));
        let (outcome, handled, is_done, dead, _) = run(OnMissing::DeadLetter).await;
        assert_eq!((outcome.is_ok(), handled, is_done), (true, 0, true));
        assert_eq!(dead, ["it has no id, or a blank one"]);
    }
}

#[tokio::test(start_paused = true)]
async fn partitions_may_have_scopes_of_their_own() {
    let world = World::new();
    let engine = world.shared().await;
    let mut broker = Broker::new(&world.store, Acks::Cumulative);
    broker.scope_of = |partition| format!("orders/topic/{partition}");
    (0..10).for_each(|n| _ = broker.send(n % 2, ["a", "b"][n as usize / 2 % 2]));
    broker.close();
    let consumer = consumer(&engine).scope_by(ToString::to_string).build().unwrap();
    let stats = consumer.run(&broker, |_| async { Ok::<(), String>(()) }, pending()).await.unwrap();
    assert_eq!((stats.handled, stats.duplicate, stats.acknowledged), (4, 6, 10), "two ids in each of two partitions");
    assert!(orders(&engine).claim("a").await.unwrap().claimed().is_some(), "not in the consumer's own scope");
    assert!(orders(&engine).with_subscope("topic/1").unwrap().claim("a").await.unwrap().is_duplicate());
}

#[tokio::test]
async fn options_that_make_no_sense_are_refused() {
    let engine = World::new().shared().await;
    let (zero, second) = (Duration::ZERO, Duration::from_secs(1));
    let wrong = [
        (consumer(&engine).max_in_flight(0), "max_in_flight"),
        (consumer(&engine).batch(0), "batch"),
        (consumer(&engine).max_in_flight(10).max_unacknowledged(9), "max_unacknowledged"),
        (consumer(&engine).max_unacknowledged(1 << 21), "max_unacknowledged"),
        (consumer(&engine).max_attempts(0), "max_attempts"),
        (consumer(&engine).handler_timeout(zero), "handler_timeout"),
        (consumer(&engine).handler_timeout(Duration::MAX), "handler_timeout"),
        (consumer(&engine).retry_delay(zero, second), "retry_delay"),
        (consumer(&engine).retry_delay(second, second / 2), "retry_delay"),
        (consumer(&engine).drain(Duration::MAX), "drain"),
        (consumer(&engine).scope_by(|_| "two\nlines".to_owned()), "scope"),
    ];
    for (builder, option) in wrong {
        let error = builder.build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert!(error.to_string().contains(option), "{error}");
    }
    let fitted = [
        consumer(&engine).max_in_flight(5_000),
        consumer(&engine).max_unacknowledged(3),
        consumer(&engine).handler_batch(4_000, second),
    ];
    for builder in fitted {
        builder.build().expect("what is not set fits what is set");
    }
}

#[tokio::test(start_paused = true)]
async fn an_id_with_another_content_is_no_duplicate_and_is_treated_as_was_chosen() {
    for (on_mismatch, handled, dead) in
        [(OnMismatch::DeadLetter, 2, 2), (OnMismatch::Handle, 4, 0), (OnMismatch::Drop, 2, 0)]
    {
        for in_batches in [false, true] {
            for is_exclusive in [false, true] {
                let world = World::new();
                let engine = if is_exclusive { world.exclusive().await } else { world.shared().await };
                let mut broker = Broker::new(&world.store, Acks::Each);
                broker.lenient = true;
                // The partition is the content. While the first is handled, and when it is done.
                for (partition, id) in [(0, "a"), (1, "a"), (0, "a"), (0, "b")] {
                    broker.send(partition, id);
                }
                let builder = consumer(&engine).fingerprint_by(|message: &Message| Some([message.partition as u8]));
                let consumer = builder.on_mismatch(on_mismatch).build().unwrap();
                let later = async {
                    tokio::time::sleep(SECOND).await;
                    [(1, "a"), (0, "a")].into_iter().for_each(|(partition, id)| _ = broker.send(partition, id));
                    broker.close();
                    pending::<()>().await
                };
                let handle = || async {
                    tokio::time::sleep(MOMENT).await;
                    Ok::<(), String>(())
                };
                let stats = if in_batches {
                    consumer.run_batches(&broker, move |_| handle(), later).await
                } else {
                    consumer.run(&broker, move |_| handle(), later).await
                };
                let stats = stats.unwrap();
                assert_eq!((stats.mismatch, stats.duplicate, stats.handled), (2, 2, handled), "{stats:?}");
                assert_eq!((stats.acknowledged, broker.state().dead.len()), (6, dead), "{on_mismatch:?}: {stats:?}");
                assert!(broker.state().dead.values().all(|why| why.contains("another fingerprint")));
            }
        }
    }
}
