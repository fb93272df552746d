//! Checks the example that verifies a cache that others deduplicate with: what is one atomic call
//! passes, and what looks first is caught. Prints a line of `scripts/flaws` for each.

#[path = "../../examples/verify_moka.rs"]
#[allow(dead_code)] // its main
mod verify_moka;

use hapax_testing::{Report, Violation};
use std::time::Instant;

/// The number of runs of a subject that is wrong: its race shows in almost each, except for those
/// in which others leave this process a part of one processor.
const RUNS: u64 = 200;

fn passes(subject: &str, verify: impl Fn() -> Result<Report, Box<Violation>>) {
    let start = Instant::now();
    let report = verify().unwrap_or_else(|violation| panic!("{subject}: {violation}"));
    println!("\njudged: {subject} | accepted | {:.2}\n{report}", start.elapsed().as_secs_f64());
}

fn is_caught(subject: &str, verify: impl Fn() -> Result<Report, Box<Violation>>) {
    let start = Instant::now();
    let violation = (0..RUNS).find_map(|_| verify().err()).unwrap_or_else(|| panic!("{subject} was not caught"));
    let found = format!("{:?}", violation.problem);
    println!("\njudged: {subject} | {found} | {:.2}\n{violation}", start.elapsed().as_secs_f64());
}

#[test]
fn moka_passes_by_the_call_that_locks_the_key_and_or_insert_is_caught() {
    passes("moka by and_compute_with", verify_moka::computed);
    is_caught("moka by or_insert", verify_moka::inserted);
}
