//! Models of the window's protocols: under loom (every execution with at most three preemptions,
//! and every reordering that the memory orderings allow) and under shuttle (schedules drawn at
//! random, sequentially consistent).
//!
//! [`scenario`] defines the calls, [`judge`] the allowed answers, [`world`] runs the calls and asks
//! the judge. The code is the window's own, on buckets of two slots. [`mutants`] leaves out the
//! rules of the protocols one by one: each time a scenario must fail.
//!
//! `RUSTFLAGS='--cfg modelled --cfg loom' cargo test --release --lib models`, and the same with
//! shuttle, runs these models and those of the history. `scripts/models` has more options.
#![cfg(any(loom, shuttle))]

mod buckets;
mod growth;
mod judge;
mod mutants;
mod scenario;
mod world;

use scenario::scenarios;

/// The number of schedules in CI, and with `HAPAX_LONG`, of these scenarios alone.
#[cfg(shuttle)]
#[test]
fn there_are_enough_schedules() {
    let scenarios = (buckets::SCENARIOS.len() + growth::SCENARIOS.len()) as u64;
    assert!(scenarios * crate::sync::model::schedules() >= crate::long::long(300_000, 2_000_000));
}
