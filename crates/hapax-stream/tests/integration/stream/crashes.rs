//! Consumers that are dropped at any point: what they had not acknowledged is delivered again.

use super::*;
use hapax_store::ErrorKind;
use hapax_stream::Acks;
use hapax_testing::store::Fault;
use std::future::pending;
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
