//! Several processes on one store, simulated: clients and a server whose messages are late, held or
//! lost, which crash and come back, and whose clocks are wrong. A seed determines all that happens,
//! so a failure can be repeated.
//!
//! `HAPAX_SIM_SEEDS=n` sets the number of seeds, which is a tenth of what it is with `HAPAX_LONG`;
//! `HAPAX_SIM_SEED=n` sets the first one. With `HAPAX_SIM_GO_ON=1` all of them are run and each
//! finding is reported.

mod backlog;
mod broker;
mod consumer;
mod effects;
mod judge;
mod queue;
mod remote;
mod scenario;
mod wrong;

use backlog::Backlog;
use judge::{Asked, End, Try};
use scenario::{Scenario, run};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use testkit::long;
use wrong::Wrong;

fn number(variable: &str, usual: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{variable} is no number: {text}")))
}

/// Runs many seeds, two at a time. A finding fails the test, at once if nothing else is asked for.
fn explore(test: &str, seeds: u64, judged: impl Fn(u64) -> Result<(), String> + Sync) -> u64 {
    let (first, seeds) = (number("HAPAX_SIM_SEED", 1), number("HAPAX_SIM_SEEDS", seeds));
    let (next, found) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = first + next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + seeds {
                        return;
                    }
                    if let Err(what) = judged(seed) {
                        println!("HAPAX_SIM_SEED={seed} HAPAX_SIM_SEEDS=1 {test}: {what}");
                        found.lock().unwrap().push(seed);
                        if number("HAPAX_SIM_GO_ON", 0) == 0 {
                            next.store(seeds, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    let found = found.into_inner().unwrap();
    assert!(found.is_empty(), "{} of {seeds} seeds from {first} show that it is wrong: {found:?}", found.len());
    seeds
}

/// Judges the runs of these seeds, and counts them.
fn simulate(test: &str, seeds: u64, scenario: fn(u64) -> Scenario) {
    let (crashes, runs, completed, retried) = Default::default();
    let count = |counter: &AtomicU64, by: usize| counter.fetch_add(by as u64, Ordering::Relaxed);
    let seeds = explore(test, seeds, |seed| {
        let ended = run(scenario(seed));
        if !ended.violations.is_empty() {
            if number("HAPAX_SIM_GO_ON", 0) == 0 {
                ended.tries.iter().for_each(|each| println!("{each:?}"));
                println!("{:?}", scenario(seed));
            }
            return Err(ended.violations.join("; "));
        }
        let how_many = |is: fn(&Try) -> bool| ended.tries.iter().filter(|each| is(each)).count();
        count(&crashes, ended.crashes);
        count(&runs, how_many(|each| each.granted.is_some()));
        count(&completed, how_many(|each| matches!(each.end, Some((_, End::Completed)))));
        count(&retried, how_many(|each| each.asked == Asked::Claim));
        Ok(())
    });
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    println!(
        "{seeds} seeds: {} crashes; {} tries at claims, {} runs of handlers, {} completions acknowledged",
        get(&crashes),
        get(&retried),
        get(&runs),
        get(&completed)
    );
}

#[test]
fn every_id_is_completed_once_whatever_happens() {
    simulate("every_id_is_completed_once_whatever_happens", long(120, 4_000), |seed| Scenario::new(seed, None));
}

#[test]
fn whoever_asks_again_at_once_is_told_what_happened() {
    simulate("whoever_asks_again_at_once_is_told_what_happened", long(50, 1_500), Scenario::insisting);
}

#[test]
fn a_node_that_hangs_keeps_nobody_else_waiting() {
    simulate("a_node_that_hangs_keeps_nobody_else_waiting", long(20, 300), Scenario::with_a_node_that_hangs);
}

/// Judges the runs of consumers of a queue, and counts them.
fn work_off(test: &str, seeds: u64, scenario: fn(u64) -> Backlog) {
    let (runs, effects) = (AtomicU64::new(0), AtomicU64::new(0));
    let seeds = explore(test, seeds, |seed| {
        let ended = backlog::run(scenario(seed));
        if !ended.violations.is_empty() {
            if number("HAPAX_SIM_GO_ON", 0) == 0 {
                ended.runs.iter().for_each(|run| println!("{run:?}"));
                println!("{:?}", scenario(seed));
            }
            return Err(ended.violations.join("; "));
        }
        runs.fetch_add(ended.runs.len() as u64, Ordering::Relaxed);
        effects.fetch_add(ended.effects as u64, Ordering::Relaxed);
        Ok(())
    });
    println!("{seeds} seeds: {} effects, {} runs of handlers", effects.into_inner(), runs.into_inner());
}

#[test]
fn a_backlog_is_worked_off_once() {
    work_off("a_backlog_is_worked_off_once", long(12, 150), Backlog::new);
}

#[test]
fn a_backlog_of_keys_is_worked_off_in_order() {
    work_off("a_backlog_of_keys_is_worked_off_in_order", long(8, 100), Backlog::in_order);
}

#[test]
fn consumers_that_ignore_the_order_are_seen() {
    let out_of_order = |seed: &u64| {
        let violations = backlog::run(Backlog::out_of_order(*seed)).violations;
        violations.iter().any(|violation| violation.contains("is done, of key"))
    };
    let seed = (1..=20).find(out_of_order).expect("one of 20 seeds shows it");
    println!("seen with seed {seed}");
}

/// Set in a process of its own, in which nothing else runs.
const ALONE: &str = "HAPAX_SIM_ALONE";

/// The runtime drops the tasks of a host that crashes in an order that depends on numbers which all
/// runtimes of the process share. So a seed determines all that happens only while nothing else
/// runs: this runs the test once more, alone.
#[test]
fn a_seed_stands_for_all_that_happens() {
    if std::env::var_os(ALONE).is_some() {
        return each_seed_gives_the_same_twice();
    }
    let mut alone = Command::new(std::env::current_exe().unwrap());
    alone.args(["--exact", "simulation::a_seed_stands_for_all_that_happens", "--nocapture", "--test-threads=1"]);
    let output = alone.env(ALONE, "1").output().unwrap();
    let said = [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat();
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

fn each_seed_gives_the_same_twice() {
    let first = number("HAPAX_SIM_SEED", 1);
    let new: fn(u64) -> Scenario = |seed| Scenario::new(seed, None);
    for (scenario, seeds) in
        [(new, long(6, 100)), (Scenario::insisting, long(4, 60)), (Scenario::with_a_node_that_hangs, long(2, 20))]
    {
        for seed in first..first + seeds {
            let (once, again) = (run(scenario(seed)), run(scenario(seed)));
            let mut both =
                once.tries.iter().zip(&again.tries).map(|(one, other)| [one, other].map(|it| format!("{it:?}")));
            let differs = both.find(|[one, other]| one != other);
            assert_eq!(
                once.trace,
                again.trace,
                "seed {seed} stands for two things: {differs:#?}, {:?}",
                scenario(seed)
            );
            assert_ne!(once.trace, run(scenario(seed + 1)).trace);
        }
    }
    for scenario in [Backlog::new, Backlog::in_order] {
        for seed in first..first + long(2, 10) {
            let trace = |seed| backlog::run(scenario(seed)).trace;
            assert_eq!(trace(seed), trace(seed), "seed {seed} stands for two things");
            assert_ne!(trace(seed), trace(seed + 1));
        }
    }
}

#[test]
fn what_is_wrong_is_seen() {
    const SEEDS: u64 = 300;
    for wrong in Wrong::ALL {
        let rejects = |seed: &u64| !run(Scenario::new(*seed, Some(wrong))).violations.is_empty();
        let seed = (1..=SEEDS).find(rejects).unwrap_or_else(|| panic!("{wrong:?} passes {SEEDS} seeds"));
        println!("{wrong:?}: {}", run(Scenario::new(seed, Some(wrong))).violations.join("; "));
        println!("{wrong:?}: seen with seed {seed}");
    }
}
