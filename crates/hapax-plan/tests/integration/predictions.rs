//! A plan's predictions, compared with an engine that is built as planned and driven on a manual
//! clock at the planned rate: within 10 %.

use hapax::{Dedup, History, Int, JournalOptions, ManualClock, SyncMode, Unconfirmed, Verdict};
use hapax_plan::{Demand, Plan};
use std::time::{Duration, Instant};
use testkit::directory::Directory;
use testkit::long;
use testkit::random::Random;

const SEED: u64 = 0x9a7e;

/// An engine, its clock, and ids that have not come yet.
struct Driven {
    dedup: Dedup,
    clock: ManualClock,
    next: u64,
    verdicts: Vec<Verdict>,
}

impl Driven {
    fn new(builder: hapax::Builder) -> Self {
        println!("seed {SEED:#x}");
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(1_000));
        let dedup = builder.clock(clock.clone()).seed(SEED).build().unwrap();
        Driven { dedup, clock, next: 0, verdicts: Vec::new() }
    }

    /// Checks this many new ids, `step` after those before.
    fn step(&mut self, step: Duration, ids: u64) {
        self.clock.advance(step);
        self.dedup.check_batch((self.next..self.next + ids).map(Int::from), &mut self.verdicts);
        self.next += ids;
    }

    fn evicted(&self) -> u64 {
        self.dedup.evicted_live()
    }
}

/// Asserts that a measurement is as predicted. A counted figure may deviate by chance: four
/// deviations.
#[track_caller]
fn assert_close(what: &str, predicted: f64, measured: f64, counted: Option<f64>) {
    let tolerance = 0.1 * predicted + 4.0 * counted.unwrap_or(0.0).sqrt();
    println!(
        "{what}: predicted {predicted:.4e}, measured {measured:.4e}, within {:.1} %",
        100.0 * (measured / predicted - 1.0)
    );
    assert!((measured - predicted).abs() <= tolerance, "{what}: predicted {predicted}, measured {measured}");
}

const WINDOW: Duration = Duration::from_secs(10);

#[test]
fn memory_of_a_window_before_and_after_it_has_grown() {
    for rate in [100.0, long(5_000.0, 20_000.0)] {
        let plan = Demand::new(rate, WINDOW).growth(2.0).plan().unwrap();
        let mut driven = Driven::new(plan.builder());
        let (step, ids) = (Duration::from_millis(50), (rate / 20.0) as u64);
        (0..600).for_each(|_| driven.step(step, ids));
        let stats = driven.dedup.stats();
        assert_eq!(stats.window.tables, 1, "{stats:?}");
        assert_close("bytes", plan.window.bytes as f64, stats.window.bytes as f64, None);
        assert_close("live", plan.window.live, stats.window.live as f64, None);
        // Twice as many ids come, and more: even a window with room for 3,562 grows then.
        let began = Instant::now();
        let more = (plan.window.grown_capacity as u64 / 200).max(2 * ids);
        while driven.dedup.stats().window.tables < plan.window.tables_max {
            assert!(began.elapsed() < Duration::from_secs(60), "it does not grow");
            driven.step(step, more);
            std::thread::sleep(Duration::from_millis(1));
        }
        let stats = driven.dedup.stats();
        assert_eq!(stats.window.tables, plan.window.tables_max, "{stats:?}");
        assert_close("bytes after growth", plan.window.grown_bytes as f64, stats.window.bytes as f64, None);
        let capacity = hapax::seam::tables(&driven.dedup)[0].capacity;
        assert_close("capacity after growth", plan.window.grown_capacity as f64, capacity as f64, None);
    }
}

#[test]
fn ids_forgotten_early() {
    let planned = long(2_000.0, 8_000.0);
    for (window, times) in [(10, 1.4), (10, 1.7), (24, 2.2), (10, 4.0)] {
        let window = Duration::from_secs(window);
        let plan = Demand::new(planned, window).growth(1.0).plan().unwrap();
        let mut driven = Driven::new(plan.builder());
        let (steps, rate) = (400, planned * times);
        let step = window / steps;
        let ids = (rate * step.as_secs_f64()) as u64;
        (0..2 * steps).for_each(|_| driven.step(step, ids));
        let (before, windows) = (driven.evicted(), 3);
        (0..windows * steps).for_each(|_| driven.step(step, ids));
        let lost = (driven.evicted() - before) as f64;
        let days = f64::from(windows) * window.as_secs_f64() / 86_400.0;
        let predicted = plan.window.forgotten_early_a_day_at(ids as f64 / step.as_secs_f64()) * days;
        assert_close(&format!("lost at {times} times the rate"), predicted, lost, Some(predicted));
    }
}

#[test]
fn a_history_and_its_false_positives() {
    let (a_step, budget) = long((50, 450_000), (200, 1_800_000));
    for (rate, budget) in [(Some(0.03), None), (Some(1e-3), None), (Some(1e-5), None), (None, Some(budget))] {
        let demand =
            Demand::new(100.0 * a_step as f64, Duration::from_secs(1)).growth(1.0).history(Duration::from_secs(10));
        let demand = rate.map_or(demand.clone(), |rate| demand.clone().false_positive_rate(rate));
        let plan = budget.map_or(demand.clone(), |bytes| demand.clone().memory_bytes(bytes)).plan().unwrap();
        let history = plan.history.as_ref().unwrap();
        let mut driven = Driven::new(plan.builder());
        let step = Duration::from_millis(10);
        let generation = 1_000;
        (0..2 * generation).for_each(|_| driven.step(step, a_step));
        let before = driven.dedup.stats();
        // Whole generations are measured, since the rate grows within each. The rate by the
        // filter's bits is known more exactly than the counted one.
        let (generations, looks) = (3, 40);
        let mut mean = 0.0;
        for _ in 0..generations * looks {
            (0..generation / looks).for_each(|_| driven.step(step, a_step));
            let rate = driven.dedup.stats().history_false_positive_rate.unwrap();
            mean += rate / f64::from(generations * looks);
        }
        let stats = driven.dedup.stats();
        let days = f64::from(generations * generation) * step.as_secs_f64() / 86_400.0;
        let predicted = history.false_positives_a_day * days;
        let found = (stats.duplicates_by_history - before.duplicates_by_history) as f64;
        assert_close(&format!("false positives at {rate:?}"), predicted, found, Some(predicted));
        assert_close("mean rate", history.mean_false_positive_rate, mean, None);
        assert_close("bytes of the history", history.bytes as f64, stats.history_bytes as f64, None);
        assert!(budget.is_none_or(|budget| stats.bytes <= budget + 20_000), "{} bytes", stats.bytes);
    }
}

/// Ids that come at random, of which some come again at once, to an engine built as printed.
struct Arrivals {
    driven: Driven,
    random: Random,
    last_fresh: u64,
}

impl Arrivals {
    fn new(plan: &Plan) -> Self {
        let driven = Driven::new(as_printed(&plan.builder_call()));
        Arrivals { driven, random: Random(SEED), last_fresh: 0 }
    }

    /// Lets ids come for this many horizons, and returns the new ones, and how many of them were
    /// taken for duplicates.
    fn come(&mut self, plan: &Plan, checks_per_second: f64, horizons: f64) -> (f64, f64) {
        let mistaken = |driven: &Driven| driven.dedup.stats().duplicates_by_history;
        let (before, first) = (mistaken(&self.driven), self.driven.next);
        let mut left = horizons * plan.history.as_ref().unwrap().horizon.as_secs_f64();
        loop {
            // The time between two that come at random is distributed exponentially.
            let pause = -(self.unit().ln()) / checks_per_second;
            left -= pause;
            if left < 0.0 {
                let new = (self.driven.next - first) as f64;
                return (new, (mistaken(&self.driven) - before) as f64);
            }
            self.driven.clock.advance(Duration::from_secs_f64(pause));
            if self.unit() < plan.duplicates {
                assert!(self.driven.dedup.check(Int::from(self.last_fresh)).is_duplicate());
                continue;
            }
            let id = self.driven.next;
            self.driven.next += 1;
            if self.driven.dedup.check(Int::from(id)).is_fresh() {
                self.last_fresh = id;
            }
        }
    }

    /// Returns a number above 0 and up to 1.
    fn unit(&mut self) -> f64 {
        ((self.random.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}

/// Asserts that as many new ids were taken for duplicates as predicted, within four deviations:
/// those of the number by chance (its root), and of filters from each other (one hundredth).
#[track_caller]
fn assert_mistaken(what: &str, rate: f64, (new, mistaken): (f64, f64)) {
    let predicted = rate * new;
    let margin = 4.0 * (predicted + (0.01 * predicted).powi(2)).sqrt();
    println!("{what}: predicted {predicted:.1}, measured {mistaken}, margin {margin:.1}");
    assert!((mistaken - predicted).abs() <= margin, "{what}: predicted {predicted}, measured {mistaken} (+-{margin})");
}

/// Checks the predicted false positives at the planned load, at random times.
#[test]
fn false_positives_at_the_planned_load() {
    let demand = |rate: f64, window: u64, horizon: u64| {
        Demand::new(rate, Duration::from_secs(window)).history(Duration::from_secs(horizon))
    };
    let share = long(4, 1);
    let part = |of: f64| of / f64::from(share);
    let plans = [
        (demand(part(10_000.0), 1, 10).false_positive_rate(0.01), 10.0),
        (demand(part(2_000.0), 2, 60).false_positive_rate(0.02).duplicates(0.3), 5.0),
        (demand(part(5_000.0), 1, 20).memory_bytes(600_000 / share as usize), 10.0),
        // Few ids in a horizon: it matters that a generation begins with one.
        (demand(24.0, 1, 1).false_positive_rate(0.05), part(40_000.0)),
        (demand(0.5, 10, 60).false_positive_rate(0.2), part(10_000.0)),
    ];
    for (demand, horizons) in plans {
        let plan = demand.plan().unwrap();
        let history = plan.history.as_ref().unwrap();
        let mut arrivals = Arrivals::new(&plan);
        arrivals.come(&plan, plan.checks_per_second, 3.0);
        let counted = arrivals.come(&plan, plan.checks_per_second, horizons);
        let what = format!("{} ids in {:?}", history.ids, history.horizon);
        assert_mistaken(&what, history.mean_false_positive_rate, counted);
        let days = horizons * history.horizon.as_secs_f64() / 86_400.0;
        let a_day = history.false_positives_a_day * days;
        assert_close("a day", a_day, counted.1, Some(a_day));
        assert!(history.mean_false_positive_rate <= history.false_positive_rate, "{plan}");
    }
}

/// Checks that a plan with a peak is right on average, and that the peak is as promised.
#[test]
fn false_positives_at_the_planned_peak() {
    let rate = long(250.0, 1_000.0);
    let demand = Demand::new(rate, Duration::from_secs(1)).history(Duration::from_secs(20));
    let demand = demand.false_positive_rate(0.1).duplicates(0.2);
    let plan = demand.clone().peak(2.0).history_peak(2.0).plan().unwrap();
    let history = plan.history.as_ref().unwrap();
    let mut arrivals = Arrivals::new(&plan);
    arrivals.come(&plan, rate, 3.0);
    let counted = arrivals.come(&plan, rate, 20.0);
    assert_mistaken("on average", history.mean_false_positive_rate, counted);
    arrivals.come(&plan, 2.0 * rate, 3.0);
    let (new, mistaken) = arrivals.come(&plan, 2.0 * rate, 20.0);
    // A plan for the peak alone has the same history, which it says more about.
    let at_peak = Demand::new(2.0 * rate, Duration::from_secs(1)).duplicates(0.2);
    let at_peak = at_peak.history(Duration::from_secs(20)).false_positive_rate(0.1).plan().unwrap().history.unwrap();
    assert_eq!((at_peak.ids, at_peak.bytes), (history.ids, history.bytes));
    assert_mistaken("at the peak", at_peak.mean_false_positive_rate, (new, mistaken));
    assert!(mistaken <= history.false_positive_rate * new, "{mistaken} of {new}");
}

#[test]
fn a_journal() {
    let (interval, rate) = (Duration::from_millis(50), 4_000.0);
    let plan = Demand::new(rate, WINDOW).duplicates(0.5).journal(interval).plan().unwrap();
    let journal = plan.journal.as_ref().unwrap();
    let directory = Directory::new("journal");
    // It is flushed by calls, since time is a manual clock's.
    let options = JournalOptions::new().commit_interval(Duration::from_secs(3_600)).sync(SyncMode::System);
    let mut driven = Driven::new(plan.builder().journal(directory.path(), options));
    let ids = (rate * 0.5 * interval.as_secs_f64()) as u64;
    let disk = |driven: &Driven| driven.dedup.stats().journal.unwrap();
    let step = |driven: &mut Driven| {
        driven.step(interval, ids);
        let again = driven.next - ids..driven.next;
        driven.dedup.check_batch(again.map(Int::from), &mut driven.verdicts);
        assert!(driven.verdicts.iter().all(|verdict| verdict.is_duplicate()));
        driven.dedup.journal().unwrap().flush().unwrap();
    };
    step(&mut driven);
    let before = disk(&driven);
    (0..100).for_each(|_| step(&mut driven));
    let after = disk(&driven);
    let seconds = 100.0 * interval.as_secs_f64();
    let written = (after.disk_bytes - before.disk_bytes) as f64;
    assert_close("bytes a second", journal.bytes_per_second, written / seconds, None);
    assert_close(
        "commits a second",
        journal.commits_per_second,
        (after.commits - before.commits) as f64 / seconds,
        None,
    );
    // Until as much is deleted as is written, and then on average.
    let retention = (journal.retention.as_secs_f64() / interval.as_secs_f64()) as u32;
    (0..retention * 3 / 2).for_each(|_| step(&mut driven));
    let (mut bytes, mut segments, mut most) = (0.0, 0.0, 0.0_f64);
    for _ in 0..retention {
        step(&mut driven);
        let stats = disk(&driven);
        bytes += stats.disk_bytes as f64 / f64::from(retention);
        segments += stats.segments as f64 / f64::from(retention);
        most = most.max(stats.disk_bytes as f64);
    }
    assert_close("bytes on the disk", journal.disk_bytes, bytes, None);
    assert_close("files", journal.segments, segments, None);
    assert_close("bytes on the disk at most", journal.disk_bytes_max, most, None);
    // 16 bytes an id, and 32 million of them a second.
    assert_close("ids to replay", journal.replay.as_secs_f64() * 32e6, bytes / 16.0, None);
}

#[test]
fn claims_in_flight() {
    let plan = Demand::new(100_000.0, Duration::from_secs(1)).work(Duration::from_secs(1)).plan().unwrap();
    let dedup = plan.builder().build().unwrap();
    let before = dedup.stats().bytes;
    let claims: Vec<_> = (0..100_000_u64).map(|id| dedup.claim(Int::from(id)).claimed().unwrap()).collect();
    let claimed = (dedup.stats().bytes - before) as f64;
    assert_close("bytes of claims", plan.claims.as_ref().unwrap().bytes as f64, claimed, None);
    assert_eq!(claims.len(), 100_000);
}

/// Checks that the text of the call builds the same engine.
#[test]
fn the_call_to_paste_compiles_and_builds_the_planned_engine() {
    let demand = Demand::new(1_000.0, Duration::from_millis(1_500))
        .history(Duration::from_secs(3_600))
        .false_positive_rate(1e-4)
        .work(Duration::from_secs(2));
    let plan = demand.plan().unwrap();
    macro_rules! pasted {
        ($($call:tt)*) => {{
            // Tokens, since a macro gets no white space.
            let without_space = |text: &str| text.split_whitespace().collect::<String>();
            assert_eq!(without_space(stringify!($($call)*)), without_space(&plan.builder_call()));
            $($call)*
        }};
    }
    let build = || -> Result<Dedup, hapax::Error> {
        let dedup = pasted! {
            Dedup::builder()
                .window(Duration::from_millis(1_500))
                .capacity(3_000)
                .max_memory_bytes(196_608)
                .history(History {
                    horizon: Duration::from_secs(3_600),
                    ids: 3_600_000,
                    false_positive_rate: 1e-4,
                    unconfirmed: Unconfirmed::Duplicate,
                })
                .lease(Duration::from_secs(6))
                .build()?
        };
        Ok(dedup)
    };
    let (pasted, planned) = (build().unwrap(), plan.builder().build().unwrap());
    let bytes = |dedup: &Dedup| (dedup.stats().window.bytes, dedup.stats().history_bytes);
    assert_eq!(bytes(&pasted), bytes(&planned));
    assert_eq!((pasted.tick(), planned.tick()), (plan.window.tick, plan.window.tick));
}

/// Returns the builder that a printed call is.
fn as_printed(call: &str) -> hapax::Builder {
    let number = |text: &str| text.replace('_', "").parse::<u64>().unwrap();
    let duration = |text: &str| {
        let (unit, rest) = text.strip_prefix("Duration::from_").unwrap().split_once('(').unwrap();
        let number = number(rest.strip_suffix(')').unwrap());
        match unit {
            "secs" => Duration::from_secs(number),
            "millis" => Duration::from_millis(number),
            "micros" => Duration::from_micros(number),
            _ => panic!("{text}"),
        }
    };
    let on_lines = call.replace("History {\n        ", "").replace(",\n        ", ", ").replace(",\n    })", ")");
    let lines = on_lines.lines().filter_map(|line| line.trim().strip_prefix('.')?.strip_suffix(')')?.split_once('('));
    lines.fold(Dedup::builder(), |builder, (method, arguments)| {
        let arguments: Vec<&str> = arguments.split(", ").collect();
        match (method, &arguments[..]) {
            ("window", [window]) => builder.window(duration(window)),
            ("capacity", [ids]) => builder.capacity(number(ids) as usize),
            ("max_memory_bytes", [bytes]) => builder.max_memory_bytes(number(bytes) as usize),
            ("lease", [lease]) => builder.lease(duration(lease)),
            ("history", [horizon, ids, rate, "unconfirmed: Unconfirmed::Duplicate"]) => builder.history(History {
                horizon: duration(horizon.strip_prefix("horizon: ").unwrap()),
                ids: number(ids.strip_prefix("ids: ").unwrap()) as usize,
                false_positive_rate: rate.strip_prefix("false_positive_rate: ").unwrap().parse().unwrap(),
                unconfirmed: Unconfirmed::Duplicate,
            }),
            _ => panic!("{method}"),
        }
    })
}

#[test]
fn memory_is_that_of_the_engine_to_the_byte() {
    let demand = |rate: f64| Demand::new(rate, WINDOW);
    let with_history = |rate: f64| demand(rate).history(Duration::from_secs(200)).false_positive_rate(1e-3);
    let in_budget = |rate: f64| demand(rate).history(Duration::from_secs(200)).memory_bytes(26 << 20);
    let plans = [1.0, 300.0, 50_000.0].into_iter().flat_map(|rate| {
        [demand(rate), demand(rate).growth(1.0), demand(rate).duplicates(0.5).peak(4.0), with_history(rate)]
    });
    let others = [in_budget(300.0), in_budget(50_000.0), with_history(300.0).work(Duration::from_secs(1))];
    for demand in plans.chain(others) {
        let plan = demand.plan().unwrap();
        let stats = as_printed(&plan.builder_call()).build().unwrap().stats();
        let claims = plan.claims.as_ref().map_or(0, |claims| claims.bytes);
        assert_eq!(plan.bytes() - claims, stats.bytes, "{plan}");
        assert_eq!(plan.window.bytes, stats.window.bytes, "{plan}");
        assert_eq!(plan.history.as_ref().map_or(0, |history| history.bytes), stats.history_bytes);
    }
}
