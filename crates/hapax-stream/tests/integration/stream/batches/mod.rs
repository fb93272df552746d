//! Batches: their sizes and times, their answers, and what becomes of each message when one of them
//! fails, loses its claim, or has to stop.

mod model;

use super::*;
use hapax_message::GiveUp;
use hapax_store::{ErrorKind, TieredAttempt};
use hapax_stream::{Acks, Answers, Delivery, Health, Later};
use hapax_testing::store::Fault;
use std::collections::HashMap;
use std::future::pending;
use std::sync::Mutex;

type Error = Box<dyn std::error::Error + Send + Sync>;
type Answer = Result<Answers, Error>;

/// A sink that takes a batch or nothing of it, and records each call.
#[derive(Clone, Default)]
struct Sink {
    done: Arc<Mutex<HashMap<String, u32>>>,
    calls: Arc<Mutex<Vec<Call>>>,
}

/// The messages of a call: their ids and attempts.
type Call = Vec<(String, u32)>;

impl Sink {
    /// Returns the handler that takes this long, and answers so. What is answered for has had its
    /// effect.
    fn handler(
        &self,
        takes: Duration,
        answer: impl Fn(&[String]) -> Answer + Send + Sync + 'static,
    ) -> impl Fn(Vec<Delivery<Message>>) -> std::pin::Pin<Box<dyn Future<Output = Answer> + Send>> + Send + Sync + 'static
    {
        let (sink, answer) = (self.clone(), Arc::new(answer));
        move |batch| {
            let call: Call = batch.iter().map(|it| (it.id.clone().unwrap(), it.attempt())).collect();
            sink.calls.lock().unwrap().push(call.clone());
            let (sink, answer) = (sink.clone(), Arc::clone(&answer));
            Box::pin(async move {
                tokio::time::sleep(takes).await;
                let ids: Vec<String> = call.into_iter().map(|(id, _)| id).collect();
                let answers = answer(&ids)?;
                ids.into_iter().for_each(|id| *sink.done.lock().unwrap().entry(id).or_default() += 1);
                Ok(answers)
            })
        }
    }

    fn of(&self, id: &str) -> u32 {
        self.done.lock().unwrap().get(id).copied().unwrap_or(0)
    }

    fn sizes(&self) -> Vec<usize> {
        self.calls.lock().unwrap().iter().map(Vec::len).collect()
    }

    /// Returns the sizes of the calls that this message was in, and its attempts.
    fn calls_of(&self, id: &str) -> Vec<(usize, u32)> {
        let calls = self.calls.lock().unwrap();
        let of_it = |call: &Call| Some((call.len(), call.iter().find(|(other, _)| other == id)?.1));
        calls.iter().filter_map(of_it).collect()
    }
}

fn sent(world: &World, acks: Acks, ids: usize) -> Broker {
    let broker = Broker::new(&world.store, acks);
    (0..ids).for_each(|n| _ = broker.send_id(n as u32 % 3, Some(n.to_string())));
    broker
}

#[tokio::test(start_paused = true)]
async fn a_batch_begins_when_it_is_full_or_its_first_message_has_waited_and_is_claimed_in_one_request() {
    let world = World::new();
    let engine = world.shared().await;
    let broker = sent(&world, Acks::Each, 25);
    let sink = Sink::default();
    let consumer = consumer(&engine).handler_batch(10, 5 * MOMENT).build().unwrap();
    let handler = sink.handler(Duration::ZERO, |_| Ok(().into()));
    let (stats, ()) = tokio::join!(consumer.run_batches(&broker, handler, pending()), async {
        tokio::time::sleep(4 * MOMENT).await;
        assert_eq!(sink.sizes(), [10, 10]);
        tokio::time::sleep(2 * MOMENT).await;
        assert_eq!(sink.sizes(), [10, 10, 5], "the time is over");
        (0..3).chain(30..33).for_each(|n| _ = broker.send_id(0, Some(n.to_string())));
        tokio::time::sleep(MOMENT).await;
        assert_eq!(sink.sizes().len(), 3, "they wait for others");
        let calls = world.store.calls();
        tokio::time::sleep(5 * MOMENT).await;
        assert_eq!(sink.sizes(), [10, 10, 5, 3], "three of them are duplicates");
        assert_eq!(world.store.calls() - calls, 2, "one to claim them, and one to complete them");
        broker.send(0, "last");
        broker.close();
    });
    let stats = stats.unwrap();
    assert_eq!((stats.handled, stats.duplicate, stats.acknowledged), (29, 3, 32), "{stats:?}");
    assert!(sink.done.lock().unwrap().values().all(|&times| times == 1));
}

#[tokio::test(start_paused = true)]
async fn each_message_may_have_an_answer_of_its_own() {
    for acks in [Acks::Each, Acks::Cumulative] {
        let world = World::new();
        let engine = world.shared().await;
        let (broker, sink) = (sent(&world, acks, 12), Sink::default());
        broker.close();
        let later = Mutex::new(2);
        let handler = sink.handler(MOMENT, move |ids| {
            let answer = |id: &String| match id.as_str() {
                "3" => Err(GiveUp::because("hopeless").into()),
                "5" => Err("it fails each time".into()),
                "7" if std::mem::replace(&mut *later.lock().unwrap(), 0) > 0 => Err(Later::because("away").into()),
                _ => Ok(()),
            };
            Ok(ids.iter().map(answer).collect::<Vec<Result<(), Error>>>().into())
        });
        let consumer = consumer(&engine).max_attempts(3).handler_batch(12, MOMENT).build().unwrap();
        let stats = consumer.run_batches(&broker, handler, pending()).await.unwrap();
        assert_eq!((stats.handled, stats.dead_lettered, stats.acknowledged), (10, 2, 12), "{stats:?}");
        assert_eq!((stats.failed, stats.gave_up, stats.later, stats.split), (4, 1, 1, 0), "{stats:?}");
        let attempts = |id: &str| sink.calls_of(id).into_iter().map(|(_, attempt)| attempt).collect::<Vec<_>>();
        assert_eq!(["3", "5", "7", "0"].map(attempts), [vec![1], vec![1, 2, 3], vec![1, 1], vec![1]]);
        let dead = broker.state().dead.clone();
        assert_eq!((dead[&3].as_str(), dead[&5].as_str()), ("hopeless", "it fails each time"));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Poison {
    Fails,
    GivesUp,
    Panics,
    Hangs,
}

#[tokio::test(start_paused = true)]
async fn poison_is_found_by_halves_and_costs_the_others_no_attempt() {
    for poison in [Poison::Fails, Poison::GivesUp, Poison::Panics, Poison::Hangs] {
        let world = World::new();
        let engine = world.shared().await;
        let (broker, sink) = (sent(&world, Acks::Each, 200).counting_deliveries(), Sink::default());
        broker.close();
        let inner = sink.handler(MOMENT, move |ids| match poison {
            _ if !ids.iter().any(|id| id == "77") => Ok(().into()),
            Poison::GivesUp => Err(GiveUp::because("one of them").into()),
            Poison::Panics => panic!("as it was told to"),
            _ => Err("one of them".into()),
        });
        let handler = move |batch: Vec<Delivery<Message>>| {
            let hangs = poison == Poison::Hangs && batch.iter().any(|message| message.offset == 77);
            let handling = inner(batch);
            async move { if hangs { handling.await.and(pending().await) } else { handling.await } }
        };
        let builder = consumer(&engine).max_attempts(2).handler_timeout(2 * LEASE);
        let consumer = builder.handler_batch(200, MOMENT).build().unwrap();
        let stats = consumer.run_batches(&broker, handler, pending()).await.unwrap();
        assert_eq!((stats.handled, stats.dead_lettered, stats.lost), (199, 1, 0), "{poison:?}: {stats:?}");
        assert!((0..200).all(|n| sink.of(&n.to_string()) == u32::from(n != 77)), "{poison:?}");
        let found = [(200, 1), (100, 1), (50, 1), (25, 1), (12, 1), (6, 1), (3, 1), (2, 1), (1, 1), (1, 2)];
        let expected = if poison == Poison::GivesUp { 9 } else { 10 };
        let seen = sink.calls_of("77");
        assert_eq!(seen.len(), expected, "{poison:?}: {seen:?}");
        assert!(seen.iter().zip(found).all(|(seen, (size, attempt))| seen.0.abs_diff(size) <= 1 && seen.1 == attempt));
        assert!((0..200).filter(|n| *n != 77).all(|n| sink.calls_of(&n.to_string()).iter().all(|call| call.1 == 1)));
        assert_eq!((stats.split, sink.sizes().len()), (8, expected + 8), "{poison:?}");
        let reported = [Poison::Panics, Poison::Hangs].map(|other| if poison == other { 2 } else { 0 });
        assert_eq!([stats.panicked, stats.timed_out], reported, "{poison:?}: {stats:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_number_of_answers_is_a_failure_of_the_batch() {
    let world = World::new();
    let engine = world.shared().await;
    let (broker, sink) = (sent(&world, Acks::Each, 5), Sink::default());
    broker.close();
    let inner = sink.handler(MOMENT, |_| Ok(().into()));
    let handler = move |batch: Vec<Delivery<Message>>| {
        let (is_one, handling) = (batch.len() == 1, inner(batch));
        async move { handling.await.map(|_| vec![Ok::<(), String>(()); if is_one { 1 } else { 3 }]) }
    };
    let consumer = consumer(&engine).max_attempts(1).handler_batch(5, MOMENT).build().unwrap();
    let stats = consumer.run_batches(&broker, handler, pending()).await.unwrap();
    assert_eq!((stats.handled, stats.failed, stats.split), (5, 0, 2), "{:?}", sink.sizes());
    assert_eq!(sink.sizes(), [5, 3, 2, 1, 1], "three answers are right for three");
}

#[tokio::test(start_paused = true)]
async fn leases_are_renewed_together_and_one_that_is_lost_stops_the_batch_and_not_the_others() {
    let world = World::new();
    let (here, there) = (world.shared().await, orders(&world.shared().await));
    let (broker, sink) = (sent(&world, Acks::Each, 50), Sink::default());
    broker.close();
    let consumer = consumer(&here).handler_batch(50, MOMENT).build().unwrap();
    let handler = sink.handler(3 * LEASE, |_| Ok(().into()));
    let (stats, ()) = tokio::join!(consumer.run_batches(&broker, handler, pending()), async {
        tokio::time::sleep(2 * LEASE).await;
        let calls = world.store.calls();
        assert!(calls <= 20, "{calls} calls for 50 claims in two leases");
        assert!((0..50).all(|n| sink.calls_of(&n.to_string()).len() == 1));
        assert!(matches!(there.claim("7").await.unwrap(), TieredAttempt::InProgress { .. }));
        // Somebody takes one away.
        there.forget("7").await.unwrap();
        let TieredAttempt::Claimed(theirs) = there.claim("7").await.unwrap() else { panic!("it is forgotten") };
        tokio::time::sleep(LEASE / 2).await;
        assert_eq!((sink.sizes(), consumer.stats().lost), (vec![50, 49], 1), "the others are handled at once");
        theirs.complete().await.unwrap();
    });
    let stats = stats.unwrap();
    assert_eq!((stats.handled, stats.lost, stats.duplicate, stats.acknowledged), (49, 1, 1, 50), "{stats:?}");
    assert!((0..50).all(|n| sink.of(&n.to_string()) == u32::from(n != 7)));
}

#[tokio::test(start_paused = true)]
async fn the_leases_of_the_half_whose_turn_has_not_come_are_renewed() {
    let world = World::new();
    let (here, there) = (world.shared().await, orders(&world.shared().await));
    let (broker, sink) = (sent(&world, Acks::Each, 64), Sink::default());
    broker.close();
    // Each call takes less than the time between two renewals, and all of them more than a lease.
    let handler =
        sink.handler(LEASE / 6, |ids| if ids.contains(&"0".to_owned()) { Err("poison".into()) } else { Ok(().into()) });
    let consumer = consumer(&here).max_attempts(1).handler_batch(64, MOMENT).build().unwrap();
    let (stats, ()) = tokio::join!(consumer.run_batches(&broker, handler, pending()), async {
        for _ in 0..12 {
            tokio::time::sleep(LEASE / 6).await;
            assert!(there.claim("63").await.unwrap().claimed().is_none());
        }
    });
    let stats = stats.unwrap();
    assert_eq!((stats.handled, stats.lost, stats.dead_lettered), (63, 0, 1), "{stats:?}");
    assert!((1..64).all(|n| sink.of(&n.to_string()) == 1));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_lets_a_batch_end_until_the_deadline_and_a_revocation_stops_its_own_messages_only() {
    for (takes, handled) in [(4 * SECOND, 9), (20 * SECOND, 0)] {
        let world = World::new();
        let (here, there) = (world.shared().await, orders(&world.shared().await));
        let (broker, sink) = (sent(&world, Acks::Each, 9), Sink::default());
        let consumer = consumer(&here).drain(5 * SECOND).handler_batch(9, MOMENT).build().unwrap();
        let handler = sink.handler(takes, |_| Ok(().into()));
        let stats = consumer.run_batches(&broker, handler, tokio::time::sleep(SECOND)).await.unwrap();
        assert_eq!((stats.handled, stats.abandoned, stats.acknowledged), (handled, 9 - handled, handled), "{stats:?}");
        let free = there.claim("0").await.unwrap().claimed().is_some();
        assert_eq!(free, handled == 0, "what was stopped is released");
        assert_eq!(sink.sizes(), [9], "nothing begins again");
    }
    let world = World::new();
    let engine = world.shared().await;
    let (broker, sink) = (sent(&world, Acks::Cumulative, 9), Sink::default());
    let consumer = consumer(&engine).drain(SECOND).handler_batch(9, MOMENT).build().unwrap();
    let handler = sink.handler(5 * SECOND, |_| Ok(().into()));
    let run = consumer.run_batches(&broker, handler, tokio::time::sleep(9 * SECOND));
    let (stats, ()) = tokio::join!(run, async {
        tokio::time::sleep(MOMENT).await;
        broker.revoke([1]);
    });
    assert_eq!(sink.sizes(), [9, 6], "those of the other partitions are handled without them");
    let stats = stats.unwrap();
    assert_eq!((stats.handled, stats.abandoned, stats.acknowledged), (6, 3, 6), "{stats:?}");
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_is_away_is_an_outage_and_nothing_is_put_aside() {
    let world = World::new();
    let engine = world.shared().await;
    let (broker, sink) = (sent(&world, Acks::Each, 100), Sink::default());
    broker.close();
    let is_away = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let away = Arc::clone(&is_away);
    let handler = sink.handler(MOMENT, move |_| {
        if away.load(std::sync::atomic::Ordering::Relaxed) { Err("connection refused".into()) } else { Ok(().into()) }
    });
    let consumer = consumer(&engine).max_attempts(2).handler_batch(100, MOMENT).build().unwrap();
    let (stats, ()) = tokio::join!(consumer.run_batches(&broker, handler, pending()), async {
        tokio::time::sleep(600 * SECOND).await;
        assert!(matches!(consumer.health(), Health::Outage(_)));
        let calls = sink.sizes().len();
        assert!(calls < 60, "{calls} calls in ten minutes: {:?}", sink.sizes());
        is_away.store(false, std::sync::atomic::Ordering::Relaxed);
    });
    let stats = stats.unwrap();
    assert_eq!((stats.handled, stats.dead_lettered), (100, 0), "{stats:?}");
    assert!((0..100).all(|n| sink.of(&n.to_string()) == 1));
}

#[tokio::test(start_paused = true)]
async fn completions_wait_for_a_store_that_is_away_for_less_than_a_lease() {
    let world = World::new();
    let engine = world.engine().retries(0).build().await.unwrap();
    let (broker, sink) = (sent(&world, Acks::Each, 40), Sink::default());
    broker.close();
    let consumer = consumer(&engine).handler_batch(40, MOMENT).build().unwrap();
    let handler = sink.handler(SECOND, |_| Ok(().into()));
    let (stats, ()) = tokio::join!(consumer.run_batches(&broker, handler, pending()), async {
        tokio::time::sleep(SECOND / 2).await;
        world.store.always(Fault::Fails(ErrorKind::Unavailable));
        tokio::time::sleep(LEASE / 2).await;
        world.store.always(Fault::None);
    });
    let stats = stats.unwrap();
    assert_eq!((stats.handled, stats.acknowledged, stats.lost), (40, 40, 0), "{stats:?}");
    assert_eq!(sink.sizes(), [40]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_cannot_be_is_refused() {
    let engine = World::new().shared().await;
    for (messages, within, is_valid) in [
        (0, MOMENT, false),
        (1, Duration::ZERO, true),
        (100, MOMENT, true),
        (101, MOMENT, false),
        (1, Duration::from_secs(367 * 24 * 3600), false),
    ] {
        let built = consumer(&engine).max_in_flight(1).max_unacknowledged(100).handler_batch(messages, within).build();
        assert_eq!(built.as_ref().err().is_some_and(|error| error.to_string().contains("handler_batch")), !is_valid);
        assert_eq!(built.is_ok(), is_valid, "{messages} within {within:?}");
    }
}
