//! Messages of a key are handled one after the other, as they were received, whatever happens.

use super::*;
use hapax_message::GiveUp;
use hapax_store::{ErrorKind, Known, RecordKey, Scope, Store as _};
use hapax_stream::{Acks, ConsumerError, Delivery};
use hapax_testing::store::Fault;
use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::Mutex;
use testkit::random::Random;

const PARTITIONS: u32 = 3;

/// Returns the key of a message: what its id begins with. One that begins with a hyphen has none.
fn key_of(message: &Message) -> Option<String> {
    let (key, _) = message.id.as_deref()?.split_once('-')?;
    (!key.is_empty()).then(|| key.to_owned())
}

/// A message and the fate of its attempts.
#[derive(Clone, Debug)]
struct Planned {
    id: String,
    key: String,
    partition: u32,
    takes: Duration,
    fails: u32,
    hangs: u32,
    is_hopeless: bool,
}

fn plan(random: &mut Random) -> Vec<Planned> {
    let mut plan: Vec<Planned> = Vec::new();
    for n in 0..random.within(20, 60) {
        let repeated = random.percent(15).then(|| plan.get(random.below(n.max(1)) as usize).cloned()).flatten();
        let key = random.below(5);
        plan.push(repeated.unwrap_or_else(|| Planned {
            id: if key == 4 { format!("-{n}") } else { format!("{key}-{n}") },
            key: if key == 4 { String::new() } else { key.to_string() },
            partition: key as u32 % PARTITIONS,
            takes: random.millis(0, 300),
            fails: if random.percent(20) { random.within(1, 7) as u32 } else { 0 },
            hangs: u32::from(random.percent(5)),
            is_hopeless: random.percent(5),
        }));
    }
    plan
}

/// The record of all handlers, and what is wrong with it.
#[derive(Default)]
struct Record {
    running: BTreeSet<usize>,
    attempts: BTreeMap<String, u32>,
    violations: Vec<String>,
}

struct Disturbed {
    plan: Vec<Planned>,
    store: Store,
    broker: Broker,
    record: Mutex<Record>,
}

/// A handler that runs. When it is dropped, it does not run any more.
struct Running(Arc<Disturbed>, usize);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.record.lock().unwrap().running.remove(&self.1);
    }
}

impl Disturbed {
    /// Notes that a handler begins, and judges: no other one of its key runs, and all that were
    /// sent before are done or put aside, as the store knows.
    async fn begin(self: &Arc<Self>, offset: usize) -> (Running, u32) {
        let Planned { id, key, .. } = &self.plan[offset];
        let is_before = |other: &&Planned| !key.is_empty() && other.key == *key && other.id != *id;
        let before: Vec<&Planned> = self.plan[..offset].iter().filter(is_before).collect();
        let keys: Vec<RecordKey> =
            before.iter().map(|other| RecordKey::new(&Scope::new("orders").unwrap(), other.id.as_bytes())).collect();
        let known = self.store.inner().look_up(&keys).await.unwrap();
        let aside: std::collections::BTreeSet<usize> = self.broker.state().dead.keys().copied().collect();
        let is_aside =
            |other: &Planned| self.plan.iter().enumerate().any(|(n, of)| of.id == other.id && aside.contains(&n));
        let is_open = |known: &Result<Known, hapax_store::StoreError>| !matches!(known, Ok(Known::Completed(_)));
        let open = before.iter().zip(known).find(|(other, known)| is_open(known) && !is_aside(other));
        let mut record = self.record.lock().unwrap();
        let beside = record.running.iter().find(|&&other| !key.is_empty() && self.plan[other].key == *key);
        let beside = beside.map(|&other| format!("{id} begins while {} runs", self.plan[other].id));
        let open = open.map(|(other, _)| format!("{id} begins before {} is done", other.id));
        record.violations.extend(beside.into_iter().chain(open));
        record.running.insert(offset);
        let attempts = record.attempts.entry(id.clone()).or_default();
        *attempts += 1;
        (Running(Arc::clone(self), offset), *attempts)
    }

    async fn handle(
        self: Arc<Self>,
        delivery: Delivery<Message>,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let planned = &self.plan[delivery.offset];
        let (_running, attempts) = self.begin(delivery.offset).await;
        if attempts <= planned.hangs {
            pending::<()>().await;
        }
        tokio::time::sleep(planned.takes).await;
        if planned.is_hopeless {
            return Err(GiveUp::because("hopeless").into());
        }
        if attempts <= planned.hangs + planned.fails {
            return Err("as it was told to".into());
        }
        Ok(())
    }
}

/// A consumer's idea of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    ByKey,
    /// Wrong: there is none.
    Missing,
    /// Wrong: messages of one key are told apart by where they are.
    ByPlace,
    /// Wrong: some messages have no key.
    OfSome,
}

/// Runs a seed. Returns what is wrong.
async fn violations(seed: u64, order: Order, in_batches: bool) -> Vec<String> {
    let mut random = Random(seed);
    let acks = if random.percent(50) { Acks::Each } else { Acks::Cumulative };
    let world = World::new();
    let (here, there) = (world.shared().await, world.shared().await);
    let plan = plan(&mut random);
    let broker = Broker::new(&world.store, acks);
    let broker = if acks == Acks::Each && random.percent(50) { broker.counting_deliveries() } else { broker };
    plan.iter().for_each(|planned| _ = broker.send_id(planned.partition, Some(planned.id.clone())));
    broker.close();
    // Somebody else is at one of them.
    let elsewhere = plan[random.below(plan.len() as u64) as usize].id.clone();
    let theirs = there.claim(&elsewhere).await.unwrap().claimed().unwrap();
    if random.percent(50) {
        world.store.at_random(random.next(), [(random.below(60), Fault::Fails(ErrorKind::Unavailable))]);
    }
    let in_flight = random.within(1, 8) as usize;
    let builder = consumer(&here)
        .max_in_flight(in_flight)
        .max_unacknowledged(in_flight * random.within(1, 6) as usize)
        .handler_timeout(Duration::from_secs(2))
        .drain(random.millis(0, 400));
    let builder = match order {
        Order::ByKey => builder.in_order_by(key_of),
        Order::Missing => builder,
        Order::ByPlace => builder.in_order_by(|message: &Message| Some(message.offset.to_le_bytes())),
        Order::OfSome => {
            builder.in_order_by(|message: &Message| key_of(message).filter(|_| !message.offset.is_multiple_of(4)))
        }
    };
    let run = Arc::new(Disturbed { plan, store: Arc::clone(&world.store), broker, record: Mutex::default() });
    let (handled, other) = (Arc::clone(&run), Arc::clone(&run));
    let consumer = builder.build().unwrap();
    let handle = move |delivery| Arc::clone(&handled).handle(delivery);
    let consuming = async {
        if !in_batches {
            return consumer.run(&run.broker, handle, pending()).await;
        }
        let each = move |batch: Vec<_>| {
            let all = futures_util::future::join_all(batch.into_iter().map(&handle));
            async move { Ok::<_, String>(all.await) }
        };
        consumer.run_batches(&run.broker, each, pending()).await
    };
    let disturbing = async move {
        tokio::time::sleep(random.millis(0, 500)).await;
        if random.percent(50) {
            let _ = theirs.complete().await;
        } else {
            let _ = theirs.release().await;
        }
        for _ in 0..random.below(4) {
            tokio::time::sleep(random.millis(0, 2_000)).await;
            let partition = random.below(PARTITIONS.into()) as u32;
            let before = other.broker.state().releases.len();
            other.broker.revoke([partition]);
            while other.broker.state().releases.len() == before {
                tokio::time::sleep(MOMENT).await;
            }
            other.broker.state().reassign(partition);
        }
        pending::<()>().await;
    };
    let stats = tokio::select! {
        stats = consuming => stats,
        () = disturbing => unreachable!("it never ends"),
        () = tokio::time::sleep(Duration::from_secs(3_600)) => {
            return vec![format!("stands still: {:?} are out", run.broker.out())];
        }
    };
    let mut violations = std::mem::take(&mut run.record.lock().unwrap().violations);
    violations.extend(stats.err().map(|error| format!("the run ends with {error}")));
    violations.extend((!run.broker.is_done()).then(|| "not all is acknowledged".to_owned()));
    violations
}

#[tokio::test(start_paused = true)]
async fn a_key_is_handled_in_order_whatever_happens() {
    let first = std::env::var("HAPAX_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for seed in first..first + testkit::long(20, 100) {
        for in_batches in [false, true] {
            let violations = violations(seed, Order::ByKey, in_batches).await;
            assert!(violations.is_empty(), "HAPAX_SEED={seed}, in batches: {in_batches}: {violations:#?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn consumers_without_the_order_are_noticed() {
    for wrong in [Order::Missing, Order::ByPlace, Order::OfSome] {
        let mut noticed = None;
        for seed in 1..=20 {
            if !violations(seed, wrong, seed % 2 == 0).await.is_empty() {
                noticed = Some(seed);
                break;
            }
        }
        println!("{wrong:?}: noticed with seed {:?}", noticed.unwrap_or_else(|| panic!("{wrong:?} passes")));
    }
}

/// The ids that were handled.
type Done = Arc<Mutex<Vec<String>>>;

/// Makes a handler that never ends for some.
fn stuck(done: &Done) -> impl Fn(Delivery<Message>) -> Handling + Send + Sync + 'static {
    let done = Arc::clone(done);
    move |delivery| {
        let done = Arc::clone(&done);
        Box::pin(async move {
            let id = delivery.id.clone().unwrap();
            if id.starts_with("stuck") {
                pending::<()>().await;
            }
            done.lock().unwrap().push(id);
            Ok(())
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_stuck_key_keeps_others_waiting_only_when_it_fills_the_consumer() {
    for (waiting, others_are_handled) in [(18, true), (19, false)] {
        let world = World::new();
        let engine = world.shared().await;
        let broker = Broker::new(&world.store, Acks::Each);
        (0..=waiting).for_each(|n| _ = broker.send_id(0, Some(format!("stuck-{n}"))));
        (0..5).for_each(|n| _ = broker.send_id(0, Some(format!("other-{n}"))));
        let done = Done::default();
        let consumer = consumer(&engine).in_order_by(key_of).max_in_flight(4).max_unacknowledged(20).build().unwrap();
        consumer.run(&broker, stuck(&done), tokio::time::sleep(Duration::from_secs(60))).await.unwrap();
        let expected: Vec<String> = (0..5).map(|n| format!("other-{n}")).filter(|_| others_are_handled).collect();
        assert_eq!(*done.lock().unwrap(), expected, "{waiting} wait");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_goes_on_though_nothing_can_be_acknowledged() {
    let world = World::new();
    let engine = world.shared().await;
    let broker = Broker::new(&world.store, Acks::Cumulative);
    ["stuck-1", "a-1", "a-2", "a-3"].into_iter().for_each(|id| _ = broker.send(0, id));
    let done = Done::default();
    let consumer = consumer(&engine).in_order_by(key_of).build().unwrap();
    consumer.run(&broker, stuck(&done), tokio::time::sleep(Duration::from_secs(60))).await.unwrap();
    assert_eq!(*done.lock().unwrap(), ["a-1", "a-2", "a-3"]);
    assert!(broker.state().acknowledged.is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_that_fails_is_kept_and_those_of_its_key_wait() {
    let world = World::new();
    let engine = world.shared().await;
    let broker = Broker::new(&world.store, Acks::Each);
    ["a-1", "a-2", "b-1"].into_iter().for_each(|id| _ = broker.send(0, id));
    broker.close();
    let calls: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = Arc::clone(&calls);
    let handle = move |delivery: Delivery<Message>| {
        let id = delivery.id.clone().unwrap();
        seen.lock().unwrap().push(id.clone());
        async move { if id == "a-1" && delivery.attempt() < 3 { Err("not yet") } else { Ok(()) } }
    };
    let consumer = consumer(&engine).in_order_by(key_of).build().unwrap();
    let stats = consumer.run(&broker, handle, pending()).await.unwrap();
    assert_eq!(*calls.lock().unwrap(), ["a-1", "b-1", "a-1", "a-1", "a-2"]);
    assert!(broker.state().retried.is_empty(), "the broker would deliver a-2 first");
    assert_eq!((stats.retried, stats.failed, stats.handled), (2, 2, 3));
}

#[tokio::test(start_paused = true)]
async fn a_source_that_does_not_keep_messages_is_refused() {
    let world = World::new();
    let engine = world.shared().await;
    let build = |in_order: bool| {
        let builder = of_queue(&engine);
        let builder = if in_order { builder.in_order_by(|_| Some("key")) } else { builder };
        builder.build().unwrap()
    };
    let queue = Queue::of(Duration::from_secs(30), ["a"]);
    let handle = |_: Delivery<Received>| async { Ok::<(), String>(()) };
    let refused = build(true).run(&queue, handle, pending()).await;
    assert!(matches!(refused, Err(ConsumerError::OrderNotKept)), "{refused:?}");
    assert_eq!(queue.deliveries("a"), 0, "nothing was received");
    let mut kept = Queue::of(Duration::from_secs(30), ["a"]);
    kept.heartbeat = Some(Duration::from_secs(10));
    for (in_order, queue) in [(true, &kept), (false, &queue)] {
        let stats = build(in_order).run(queue, handle, queue.emptied()).await.unwrap();
        assert_eq!(stats.acknowledged, 1, "{stats:?}");
    }
}
