//! Measures the cost of growing for a caller: the time of every single check while the number of
//! live ids goes from zero to 50 million.
//!
//! `cargo bench -p hapax-bench --bench growth [-- IDS]`. Each row is a process of its own. The
//! first two check nothing: they show the machine, without and with another busy thread, like one
//! that prepares memory. "hapax, CPU" is by the thread's own clock, which stands still while the
//! machine does something else.

use hapax::seam::random::mix;
use hapax::{Dedup, Int};
use hdrhistogram::Histogram;
use std::hint::black_box;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The capacity with which all begin.
const CAPACITY: usize = 65_536;

/// The first argument of a process that measures one of the rows.
const CHILD: &str = "--measure";

const ROWS: [&str; 6] = ["nothing", "two busy", "hapax", "hapax, CPU", "DashMap", "papaya"];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let parse = |ids: &str| ids.replace('_', "").parse::<u64>();
    match words[..] {
        [CHILD, row, ids] => parse(ids).map_or(ExitCode::from(2), |ids| measure(row, ids)),
        [] => compare("50000000"),
        [ids] if parse(ids).is_ok() => compare(ids),
        _ => {
            eprintln!("the only argument is a number of ids");
            ExitCode::from(2)
        }
    }
}

fn compare(ids: &str) -> ExitCode {
    println!("{ids} ids, from room for {CAPACITY}, one thread, one check in ten of a duplicate; microseconds a check");
    println!(
        "{:10} {:>7} {:>7} {:>7} {:>8} {:>8} {:>9} {:>9} {:>6}  wrong",
        "", "mean", "p50", "p99", "p99.9", "p99.99", "p99.999", "max", "> 1 ms"
    );
    let program = std::env::current_exe().expect("this program has a path");
    for row in ROWS {
        // So that maps are on huge pages, as our tables are, glibc's malloc has to ask for them.
        let mut child = Command::new(&program);
        match child.args([CHILD, row, ids]).env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1").status() {
            Ok(status) if status.success() => (),
            failed => {
                eprintln!("{row}: {failed:?}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// Measures a row and prints it. Wrong answers fail it.
fn measure(row: &str, ids: u64) -> ExitCode {
    let measured = match row {
        // It takes as long as the others.
        "nothing" => Measured::of(20 * ids, Instant::now, |_| None),
        "two busy" => {
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
                let measured = Measured::of(20 * ids, Instant::now, |_| None);
                stop.store(true, Ordering::Relaxed);
                measured
            })
        }
        "hapax" => measure_hapax(ids, Instant::now),
        "hapax, CPU" => measure_hapax(ids, ThreadTime::now),
        "DashMap" => {
            let map = dashmap::DashMap::with_capacity_and_hasher(CAPACITY, foldhash::fast::RandomState::default());
            Measured::of(ids, Instant::now, |id| Some(map.insert(id, 0_u32).is_none()))
        }
        // It grows by itself: it moves its entries a few at a time.
        "papaya" => {
            let map = papaya::HashMap::with_capacity_and_hasher(CAPACITY, foldhash::fast::RandomState::default());
            Measured::of(ids, Instant::now, |id| Some(map.pin().insert(id, 0_u32).is_none()))
        }
        _ => return ExitCode::from(2),
    };
    measured.print(row);
    if measured.wrong == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn measure_hapax<T: Moment>(ids: u64, now: impl Fn() -> T) -> Measured {
    let day = Duration::from_secs(24 * 3600);
    let dedup = Dedup::builder().window(day).capacity(CAPACITY).build().expect("it is small");
    let measured = Measured::of(ids, now, |id| Some(dedup.check(Int::from(id)).is_fresh()));
    let window = dedup.stats().window;
    eprintln!("hapax: {} tables, {} ids lost", window.tables.len(), window.evicted_live);
    Measured { wrong: measured.wrong.saturating_sub(window.evicted_live), ..measured }
}

/// A clock that is read between two checks.
trait Moment: Copy {
    fn since(self, earlier: Self) -> Duration;
}

impl Moment for Instant {
    fn since(self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }
}

/// The time for which this thread has been running.
#[derive(Clone, Copy)]
struct ThreadTime(Duration);

impl ThreadTime {
    fn now() -> Self {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: it writes a timespec to where this points, which is one.
        let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        assert_eq!(failed, 0, "the clock of a thread");
        ThreadTime(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    }
}

impl Moment for ThreadTime {
    fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

struct Measured {
    nanos: Histogram<u64>,
    slow: u64,
    wrong: u64,
}

impl Measured {
    /// Runs the stream; `check` returns whether an id is fresh.
    fn of<T: Moment>(ids: u64, now: impl Fn() -> T, check: impl Fn(u64) -> Option<bool>) -> Self {
        let mut nanos = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("these are bounds");
        let (mut fresh, mut wrong, mut slow, mut checks) = (0, 0, 0, 0_u64);
        let mut last = now();
        while fresh < ids {
            let is_new = fresh == 0 || checks % 10 != 9;
            // One in ten is an id from any time before.
            let id = mix(if is_new { fresh } else { mix(checks) % fresh });
            let answer = check(black_box(id));
            wrong += u64::from(answer.is_some_and(|answer| answer != is_new));
            fresh += u64::from(is_new);
            checks += 1;
            // Nothing between two checks goes unmeasured.
            let this = now();
            let took = this.since(last);
            nanos.saturating_record(took.as_nanos() as u64);
            if took > Duration::from_millis(1) {
                slow += 1;
                // The place is printed, in case the machine is not the cause.
                if slow <= 20 {
                    eprintln!("{:8.1} ms at {fresh} ids", took.as_secs_f64() * 1e3);
                }
            }
            last = this;
        }
        Measured { nanos, slow, wrong }
    }

    fn print(&self, row: &str) {
        let micros = |nanos: u64| nanos as f64 / 1e3;
        let at = |quantile: f64| micros(self.nanos.value_at_quantile(quantile));
        println!(
            "{row:10} {:7.3} {:7.3} {:7.3} {:8.3} {:8.2} {:9.2} {:9.1} {:6}  {}",
            self.nanos.mean() / 1e3,
            at(0.5),
            at(0.99),
            at(0.999),
            at(0.9999),
            at(0.99999),
            micros(self.nanos.max()),
            self.slow,
            self.wrong
        );
    }
}
