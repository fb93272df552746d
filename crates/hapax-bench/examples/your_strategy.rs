//! A strategy of your own, measured next to ours:
//! `cargo run --release -p hapax-bench --example your_strategy`.
//!
//! This one remembers the last N ids in a ring: simple, and wrong if ids come faster than it was
//! built for, which the answers show.

use hapax::Timestamp;
use hapax_bench::measure::{Effort, Setting, Sort, measure_with_others};
use hapax_bench::strategy::{Failure, Plan, Strategy};
use std::collections::{HashSet, VecDeque};
use std::sync::Mutex;

struct LastIds {
    ids_max: usize,
    seen: Mutex<(HashSet<u64>, VecDeque<u64>)>,
}

impl Strategy<u64> for LastIds {
    const NAME: &'static str = "the last ids";
    const SORT: Sort = Sort::Window;

    fn new(plan: &Plan) -> Result<Self, Failure> {
        Ok(LastIds { ids_max: plan.live, seen: Mutex::default() })
    }

    fn check(&self, id: &u64, _now: Timestamp) -> bool {
        let (known, order) = &mut *self.seen.lock().expect("no thread panics here");
        if !known.insert(*id) {
            return false;
        }
        order.push_back(*id);
        if order.len() > self.ids_max {
            order.pop_front().map(|oldest| known.remove(&oldest));
        }
        true
    }
}

fn main() -> Result<(), Failure> {
    let setting = Setting { threads: 2, ..Setting::default() };
    let report =
        measure_with_others::<Vec<u64>, LastIds>(&setting, &["hapax window", "DashMap"], 3, 17, Effort::Quick)?;
    for row in &report.rows {
        for run in &row.runs {
            let nanos = run.nanos as f64 / run.checks as f64;
            let bytes = run.bytes as f64 / run.held as f64;
            let missed = run.answers.missed;
            println!(
                "{:<16}{nanos:>8.1} ns an id {bytes:>6.1} bytes an id {missed:>4} duplicates missed",
                row.strategy
            );
        }
        row.broken_promises().iter().for_each(|broken| println!("more wrong answers than promised: {broken}"));
    }
    Ok(())
}
