//! Checks moka by its atomic call, and by the one that looks atomic: `or_insert` is a look, then an
//! insertion, so two threads may both be told that their id is new.
//!
//! `cargo run -p hapax-testing --example verify_moka`

use hapax_testing::adapters::subject_fn;
use hapax_testing::{Report, Semantics, Violation, Workload, verify};
use moka::ops::compute::{CompResult, Op};
use moka::sync::Cache;
use std::time::Duration;

/// Short, so that ids expire while the check runs: by the cache's own clock.
const WINDOW: Duration = Duration::from_millis(100);

fn workload() -> Workload {
    Workload { operations: 100_000, ..Workload::of_own_clock(WINDOW) }
}

fn cache() -> Cache<String, ()> {
    Cache::builder().time_to_live(WINDOW).max_capacity(1_000_000).build()
}

/// Checks the call that locks the key while it decides.
pub fn computed() -> Result<Report, Box<Violation>> {
    let cache = cache();
    let subject = subject_fn(|id: String, _at| {
        let computed = cache.entry(id).and_compute_with(|known| match known {
            Some(_) => Op::Nop,
            None => Op::Put(()),
        });
        matches!(computed, CompResult::Inserted(_))
    });
    verify(&subject, &workload(), &Semantics::of_own_clock(WINDOW))
}

/// Checks the call that does not.
pub fn inserted() -> Result<Report, Box<Violation>> {
    let cache = cache();
    let subject = subject_fn(|id: String, _at| cache.entry(id).or_insert(()).is_fresh());
    let workload = Workload { threads: 8, meet_every: 16, ..workload() };
    verify(&subject, &workload, &Semantics::of_own_clock(WINDOW))
}

fn main() {
    println!("and_compute_with: {}\n", computed().expect("it locks the key"));
    match inserted() {
        Err(violation) => println!("or_insert: {violation}"),
        Ok(report) => println!("or_insert, whose race did not show this time: {report}"),
    }
}
