//! The history's promises hold for every arrival pattern. As long as no more ids than it was made
//! for come within any horizon, new ones are taken for known with at most the configured rate, and
//! none is missed within the horizon. Seeds are fixed, so figures are the same at every run.

use hapax::seam::HistoryTier;
use hapax::seam::{Digest, Digester};
use hapax::{Dedup, Outcome, Timestamp};
use std::collections::VecDeque;
use std::time::Duration;
use testkit::long;
use testkit::random::Random;

const HOUR: Duration = Duration::from_secs(3_600);

/// Returns the most false positives of `asked` new ids that chance explains at 1.1 x the rate: six
/// deviations more.
fn limit(rate: f64, asked: usize) -> f64 {
    let mean = 1.1 * rate * asked as f64;
    mean + 6.0 * mean.sqrt() + 2.0
}

/// New ids that come at once.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    nanos: u64,
    ids: usize,
}

/// A memory that is asked about new ids.
trait Remembers {
    /// Checks new ids. Returns which of them are accepted.
    fn check(&mut self, ids: std::ops::Range<u64>, at: Timestamp) -> Vec<bool>;
    fn contains(&self, id: u64, at: Timestamp) -> bool;
}

struct Alone {
    history: HistoryTier,
    digester: Digester,
}

impl Alone {
    fn new(horizon: Duration, rate: f64, ids: usize, seed: u64) -> Self {
        Alone { history: HistoryTier::new(horizon, rate, ids).unwrap(), digester: Digester::with_seed(seed) }
    }

    fn digest(&self, id: u64) -> Digest {
        self.digester.digest(id.to_le_bytes())
    }
}

impl Remembers for Alone {
    fn check(&mut self, ids: std::ops::Range<u64>, at: Timestamp) -> Vec<bool> {
        let digests: Vec<_> = ids.map(|id| self.digest(id)).collect();
        let mut outcomes = Vec::new();
        self.history.check_batch(&digests, at, &mut outcomes);
        outcomes.into_iter().map(|outcome| outcome == Outcome::Fresh).collect()
    }

    fn contains(&self, id: u64, _: Timestamp) -> bool {
        self.history.contains(self.digest(id))
    }
}

/// An engine that drops the ids that its history takes for known.
struct InEngine(Dedup);

impl InEngine {
    fn new(window: Duration, horizon: Duration, rate: f64, ids: usize, seed: u64) -> Self {
        let builder = Dedup::builder().window(window).capacity(ids).seed(seed);
        let builder = builder.history(testkit::history(horizon, rate, ids));
        InEngine(builder.build().unwrap())
    }
}

impl Remembers for InEngine {
    fn check(&mut self, ids: std::ops::Range<u64>, at: Timestamp) -> Vec<bool> {
        let mut verdicts = Vec::new();
        self.0.check_batch_at(ids.map(u64::to_le_bytes), at, &mut verdicts);
        verdicts.into_iter().map(|verdict| verdict.is_fresh()).collect()
    }

    fn contains(&self, id: u64, _: Timestamp) -> bool {
        self.0.contains(id.to_le_bytes()).is_some()
    }
}

/// Lets new ids arrive. Checks that none is missed within the horizon, and returns how many of them
/// were taken for known.
fn arrive(subject: &mut impl Remembers, arrivals: &[Arrival], horizon: Duration, rate: f64) -> usize {
    let (mut next, mut known) = (0, 0);
    // Some ids of each arrival that were accepted.
    let mut accepted: VecDeque<(u64, Vec<u64>)> = VecDeque::new();
    for (number, &Arrival { nanos, ids }) in arrivals.iter().enumerate() {
        let at = Timestamp::from_nanos(nanos);
        let new = next..next + ids as u64;
        next = new.end;
        let fresh = subject.check(new.clone(), at);
        let of_these = fresh.iter().filter(|fresh| !**fresh).count();
        assert!(of_these as f64 <= limit(rate, ids), "{of_these} of the {ids} ids of arrival {number} at {rate:e}");
        known += of_these;
        let kept = new.zip(fresh).filter_map(|(id, fresh)| fresh.then_some(id));
        accepted.push_back((nanos, kept.step_by((ids / 50).max(1)).collect()));
        while accepted.front().is_some_and(|(since, _)| u128::from(nanos - since) > horizon.as_nanos()) {
            accepted.pop_front();
        }
        for (since, ids) in &accepted {
            let missed = ids.iter().find(|id| !subject.contains(**id, at));
            assert_eq!(missed, None, "of {} ns ago, at arrival {number}", nanos - since);
        }
    }
    let asked = next as usize;
    assert!(known as f64 <= limit(rate, asked), "{known} of {asked} new ids were taken for known at {rate:e}");
    known
}

/// Returns as many ids as may come within a horizon, twelve times, a little more than a horizon
/// apart.
fn bursts(ids: usize) -> Vec<Arrival> {
    (1..=12).map(|burst| Arrival { nanos: burst * 3_601_000_000_000, ids }).collect()
}

#[test]
fn bursts_that_are_just_more_than_a_horizon_apart_keep_the_rate() {
    for (rate, ids) in [(1e-2, 50_000), (1e-3, 50_000), (1e-4, 100_000), (1e-6, 200_000)] {
        let ids = ids / long(5, 1);
        let known = arrive(&mut Alone::new(HOUR, rate, ids, 17), &bursts(ids), HOUR, rate);
        println!("{known} of {} at {rate:e}, seed 17", 12 * ids);
    }
}

#[test]
fn an_engine_keeps_the_rate_of_its_history_in_such_bursts() {
    for (rate, ids) in [(1e-2, 50_000), (1e-4, 100_000)] {
        let ids = ids / long(5, 1);
        let mut engine = InEngine::new(HOUR / 6, HOUR, rate, ids, 19);
        let known = arrive(&mut engine, &bursts(ids), HOUR, rate);
        println!("{known} of {} at {rate:e}, seed 19", 12 * ids);
    }
}

/// Draws arrivals of any shape: at most `ids` come within less than a horizon.
fn draw(random: &mut Random, horizon: Duration, ids: usize) -> Vec<Arrival> {
    // The grain of the history's time.
    const GRAIN: u64 = 4;
    let horizon = (horizon.as_nanos() as u64).next_multiple_of(GRAIN);
    let habit = random.below(6);
    let (mut at, mut arrivals) = (horizon + random.below(horizon), Vec::<Arrival>::new());
    for _ in 0..30 {
        let kind = if random.below(4) == 0 { random.below(5) } else { habit };
        let (pause, wanted) = match kind {
            0 => (horizon + random.below(3), ids),
            1 => (horizon + random.below(horizon / 100), ids),
            2 => (horizon - 1 - random.below(horizon / 100), ids),
            3 => (horizon / 2 + random.below(3), ids / 2),
            4 => (horizon * (1 + random.below(4)) + random.below(horizon), ids - random.below(3) as usize),
            _ => (1 + random.below(horizon / 8), random.below(ids as u64 / 3) as usize),
        };
        at += pause;
        let recent = arrivals.iter().filter(|arrival| at - arrival.nanos < horizon);
        let room = ids - recent.map(|arrival| arrival.ids).sum::<usize>();
        arrivals.push(Arrival { nanos: at, ids: wanted.min(room) });
    }
    arrivals
}

#[test]
fn the_rate_holds_and_nothing_is_missed_for_every_pattern_of_arrivals() {
    for seed in 1..=long(20, 60) {
        let random = &mut Random(seed);
        let horizons = [Duration::from_millis(1), Duration::from_nanos(1_000_003), HOUR, 24 * HOUR];
        let horizon = horizons[random.below(4) as usize];
        let (rate, ids) = [(1e-1, 2_000), (1e-2, 4_000), (1e-3, 8_000)][random.below(3) as usize];
        let arrivals = draw(random, horizon, ids);
        println!("seed {seed}: {horizon:?}, {rate:e}, {ids} ids, {arrivals:?}");
        arrive(&mut Alone::new(horizon, rate, ids, seed), &arrivals, horizon, rate);
        // The same through an engine, whose window's times are coarser.
        if u64::is_multiple_of(seed, 4) {
            arrive(&mut InEngine::new(horizon / 10, horizon, rate, ids, seed), &arrivals, horizon, rate);
        }
    }
}
