//! Consumers of logs: marked on sight, a checkpoint behind each batch.

mod contents;
mod memory;

use super::*;
use hapax::{Dedup, JournalError, JournalOptions, SyncMode};
use hapax_stream::{Acks, ConsumerBuilder, ConsumerError, Delivery, Log, LogConsumer, OnMissing};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::future::pending;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use testkit::directory::Directory;
use testkit::random::Random;

/// The journal of a consumer, in a directory of its own.
pub(crate) struct Journal(Directory);

impl Journal {
    pub(crate) fn new(name: &str) -> Self {
        Journal(Directory::new(&format!("logs-{name}")))
    }

    pub(crate) fn builder(&self) -> hapax::Builder {
        // Nothing is written but by a flush, so that the machine does not matter.
        let options =
            JournalOptions::new().checkpoints(true).sync(SyncMode::System).commit_interval(Duration::from_secs(3_600));
        Dedup::builder().capacity(10_000).journal(self.0.path(), options)
    }

    pub(crate) fn open(&self) -> Dedup {
        self.builder().build().unwrap()
    }

    /// Ends a consumer with its engine as a kill does: what was not flushed is gone.
    fn kill<M>(&self, consumer: LogConsumer<M>, engine: Dedup) -> Dedup {
        let left = self.files();
        drop((consumer, engine));
        std::fs::remove_dir_all(self.0.path()).unwrap();
        std::fs::create_dir(self.0.path()).unwrap();
        left.into_iter().for_each(|(name, bytes)| std::fs::write(self.0.path().join(name), bytes).unwrap());
        self.open()
    }

    /// Returns the files at one moment: a flush that was asked for may still be under way.
    fn files(&self) -> BTreeMap<OsString, Vec<u8>> {
        let read = || {
            let entries = std::fs::read_dir(self.0.path())?.collect::<std::io::Result<Vec<_>>>()?;
            let files = entries.iter().map(|entry| Ok((entry.file_name(), std::fs::read(entry.path())?)));
            files.collect::<std::io::Result<BTreeMap<_, _>>>()
        };
        // (The limit only ends a test that would hang.)
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while std::time::Instant::now() < deadline {
            if let (Ok(one), Ok(again)) = (read(), read())
                && one == again
            {
                return one;
            }
        }
        panic!("the journal does not come to rest");
    }
}

pub(crate) fn log_consumer(engine: &Dedup) -> ConsumerBuilder<Log<Dedup>, Message> {
    let builder = LogConsumer::builder("orders", engine.clone(), |message: &Message| message.id.clone());
    builder.retry_delay(Duration::from_millis(100), Duration::from_secs(5))
}

/// A broker that asks no store whether messages are done, with effects.
pub(crate) fn log(acks: Acks) -> (Broker, Effects) {
    let world = World::new();
    let mut broker = Broker::new(&world.store, acks);
    broker.lenient = true;
    (broker, Effects::new(&world.store))
}

#[tokio::test(start_paused = true)]
async fn each_message_is_handled_once_however_often_it_is_delivered() {
    for acks in [Acks::Each, Acks::Cumulative] {
        let journal = Journal::new("once");
        let (broker, effects) = log(acks);
        for n in (0..500).chain(0..500).chain(0..100) {
            broker.send_id(n % 3, Some(format!("m-{n}")));
        }
        broker.close();
        let engine = journal.open();
        let consumer = log_consumer(&engine).batch(64).max_in_flight(7).build().unwrap();
        let handler = effects.handler(|message| Duration::from_millis(message.offset as u64 * 7 % 13));
        let stats = consumer.run(&broker, handler, pending()).await.unwrap();
        assert!((0..500).all(|n| effects.of(&format!("m-{n}")) == 1), "{acks:?}");
        assert!(broker.is_done());
        assert_eq!((stats.received, stats.handled, stats.duplicate, stats.acknowledged), (1_100, 500, 600, 1_100));
        assert_eq!(effects.most_running(), 7);
        drop((engine, consumer));
        let engine = journal.open();
        assert!((0..500).all(|n| engine.contains(format!("m-{n}")).is_some()), "{acks:?}: all of it was durable");
    }
}

/// Runs consumers one after the other, each dropped after a random time, some with their engine,
/// until all is done. Returns how many were dropped.
async fn crash(seed: u64, acks: Acks) -> u32 {
    const IDS: u32 = 60;
    println!("seed {seed}, {acks:?}");
    let mut random = Random(seed);
    let journal = Journal::new(&format!("crash-{acks:?}-{seed}"));
    let (broker, effects) = log(acks);
    for n in (0..IDS).chain(0..IDS).chain(0..IDS / 2) {
        broker.send_id(n % 3, Some(n.to_string()));
    }
    broker.close();
    let mut engine = journal.open();
    for dropped in 0.. {
        assert!(dropped < 2_000, "seed {seed}: it goes on for ever");
        let consumer = log_consumer(&engine).max_in_flight(8).batch(16).build().unwrap();
        let salt = random.below(1_000);
        let handler = effects.handler(move |message| Duration::from_millis((message.offset as u64 * 31 + salt) % 17));
        let lives = Duration::from_micros(random.below(60_000));
        let mut run = Box::pin(consumer.run(&broker, handler, pending()));
        if let Ok(ended) = tokio::time::timeout(lives, &mut run).await {
            ended.unwrap();
            assert!(broker.is_done());
            let each = (0..IDS).map(|n| effects.of(&n.to_string()));
            assert!(each.clone().all(|times| times >= 1), "seed {seed}: a message is lost");
            // A second time only what came after the last checkpoint: two batches of each consumer.
            assert!(each.sum::<u32>() <= IDS + 32 * dropped, "seed {seed}");
            return dropped;
        }
        drop(run);
        if random.below(2) == 0 {
            // With its process: the next engine is at the last checkpoint.
            engine = journal.kill(consumer, engine);
            let acknowledged = broker.state().acknowledged.clone();
            for offset in acknowledged {
                let id = offset % (2 * IDS as usize) % IDS as usize;
                assert!(engine.contains(id.to_string()).is_some(), "seed {seed}: {id} is acknowledged, and not known");
            }
        }
        broker.reconnect();
    }
    unreachable!("the loop returns")
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_is_dropped_at_any_point_loses_nothing() {
    let (seeds, mut dropped) = (testkit::long(8, 24), 0);
    for seed in 1..=seeds {
        dropped += crash(seed, Acks::Each).await;
        dropped += crash(seed, Acks::Cumulative).await;
    }
    assert!(u64::from(dropped) > 2 * seeds, "{dropped} consumers were dropped");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_fails_is_tried_again_and_put_aside_in_the_end() {
    let journal = Journal::new("fails");
    let (broker, _) = log(Acks::Cumulative);
    for id in ["good", "fails", "panics", "hangs", "twice"] {
        broker.send_id(0, Some(id.to_owned()));
    }
    broker.send(0, None);
    broker.close();
    let engine = journal.open();
    let calls = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&calls);
    let handler = move |message: Delivery<Message>| {
        let id = message.id.clone().unwrap();
        told.lock().unwrap().push((id.clone(), message.attempt(), message.is_last_attempt()));
        async move {
            match &*id {
                "panics" => panic!("on purpose"),
                "hangs" => pending().await,
                "twice" if message.attempt() > 2 => Ok(()),
                "good" => Ok(()),
                _ => Err("not now"),
            }
        }
    };
    let consumer = log_consumer(&engine).max_attempts(3).handler_timeout(Duration::from_secs(2)).build().unwrap();
    let stats = consumer.run(&broker, handler, pending()).await.unwrap();
    let of = |id: &str| {
        calls.lock().unwrap().iter().filter(|(of, ..)| of == id).map(|(_, n, last)| (*n, *last)).collect::<Vec<_>>()
    };
    assert_eq!(of("good"), [(1, false)]);
    assert_eq!(of("fails"), [(1, false), (2, false), (3, true)]);
    assert_eq!((of("panics").len(), of("hangs").len(), of("twice").len()), (3, 3, 3));
    let dead = broker.state().dead.clone();
    assert_eq!(dead.len(), 4, "{dead:?}");
    assert!(dead[&1].contains("not now") && dead[&2].contains("on purpose") && dead[&3].contains("handler_timeout"));
    assert!(dead[&5].contains("no id"));
    assert_eq!((stats.handled, stats.dead_lettered, stats.panicked, stats.timed_out), (2, 4, 3, 3));
    assert_eq!((stats.failed, stats.retried, stats.missing, stats.acknowledged), (11, 8, 1, 6));
    assert!(engine.check("good").is_duplicate() && engine.check("fails").is_fresh(), "what was put aside is not done");
}

struct Grenade;

impl Drop for Grenade {
    fn drop(&mut self) {
        panic!("on purpose");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_when_its_time_is_over_ends_no_run() {
    let journal = Journal::new("grenade");
    let (broker, engine) = (log(Acks::Cumulative).0, journal.open());
    ["hangs", "good"].into_iter().for_each(|id| _ = broker.send(0, id));
    broker.close();
    let handler = |message: Delivery<Message>| async move {
        if message.id.as_deref() == Some("hangs") {
            let _grenade = Grenade;
            pending::<()>().await;
        }
        Ok::<(), String>(())
    };
    let consumer = log_consumer(&engine).max_attempts(2).handler_timeout(Duration::from_secs(2)).build().unwrap();
    let stats = consumer.run(&broker, handler, pending()).await.unwrap();
    assert_eq!((stats.handled, stats.dead_lettered, stats.panicked, stats.acknowledged), (1, 1, 2, 2), "{stats:?}");
}

#[tokio::test(start_paused = true)]
async fn a_revoked_partition_is_released_when_what_is_done_is_acknowledged_and_the_rest_is_forgotten() {
    let journal = Journal::new("revoked");
    let (broker, effects) = log(Acks::Cumulative);
    for n in 0..8 {
        broker.send_id(n % 2, Some(n.to_string()));
    }
    let engine = journal.open();
    let consumer = log_consumer(&engine).max_in_flight(4).drain(Duration::from_secs(1)).build().unwrap();
    // Of partition 0, message 2 takes too long; of partition 1, all are done.
    let slow = effects.handler(|message| Duration::from_secs(if message.offset == 2 { 60 } else { 0 }));
    let run = consumer.run(&broker, slow, async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        broker.revoke([0]);
        tokio::time::sleep(Duration::from_secs(120)).await;
    });
    let stats = run.await.unwrap();
    assert_eq!(broker.state().releases, [vec![broker::partition(0)]]);
    assert_eq!(stats.abandoned, 1, "{stats:?}");
    let acknowledged = broker.state().acknowledged.clone();
    assert!(acknowledged.contains(&0) && !acknowledged.contains(&2) && !acknowledged.contains(&4), "{acknowledged:?}");
    assert!([1, 3, 5, 7].iter().all(|offset| acknowledged.contains(offset)), "{acknowledged:?}");
    assert!(engine.contains("2").is_none() && engine.contains("4").is_some());
    // The partition comes back: what was done is a repetition.
    broker.state().reassign(0);
    broker.close();
    let stats = consumer.run(&broker, effects.handler(|_| Duration::ZERO), pending()).await.unwrap();
    assert_eq!((stats.duplicate, effects.of("2"), effects.of("4")), (2, 1, 1), "{stats:?}");
}

#[tokio::test(start_paused = true)]
async fn partitions_that_are_revoked_while_it_shuts_down_are_released_too() {
    let journal = Journal::new("both");
    let (broker, effects) = log(Acks::Cumulative);
    (0..4).for_each(|n| _ = broker.send_id(n % 2, Some(n.to_string())));
    let engine = journal.open();
    let consumer = log_consumer(&engine).drain(Duration::from_secs(5)).build().unwrap();
    let told = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        broker.revoke([0]);
    };
    let stats = consumer.run(&broker, effects.handler(|_| Duration::from_secs(1)), told).await.unwrap();
    assert_eq!((stats.handled, stats.acknowledged), (4, 4), "{stats:?}");
    assert_eq!(broker.state().releases, [vec![broker::partition(0)]]);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_lets_handlers_end_and_forgets_what_does_not() {
    let journal = Journal::new("shutdown");
    let (broker, effects) = log(Acks::Each);
    (0..6).for_each(|n| _ = broker.send_id(0, Some(n.to_string())));
    let engine = journal.open();
    let consumer = log_consumer(&engine).max_in_flight(4).drain(Duration::from_secs(1)).build().unwrap();
    let handler = effects.handler(|message| Duration::from_millis([10, 700, 5_000, 5_000][message.offset % 4]));
    let stats = consumer.run(&broker, handler, tokio::time::sleep(Duration::from_millis(100))).await.unwrap();
    // 0 and 1 were done, 4 began in their place, 5 may have; 2 and 3 take too long.
    assert!(engine.contains("0").is_some() && engine.contains("1").is_some());
    assert!(engine.contains("2").is_none() && engine.contains("3").is_none());
    assert_eq!(stats.handled + stats.abandoned, 6, "{stats:?}");
    assert_eq!(stats.acknowledged, stats.handled);
}

#[tokio::test(start_paused = true)]
async fn what_a_history_cannot_forget_ends_the_checkpoints_and_an_engine_built_again_handles_it() {
    let journal = Journal::new("history");
    let history = testkit::history(Duration::from_secs(3_600), 1e-3, 10_000);
    let open = || journal.builder().history(history).build().unwrap();
    let (broker, effects) = log(Acks::Each);
    (0..4).for_each(|n| _ = broker.send_id(0, Some(n.to_string())));
    let engine = open();
    let consumer = log_consumer(&engine).drain(Duration::ZERO).build().unwrap();
    let handler = effects.handler(|message| Duration::from_secs(if message.offset == 3 { 60 } else { 0 }));
    let ended = consumer.run(&broker, handler, tokio::time::sleep(Duration::from_secs(1))).await;
    assert!(matches!(ended, Err(ConsumerError::NotForgotten { messages: 1 })), "{ended:?}");
    let again = consumer.run(&broker, effects.handler(|_| Duration::ZERO), pending()).await;
    assert!(matches!(again, Err(ConsumerError::NotForgotten { .. })), "{again:?}");
    assert!(broker.state().acknowledged.is_empty());
    drop((consumer, engine));
    broker.reconnect();
    broker.close();
    let engine = open();
    let consumer = log_consumer(&engine).build().unwrap();
    consumer.run(&broker, effects.handler(|_| Duration::ZERO), pending()).await.unwrap();
    assert!(broker.is_done() && (0..4).all(|n| effects.of(&n.to_string()) >= 1));
}

#[tokio::test(start_paused = true)]
async fn what_is_put_aside_ends_no_run_though_a_history_cannot_forget_it() {
    let journal = Journal::new("aside");
    let engine = journal.builder().history(testkit::history(Duration::from_secs(3_600), 1e-3, 10_000)).build().unwrap();
    let (broker, _) = log(Acks::Cumulative);
    (0..4).for_each(|n| _ = broker.send_id(0, Some(n.to_string())));
    broker.close();
    let handler = |message: Delivery<Message>| async move { if message.offset == 1 { Err("no") } else { Ok(()) } };
    let stats = log_consumer(&engine).max_attempts(2).build().unwrap().run(&broker, handler, pending()).await.unwrap();
    assert_eq!((stats.handled, stats.dead_lettered, stats.acknowledged), (3, 1, 4));
    assert!(engine.contains("2").is_some());
}

#[tokio::test(start_paused = true)]
async fn an_engine_without_checkpoints_and_a_message_without_an_id_are_errors_that_say_so() {
    let (broker, effects) = log(Acks::Each);
    broker.send(0, None);
    let handler = || effects.handler(|_| Duration::ZERO);
    let without = Dedup::builder().build().unwrap();
    let ended = log_consumer(&without).build().unwrap().run(&broker, handler(), pending()).await;
    assert!(matches!(ended, Err(ConsumerError::Journal(JournalError::NotConfigured))), "{ended:?}");
    let journal = Journal::new("missing");
    let engine = journal.open();
    let consumer = log_consumer(&engine).on_missing(OnMissing::Error).build().unwrap();
    let ended = consumer.run(&broker, handler(), pending()).await;
    assert!(matches!(ended, Err(ConsumerError::MissingId { .. })), "{ended:?}");
    let refused = log_consumer(&engine).max_in_flight(0).build().unwrap_err();
    assert!(refused.to_string().contains("max_in_flight"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_source_ends_the_run_and_nothing_is_lost() {
    for call in ["acknowledge", "dead_letter", "receive"] {
        let journal = Journal::new(call);
        let (broker, effects) = log(Acks::Cumulative);
        (0..40).for_each(|n| _ = broker.send_id(0, Some(n.to_string())));
        broker.close();
        let engine = journal.open();
        broker.refuse(call);
        let failures = Arc::new(AtomicU32::new(0));
        let (inner, counted) = (effects.handler(|_| Duration::from_millis(3)), Arc::clone(&failures));
        let handler = Arc::new(move |message: Delivery<Message>| {
            let fails = message.offset == 17 && counted.fetch_add(1, Ordering::Relaxed) < 2;
            let handling = inner(message);
            async move { if fails { Err("not now".to_owned()) } else { handling.await } }
        });
        let again = Arc::clone(&handler);
        let consumer = log_consumer(&engine).batch(8).max_attempts(2).build().unwrap();
        let ended = consumer.run(&broker, move |message| handler(message), pending()).await;
        assert!(matches!(ended, Err(ConsumerError::Source(_))), "{call}: {ended:?}");
        broker.refuses.lock().unwrap().clear();
        broker.reconnect();
        consumer.run(&broker, move |message| again(message), pending()).await.unwrap();
        assert!(broker.is_done(), "{call}");
        let dead = broker.state().dead.len() as u32;
        assert!(
            (0..40).filter(|n| effects.of(&n.to_string()) == 0).count() as u32 == dead,
            "{call}: only what was put aside"
        );
    }
}
