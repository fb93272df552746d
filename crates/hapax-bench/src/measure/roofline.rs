//! A bound that no table can beat: fetch a random line of a table of the same size, and write to
//! it.

use super::gauge::{cpu_time, nanos};
use super::phases::{Effort, Phases};
use super::workload::{Stream, WINDOW, WINDOW_TICKS, streams};
use super::{IdKind, Measurement, Setting, Shape, Sort, Workload};
use crate::strategy::Failure;
use hapax::Dedup;
use hapax::tier::{Line, Lines, prefetch};
use hapax_store::sync::Ordering;
use std::sync::Barrier;
use std::time::Instant;

/// The name of the roofline in tables.
pub const ROOFLINE: &str = "roofline";

const WORDS: usize = 8;

/// Measures the roofline of a setting, with 32 and with 64 lines in flight: the faster one counts.
/// Neither the ids nor the share of duplicates makes a difference to it.
pub(super) fn measure(setting: &Setting, seed: u64, effort: Effort) -> Result<Measurement, Failure> {
    let workload = Workload { shape: Shape::Uniform, ..Setting::default().workload };
    let setting = Setting { workload, ids: IdKind::U64, ..setting.clone() };
    let mut phases = Phases::of(&setting, Sort::Roofline, true, effort);
    (phases.warm_up.ticks_max, phases.measured.ticks_max) = (WINDOW_TICKS, 2 * WINDOW_TICKS);
    let streams: Vec<Stream<Vec<u64>>> = streams(&setting, seed, phases.ticks())?;
    // The table is exactly as large as our window, which is freed before the table is made.
    let window = Dedup::builder().window(WINDOW).capacity(setting.live).build()?;
    let bytes = window.stats().window.bytes;
    drop(window);
    let table = Lines::<Line>::new((bytes / size_of::<Line>()).max(1), "roofline")?;
    let both = [run::<64>(&table, &streams), run::<32>(&table, &streams)];
    Ok(both.into_iter().min_by_key(|seen| seen.nanos).unwrap_or_default())
}

fn run<const IN_FLIGHT: usize>(lines: &[Line], streams: &[Stream<Vec<u64>>]) -> Measurement {
    let barrier = &Barrier::new(streams.len());
    let cpu = cpu_time();
    let spans: Vec<(Instant, Instant)> = std::thread::scope(|scope| {
        let run = |stream: &'_ Stream<Vec<u64>>| {
            add_to_lines::<IN_FLIGHT>(lines, &stream.ids[stream.ticks(0..WINDOW_TICKS)]);
            barrier.wait();
            let begun = Instant::now();
            add_to_lines::<IN_FLIGHT>(lines, &stream.ids[stream.ticks(WINDOW_TICKS..3 * WINDOW_TICKS)]);
            (begun, Instant::now())
        };
        let threads: Vec<_> = streams.iter().map(|stream| scope.spawn(move || run(stream))).collect();
        threads.into_iter().map(|thread| thread.join().expect("it adds numbers")).collect()
    });
    let (begun, ended) = (spans.iter().map(|span| span.0).min(), spans.iter().map(|span| span.1).max());
    let checks: usize = streams.iter().map(|stream| stream.ticks(WINDOW_TICKS..3 * WINDOW_TICKS).len()).sum();
    Measurement {
        checks: checks as u64,
        nanos: ended.zip(begun).map_or(0, |(ended, begun)| nanos(ended - begun)),
        // That of the warm-up is a third of it.
        cpu_nanos: nanos((cpu_time() - cpu) * 2 / 3),
        ..Measurement::default()
    }
}

/// Fetches a line for each number, `IN_FLIGHT` of them together, and writes to it.
#[inline(never)]
fn add_to_lines<const IN_FLIGHT: usize>(lines: &[Line], numbers: &[u64]) {
    for chunk in numbers.chunks(IN_FLIGHT) {
        let mut places = [0; IN_FLIGHT];
        for (place, &number) in places.iter_mut().zip(chunk) {
            *place = ((u128::from(number) * lines.len() as u128) >> 64) as usize;
            prefetch(&lines[*place]);
        }
        for (&place, &number) in places.iter().zip(chunk) {
            lines[place].0[number as usize % WORDS].fetch_add(1, Ordering::Relaxed);
        }
    }
}
