//! One simulation: what a seed stands for, what goes wrong in it, and how it ends.

use crate::broker::Broker;
use crate::consumer;
use crate::judge::{Try, Violations, judge};
use crate::random::Random;
use crate::remote::{SERVER, serve};
use crate::wrong::{ServerStore, Wrong};
use hapax::Timestamp;
use hapax::store::{Known, RecordKey, Scope, Store};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use turmoil::Sim;

pub const LEASE: Duration = Duration::from_millis(250);
pub const RETENTION: Duration = Duration::from_secs(3_600);
/// The store's time at the beginning.
const EPOCH: Duration = Duration::from_secs(1_000_000);
const TICK: Duration = Duration::from_millis(5);
/// From here on nothing goes wrong any more,
const FAULTS_END: Duration = Duration::from_millis(1_200);
/// and by this time everything is done.
const END: Duration = Duration::from_secs(12);

/// What a seed stands for.
#[derive(Debug)]
pub struct Scenario {
    pub seed: u64,
    pub wrong: Option<Wrong>,
    pub clients: usize,
    pub consumers: usize,
    pub ids: Vec<String>,
    pub window: Duration,
    pub expires: bool,
    /// By how much each client's clock is wrong, and how fast it is in thousandths.
    pub skews: Vec<(Duration, u32)>,
    latency_max: Duration,
    actions: Vec<(Duration, Action)>,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    /// Nothing arrives.
    Partition(usize),
    /// Nothing that the server sends arrives.
    LoseAnswers(usize),
    Repair(usize),
    /// What is sent arrives later.
    Hold(usize),
    Release(usize),
    Crash(usize),
    Start(usize),
    CrashServer,
    StartServer,
}

/// How a simulation ended.
pub struct Ended {
    pub violations: Violations,
    pub tries: Vec<Try>,
    pub crashes: usize,
    /// Of everything that happened.
    pub trace: u64,
}

impl Scenario {
    pub fn new(seed: u64, wrong: Option<Wrong>) -> Self {
        let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let clients = random.within(2, 4) as usize;
        let claims = (0..random.within(1, 5)).map(|i| format!("claim-{i}"));
        let checks = (0..random.within(1, 4)).map(|i| format!("check-{i}"));
        let skew = |random: &mut Random| (Duration::from_secs(random.below(7_200)), random.within(900, 1_100) as u32);
        Scenario {
            seed,
            wrong,
            clients,
            consumers: random.within(1, 3) as usize,
            ids: claims.chain(checks).collect(),
            window: if random.percent(50) { Duration::from_secs(60) } else { random.millis(100, 500) },
            expires: random.percent(30),
            skews: (0..clients).map(|_| skew(&mut random)).collect(),
            latency_max: random.millis(3, 30),
            actions: actions(&mut random, clients),
        }
    }

    /// Each id three times, in any order.
    fn deliveries(&self) -> Vec<String> {
        (0..3).flat_map(|_| self.ids.iter().cloned()).collect()
    }
}

/// What goes wrong, and when it is right again, by time.
fn actions(random: &mut Random, clients: usize) -> Vec<(Duration, Action)> {
    // Held messages and links that are broken one way do not go together in turmoil.
    let holds = random.percent(50);
    let mut actions = Vec::new();
    for _ in 0..random.below(9) {
        let (from, client) = (random.millis(0, 1_000), random.below(clients as u64) as usize);
        let to = (from + random.millis(10, 400)).min(FAULTS_END);
        let (begin, end) = match random.below(5) {
            0 => (Action::Partition(client), Action::Repair(client)),
            1 if holds => (Action::Hold(client), Action::Release(client)),
            1 | 2 if !holds => (Action::LoseAnswers(client), Action::Repair(client)),
            1..=3 => (Action::Crash(client), Action::Start(client)),
            _ => (Action::CrashServer, Action::StartServer),
        };
        actions.extend([(from, begin), (to, end)]);
    }
    actions.sort_by_key(|(at, _)| *at);
    actions
}

fn host(client: usize) -> String {
    format!("client-{client}")
}

pub fn run(scenario: Scenario) -> Ended {
    let mut random = Random(scenario.seed);
    let scenario = Arc::new(scenario);
    let mut builder = turmoil::Builder::new();
    builder.rng_seed(random.next()).tick_duration(TICK).simulation_duration(END + END);
    builder.min_message_latency(Duration::from_millis(1)).max_message_latency(scenario.latency_max);
    let mut sim = builder.build();
    let store = Arc::new(ServerStore::new(scenario.wrong, EPOCH));
    let broker = Arc::new(Broker::new(scenario.clients, scenario.deliveries(), random.fork()));
    start_server(&mut sim, &store, random.fork());
    for client in 0..scenario.clients {
        let (scenario, broker) = (Arc::clone(&scenario), Arc::clone(&broker));
        sim.host(host(client), move || consumer::live(Arc::clone(&scenario), Arc::clone(&broker), client));
    }
    let hung = drive(&mut sim, &scenario, &store, &broker);
    let tries = broker.tries();
    let done = known_as_done(&store, &scenario.ids);
    drop(sim);
    let violations = match hung {
        Some(hung) => vec![hung],
        None => judge(&tries, LEASE, &done),
    };
    let crashes =
        scenario.actions.iter().filter(|(_, action)| matches!(action, Action::Crash(_) | Action::CrashServer));
    let mut trace = DefaultHasher::new();
    format!("{tries:?}").hash(&mut trace);
    Ended { violations, crashes: crashes.count(), tries, trace: trace.finish() }
}

fn start_server(sim: &mut Sim, store: &Arc<ServerStore>, random: Random) {
    let (store, random) = (Arc::clone(store), Arc::new(Mutex::new(random)));
    sim.host(SERVER, move || {
        let (store, random) = (Arc::clone(&store), Arc::clone(&random));
        async move {
            store.restarted().await;
            let slowness = move || {
                let mut random = random.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                if random.percent(85) { Duration::ZERO } else { random.millis(1, 80) }
            };
            serve(store, Arc::new(slowness)).await
        }
    });
}

/// Lets everything happen. Says so if it comes to no end.
fn drive(sim: &mut Sim, scenario: &Scenario, store: &ServerStore, broker: &Broker) -> Option<String> {
    let mut actions = scenario.actions.iter().peekable();
    let mut is_healed = false;
    while !(broker.is_done() && is_healed) {
        let now = sim.elapsed();
        while let Some((_, action)) = actions.next_if(|(at, _)| *at <= now) {
            act(sim, broker, *action, now);
        }
        if !is_healed && (now >= FAULTS_END || actions.peek().is_none()) {
            is_healed = true;
            for client in 0..scenario.clients {
                sim.repair(host(client), SERVER);
                sim.release(host(client), SERVER);
            }
        }
        if now > END {
            return Some(format!("not done after {now:?}"));
        }
        store.clock.set(Timestamp::default() + EPOCH + now);
        if let Err(error) = sim.step() {
            return Some(format!("a host has failed: {error}"));
        }
    }
    None
}

fn act(sim: &mut Sim, broker: &Broker, action: Action, now: Duration) {
    match action {
        Action::Partition(client) => sim.partition(host(client), SERVER),
        Action::LoseAnswers(client) => sim.partition_oneway(SERVER, host(client)),
        Action::Repair(client) => sim.repair(host(client), SERVER),
        Action::Hold(client) => sim.hold(host(client), SERVER),
        Action::Release(client) => sim.release(host(client), SERVER),
        Action::Crash(client) => {
            sim.crash(host(client));
            broker.died(client, now);
        }
        Action::Start(client) => {
            // It may have been started since, by another fault: then it dies now.
            sim.bounce(host(client));
            broker.died(client, now);
        }
        Action::CrashServer => sim.crash(SERVER),
        Action::StartServer => sim.bounce(SERVER),
    }
}

fn known_as_done(store: &ServerStore, ids: &[String]) -> BTreeSet<String> {
    let keys: Vec<RecordKey> = ids.iter().map(|id| RecordKey::new(&Scope::default(), id)).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let known = runtime.block_on(store.look_up(&keys)).expect("a store in memory answers");
    let done = ids.iter().zip(known).filter(|(_, known)| matches!(known, Ok(Known::Completed(_))));
    done.map(|(id, _)| id.clone()).collect()
}
