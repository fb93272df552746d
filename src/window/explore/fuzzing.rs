//! Random scenarios. `HAPAX_EXPLORE_SEED` repeats a run; `HAPAX_EXPLORE_SCENARIOS` or
//! `HAPAX_EXPLORE_SECONDS` set its length, and `HAPAX_EXPLORE_STATES` the number of states after
//! which a scenario is cut off. (`scripts/explore` is a campaign.)

use super::run::{explain, explore};
use super::scenario::*;
use super::search::Order;
use std::time::{Duration, Instant};

/// The most states of a scenario: those with more are cut off, and counted.
const STATES_MAX: u64 = 50_000;

/// SplitMix64 (Steele, Lea and Flood, 2014).
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % n
    }

    fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// The ids and times that a scenario is made of.
struct Choices {
    random: Random,
    buckets: u64,
    hot: Vec<u16>,
    /// The next id that no other operation has.
    next: u16,
    now: u64,
    /// True if time has moved since the callers began.
    has_moved: bool,
}

impl Choices {
    fn new(mut random: Random, buckets: usize, several_tables: bool) -> Self {
        let buckets = buckets as u64;
        // In a table of fewer buckets, twins of different buckets may be one id.
        let twins = random.once_in(6) && !several_tables;
        let hot = (0..2 + random.below(2)).map(|i| {
            let bucket = 10 * random.below(buckets);
            let tag = if twins { 1000 + random.below(2) } else { i };
            (1 + bucket + tag + 100 * random.below(buckets / 2)) as u16
        });
        let hot = hot.collect();
        Choices { random, buckets, hot, next: 0, now: 10, has_moved: false }
    }

    fn id(&mut self, hot_percent: u64) -> Id {
        if self.random.below(100) < hot_percent {
            return Id(self.random.of(&self.hot));
        }
        self.next += 1;
        let bucket = 10 * self.random.below(self.buckets) + 100 * self.random.below(self.buckets / 2);
        // Beyond nine ids for each bucket, tags coincide, like those of twins.
        Id((4 + u64::from(self.next) % 6 + bucket + if self.next > 5 { 2000 } else { 0 }) as u16)
    }

    /// Returns a tick. Clocks differ by up to a grace, and stamps may be rounded up.
    fn tick(&mut self) -> Tick {
        let now = self.now + self.random.below(3);
        Tick { now, stamp: now + u64::from(self.random.once_in(4)) }
    }

    /// Lets time pass: mostly a little; at times about a window, or much.
    fn pass(&mut self) {
        self.now += match self.random.below(16) {
            0..8 => self.random.below(4),
            8..15 => 96 + self.random.below(10),
            _ => 480 + self.random.below(700),
        };
    }

    fn op(&mut self, several_tables: bool) -> Op {
        let tick = self.tick();
        match self.random.below(100) {
            0..12 => Op::Forget(self.id(80), tick),
            12..14 => Op::ForgetAll(tick),
            14..21 => Op::Contains(self.id(80), tick),
            21..25 => Op::Sweep(self.random.below(self.buckets) as usize, tick),
            25..33 if !several_tables => Op::Batch(vec![self.id(60), self.id(60)], tick),
            // (Nobody has agreed on a time that has not come.)
            33..36 if !self.has_moved => Op::CheckLate(self.id(60), tick),
            _ => Op::Check(self.id(60), tick),
        }
    }
}

fn random_scenario(seed: u64) -> Scenario {
    let mut random = Random(seed);
    let (slots, version_bits) = random.of(&[(2, 4), (2, 4), (3, 3)]);
    let buckets = random.of(&[2, 2, 4]);
    let several_tables = random.once_in(4);
    let (refresh, short_way, backward) = (random.once_in(3), random.once_in(3), random.once_in(2));
    let mut choices = Choices::new(random, buckets, several_tables);
    let mut before = Vec::new();
    for _ in 0..choices.random.below(1 + 3 * slots as u64) {
        before.push(Op::Check(choices.id(40), choices.tick()));
        if choices.random.once_in(3) {
            choices.now += choices.random.below(3);
        }
    }
    choices.pass();
    let (callers, more_ops) = choices.random.of(&[(2, 3), (2, 3), (3, 2)]);
    let mut callers = vec![Vec::new(); callers];
    for i in 0..callers.len() as u64 + choices.random.below(more_ops) {
        let caller = if i < callers.len() as u64 { i } else { choices.random.below(callers.len() as u64) };
        // Time moves while callers take turns, by a window as well. (In a stall of ten windows the
        // bits of a tick wrap around, as docs/design/window.md says.)
        if i > 0 && choices.random.once_in(3) {
            choices.has_moved = true;
            choices.now +=
                if choices.random.once_in(2) { choices.random.below(4) } else { 96 + choices.random.below(10) };
        }
        callers[caller as usize].push(choices.op(several_tables));
    }
    if several_tables {
        // Only one caller manages the tables.
        let (caller, start) = (choices.random.below(callers.len() as u64) as usize, Op::Start(1));
        match choices.random.below(3) {
            0 => before.push(start),
            1 => callers[caller].insert(0, start),
            _ => callers[caller].push(start),
        }
        if choices.random.once_in(3) {
            callers[caller].push(Op::Retire);
        }
    }
    let spares = if several_tables { vec![choices.random.of(&[2, 4])] } else { Vec::new() };
    // Who has agreed on a time was not the first.
    let late = callers.iter().flatten().filter(|op| matches!(op, Op::CheckLate(..)));
    before.extend(late.map(|op| Op::Contains(op.ids()[0], op.tick())).collect::<Vec<_>>());
    let scenario = Scenario::new(before, callers);
    Scenario { slots, version_bits, buckets, spares, refresh, short_way, backward, lenient: true, ..scenario }
}

/// Returns the scenario with everything left out that the violation does not need.
fn shrunk(scenario: Scenario, states_max: usize) -> Scenario {
    let fails = |scenario: &Scenario| explore(scenario, None, states_max, Order::DepthFirst).violation.is_some();
    let mut smallest = scenario;
    loop {
        let smaller = smaller(&smallest).into_iter().find(&fails);
        match smaller {
            Some(smaller) => smallest = smaller,
            None => return smallest,
        }
    }
}

/// Returns scenarios that have one thing less.
fn smaller(scenario: &Scenario) -> Vec<Scenario> {
    let mut all = Vec::new();
    for i in 0..scenario.before.len() {
        let mut smaller = scenario.clone();
        smaller.before.remove(i);
        all.push(smaller);
    }
    for caller in 0..scenario.callers.len() {
        for i in 0..scenario.callers[caller].len() {
            let mut smaller = scenario.clone();
            smaller.callers[caller].remove(i);
            smaller.callers.retain(|ops| !ops.is_empty());
            all.push(smaller);
        }
    }
    let plainer = [
        Scenario { refresh: false, ..scenario.clone() },
        Scenario { short_way: false, ..scenario.clone() },
        Scenario { backward: false, ..scenario.clone() },
    ];
    let is_other = |other: &Scenario| {
        (other.refresh, other.short_way, other.backward) != (scenario.refresh, scenario.short_way, scenario.backward)
    };
    all.extend(plainer.into_iter().filter(is_other));
    all.retain(|smaller| !smaller.callers.is_empty());
    all
}

fn number(variable: &str) -> Option<u64> {
    let value = std::env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable}={value} is no number")))
}

fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    number("HAPAX_EXPLORE_SEED").unwrap_or_else(|| std::hash::RandomState::new().build_hasher().finish())
}

#[test]
fn random_scenarios_hold() {
    const SCENARIOS: u64 = 800;
    let seed = seed();
    let end = number("HAPAX_EXPLORE_SECONDS").map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let most = if end.is_some() { u64::MAX } else { number("HAPAX_EXPLORE_SCENARIOS").unwrap_or(SCENARIOS) };
    let states_max = number("HAPAX_EXPLORE_STATES").unwrap_or(STATES_MAX) as usize;
    let (mut scenarios, mut states, mut cut_off) = (0, 0, 0);
    println!("HAPAX_EXPLORE_SEED={seed}");
    while scenarios < most && end.is_none_or(|end| Instant::now() < end) {
        let scenario = random_scenario(seed.wrapping_add(scenarios.wrapping_mul(0x2545_f491_4f6c_dd1d)));
        // A table that is released while a caller still looks at it is cleared slot by slot here,
        // which looks like a broken bucket. (The system takes whole pages.)
        let retires = scenario.callers.iter().flatten().any(|op| matches!(op, Op::Retire));
        let scenario = if retires { scenario.breaks() } else { scenario };
        let report = explore(&scenario, None, states_max, Order::DepthFirst);
        scenarios += 1;
        states += report.states;
        cut_off += u64::from(report.capped);
        if report.violation.is_some() {
            let smallest = shrunk(scenario, states_max);
            panic!("HAPAX_EXPLORE_SEED={seed}, scenario {scenarios}:\n{}", explain(&smallest, None));
        }
    }
    println!("{scenarios} scenarios, {states} states, {cut_off} scenarios cut off after {states_max} states");
    assert!(cut_off * 3 < scenarios, "scenarios are too large for this to say much");
}
