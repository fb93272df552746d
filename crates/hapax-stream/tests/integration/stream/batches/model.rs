//! Batches at random against a model that counts amounts: each message has its effect once, unless
//! its process dies behind it; no batch is too large or too late.

use super::super::*;
use hapax_store::ErrorKind;
use hapax_stream::{Acks, Answers, Delivery, Later};
use hapax_testing::store::Fault;
use std::collections::{HashMap, HashSet};
use std::future::pending;
use std::sync::Mutex;
use testkit::random::Random;

type Error = Box<dyn std::error::Error + Send + Sync>;

/// A sink that keeps the ids with the amounts, in one transaction for a batch, and what it has
/// seen.
#[derive(Default)]
struct Ledger {
    ids: HashSet<usize>,
    sum: u64,
    /// The number of messages that came although their amount was there.
    repeated: usize,
    running: usize,
    violations: Vec<String>,
    random: Option<Random>,
}

/// The parameters of a run.
#[derive(Clone, Copy, Debug)]
struct Plan {
    seed: u64,
    acks: Acks,
    ids: usize,
    size: usize,
    within: Duration,
    in_flight: usize,
    fails: u64,
    in_order: bool,
    kills: bool,
    /// A defect of the test's own sink, or of its idea of the limits, which must be noticed.
    flaw: Option<Flaw>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    /// A batch that fails has had half of its effect, and the sink keeps no ids.
    NotAtomic,
    /// It answers that all is done, and has left one out.
    LeavesOneOut,
}

/// An effect that is counted while it is under way.
struct Running(Arc<Mutex<Ledger>>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.lock().unwrap().running -= 1;
    }
}

fn amount(n: usize) -> u64 {
    1 + (n as u64 * 7_919) % 1_000
}

fn number(message: &Message) -> usize {
    message.id.as_deref().unwrap().parse().unwrap()
}

impl Ledger {
    fn begin(&mut self, batch: &[usize], plan: &Plan) {
        self.running += 1;
        let mut wrong = Vec::new();
        wrong.extend((batch.is_empty() || batch.len() > plan.size).then(|| format!("{} together", batch.len())));
        wrong.extend((self.running > plan.in_flight).then(|| format!("{} handlers run", self.running)));
        let different: HashSet<_> = batch.iter().collect();
        wrong.extend((different.len() < batch.len()).then(|| format!("an id twice: {batch:?}")));
        let keys: HashSet<_> = batch.iter().map(|n| n % 5).collect();
        wrong.extend((plan.in_order && keys.len() < batch.len()).then(|| format!("a key twice: {batch:?}")));
        self.violations.extend(wrong);
    }

    fn commit(&mut self, n: usize, flaw: Option<Flaw>) {
        let is_new = self.ids.insert(n);
        self.repeated += usize::from(!is_new);
        if is_new || flaw == Some(Flaw::NotAtomic) {
            self.sum += amount(n);
        }
    }
}

async fn handle(ledger: Arc<Mutex<Ledger>>, plan: Plan, batch: Vec<Delivery<Message>>) -> Result<Answers, Error> {
    let batch: Vec<usize> = batch.iter().map(|delivery| number(delivery)).collect();
    let (takes, fate) = {
        let mut ledger = ledger.lock().unwrap();
        ledger.begin(&batch, &plan);
        let random = ledger.random.as_mut().unwrap();
        (random.millis(0, 30), random.below(100))
    };
    let _running = Running(Arc::clone(&ledger));
    tokio::time::sleep(takes).await;
    let mut ledger = ledger.lock().unwrap();
    match fate.checked_sub(plan.fails * 4) {
        None if fate < plan.fails => {
            if plan.flaw == Some(Flaw::NotAtomic) {
                batch.iter().take(batch.len().div_ceil(2)).for_each(|&n| ledger.commit(n, plan.flaw));
            }
            Err("the transaction is rolled back".into())
        }
        None if fate < 2 * plan.fails => Err(Later::because("too many requests").after(MOMENT).into()),
        None => {
            let is_done = |n: &usize| !(n + takes.as_millis() as usize).is_multiple_of(3);
            batch.iter().filter(|n| is_done(n)).for_each(|&n| ledger.commit(n, plan.flaw));
            let answer = |n: &usize| if is_done(n) { Ok(()) } else { Err(Error::from("this one")) };
            Ok(batch.iter().map(answer).collect::<Vec<_>>().into())
        }
        Some(_) => {
            let left_out = usize::from(plan.flaw == Some(Flaw::LeavesOneOut) && batch.len() > 2);
            batch.iter().skip(left_out).for_each(|&n| ledger.commit(n, plan.flaw));
            Ok(().into())
        }
    }
}

impl Plan {
    fn of(seed: u64, kills: bool) -> Self {
        let mut random = Random(seed);
        Plan {
            seed,
            acks: if random.percent(50) { Acks::Each } else { Acks::Cumulative },
            ids: random.within(20, 120) as usize,
            size: random.within(1, 20) as usize,
            within: random.millis(0, 40),
            in_flight: random.within(1, 5) as usize,
            fails: random.below(8),
            in_order: random.percent(30),
            kills,
            flaw: None,
        }
    }

    /// Runs consumers until all is acknowledged; returns what is wrong.
    async fn violations(self) -> Vec<String> {
        let mut random = Random(self.seed ^ 0xba7c);
        let world = World::new();
        let broker = Broker::new(&world.store, self.acks);
        let broker = if random.percent(50) { broker.counting_deliveries() } else { broker };
        for n in (0..self.ids).chain(0..self.ids / 4) {
            broker.send_id((n % 5 % 3) as u32, Some(n.to_string()));
        }
        broker.close();
        let ledger = Arc::new(Mutex::new(Ledger { random: Some(random.fork()), ..Ledger::default() }));
        let mut killed = 0;
        loop {
            let engine = world.shared().await;
            let builder = consumer(&engine)
                .retry_delay(MOMENT, 10 * MOMENT)
                .max_attempts(1_000)
                .max_in_flight(self.in_flight)
                .max_unacknowledged(self.size.max(self.in_flight) * 4)
                .handler_batch(self.size, self.within);
            let builder =
                if self.in_order { builder.in_order_by(|message| Some([number(message) as u8 % 5])) } else { builder };
            let consumer = builder.build().unwrap();
            let run = Arc::clone(&ledger);
            let mut run =
                Box::pin(consumer.run_batches(&broker, move |batch| handle(Arc::clone(&run), self, batch), pending()));
            let dies = self.kills && killed < 30;
            let lives = if dies { Duration::from_micros(random.below(60_000)) } else { Duration::from_secs(3_600) };
            match tokio::time::timeout(lives, &mut run).await {
                Ok(ended) => {
                    let mut violations = std::mem::take(&mut ledger.lock().unwrap().violations);
                    violations.extend(ended.err().map(|error| format!("the run ends with {error}")));
                    let ledger = ledger.lock().unwrap();
                    let expected: u64 = (0..self.ids).map(amount).sum();
                    violations
                        .extend((ledger.sum != expected).then(|| format!("{} in place of {expected}", ledger.sum)));
                    // The batches that were under way, or being completed.
                    let most = killed * 2 * self.in_flight * self.size;
                    violations.extend((ledger.repeated > most).then(|| format!("{} are repeated", ledger.repeated)));
                    violations.extend((!broker.is_done()).then(|| "not all is acknowledged".to_owned()));
                    return violations;
                }
                Err(_) if !dies => return vec![format!("stands still: {:?} are out", broker.out())],
                Err(_) => {
                    killed += 1;
                    world.store.always(Fault::Fails(ErrorKind::Unavailable));
                    drop(run);
                    tokio::time::sleep(LEASE + SECOND).await;
                    world.store.always(Fault::None);
                    broker.reconnect();
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_amount_is_added_once_whatever_fails_and_whoever_is_killed() {
    let first = std::env::var("HAPAX_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for seed in first..first + testkit::long(10, 300) {
        for kills in [false, true] {
            let plan = Plan::of(seed, kills);
            let violations = plan.violations().await;
            assert!(violations.is_empty(), "HAPAX_SEED={seed}: {plan:?}: {violations:#?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn sinks_that_are_not_atomic_or_leave_one_out_are_noticed() {
    for flaw in [Flaw::NotAtomic, Flaw::LeavesOneOut] {
        let mut seeds = 1..=20;
        let mut noticed = None;
        while let (None, Some(seed)) = (noticed, seeds.next()) {
            let plan = Plan { flaw: Some(flaw), ..Plan::of(seed, false) };
            noticed = (!plan.violations().await.is_empty()).then_some(seed);
        }
        println!("{flaw:?}: noticed with seed {:?}", noticed.unwrap_or_else(|| panic!("{flaw:?} passes")));
    }
}

#[tokio::test(start_paused = true)]
async fn while_handlers_are_free_no_message_waits_longer_than_it_may_and_batches_are_full_if_they_can_be() {
    for seed in 1..=testkit::long(10, 100) {
        let mut random = Random(seed);
        let (size, within) = (random.within(2, 20) as usize, random.millis(1, 60));
        let world = World::new();
        let engine = world.shared().await;
        let broker = Broker::new(&world.store, Acks::Each);
        let received: Arc<Mutex<HashMap<usize, Instant>>> = Arc::default();
        let noted = Arc::clone(&received);
        let consumer = Consumer::builder("orders", engine.clone(), move |message: &Message| {
            noted.lock().unwrap().insert(message.offset, Instant::now());
            message.id.clone()
        });
        let consumer = consumer.handler_batch(size, within).build().unwrap();
        let late: Arc<Mutex<Vec<String>>> = Arc::default();
        let (noted, at) = (Arc::clone(&late), Arc::clone(&received));
        let handler = move |batch: Vec<Delivery<Message>>| {
            let at = at.lock().unwrap();
            let first = batch.iter().map(|message| at[&message.offset].elapsed()).max().unwrap();
            // (The runtime's timers are of a millisecond.)
            let is_late = first > within + Duration::from_millis(1);
            let is_early = batch.len() < size && first < within;
            noted.lock().unwrap().extend((is_late || is_early).then(|| format!("{} after {first:?}", batch.len())));
            std::future::ready(Ok::<(), String>(()))
        };
        let shutdown = async {
            for n in 0..200_u32 {
                if random.percent(40) {
                    tokio::time::sleep(random.millis(0, 20)).await;
                }
                broker.send_id(0, Some(n.to_string()));
            }
            tokio::time::sleep(SECOND).await;
        };
        let stats = consumer.run_batches(&broker, handler, shutdown).await.unwrap();
        let late = late.lock().unwrap();
        assert!(late.is_empty() && stats.handled == 200, "seed {seed}, {size} within {within:?}: {late:?} {stats:?}");
    }
}
