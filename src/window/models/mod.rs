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

/// The number of schedules in CI, of these scenarios alone.
#[cfg(shuttle)]
const _: () =
    assert!((buckets::SCENARIOS.len() + growth::SCENARIOS.len()) as u64 * crate::sync::model::SCHEDULES >= 2_000_000);
