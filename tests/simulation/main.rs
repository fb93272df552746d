//! Several processes on one store, simulated: clients and a server whose messages are late, held or lost, who crash and come back, and whose
//! clocks are wrong. A seed stands for all that happens, so what failed once fails again.
//!
//! `HAPAX_SIM_SEEDS=n` says how many, `HAPAX_SIM_SEED=n` with which to begin.

mod broker;
mod consumer;
mod judge;
#[path = "../common/random.rs"]
mod random;
mod remote;
mod scenario;
mod wire;
mod wrong;

use judge::{Asked, End};
use scenario::{Scenario, run};
use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};
use wrong::Wrong;

/// The runtime drops the tasks of a host that crashes in an order that depends on numbers which all runtimes of the process share. So a seed stands for all that
/// happens only while no other simulation runs.
static ALONE: RwLock<()> = RwLock::new(());

fn number(variable: &str, usual: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{variable} is no number: {text}")))
}

#[test]
fn every_id_is_completed_once_whatever_happens() {
    let _others = ALONE.read();
    let (first, seeds) = (number("HAPAX_SIM_SEED", 1), number("HAPAX_SIM_SEEDS", 5_000));
    let (next, crashes, runs, completed, retried) = Default::default();
    let count = |counter: &AtomicU64, by: usize| counter.fetch_add(by as u64, Ordering::Relaxed);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = first + count(&next, 1);
                    if seed >= first + seeds {
                        return;
                    }
                    let ended = run(Scenario::new(seed, None));
                    if !ended.violations.is_empty() {
                        next.store(seeds, Ordering::Relaxed);
                        println!("HAPAX_SIM_SEED={seed} HAPAX_SIM_SEEDS=1");
                        ended.tries.iter().for_each(|each| println!("{each:?}"));
                        panic!("seed {seed}: {}; {:?}", ended.violations.join("; "), Scenario::new(seed, None));
                    }
                    count(&crashes, ended.crashes);
                    count(&runs, ended.tries.iter().filter(|each| each.granted.is_some()).count());
                    count(
                        &completed,
                        ended.tries.iter().filter(|each| matches!(each.end, Some((_, End::Completed)))).count(),
                    );
                    count(&retried, ended.tries.iter().filter(|each| each.asked == Asked::Claim).count());
                }
            });
        }
    });
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    println!(
        "{seeds} seeds from {first}: {} crashes; {} tries at claims, {} runs of handlers, {} completions acknowledged",
        get(&crashes),
        get(&retried),
        get(&runs),
        get(&completed)
    );
}

#[test]
fn a_seed_stands_for_all_that_happens() {
    let _nobody = ALONE.write();
    let first = number("HAPAX_SIM_SEED", 1);
    for seed in first..first + 200 {
        let (once, again) = (run(Scenario::new(seed, None)), run(Scenario::new(seed, None)));
        assert_eq!(once.trace, again.trace, "seed {seed} stands for two things");
        assert_ne!(once.trace, run(Scenario::new(seed + 1, None)).trace);
    }
}

#[test]
fn what_is_wrong_is_seen() {
    let _others = ALONE.read();
    const SEEDS: u64 = 300;
    for wrong in Wrong::ALL {
        let rejects = |seed: &u64| !run(Scenario::new(*seed, Some(wrong))).violations.is_empty();
        let seed = (1..=SEEDS).find(rejects).unwrap_or_else(|| panic!("{wrong:?} passes {SEEDS} seeds"));
        println!("{wrong:?}: {}", run(Scenario::new(seed, Some(wrong))).violations.join("; "));
        println!("{wrong:?}: seen with seed {seed}");
    }
}
