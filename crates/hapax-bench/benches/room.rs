//! Measures what more room in a window's table buys: bytes a live id against nanoseconds a check.
//!
//! `cargo bench -p hapax-bench --bench room [-- LIVE [ROUNDS]]`. Engines with as many live ids
//! (20,000, 100,000 and a million, unless it is said), in whose tables more and more of them would
//! fit, take turns one by one and in batches; a tenth of the ids are duplicates. Medians of the
//! rounds, least and most. All answers are checked.

use hapax::{Dedup, Int, ManualClock, Timestamp};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The capacity, for each live id. (With less than 1, tables are fuller than they are rated for.)
const ROOMS: [f64; 7] = [0.87, 1.0, 1.15, 1.3, 1.5, 2.0, 3.0];

const TURN: u64 = 300_000;
const BATCH: u64 = 1_000;
/// The number of ids of which one is a duplicate.
const DUPLICATE: u64 = 10;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let numbers: Option<Vec<u64>> = args.iter().map(|arg| arg.replace('_', "").parse().ok()).collect();
    match numbers.as_deref() {
        Some([]) => [20_000, 100_000, 1_000_000].into_iter().for_each(|live| measure(live, 9)),
        Some([live]) => measure(*live, 9),
        Some([live, rounds]) => measure(*live, *rounds),
        _ => {
            eprintln!("room [LIVE [ROUNDS]]: numbers");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn measure(live: u64, rounds: u64) {
    type Way = fn(&Dedup, &[Int<8>]) -> u64;
    let ways: [Way; 2] = [one_by_one, in_batches];
    let mut streams = ROOMS.map(|room| Stream::new(live, room));
    let mut times = vec![[Vec::new(), Vec::new()]; ROOMS.len()];
    for _ in 0..rounds {
        for (stream, times) in streams.iter_mut().zip(&mut times) {
            ways.iter().zip(times).for_each(|(way, times)| times.push(stream.turn(*way)));
        }
    }
    println!("{live} live ids, {rounds} rounds: nanoseconds an id");
    println!("  room  bytes/id   one by one             in batches             lost early");
    for ((room, stream), times) in ROOMS.iter().zip(&streams).zip(&mut times) {
        let [alone, batches] = times.each_mut().map(|times| {
            times.sort_by(f64::total_cmp);
            format!("{:6.1} ({:.1}-{:.1})", times[times.len() / 2], times[0], times[times.len() - 1])
        });
        let stats = stream.dedup.stats().window;
        let bytes = stats.bytes as f64 / live as f64;
        println!("{room:6.2} {bytes:9.1}   {alone:<22} {batches:<22} {:>6}", stats.evicted_live);
    }
}

/// Ids that come at a steady rate, a microsecond each.
struct Stream {
    dedup: Dedup,
    clock: ManualClock,
    window: u64,
    next: u64,
}

impl Stream {
    fn new(live: u64, room: f64) -> Self {
        let clock = ManualClock::new();
        let window = live / (DUPLICATE - 1) * DUPLICATE;
        let builder = Dedup::builder().window(Duration::from_micros(window)).capacity((live as f64 * room) as usize);
        let dedup = builder.clock(clock.clone()).build().expect("there is memory");
        let mut stream = Stream { dedup, clock, window, next: window.next_multiple_of(BATCH) };
        // A duplicate is of an id that was there.
        let mut verdicts = Vec::new();
        for start in (0..window).step_by(BATCH as usize) {
            stream.clock.set(Timestamp::from_micros(start));
            stream
                .dedup
                .check_batch((start..start + BATCH).filter(|n| n % DUPLICATE != 0).map(Int::from), &mut verdicts);
        }
        (0..2 * window / TURN + 1).for_each(|_| _ = stream.turn(in_batches));
        stream
    }

    /// Returns nanoseconds an id; `way` processes a batch, and returns how many of it were
    /// duplicates.
    fn turn(&mut self, way: fn(&Dedup, &[Int<8>]) -> u64) -> f64 {
        let mut passed = Duration::ZERO;
        let back = self.window / 20 / DUPLICATE * DUPLICATE + 1;
        for _ in 0..TURN / BATCH {
            self.clock.set(Timestamp::from_micros(self.next));
            let numbers = self.next..self.next + BATCH;
            let ids: Vec<Int<8>> =
                numbers.map(|n| if n % DUPLICATE == 0 { n - back } else { n }).map(Int::from).collect();
            self.next += BATCH;
            let began = Instant::now();
            let duplicates = way(&self.dedup, &ids);
            passed += began.elapsed();
            assert_eq!(duplicates, BATCH / DUPLICATE);
        }
        passed.as_nanos() as f64 / TURN as f64
    }
}

fn one_by_one(dedup: &Dedup, ids: &[Int<8>]) -> u64 {
    ids.iter().filter(|id| dedup.check(*id).is_duplicate()).count() as u64
}

fn in_batches(dedup: &Dedup, ids: &[Int<8>]) -> u64 {
    let mut verdicts = Vec::with_capacity(ids.len());
    dedup.check_batch(ids, &mut verdicts);
    verdicts.iter().filter(|verdict| verdict.is_duplicate()).count() as u64
}
