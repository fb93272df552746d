//! Consumers of a queue on one store: a back-log, visibilities that lapse, handlers that hang, and
//! a store that is away for less than a lease.

use crate::simulation::broker::now;
use crate::simulation::consumer::Skewed;
use crate::simulation::effects::{Run, judge_effects, judge_order};
use crate::simulation::judge::Violations;
use crate::simulation::queue::{Inlet, Message, Queue, Received};
use crate::simulation::remote::{RemoteStore, host_of};
use crate::simulation::scenario::{host, start_server};
use crate::simulation::wrong::ServerStore;
use hapax::Timestamp;
use hapax_store::TieredDedup;
use hapax_stream::{Consumer, Delivery};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;
use testkit::random::Random;
use turmoil::Sim;

const LEASE: Duration = Duration::from_secs(4);
/// The largest number of attempts: more than can be begun, though some hang or fail, and some are
/// killed.
const MAX_ATTEMPTS: u32 = 6;
/// A time-out longer than any handler takes that ends.
const HANDLER_TIMEOUT: Duration = Duration::from_millis(3_500);
/// The store's time at the beginning.
const EPOCH: Duration = Duration::from_secs(1_000_000);
const TICK: Duration = Duration::from_millis(10);
/// The time by which everything is done.
const END: Duration = Duration::from_secs(120);
/// The number of keys, if messages have keys.
const KEYS: u64 = 8;

/// The scenario of a seed.
#[derive(Debug)]
pub struct Backlog {
    seed: u64,
    clients: usize,
    /// The times at which they come.
    starts: Vec<Duration>,
    messages: Vec<Message>,
    visibility: Duration,
    /// The heartbeat by which the queue is told that a message is worked on, if it is.
    heartbeat: Option<Duration>,
    max_in_flight: usize,
    /// The number of messages that a consumer may keep from others, if the queue is told.
    max_unacknowledged: usize,
    faults: Vec<(Duration, Fault)>,
    /// True if consumers handle messages of a key in order.
    is_ordered: bool,
}

#[derive(Clone, Copy, Debug)]
enum Fault {
    StoreIsAway,
    StoreIsBack,
    /// The store receives nothing.
    StoreIsSilent,
    StoreIsHeard,
    Crash(usize),
    Start(usize),
}

/// The end of a run.
pub struct Ended {
    pub violations: Violations,
    pub effects: usize,
    pub runs: Vec<Run>,
    pub trace: u64,
}

impl Backlog {
    pub fn new(seed: u64) -> Self {
        let mut random = Random(seed ^ 0x0bac_c109);
        let clients = random.within(2, 3) as usize;
        let (slow, hangs, fails) = (random.percent(40), random.percent(30), random.percent(30));
        let message = |i: u64, random: &mut Random| Message {
            id: format!("{i}"),
            key: None,
            takes: if slow && random.percent(20) { random.millis(500, 3_000) } else { random.millis(1, 200) },
            hangs: u32::from(hangs && random.percent(25)),
            fails: u32::from(fails && random.percent(20)),
        };
        let messages = (0..random.within(10, 60)).map(|i| message(i, &mut random)).collect();
        let starts = (0..clients).map(|i| random.millis(0, 3_000) * u32::from(i > 0)).collect();
        let visibility = random.millis(200, 2_000);
        let (max_in_flight, faults) = (random.within(2, 8) as usize, faults(&mut random, clients));
        let heartbeat = random.percent(50).then_some(visibility / 3);
        let max_unacknowledged = max_in_flight * random.within(1, 8) as usize;
        Backlog {
            heartbeat,
            max_unacknowledged,
            seed,
            clients,
            starts,
            messages,
            visibility,
            max_in_flight,
            faults,
            is_ordered: false,
        }
    }

    /// Returns a scenario whose messages have keys, of a queue that delivers those of a key in
    /// order.
    pub fn in_order(seed: u64) -> Self {
        let (mut backlog, mut random) = (Self::new(seed), Random(seed ^ 0x000d_e4ed));
        backlog.messages.iter_mut().for_each(|message| message.key = Some(random.below(KEYS)));
        Backlog { is_ordered: true, heartbeat: Some(backlog.visibility / 3), ..backlog }
    }

    /// Returns the same with consumers that ignore the order, which is wrong.
    pub fn out_of_order(seed: u64) -> Self {
        Backlog { is_ordered: false, ..Self::in_order(seed) }
    }
}

/// Draws faults, mostly one at a time: a store that is away again and again is away for longer than
/// a lease.
fn faults(random: &mut Random, clients: usize) -> Vec<(Duration, Fault)> {
    let mut faults = Vec::new();
    if random.percent(70) {
        let from = random.millis(50, 2_000);
        let to = from + if random.percent(50) { Duration::from_millis(300) } else { Duration::from_secs(1) };
        faults.extend(if random.percent(50) {
            [(from, Fault::StoreIsAway), (to, Fault::StoreIsBack)]
        } else {
            [(from, Fault::StoreIsSilent), (to, Fault::StoreIsHeard)]
        });
    }
    for _ in 0..random.below(3) {
        let (at, client) = (random.millis(50, 4_000), random.below(clients as u64) as usize);
        faults.extend([(at, Fault::Crash(client)), (at + random.millis(10, 2_000), Fault::Start(client))]);
    }
    faults.sort_by_key(|(at, _)| *at);
    faults
}

/// Runs a life of a client: until it is killed.
async fn live(backlog: Arc<Backlog>, queue: Arc<Queue>, client: usize) -> turmoil::Result {
    tokio::time::sleep(backlog.starts[client].saturating_sub(now())).await;
    let engine = loop {
        let engine = TieredDedup::builder(RemoteStore::new(1, 1_024))
            .window(Duration::from_secs(60))
            .retention(Duration::from_secs(3_600))
            .capacity(256)
            .lease(LEASE)
            .clock(Skewed { by: Duration::from_secs(client as u64 * 1_000), per_mille: 1_000 })
            .seed(backlog.seed)
            .attempt_seed(Random(backlog.seed ^ now().as_nanos() as u64 ^ (client as u64) << 56).next())
            .timeout(Duration::from_millis(60))
            .retries(2)
            .circuit_breaker(4, Duration::from_millis(80))
            .expiry(None);
        match engine.build().await {
            Ok(engine) => break engine,
            // The store cannot be reached.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    let consumer = Consumer::builder("orders", engine, |received: &Received| Some(received.message.id.clone()))
        .max_in_flight(backlog.max_in_flight)
        .max_unacknowledged(backlog.max_unacknowledged)
        .max_attempts(MAX_ATTEMPTS)
        .handler_timeout(HANDLER_TIMEOUT)
        .retry_delay(Duration::from_millis(50), Duration::from_secs(1));
    let consumer = if backlog.is_ordered {
        consumer.in_order_by(|received: &Received| received.message.key.map(u64::to_le_bytes)).build()?
    } else {
        consumer.build()?
    };
    let handled = Arc::clone(&queue);
    let handle = move |delivery: Delivery<Received>| handle(Arc::clone(&handled), client, delivery);
    let inlet = Inlet { queue, heartbeat: backlog.heartbeat };
    consumer.run(&inlet, handle, std::future::pending()).await?;
    Ok(())
}

async fn handle(queue: Arc<Queue>, client: usize, delivery: Delivery<Received>) -> Result<(), String> {
    let Message { id, takes, hangs, fails, .. } = &delivery.message;
    let (run, before) = queue.begin(client, id);
    if before < *hangs {
        std::future::pending::<()>().await;
    }
    tokio::time::sleep(*takes).await;
    if before < hangs + fails {
        queue.failed(run);
        return Err("as it was told to".to_owned());
    }
    queue.done(run);
    Ok(())
}

pub fn run(backlog: Backlog) -> Ended {
    let mut random = Random(backlog.seed);
    let backlog = Arc::new(backlog);
    let mut builder = turmoil::Builder::new();
    builder.rng_seed(random.next()).tick_duration(TICK).simulation_duration(END + END);
    builder.min_message_latency(Duration::from_millis(1)).max_message_latency(Duration::from_millis(8));
    let mut sim = builder.build();
    let store = Arc::new(ServerStore::new(None, EPOCH, 0, random.fork()));
    start_server(&mut sim, 0, &store, 0, random.fork());
    let queue = Arc::new(Queue::new(backlog.visibility, &backlog.messages));
    for client in 0..backlog.clients {
        let (backlog, queue) = (Arc::clone(&backlog), Arc::clone(&queue));
        sim.host(host(client), move || live(Arc::clone(&backlog), Arc::clone(&queue), client));
    }
    let (hung, deaths) = drive(&mut sim, &backlog, &store, &queue);
    drop(sim);
    let (runs, put_aside) = (queue.runs(), queue.put_aside());
    let ids: Vec<String> = backlog.messages.iter().map(|message| message.id.clone()).collect();
    let violations = match hung {
        Some(hung) => vec![hung],
        None => {
            let sent: Vec<_> = backlog.messages.iter().map(|message| (message.id.clone(), message.key)).collect();
            [judge_effects(&ids, &runs, &put_aside, &deaths), judge_order(&sent, &runs)].concat()
        }
    };
    let mut trace = DefaultHasher::new();
    format!("{runs:?} {put_aside:?}").hash(&mut trace);
    let effects = runs.iter().filter(|run| run.done.is_some()).count();
    Ended { violations, effects, runs, trace: trace.finish() }
}

/// Runs the simulation. Returns an error if it comes to no end; and which client died when.
fn drive(
    sim: &mut Sim,
    backlog: &Backlog,
    store: &ServerStore,
    queue: &Queue,
) -> (Option<String>, Vec<(usize, Duration)>) {
    let (mut faults, mut deaths) = (backlog.faults.iter().peekable(), Vec::new());
    loop {
        let now = sim.elapsed();
        while let Some((_, fault)) = faults.next_if(|(at, _)| *at <= now) {
            inject(sim, backlog.clients, *fault);
            if let Fault::Crash(client) | Fault::Start(client) = fault {
                deaths.push((*client, now));
            }
        }
        let open = queue.open();
        if open.is_empty() {
            return (None, deaths);
        }
        if now > END {
            let stands = format!("stands still: {} messages are not done after {now:?}: {open:?}", open.len());
            return (Some(stands), deaths);
        }
        store.clock.set(Timestamp::default() + EPOCH + now);
        if let Err(error) = sim.step() {
            return (Some(format!("a host has failed: {error}")), deaths);
        }
    }
}

fn inject(sim: &mut Sim, clients: usize, fault: Fault) {
    match fault {
        Fault::StoreIsAway => sim.crash(host_of(0)),
        Fault::StoreIsBack => sim.bounce(host_of(0)),
        Fault::StoreIsSilent => (0..clients).for_each(|client| sim.partition(host(client), host_of(0))),
        Fault::StoreIsHeard => (0..clients).for_each(|client| sim.repair(host(client), host_of(0))),
        Fault::Crash(client) => sim.crash(host(client)),
        Fault::Start(client) => sim.bounce(host(client)),
    }
}
