//! The window's protocols under loom (every execution with at most three preemptions, and every reordering that the memory
//! orderings allow) and under shuttle (schedules drawn at random, sequentially consistent).
//!
//! [`scenario`] is what is done, [`judge`] what may be answered, [`world`] runs the one and asks the other. The code is the
//! window's own, on lines of two slots. [`mutants`] leaves out the rules of the protocols one by one: each must be missed.
//!
//! `RUSTFLAGS='--cfg modelled --cfg loom' cargo test --release --lib models`, and the same with shuttle, runs these models and those of the
//! history. What more they can do: `scripts/models`.
#![cfg(any(loom, shuttle))]

mod growth;
mod judge;
mod lines;
mod mutants;
mod scenario;
mod world;

use scenario::scenarios;

/// Schedules in CI, of these scenarios alone.
#[cfg(shuttle)]
const _: () =
    assert!((lines::SCENARIOS.len() + growth::SCENARIOS.len()) as u64 * crate::sync::model::SCHEDULES >= 2_000_000);
