//! Outages of what handlers depend on: nothing is put aside for that, and nothing lost. A message
//! that is put aside all the same can be sent anew.

use super::*;
use hapax_store::{ErrorKind, RecordKey, Scope};
use hapax_stream::{Acks, Delivery, Health, Later, OnError};
use hapax_testing::store::Fault;
use std::collections::{BTreeSet, HashMap};
use std::future::pending;
use std::sync::Mutex;

const MINUTE: Duration = Duration::from_secs(60);
const MESSAGES: usize = 2_000;
const POISON: usize = 20;

/// A dependency of handlers that is away for a while, and what they have done.
struct Dependency {
    away: (Instant, Instant),
    done: Mutex<HashMap<String, u32>>,
    order: Mutex<HashMap<String, Vec<usize>>>,
    calls: Mutex<Vec<Instant>>,
}

fn is_poison(n: usize) -> bool {
    n.is_multiple_of(MESSAGES / POISON)
}

impl Dependency {
    fn away(from: Instant, to: Instant) -> Arc<Self> {
        Arc::new(Dependency {
            away: (from, to),
            done: Mutex::default(),
            order: Mutex::default(),
            calls: Mutex::default(),
        })
    }

    fn is_away(&self) -> bool {
        self.calls.lock().unwrap().push(Instant::now());
        (self.away.0..self.away.1).contains(&Instant::now())
    }

    fn did(&self, id: &str) {
        *self.done.lock().unwrap().entry(id.to_owned()).or_default() += 1;
    }
}

/// Consumes 2,000 messages of 100 keys, of which twenty are poison, from a broker like this, while
/// the dependency is away for ten minutes.
async fn ten_minutes_away(acks: Acks, counts: bool) {
    let world = World::new();
    let engine = world.shared().await;
    let mut broker = Broker::new(&world.store, acks);
    // (Who waits for hours for those before it is acknowledged when its record has expired.)
    broker.lenient = true;
    let broker = if counts { broker.counting_deliveries() } else { broker };
    (0..MESSAGES).for_each(|n| _ = broker.send_id(n as u32 % 4, Some(n.to_string())));
    broker.close();
    let begin = Instant::now();
    let dependency = Dependency::away(begin + SECOND, begin + 10 * MINUTE);
    let consumer = Consumer::builder("orders", engine, |message: &Message| message.id.clone())
        .in_order_by(|message: &Message| Some((message.offset % 100).to_string()))
        .build()
        .unwrap();
    let at = Arc::clone(&dependency);
    let handle = move |message: Delivery<Message>| {
        let at = Arc::clone(&at);
        async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            if at.is_away() || is_poison(message.offset) {
                return Err("connection refused");
            }
            at.did(&message.offset.to_string());
            at.order.lock().unwrap().entry((message.offset % 100).to_string()).or_default().push(message.offset);
            Ok(())
        }
    };
    let stats = tokio::time::timeout(Duration::from_secs(12 * 3600), consumer.run(&broker, handle, pending())).await;
    let stats = stats.expect("it ends within hours").unwrap();
    let aside: BTreeSet<usize> = broker.state().dead.keys().copied().collect();
    assert_eq!(aside, (0..MESSAGES).filter(|&n| is_poison(n)).collect(), "{acks:?}: poison, and nothing else");
    let done = dependency.done.lock().unwrap();
    assert_eq!(
        (done.len(), done.values().max()),
        (MESSAGES - POISON, Some(&1)),
        "{acks:?}: nothing is lost, or done twice"
    );
    assert!(dependency.order.lock().unwrap().values().all(|offsets| offsets.is_sorted()), "the order by key is kept");
    let in_vain = dependency.calls.lock().unwrap().iter().filter(|&&at| at < begin + 10 * MINUTE).count();
    assert!(in_vain < 1_200, "{acks:?}: {in_vain} calls in ten minutes: {stats:?}");
}

#[tokio::test(start_paused = true)]
async fn ten_minutes_without_what_handlers_need_put_nothing_aside_but_poison() {
    ten_minutes_away(Acks::Each, true).await;
    ten_minutes_away(Acks::Each, false).await;
    ten_minutes_away(Acks::Cumulative, false).await;
}

#[tokio::test(start_paused = true)]
async fn in_an_outage_one_is_tried_at_a_time_and_the_health_says_so() {
    let world = World::new();
    let (engine, broker) = (world.shared().await, Broker::new(&world.store, Acks::Each));
    (0..200).for_each(|n| _ = broker.send_id(0, Some(n.to_string())));
    broker.close();
    let begin = Instant::now();
    let dependency = Dependency::away(begin, begin + 10 * MINUTE);
    let consumer = Consumer::builder("orders", engine, |message: &Message| message.id.clone()).build().unwrap();
    let at = Arc::clone(&dependency);
    let handle = move |_: Delivery<Message>| {
        let is_away = at.is_away();
        async move { if is_away { Err("connection refused") } else { Ok(()) } }
    };
    let (stats, ()) = tokio::join!(consumer.run(&broker, handle, pending()), async {
        tokio::time::sleep(9 * MINUTE).await;
        assert!(matches!(consumer.health(), Health::Outage(since) if since > 8 * MINUTE), "{:?}", consumer.health());
        let calls = dependency.calls.lock().unwrap();
        let late: Vec<&Instant> = calls.iter().filter(|at| **at > begin + 5 * MINUTE).collect();
        assert!((8..=17).contains(&late.len()), "{} calls in four minutes", late.len());
    });
    assert_eq!(consumer.health(), Health::Good);
    let stats = stats.unwrap();
    assert_eq!((stats.handled, stats.dead_lettered), (200, 0));
    let ended = dependency.calls.lock().unwrap().last().copied().unwrap();
    assert!(ended < begin + 12 * MINUTE, "it goes on when the outage is over: {:?}", ended - begin);
}

#[tokio::test(start_paused = true)]
async fn where_nothing_is_left_but_poison_it_is_put_aside_in_the_end_and_others_get_by() {
    let world = World::new();
    let (engine, mut queue) = (world.shared().await, Queue::of(30 * SECOND, (0..20).map(|n| format!("poison-{n}"))));
    // It is asked for hours.
    (queue.heartbeat, queue.patience) = (Some(10 * SECOND), SECOND);
    let consumer = of_queue(&engine).build().unwrap();
    let handled = Arc::new(Mutex::new(None));
    let at = Arc::clone(&handled);
    let handle = move |message: Delivery<Received>| {
        let is_good = message.id == "good";
        if is_good {
            *at.lock().unwrap() = Some(Instant::now());
        }
        async move { if is_good { Ok(()) } else { Err("no") } }
    };
    let (stats, sent) = tokio::join!(consumer.run(&queue, handle, queue.emptied()), async {
        tokio::time::sleep(10 * MINUTE).await;
        assert!(matches!(consumer.health(), Health::Outage(_)), "{:?}", consumer.stats());
        queue.send("good");
        Instant::now()
    });
    let waited = handled.lock().unwrap().unwrap() - sent;
    assert!(waited < 2 * MINUTE, "the good one is tried before those that have failed: {waited:?}");
    assert_eq!((stats.unwrap().handled, queue.dead().len()), (1, 20));
}

#[tokio::test(start_paused = true)]
async fn later_is_no_attempt_and_comes_when_it_was_asked_for() {
    for acks in [Acks::Each, Acks::Cumulative] {
        let world = World::new();
        let (engine, broker) = (world.shared().await, Broker::new(&world.store, acks));
        broker.send(0, "a");
        broker.close();
        let builder = Consumer::builder("orders", engine, |message: &Message| message.id.clone());
        let consumer = builder.max_attempts(2).on_error(OnError::common).build().unwrap();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let at = Arc::clone(&calls);
        let handle = move |message: Delivery<Message>| {
            let mut calls = at.lock().unwrap();
            calls.push((Instant::now(), message.attempt()));
            let n = calls.len();
            async move {
                match n {
                    1..=10 => {
                        Err(Box::<dyn std::error::Error + Send + Sync>::from(Later::because("not yet").after(MINUTE)))
                    }
                    11..=20 => Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into()),
                    21 => Err("this one counts".into()),
                    _ => Ok(()),
                }
            }
        };
        let stats = consumer.run(&broker, handle, pending()).await.unwrap();
        let calls = calls.lock().unwrap();
        assert!(calls[..10].windows(2).all(|pair| (MINUTE..MINUTE + SECOND).contains(&(pair[1].0 - pair[0].0))));
        assert_eq!(calls.iter().map(|call| call.1).collect::<Vec<_>>(), [vec![1; 21], vec![2]].concat(), "{acks:?}");
        assert_eq!((stats.later, stats.failed, stats.handled, stats.dead_lettered), (20, 1, 1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_paused_consumer_takes_nothing_until_it_is_resumed() {
    let world = World::new();
    let (engine, mut queue) = (world.shared().await, Queue::of(30 * SECOND, (0..100).map(|n| n.to_string())));
    // It is asked for hours.
    (queue.heartbeat, queue.patience) = (Some(10 * SECOND), SECOND);
    let builder = of_queue(&engine);
    let consumer = builder.max_in_flight(2).batch(10).build().unwrap();
    let handle = |_: Delivery<Received>| async {
        tokio::time::sleep(SECOND).await;
        Ok::<(), &str>(())
    };
    let (stats, ()) = tokio::join!(consumer.run(&queue, handle, queue.emptied()), async {
        tokio::time::sleep(SECOND * 11 / 2).await;
        consumer.pause();
        tokio::time::sleep(2 * SECOND).await;
        assert_eq!((consumer.stats().handled, consumer.health()), (12, Health::Paused), "those that had begun end");
        let received = consumer.stats().received;
        tokio::time::sleep(60 * MINUTE).await;
        assert_eq!((consumer.stats().handled, consumer.stats().received), (12, received));
        consumer.resume();
    });
    let stats = stats.unwrap();
    assert_eq!((stats.handled, stats.received, stats.duplicate), (100, 100, 0), "none was delivered twice: {stats:?}");
}

#[tokio::test(start_paused = true)]
async fn what_was_put_aside_and_is_only_repeated_is_put_aside_again_unhandled() {
    let world = World::new();
    let (engine, queue) = (world.shared().await, Queue::of(30 * SECOND, ["a"]));
    let calls = Arc::new(Mutex::new(0));
    let handler = || {
        let calls = Arc::clone(&calls);
        move |_: Delivery<Received>| {
            *calls.lock().unwrap() += 1;
            async { Err("no") }
        }
    };
    let builder = || of_queue(&engine).max_attempts(2);
    let first = builder().build().unwrap();
    first.run(&queue, handler(), queue.emptied()).await.unwrap();
    queue.restore("a");
    // Another process: it remembers nothing itself.
    let second = builder().build().unwrap();
    let stats = second.run(&queue, handler(), queue.emptied()).await.unwrap();
    assert_eq!((*calls.lock().unwrap(), stats.dead_lettered, stats.aside_again), (2, 1, 1), "{stats:?}");
    assert!(second.redrive("a").await.unwrap() && !second.redrive("a").await.unwrap());
    queue.restore("a");
    let stats = builder().build().unwrap().run(&queue, handler(), queue.emptied()).await.unwrap();
    assert_eq!((*calls.lock().unwrap(), stats.dead_lettered, stats.aside_again), (4, 1, 0), "redriven: {stats:?}");
    queue.send("a");
    let stats = second.run(&queue, handler(), queue.emptied()).await.unwrap();
    assert_eq!((*calls.lock().unwrap(), stats.dead_lettered, stats.aside_again), (6, 2, 1), "sent anew: {stats:?}");
}

#[tokio::test(start_paused = true)]
async fn a_message_whose_record_is_damaged_is_put_aside_and_stops_nobody() {
    for acks in [Acks::Each, Acks::Cumulative] {
        let world = World::new();
        let (engine, broker) = (world.engine().retries(0).build().await.unwrap(), Broker::new(&world.store, acks));
        (0..50).for_each(|n| _ = broker.send_id(0, Some(n.to_string())));
        broker.close();
        world.store.damage(RecordKey::new(&Scope::new("orders").unwrap(), "7"));
        let consumer = Consumer::builder("orders", engine, |message: &Message| message.id.clone()).build().unwrap();
        let stats =
            consumer.run(&broker, |_: Delivery<Message>| async { Ok::<(), &str>(()) }, pending()).await.unwrap();
        assert_eq!((stats.handled, stats.dead_lettered, stats.acknowledged), (49, 1, 50), "{acks:?}: {stats:?}");
        let dead = broker.state().dead.clone();
        assert!(dead[&7].contains("its record in the store cannot be used"), "{dead:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_for_minutes_is_in_the_health() {
    let world = World::new();
    let (engine, broker) = (world.shared().await, Broker::new(&world.store, Acks::Each));
    broker.send(0, "a");
    broker.close();
    world.store.always(Fault::Fails(ErrorKind::Unavailable));
    let consumer = Consumer::builder("orders", engine, |message: &Message| message.id.clone()).build().unwrap();
    let (stats, ()) =
        tokio::join!(consumer.run(&broker, |_: Delivery<Message>| async { Ok::<(), &str>(()) }, pending()), async {
            tokio::time::sleep(30 * SECOND).await;
            assert_eq!(consumer.health(), Health::Good);
            tokio::time::sleep(3 * MINUTE).await;
            let health = consumer.health();
            assert!(matches!(&health, Health::Stalled { since, .. } if *since > 2 * MINUTE), "{health:?}");
            world.store.always(Fault::None);
        });
    assert_eq!((stats.unwrap().handled, consumer.health()), (1, Health::Good));
}
