//! Consumers that are dropped at any point: what they had not acknowledged is delivered again. And
//! those that died with a claim: whoever takes it over is told.

use super::*;
use hapax_store::{ErrorKind, HeldBy, Inspect, RecordKey, RecordState, Scope};
use hapax_stream::{Acks, Delivery, Effect, OnTakeover};
use hapax_testing::store::Fault;
use std::collections::BTreeSet;
use std::future::pending;
use std::sync::Mutex;
use testkit::random::Random;

const IDS: u32 = 60;

/// Runs consumers one after the other, each dropped after a random time, until all is done. Returns
/// how many were dropped.
async fn crash(seed: u64, acks: Acks, is_exclusive: bool) -> u32 {
    println!("seed {seed}, {acks:?}, {}", if is_exclusive { "exclusive" } else { "shared" });
    let mut random = Random(seed);
    let world = World::new();
    let (broker, effects) = (Broker::new(&world.store, acks), Effects::new(&world.store));
    for n in (0..IDS).chain(0..IDS).chain(0..IDS / 2) {
        broker.send_id(n % 3, Some(n.to_string()));
    }
    broker.close();
    let engine = if is_exclusive { world.exclusive().await } else { world.shared().await };
    for dropped in 0.. {
        assert!(dropped < 2_000, "seed {seed}: it goes on for ever");
        let consumer = consumer(&engine).max_in_flight(8).batch(16).max_unacknowledged(40).build().unwrap();
        let salt = random.below(1_000);
        let handler = effects.handler(move |message| Duration::from_millis((message.offset as u64 * 31 + salt) % 17));
        let lives = Duration::from_micros(random.below(40_000));
        let mut run = Box::pin(consumer.run(&broker, handler, pending()));
        match tokio::time::timeout(lives, &mut run).await {
            Ok(ended) => {
                ended.unwrap();
                assert!(broker.is_done());
                let each = (0..IDS).map(|n| effects.of(&n.to_string()));
                assert!(each.clone().all(|times| times >= 1), "seed {seed}: a message is lost");
                // A second time only what had its effect, and whose completion was not recorded
                // when the consumer was dropped: one consumer's handlers each time.
                assert!(each.sum::<u32>() <= IDS + 8 * dropped, "seed {seed}");
                return dropped;
            }
            Err(_) => {
                // Some die with their process: nobody releases their claims, whose leases have to
                // pass.
                let is_killed = !is_exclusive && random.below(4) == 0;
                if is_killed {
                    world.store.always(Fault::Fails(ErrorKind::Unavailable));
                }
                drop(run);
                if is_killed {
                    tokio::time::sleep(LEASE + Duration::from_secs(2)).await;
                    world.store.always(Fault::None);
                }
                broker.reconnect();
            }
        }
    }
    unreachable!("the loop returns")
}

#[tokio::test(start_paused = true)]
async fn a_consumer_that_is_dropped_at_any_point_loses_nothing() {
    let (seeds, mut dropped) = (testkit::long(8, 24), 0);
    for seed in 1..=seeds {
        dropped += crash(seed, Acks::Each, seed % 4 == 0).await;
        dropped += crash(seed, Acks::Cumulative, seed % 4 == 2).await;
    }
    assert!(u64::from(dropped) > 4 * seeds, "{dropped} consumers were dropped");
}

/// Has a worker die with a claim of each of these ids, and its lease end.
async fn died_with(world: &World, ids: &[&str]) {
    let engine = world.engine().held_by(HeldBy::of("worker-7")).build().await.unwrap();
    for id in ids {
        std::mem::forget(orders(&engine).claim(id).await.unwrap().claimed().unwrap());
    }
    tokio::time::sleep(LEASE).await;
}

async fn state(world: &World, id: &str) -> Option<RecordState> {
    let key = RecordKey::new(&Scope::new("orders").unwrap(), id);
    world.store.inner().inspect(&[key]).await.unwrap().remove(0).unwrap().map(|record| record.state)
}

#[tokio::test(start_paused = true)]
async fn a_handler_is_told_of_the_first_claim_in_doubt() {
    for in_batches in [false, true] {
        let world = World::new();
        died_with(&world, &["a"]).await;
        let engine = world.shared().await;
        let broker = Broker::new(&world.store, Acks::Each);
        [(0, "a"), (0, "b")].into_iter().for_each(|(partition, id)| _ = broker.send(partition, id));
        broker.close();
        let told = Arc::new(Mutex::new(BTreeSet::new()));
        let tell = |told: &Mutex<BTreeSet<_>>, message: &Delivery<Message>| {
            let by = message.before().map(|before| before.held_by().unwrap().to_string());
            told.lock().unwrap().insert((message.id.clone().unwrap(), by));
        };
        let (consumer, there) = (consumer(&engine).build().unwrap(), Arc::clone(&told));
        let stats = if in_batches {
            let handle = move |batch: Vec<Delivery<Message>>| {
                batch.iter().for_each(|message| tell(&there, message));
                async { Ok::<(), String>(()) }
            };
            consumer.run_batches(&broker, handle, pending()).await
        } else {
            let handle = move |message: Delivery<Message>| {
                tell(&there, &message);
                async { Ok::<(), String>(()) }
            };
            consumer.run(&broker, handle, pending()).await
        };
        let stats = stats.unwrap();
        assert_eq!((stats.taken_over, stats.handled), (1, 2), "{stats:?}");
        let expected = [("a".to_owned(), Some("worker-7".to_owned())), ("b".to_owned(), None)];
        assert_eq!(*told.lock().unwrap(), BTreeSet::from(expected));
        assert_eq!(state(&world, "a").await, Some(RecordState::Completed));
    }
}

#[tokio::test(start_paused = true)]
async fn the_other_side_is_asked_and_only_what_is_not_there_is_done() {
    for in_batches in [false, true] {
        let world = World::new();
        died_with(&world, &["there", "missing", "later", "panics"]).await;
        let engine = world.shared().await;
        let broker = Broker::new(&world.store, Acks::Each).counting_deliveries();
        for id in ["there", "missing", "later", "panics", "fresh"] {
            broker.send(0, id);
        }
        broker.close();
        let (asked, handled) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(BTreeSet::new())));
        let (there, did) = (Arc::clone(&asked), Arc::clone(&handled));
        let probe = move |message: Delivery<Message>| {
            let id = message.id.clone().unwrap();
            let mut asked = there.lock().unwrap();
            let again = asked.contains(&id);
            asked.push(id.clone());
            async move {
                match id.as_str() {
                    "there" => Effect::There,
                    "panics" if !again => panic!("the folder is away"),
                    "later" if !again => Effect::Unknown,
                    "later" => Effect::There,
                    _ => Effect::Missing,
                }
            }
        };
        let consumer = consumer(&engine).max_attempts(1).on_takeover(OnTakeover::ask(probe)).build().unwrap();
        let stats = if in_batches {
            let handle = move |batch: Vec<Delivery<Message>>| {
                did.lock().unwrap().extend(batch.iter().map(|message| message.id.clone().unwrap()));
                async { Ok::<(), String>(()) }
            };
            consumer.run_batches(&broker, handle, pending()).await
        } else {
            let handle = move |message: Delivery<Message>| {
                did.lock().unwrap().insert(message.id.clone().unwrap());
                async { Ok::<(), String>(()) }
            };
            consumer.run(&broker, handle, pending()).await
        };
        let stats = stats.unwrap();
        let expected = ["fresh", "missing", "panics"].map(str::to_owned);
        assert_eq!(*handled.lock().unwrap(), BTreeSet::from(expected));
        let mut asked = asked.lock().unwrap().clone();
        asked.sort();
        assert_eq!(asked, ["later", "later", "missing", "panics", "panics", "there"]);
        // An unknown effect is no attempt, so nothing is put aside though there is one.
        assert_eq!((stats.handled, stats.later, stats.dead_lettered, stats.acknowledged), (5, 2, 0, 5), "{stats:?}");
        for id in ["there", "missing", "later", "panics", "fresh"] {
            assert_eq!(state(&world, id).await, Some(RecordState::Completed), "{id}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_left_to_people_is_put_aside_and_stays_in_doubt_until_they_have_looked() {
    let world = World::new();
    died_with(&world, &["a"]).await;
    let engine = world.shared().await;
    let mut broker = Broker::new(&world.store, Acks::Each);
    broker.lenient = true;
    broker.send(0, "a");
    let consumer = consumer(&engine).on_takeover(OnTakeover::Leave).build().unwrap();
    let handled = Arc::new(Mutex::new(0));
    let did = Arc::clone(&handled);
    let handle = move |_| {
        *did.lock().unwrap() += 1;
        async { Ok::<(), String>(()) }
    };
    let looked = async {
        tokio::time::sleep(MOMENT).await;
        assert_eq!(state(&world, "a").await, Some(RecordState::InDoubt));
        assert_eq!(*handled.lock().unwrap(), 0);
        assert!(orders(&engine).forget("a").await.unwrap(), "they have looked: it is not there");
        broker.send(0, "a");
        broker.close();
        pending::<()>().await
    };
    let stats = consumer.run(&broker, handle, looked).await.unwrap();
    assert_eq!((stats.taken_over, stats.dead_lettered, stats.handled), (1, 1, 1), "{stats:?}");
    assert!(broker.state().dead.values().all(|why| why.contains("in doubt")), "{:?}", broker.state().dead);
}
