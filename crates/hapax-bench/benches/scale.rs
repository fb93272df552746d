//! Half a billion live ids: checks that they keep their speed, and that all ids are still known.
//!
//! `cargo bench -p hapax-bench --bench scale [-- IDS [GROWN_FROM]]`, or `scripts/scale`. For each
//! number of live ids (10 million; IDS, by default 500 million) it fills a window of that capacity.
//! For the last million of it, three times as many duplicates come in between; that part is what is
//! compared. Then it looks for a sample of 10 million of all ids. "memory" shows the machine's own
//! loss of speed: lines are fetched from a table of the same size and written to, and nothing else.
//! With GROWN_FROM the larger window starts with room for that many, and grows.

#[path = "scale/lines.rs"]
mod lines;

use hapax::seam::random::mix;
use hapax::{Dedup, Int, Stats};
use std::ops::Range;
use std::process::ExitCode;
use std::time::{Duration, Instant};

const SMALL: u64 = 10_000_000;
const SAMPLE: u64 = 10_000_000;

/// New ids among those that are compared.
const LAST: u64 = 1_000_000;

/// Ids that are checked with one call.
const BATCH: u64 = 1024;

const GIB: usize = 1 << 30;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let numbers: Option<Vec<u64>> = args.iter().map(|arg| arg.replace('_', "").parse().ok()).collect();
    let (ids, grown_from) = match numbers.as_deref() {
        Some([]) => (500_000_000, None),
        Some([ids]) => (*ids, None),
        Some([ids, from]) => (*ids, Some(*from)),
        _ => {
            eprintln!("scale [IDS [GROWN_FROM]]: numbers of ids");
            return ExitCode::from(2);
        }
    };
    println!(
        "{:>13} {:>10} {:>10} {:>10} {:>9} {:>8} {:>8} {:>7}  (millions a second)",
        "live", "filling", "steady", "memory", "evicted", "missed", "bytes/id", "tables"
    );
    let small = measure(SMALL, SMALL);
    let large = measure(ids, grown_from.unwrap_or(ids));
    let share = large.steady / small.steady;
    let of_memory = large.memory / small.memory;
    println!(
        "{ids} live ids at {:.0} % of the speed of {SMALL}; the memory at {:.0} %",
        share * 100.0,
        of_memory * 100.0
    );
    let holds = [&small, &large].iter().all(|measured| measured.missed <= measured.evicted);
    // The bar is half the speed, or half of the speed that the memory allows. For one window after
    // it has grown, a check looks at several tables.
    if holds && (grown_from.is_some() || share >= 0.5 * of_memory.min(1.0)) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

struct Measured {
    /// Ids a second.
    steady: f64,
    /// Lines a second that the machine fetches at best.
    memory: f64,
    evicted: u64,
    /// Ids of the sample that are not known.
    missed: u64,
}

/// Measures a window that one thread fills with ids.
fn measure(live: u64, capacity: u64) -> Measured {
    let builder = Dedup::builder().window(Duration::from_secs(24 * 3600)).capacity(capacity as usize);
    let dedup = builder.max_memory_bytes(16 * GIB).build().expect("there is memory");
    let mut verdicts = Vec::with_capacity(BATCH as usize);
    // Returns how many of these numbers' ids are fresh, and ids a second.
    let mut check = |numbers: Range<u64>, id: &dyn Fn(u64) -> u64| {
        let (began, count) = (Instant::now(), numbers.end - numbers.start);
        let mut fresh = 0;
        for start in numbers.clone().step_by(BATCH as usize) {
            let batch = start..numbers.end.min(start + BATCH);
            dedup.check_batch(batch.map(|number| Int::from(id(number))), &mut verdicts);
            fresh += verdicts.iter().filter(|verdict| verdict.is_fresh()).count() as u64;
        }
        (fresh, count as f64 / began.elapsed().as_secs_f64())
    };
    let first = live - LAST;
    let (fresh, filling) = check(0..first, &mix);
    assert_eq!(fresh, first, "all ids differ");
    let mixed = |number: u64| mix(if number.is_multiple_of(4) { first + number / 4 } else { mix(number) % first });
    let (fresh, steady) = check(0..4 * LAST, &mixed);
    let again = fresh.saturating_sub(LAST);
    let Stats { window, .. } = dedup.stats();
    let missed = (0..SAMPLE).filter(|&i| dedup.contains(Int::from(mix(mix(!i) % live))).is_none()).count() as u64;
    let bytes = hapax::seam::tables(&dedup).iter().map(|table| table.bytes).sum();
    drop(dedup);
    let memory = fetch(bytes);
    println!(
        "{live:13} {:10.1} {:10.1} {:10.1} {:9} {:8} {:8.2} {:7}",
        filling / 1e6,
        steady / 1e6,
        memory / 1e6,
        window.evicted_live,
        missed + again,
        window.bytes as f64 / live as f64,
        window.tables,
    );
    Measured { steady, memory, evicted: window.evicted_live, missed: missed + again }
}

/// Returns how many lines a second are fetched from a table of this many bytes.
fn fetch(bytes: usize) -> f64 {
    let table = lines::Table::new(bytes);
    let numbers: Vec<u64> = (0..4 * LAST).map(mix).collect();
    let began = Instant::now();
    lines::add_to_lines::<64>(table.lines(), &numbers);
    numbers.len() as f64 / began.elapsed().as_secs_f64()
}
