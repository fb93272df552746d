//! What no table can beat: fetch a random line of a table of the same size, and write to it.

use crate::case::{Case, Measurement};
use crate::drive::generate;
use crate::stream::{Stream, WINDOW, WINDOW_TICKS};
use hapax::Dedup;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
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

const LINE_BYTES: usize = 64;
const HUGE_PAGE: usize = 2 << 20;

#[repr(align(64))]
struct Line([AtomicU64; LINE_BYTES / 8]);

/// A table of lines on huge pages, where the system has them.
struct Table {
    map: memmap2::MmapMut,
    offset: usize,
    len: usize,
}

impl Table {
    fn new(bytes: usize) -> Self {
        let mut map = memmap2::MmapMut::map_anon(bytes + HUGE_PAGE).expect("there is memory");
        let offset = map.as_ptr().align_offset(HUGE_PAGE);
        #[cfg(target_os = "linux")]
        let _ = map.advise_range(memmap2::Advice::HugePage, offset, bytes);
        map[offset..offset + bytes].fill(0);
        Table { map, offset, len: bytes / LINE_BYTES }
    }

    fn lines(&self) -> &[Line] {
        let start = self.map[self.offset..].as_ptr().cast();
        // SAFETY: `len` lines lie within the map, from an aligned offset on; they are initialized, and as `map` is private and never used
        // otherwise, all that happens to them happens through atomics.
        unsafe { std::slice::from_raw_parts(start, self.len) }
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

#[inline(never)]
fn add_to_lines<const IN_FLIGHT: usize>(lines: &[Line], numbers: &[u64]) {
    for chunk in numbers.chunks(IN_FLIGHT) {
        let mut places = [0; IN_FLIGHT];
        for (place, &number) in places.iter_mut().zip(chunk) {
            *place = ((u128::from(number) * lines.len() as u128) >> 64) as usize;
            prefetch(&lines[*place]);
        }
        for (&place, &number) in places.iter().zip(chunk) {
            lines[place].0[number as usize % (LINE_BYTES / 8)].fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[inline(always)]
fn prefetch(line: &Line) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch reads nothing as far as the program can tell, and the address is that of a live reference.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_ET0>(std::ptr::from_ref(line).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}
