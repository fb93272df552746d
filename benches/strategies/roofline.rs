//! What no table can beat: fetch a random line of a table of the same size, and write to it.

use crate::case::{Case, Measurement};
use crate::drive::generate;
use crate::lines::{Table, add_to_lines};
use crate::stream::{Stream, WINDOW, WINDOW_TICKS};
use hapax::Dedup;
use std::sync::Barrier;
use std::time::Instant;

/// Its name in tables, with the number of lines that are fetched together.
pub const NAMES: [(&str, usize); 2] = [("roofline, 64 lines in flight", 64), ("roofline, 32 lines in flight", 32)];

/// Measures the roofline, if that is what the case is.
pub fn measure(case: &Case) -> Option<Measurement> {
    match NAMES.iter().find(|(name, _)| *name == case.strategy)?.1 {
        64 => Some(run::<64>(case)),
        _ => Some(run::<32>(case)),
    }
}

fn run<const IN_FLIGHT: usize>(case: &Case) -> Measurement {
    let setting = case.setting;
    let streams: Vec<Stream<Vec<u64>>> = generate(case, 3 * WINDOW_TICKS);
    // Exactly as large as our window. It is given back before the table is made.
    let window = Dedup::builder().window(WINDOW).capacity(setting.live).build().expect("there is memory for it");
    let bytes = window.stats().window.bytes;
    drop(window);
    let table = Table::new(bytes);
    let (lines, barrier) = (table.lines(), &Barrier::new(setting.threads));
    let legs: Vec<(Instant, Instant)> = std::thread::scope(|scope| {
        let run = |stream: &'_ Stream<Vec<u64>>| {
            let (warm_up, measured) = (stream.ticks(0..WINDOW_TICKS), stream.ticks(WINDOW_TICKS..3 * WINDOW_TICKS));
            add_to_lines::<IN_FLIGHT>(lines, &stream.ids[warm_up]);
            barrier.wait();
            let begun = Instant::now();
            add_to_lines::<IN_FLIGHT>(lines, &stream.ids[measured]);
            (begun, Instant::now())
        };
        let threads: Vec<_> = streams.iter().map(|stream| scope.spawn(move || run(stream))).collect();
        threads.into_iter().map(|thread| thread.join().expect("nothing panics")).collect()
    });
    let begun = legs.iter().map(|leg| leg.0).min().expect("there is a thread");
    let ended = legs.iter().map(|leg| leg.1).max().expect("there is a thread");
    let checks: usize = streams.iter().map(|stream| stream.ticks(WINDOW_TICKS..3 * WINDOW_TICKS).len()).sum();
    Measurement { nanos: (ended - begun).as_nanos() as u64, fresh: checks as u64, ..Measurement::default() }
}
