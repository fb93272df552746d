//! Runs of strategies that are known to be right or wrong.

use super::*;
use crate::strategy::{Allowance, Failure, HISTORY, Hapax, Plan, Strategy};
use hapax::Timestamp;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// An exact strategy, but every `WRONG_EVERY`-th check gets the wrong answer.
struct Exact<const WRONG_EVERY: u64> {
    accepted: Mutex<HashMap<u64, Timestamp>>,
    checks: AtomicU64,
    window: std::time::Duration,
}

impl<const WRONG_EVERY: u64> Strategy<u64> for Exact<WRONG_EVERY> {
    const NAME: &'static str = "exact";
    const SORT: Sort = Sort::Window;

    fn new(plan: &Plan) -> Result<Self, Failure> {
        if plan.live == 1_313 {
            return Err("no luck".into());
        }
        Ok(Exact { accepted: Mutex::default(), checks: AtomicU64::new(0), window: plan.window })
    }

    fn check(&self, id: &u64, now: Timestamp) -> bool {
        let mut accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = accepted.get(id).is_none_or(|&then| now >= then + self.window);
        let checks = self.checks.fetch_add(1, Ordering::Relaxed) + 1;
        assert!(WRONG_EVERY != 1_414 || checks < 1_414, "too many checks");
        let answer = is_fresh != (WRONG_EVERY > 0 && checks.is_multiple_of(WRONG_EVERY));
        if answer {
            accepted.insert(*id, now);
        }
        answer
    }

    fn allowance(_plan: &Plan) -> Allowance {
        Allowance::NONE
    }
}

fn setting() -> Setting {
    Setting { live: 2_000, ..Setting::default() }
}

fn run<const WRONG_EVERY: u64>(setting: &Setting) -> Result<Measurement, Failure> {
    measure::<Vec<u64>, Exact<WRONG_EVERY>>(setting, 17, Effort::Quick)
}

#[test]
fn an_exact_strategy_has_no_wrong_answer_however_it_is_called() {
    let settings = [
        setting(),
        Setting { batch: 64, ..setting() },
        Setting { ahead: true, threads: 2, ..setting() },
        Setting { work: 200, ..setting() },
        Setting { work: 200, ahead: true, threads: 2, ..setting() },
        Setting { batch: 1_000, threads: 2, ..setting() },
        Setting { threads: 3, ..setting() },
        Setting { threads: 2, rate: Some(1e6), batch: 32, ..setting() },
        Setting { rate: Some(200_000.0), ..setting() },
        Setting { workload: Workload { duplicates: 0.6, distance_windows: 1.0, ..setting().workload }, ..setting() },
    ];
    for setting in settings {
        let seen = run::<0>(&setting).unwrap();
        assert_eq!((seen.answers.missed, seen.answers.invented), (0, 0), "{setting:?}");
        let share = seen.answers.duplicates as f64 / (seen.answers.duplicates + seen.answers.fresh) as f64;
        assert!(share > setting.workload.duplicates * 0.8, "{setting:?}: {share}");
        // (A check beside work takes what is left of the time: nothing, if the machine was busy.)
        assert!(seen.checks > 0 && (seen.nanos > 0 || setting.work > 0), "{seen:?}");
        assert_eq!(seen.latency.is_some(), setting.rate.is_some());
        assert_eq!(seen.work_nanos > seen.checks, setting.work > 0, "decoding takes longer than a ns: {seen:?}");
        // Ids at a rate end when their time is over, wherever that is.
        assert!(setting.rate.is_some() || (seen.checks >= 2_000 && seen.held == 2_000), "{seen:?}");
    }
}

#[test]
fn who_may_remember_for_longer_is_not_judged_by_what_comes_again_later() {
    // Of 2,000 ids, most come again after more than a window.
    let workload = Workload { shape: Shape::Zipf { exponent: 0.5 }, ..setting().workload };
    let setting = Setting { workload, ..setting() };
    let seen = measure::<Vec<u64>, Hapax<HISTORY>>(&setting, 17, Effort::Quick).unwrap();
    assert!(seen.answers.fresh > 100 && seen.answers.invented <= 1 + seen.answers.fresh / 100, "{:?}", seen.answers);
}

#[test]
fn wrong_answers_are_counted_by_what_they_are() {
    for (threads, ahead, work) in [(1, false, 0), (1, true, 0), (1, true, 20), (2, false, 0)] {
        // Which checks are two threads' hundredth ones is chance: so many that a share is one.
        let seen = run::<100>(&Setting { threads, ahead, work, live: 20_000, ..setting() }).unwrap();
        let Answers { fresh, invented, duplicates, missed, .. } = seen.answers;
        println!("{:?}", seen.answers);
        let of = |share: u64, whole: u64| share as f64 / whole as f64;
        // One of a hundred of each is wrong. It is no miss that refused ids are not known
        // afterwards.
        assert!((0.005..0.015).contains(&of(invented, fresh)), "{:?}", seen.answers);
        assert!((0.004..0.02).contains(&of(missed, duplicates)), "{:?}", seen.answers);
    }
}

/// Looks an id up, and inserts it in a second step.
struct LookedUpFirst(Mutex<HashMap<u64, Timestamp>>);

impl Strategy<u64> for LookedUpFirst {
    const NAME: &'static str = "looked up first";
    const SORT: Sort = Sort::Window;

    fn new(_plan: &Plan) -> Result<Self, Failure> {
        Ok(LookedUpFirst(Mutex::default()))
    }

    fn check(&self, id: &u64, now: Timestamp) -> bool {
        let accepted = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = accepted().get(id).is_none_or(|&then| now >= then + workload::WINDOW);
        std::thread::yield_now(); // as a scheduler may do here at any time
        if is_fresh {
            accepted().insert(*id, now);
        }
        is_fresh
    }
}

#[test]
fn ids_that_are_fresh_twice_are_seen() {
    let workload = Workload { duplicates: 0.5, ..setting().workload };
    let [alone, by_two] = [1, 2].map(|threads| Setting { workload: workload.clone(), threads, ..setting() });
    let run = |setting, seed| measure::<Vec<u64>, LookedUpFirst>(setting, seed, Effort::Quick).unwrap().answers;
    let right = run(&alone, 17);
    assert_eq!((right.missed, right.twice), (0, 0), "alone it is right: {right:?}");
    // Each of the first seeds shows it, unless others leave the two threads only one processor.
    let seen = (17..117).map(|seed| run(&by_two, seed)).find(|seen| seen.twice > 0).expect("one of 100 shows it");
    println!("{seen:?}");
    assert!(seen.missed >= seen.twice, "{seen:?}");
}

#[test]
fn a_wrong_strategy_is_named_beside_one_that_is_right() {
    let report =
        measure_with_others::<Vec<u64>, Exact<100>>(&setting(), &["Mutex<HashMap>"], 2, 17, Effort::Quick).unwrap();
    let [theirs, ours] = &report.rows[..] else { panic!("{:?}", report.rows) };
    assert_eq!((theirs.runs.len(), ours.runs.len()), (2, 2));
    let broken = theirs.broken_promises();
    let expected = ["duplicates were called fresh", "new ids were called duplicates"];
    assert!(broken.len() == 2 && broken.iter().zip(expected).all(|(said, what)| said.contains(what)), "{broken:?}");
    assert!(ours.broken_promises().is_empty());
    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
}

#[test]
fn what_goes_wrong_is_said() {
    let said = |done: Result<Measurement, Failure>| done.unwrap_err().to_string();
    assert_eq!(said(run::<0>(&Setting { live: 1_313, ..setting() })), "no luck");
    let panicked = said(run::<1_414>(&Setting { threads: 2, ..setting() }));
    assert_eq!(panicked, "it panicked: too many checks");
    assert!(said(run::<0>(&Setting { ids: IdKind::UuidText, ..setting() })).contains("Uuid"));
    assert!(said(run::<0>(&Setting { batch: 0, ..setting() })).contains("batch"));
    assert!(said(run::<0>(&Setting { batch: 2, ahead: true, ..setting() })).contains("read ahead"));
    assert!(said(run::<0>(&Setting { rate: Some(1.0), ahead: true, ..setting() })).contains("read ahead"));
    assert!(said(run::<0>(&Setting { batch: 2, work: 1, ..setting() })).contains("with work"));
    assert!(said(run::<0>(&Setting { work: 1 << 30, ..setting() })).contains("at most"));
    assert!(said(run::<0>(&Setting { huge_pages: true, ..setting() })).contains("GLIBC_TUNABLES"));
    assert!(said(run::<0>(&Setting { rate: Some(-1.0), ..setting() })).contains("-1"));
    assert!(said(run::<0>(&Setting { live: 1 << 45, ..setting() })).contains("GiB"));
    let case = Case { strategy: "none".into(), setting: setting(), seed: 1, effort: Effort::Quick };
    assert!(said(case.measure()).contains("none"));
    assert!(measure_with_others::<Vec<u64>, Exact<0>>(&setting(), &["none"], 1, 1, Effort::Quick).is_err());
}

/// A strategy that takes half a millisecond for each id.
struct Slow;

impl Strategy<u64> for Slow {
    const NAME: &'static str = "slow";
    const SORT: Sort = Sort::Server;
    const EXPIRES: bool = false;

    fn new(_plan: &Plan) -> Result<Self, Failure> {
        Ok(Slow)
    }

    fn check(&self, _id: &u64, _now: Timestamp) -> bool {
        std::thread::sleep(std::time::Duration::from_micros(500));
        true
    }

    fn allowance(_plan: &Plan) -> Allowance {
        Allowance { missed: 1.0, ..Allowance::NONE }
    }
}

#[test]
fn who_falls_behind_is_said_to_and_its_latencies_grow() {
    let setting = Setting { rate: Some(20_000.0), ..setting() };
    let seen = measure::<Vec<u64>, Slow>(&setting, 17, Effort::Quick).unwrap();
    let latency = seen.latency.unwrap();
    assert!(latency.reached < 2_000.0, "{latency:?}");
    // Ids were due within 0.2 s, of which it could answer a tenth: most have waited for longer than
    // one check takes.
    assert!(latency.p50 > 50_000_000, "{latency:?}");
    assert!(seen.answers.missed > 0 && seen.answers.invented == 0, "{:?}", seen.answers);
}
