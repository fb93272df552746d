//! Checks maps by `entry`, which looks and inserts at once: behind a lock and in `DashMap`, by the
//! caller's clock and by their own; and by a look, then an insertion, which two may do at once.
//!
//! `cargo run -p hapax-testing --example verify_map`

use dashmap::DashMap;
use dashmap::mapref::entry::Entry;
use hapax::Timestamp;
use hapax_testing::adapters::subject_fn;
use hapax_testing::{Report, Semantics, Time, Violation, Workload, verify};
use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const WINDOW: Duration = Duration::from_secs(60);

/// The time is the caller's, exact: no clock differs from others', nothing is remembered longer.
fn exact() -> (Workload, Semantics) {
    let workload = Workload { operations: 100_000, skew: Duration::ZERO, ..Workload::of_window(WINDOW) };
    (workload, Semantics { time: Time::AsGiven, ..Semantics::of_window(WINDOW) })
}

/// Accepts an id if it was never accepted, or a window ago.
fn accept(then: &mut Option<Timestamp>, at: Timestamp) -> bool {
    let is_fresh = then.is_none_or(|then| at >= then + WINDOW);
    if is_fresh {
        *then = Some(at);
    }
    is_fresh
}

/// Checks a map of the standard library behind a lock.
pub fn locked() -> Result<Report, Box<Violation>> {
    let (workload, semantics) = exact();
    let seen: Mutex<HashMap<String, Option<Timestamp>>> = Mutex::default();
    let subject = subject_fn(|id: String, at| {
        let mut seen = seen.lock().expect("nothing panics under it");
        accept(seen.entry(id).or_default(), at)
    });
    verify(&subject, &workload, &semantics)
}

/// Checks a concurrent map by its one atomic call.
pub fn sharded() -> Result<Report, Box<Violation>> {
    let (workload, semantics) = exact();
    let seen: DashMap<u64, Option<Timestamp>> = DashMap::new();
    let subject = subject_fn(|id: u64, at| accept(seen.entry(id).or_default().value_mut(), at));
    verify(&subject, &workload, &semantics)
}

/// Checks a concurrent map that reads a clock of its own, once it has the entry.
pub fn with_its_own_clock() -> Result<Report, Box<Violation>> {
    const WINDOW: Duration = Duration::from_millis(50);
    let seen: DashMap<String, Instant> = DashMap::new();
    let subject = subject_fn(|id: String, _at| match seen.entry(id) {
        Entry::Vacant(entry) => {
            entry.insert(Instant::now());
            true
        }
        Entry::Occupied(mut entry) => {
            let (now, then) = (Instant::now(), *entry.get());
            let is_fresh = now >= then + WINDOW;
            entry.insert(if is_fresh { now } else { then });
            is_fresh
        }
    });
    let workload = Workload { operations: 100_000, ..Workload::of_own_clock(WINDOW) };
    verify(&subject, &workload, &Semantics::of_own_clock(WINDOW))
}

/// Checks a concurrent map that is looked into, and then written.
pub fn looked_into() -> Result<Report, Box<Violation>> {
    let (workload, semantics) = exact();
    let seen: DashMap<u64, Option<Timestamp>> = DashMap::new();
    let subject = subject_fn(|id: u64, at| {
        let mut then = match seen.entry(id) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(_) => None,
        };
        let is_fresh = accept(&mut then, at);
        std::thread::yield_now(); // another thread may come in between, which it may anyway
        seen.insert(id, then);
        is_fresh
    });
    verify(&subject, &workload, &semantics)
}

fn main() {
    println!("HashMap::entry behind a lock: {}\n", locked().expect("it looks and inserts at once"));
    println!("DashMap::entry: {}\n", sharded().expect("it looks and inserts at once"));
    println!("DashMap::entry and Instant: {}\n", with_its_own_clock().expect("it reads the clock under the lock"));
    println!("a look, then DashMap::insert: {}", looked_into().expect_err("two have looked before either wrote"));
}
