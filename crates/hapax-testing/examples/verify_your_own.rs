//! Checks a strategy of your own: is it right when many threads use it at once? This one is not.
//!
//! `cargo run -p hapax-testing --example verify_your_own`

use hapax::{Outcome, Timestamp};
use hapax_testing::{Semantics, Subject, Workload, verify};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const WINDOW: Duration = Duration::from_secs(60);

/// The time at which each id was accepted, and the latest time that any caller has given.
#[derive(Default)]
struct Map {
    accepted: Mutex<HashMap<u64, Timestamp>>,
    latest: AtomicU64,
    /// True if another thread can come between the lookup and the insertion.
    lets_go: bool,
}

impl Subject for Map {
    fn check(&self, id: u64, at: Timestamp) -> Option<Outcome> {
        let before = self.latest.fetch_max(at.as_nanos(), Ordering::SeqCst);
        let now = at.max(Timestamp::from_nanos(before));
        let mut accepted = self.accepted.lock().unwrap();
        if accepted.get(&id).is_some_and(|&then| now < then + WINDOW) {
            return Some(Outcome::Duplicate);
        }
        if self.lets_go {
            drop(accepted);
            std::thread::yield_now();
            accepted = self.accepted.lock().unwrap();
        }
        accepted.insert(id, now);
        Some(Outcome::Fresh)
    }
}

fn main() {
    let (workload, semantics) = (Workload::of_window(WINDOW), Semantics::of_window(WINDOW));

    let report = verify(&Map::default(), &workload, &semantics);
    println!("A map behind a lock: {}\n", report.expect("one thing after the other cannot go wrong"));

    let violation = verify(&Map { lets_go: true, ..Map::default() }, &workload, &semantics);
    println!(
        "A map behind two locks, one after the other: {}",
        violation.expect_err("two threads have looked before either wrote")
    );
}
