//! One simulation: the scenario of a seed, its faults, and its end.

use crate::simulation::broker::{Broker, now};
use crate::simulation::consumer;
use crate::simulation::judge::{Try, Violations, judge, kept_waiting};
use crate::simulation::remote::{NODES, host_of, node_of, serve};
use crate::simulation::wrong::{ServerStore, Wrong};
use hapax::Timestamp;
use hapax_store::sync::lock;
use hapax_store::{Known, RecordKey, Scope, Store};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use testkit::random::Random;
use turmoil::Sim;

pub const LEASE: Duration = Duration::from_millis(250);
pub const RETENTION: Duration = Duration::from_secs(3_600);
/// The store's time at the beginning.
const EPOCH: Duration = Duration::from_secs(1_000_000);
const TICK: Duration = Duration::from_millis(5);
/// The time from which on nothing goes wrong any more,
const FAULTS_END: Duration = Duration::from_millis(1_200);
/// and the time by which everything is done.
const END: Duration = Duration::from_secs(12);

/// The time within which a healthy node's ids are answered, whatever another node does.
const ANSWERED: Duration = Duration::from_millis(450);

/// The callers' behaviour after errors and long waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manners {
    /// A caller that gets no answer lets the broker deliver the message again, to any consumer.
    LetGo,
    /// A caller that gets none, or has waited long enough, asks again at once in the same process,
    /// until there is an answer.
    Insist,
}

/// One node of several does nothing for a while.
#[derive(Clone, Copy, Debug)]
pub struct Hang {
    pub node: usize,
    pub from: Duration,
    pub to: Duration,
}

/// The scenario of a seed.
#[derive(Debug)]
pub struct Scenario {
    pub seed: u64,
    pub wrong: Option<Wrong>,
    pub clients: usize,
    pub consumers: usize,
    pub ids: Vec<String>,
    pub window: Duration,
    pub expires: bool,
    /// The amount by which each client's clock is wrong, and how fast it is in thousandths.
    pub skews: Vec<(Duration, u32)>,
    pub manners: Manners,
    /// The share of calls, of a hundred, whose callers do not wait long.
    pub impatient_percent: u64,
    /// The engines' own retries.
    pub retries: u32,
    /// The requests that the store takes at a time.
    pub batch: usize,
    pub nodes: usize,
    hang: Option<Hang>,
    /// The share, of a hundred answers that are a part of many, that is lost.
    loses: u64,
    slow_percent: u64,
    latency_max: Duration,
    actions: Vec<(Duration, Action)>,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    /// Messages to the host are lost.
    Partition(usize),
    /// Messages that the server sends are lost.
    LoseAnswers(usize),
    Repair(usize),
    /// Messages arrive later.
    Hold(usize),
    Release(usize),
    Crash(usize),
    Start(usize),
    CrashServer,
    StartServer,
}

/// The end of a simulation.
pub struct Ended {
    pub violations: Violations,
    pub tries: Vec<Try>,
    pub crashes: usize,
    /// A hash of everything that happened.
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
            manners: Manners::LetGo,
            impatient_percent: 6,
            retries: 2,
            batch: 1_024,
            nodes: 1,
            hang: None,
            loses: 0,
            slow_percent: 15,
            latency_max: random.millis(3, 30),
            actions: actions(&mut random, clients),
        }
    }

    /// Makes callers ask again at once: after errors, since answers are lost, also in part, and the
    /// engines' own tries are few; or after they have not waited; or after both.
    pub fn insisting(seed: u64) -> Self {
        let scenario = Scenario::new(seed, None);
        let mut random = Random(seed ^ 0x1751);
        let why = random.below(3);
        let actions = if random.percent(30) { Vec::new() } else { scenario.actions };
        Scenario {
            manners: Manners::Insist,
            impatient_percent: if why > 0 { 25 } else { 0 },
            loses: if why < 2 { random.within(5, 40) } else { 0 },
            retries: random.below(3) as u32,
            nodes: if random.percent(50) { 1 } else { NODES },
            batch: if random.percent(50) { 2 } else { 1_024 },
            actions: if why < 2 { actions } else { Vec::new() },
            ..scenario
        }
    }

    /// Makes one node hang; nothing else goes wrong.
    pub fn with_a_node_that_hangs(seed: u64) -> Self {
        let mut random = Random(seed ^ 0x4a46);
        let from = random.millis(100, 400);
        let hang = Hang { node: random.below(NODES as u64) as usize, from, to: from + random.millis(500, 800) };
        Scenario {
            nodes: NODES,
            ids: (0..12).map(|i| if i % 2 == 0 { format!("claim-{i}") } else { format!("check-{i}") }).collect(),
            hang: Some(hang),
            impatient_percent: 0,
            slow_percent: 0,
            latency_max: Duration::from_millis(5),
            actions: Vec::new(),
            ..Scenario::new(seed, None)
        }
    }

    /// Returns the deliveries: each id three times, in any order; or once, so that no other try has
    /// met it. While a node hangs they come one after the other.
    fn deliveries(&self) -> Vec<(Duration, String)> {
        let mut random = Random(self.seed ^ 0xde11);
        let mut deliveries = Vec::new();
        for id in &self.ids {
            let times = if self.manners == Manners::Insist && random.percent(60) { 1 } else { 3 };
            for _ in 0..times {
                let at = self.hang.map_or(Duration::ZERO, |hang| random.millis(0, hang.to.as_millis() as u64));
                deliveries.push((at, id.clone()));
            }
        }
        deliveries.sort();
        deliveries
    }
}

/// Draws the faults and their ends, by time.
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

pub fn host(client: usize) -> String {
    format!("client-{client}")
}

pub fn run(scenario: Scenario) -> Ended {
    let mut random = Random(scenario.seed);
    let scenario = Arc::new(scenario);
    let mut builder = turmoil::Builder::new();
    builder.rng_seed(random.next()).tick_duration(TICK).simulation_duration(END + END);
    builder.min_message_latency(Duration::from_millis(1)).max_message_latency(scenario.latency_max);
    let mut sim = builder.build();
    let store = |_| Arc::new(ServerStore::new(scenario.wrong, EPOCH, scenario.loses, random.fork()));
    let stores: Vec<Arc<ServerStore>> = (0..scenario.nodes).map(store).collect();
    let broker = Arc::new(Broker::new(scenario.clients, scenario.deliveries(), random.fork()));
    for (node, store) in stores.iter().enumerate() {
        start_server(&mut sim, node, store, scenario.slow_percent, random.fork());
    }
    for client in 0..scenario.clients {
        let (scenario, broker) = (Arc::clone(&scenario), Arc::clone(&broker));
        sim.host(host(client), move || consumer::live(Arc::clone(&scenario), Arc::clone(&broker), client));
    }
    let hung = drive(&mut sim, &scenario, &stores, &broker);
    let tries = broker.tries();
    let done = known_as_done(&stores, &scenario.ids);
    drop(sim);
    let violations = match hung {
        Some(hung) => vec![hung],
        None => verdict(&scenario, &tries, &done),
    };
    let crashes =
        scenario.actions.iter().filter(|(_, action)| matches!(action, Action::Crash(_) | Action::CrashServer));
    let mut trace = DefaultHasher::new();
    format!("{tries:?}").hash(&mut trace);
    Ended { violations, crashes: crashes.count(), tries, trace: trace.finish() }
}

fn verdict(scenario: &Scenario, tries: &[Try], done: &BTreeSet<String>) -> Violations {
    let mut violations = judge(tries, LEASE, done);
    if let Some(Hang { node, from, to }) = scenario.hang {
        let is_healthy = |id: &str| node_of(&key_of(id), scenario.nodes) != node;
        violations.extend(kept_waiting(tries, is_healthy, (from, to), ANSWERED));
    }
    violations
}

pub fn start_server(sim: &mut Sim, node: usize, store: &Arc<ServerStore>, slow_percent: u64, random: Random) {
    let (store, random) = (Arc::clone(store), Arc::new(Mutex::new(random)));
    sim.host(host_of(node), move || {
        let (store, random) = (Arc::clone(&store), Arc::clone(&random));
        async move {
            store.restarted().await;
            let hangs = Arc::clone(&store);
            let slowness = move || {
                let mut random = lock(&random);
                let slow = if random.percent(100 - slow_percent) { Duration::ZERO } else { random.millis(1, 80) };
                slow.max(hangs.hangs_until().saturating_sub(now()))
            };
            serve(store, Arc::new(slowness)).await
        }
    });
}

/// Runs the simulation. Returns an error if it comes to no end.
fn drive(sim: &mut Sim, scenario: &Scenario, stores: &[Arc<ServerStore>], broker: &Broker) -> Option<String> {
    let mut actions = scenario.actions.iter().peekable();
    let mut is_healed = false;
    while !(broker.is_done() && is_healed) {
        let now = sim.elapsed();
        while let Some((_, action)) = actions.next_if(|(at, _)| *at <= now) {
            act(sim, scenario.nodes, broker, *action, now);
        }
        if let Some(hang) = scenario.hang
            && (hang.from..hang.to).contains(&now)
        {
            stores[hang.node].hang(hang.to);
        }
        if !is_healed && (now >= FAULTS_END || actions.peek().is_none()) {
            is_healed = true;
            for (client, node) in links(scenario.clients, scenario.nodes) {
                sim.repair(host(client), host_of(node));
                sim.release(host(client), host_of(node));
            }
        }
        if now > END {
            return Some(format!("not done after {now:?}"));
        }
        stores.iter().for_each(|store| store.clock.set(Timestamp::default() + EPOCH + now));
        if let Err(error) = sim.step() {
            return Some(format!("a host has failed: {error}"));
        }
    }
    None
}

fn links(clients: usize, nodes: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..clients).flat_map(move |client| (0..nodes).map(move |node| (client, node)))
}

fn act(sim: &mut Sim, nodes: usize, broker: &Broker, action: Action, now: Duration) {
    let nodes = 0..nodes;
    match action {
        Action::Partition(client) => nodes.for_each(|node| sim.partition(host(client), host_of(node))),
        Action::LoseAnswers(client) => nodes.for_each(|node| sim.partition_oneway(host_of(node), host(client))),
        Action::Repair(client) => nodes.for_each(|node| sim.repair(host(client), host_of(node))),
        Action::Hold(client) => nodes.for_each(|node| sim.hold(host(client), host_of(node))),
        Action::Release(client) => nodes.for_each(|node| sim.release(host(client), host_of(node))),
        Action::Crash(client) => {
            sim.crash(host(client));
            broker.died(client, now);
        }
        Action::Start(client) => {
            // It may have been restarted since, by another fault: then it dies now.
            sim.bounce(host(client));
            broker.died(client, now);
        }
        Action::CrashServer => nodes.for_each(|node| sim.crash(host_of(node))),
        Action::StartServer => nodes.for_each(|node| sim.bounce(host_of(node))),
    }
}

fn key_of(id: &str) -> RecordKey {
    RecordKey::new(&Scope::default(), id)
}

fn known_as_done(stores: &[Arc<ServerStore>], ids: &[String]) -> BTreeSet<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let is_done = |id: &&String| {
        let key = key_of(id);
        let store = &stores[node_of(&key, stores.len())];
        let known = runtime.block_on(store.look_up(&[key])).expect("a store in memory answers");
        matches!(known[..], [Ok(Known::Completed(_))])
    };
    ids.iter().filter(is_done).cloned().collect()
}
