//! Many threads on one engine. (Two cores hardly ever interleave two lines of code: the models are
//! the proof, and this checks that the whole engine holds together.)
//!
//! They share nothing but atomics and the memory that hapax manages itself. They are the system's
//! threads, without a test harness: so ThreadSanitizer, which knows these but not std's, can judge
//! them (`scripts/sanitizers`).

use hapax::seam::Digester;
use hapax::seam::HistoryTier;
use hapax::seam::Window;
use hapax::{Dedup, Int, ManualClock, Outcome, Timestamp, Unconfirmed};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

const THREADS: u64 = 8;

fn main() {
    let tests: [(&str, fn()); 5] = [
        ("one caller is told Fresh while a window grows", || one_is_told_fresh(false)),
        ("the same with a history", || one_is_told_fresh(true)),
        ("a window under pressure misses what it counts", a_window_under_pressure),
        ("what is forgotten is fresh", what_is_forgotten_is_fresh),
        ("a history misses nothing while generations turn", a_history_misses_nothing),
    ];
    for (name, test) in tests {
        test();
        println!("{name}: ok");
    }
}

/// Runs the same work on all threads, each of which gets its number.
#[cfg(unix)]
fn on_all_threads(work: impl Fn(u64) + Sync) {
    use std::ffi::c_void;
    use std::ptr::{null, null_mut};

    struct Job<'a> {
        work: &'a (dyn Fn(u64) + Sync),
        thread: u64,
    }
    extern "C" fn start(job: *mut c_void) -> *mut c_void {
        // SAFETY: it points to a job of the vector below, which outlives all threads, and whose
        // work is Sync.
        let job = unsafe { &*job.cast::<Job>() };
        (job.work)(job.thread);
        null_mut()
    }
    let jobs: Vec<_> = (0..THREADS).map(|thread| Job { work: &work, thread }).collect();
    let spawn = |job: &Job| {
        let mut thread = 0;
        // SAFETY: the attributes may be null; `start` keeps to its signature, and does not unwind
        // (a panic aborts there).
        let failed =
            unsafe { libc::pthread_create(&mut thread, null(), start, std::ptr::from_ref(job).cast_mut().cast()) };
        assert_eq!(failed, 0, "pthread_create");
        thread
    };
    for thread in jobs.iter().map(spawn).collect::<Vec<_>>() {
        // SAFETY: it was created above, and is joined once. Its result is null.
        assert_eq!(unsafe { libc::pthread_join(thread, null_mut()) }, 0, "pthread_join");
    }
}

#[cfg(not(unix))]
fn on_all_threads(work: impl Fn(u64) + Sync) {
    std::thread::scope(|scope| {
        let work = &work;
        (0..THREADS).for_each(|thread| _ = scope.spawn(move || work(thread)));
    });
}

/// Runs the same work on all threads, second by second: none begins a second before all have ended
/// the one before.
fn together(seconds: u64, work: impl Fn(u64, u64) + Sync) {
    let arrived = AtomicU64::new(0);
    on_all_threads(|thread| {
        for second in 0..seconds {
            arrived.fetch_add(1, Ordering::AcqRel);
            while arrived.load(Ordering::Acquire) < (second + 1) * THREADS {
                std::thread::yield_now();
            }
            work(thread, second);
        }
    });
}

fn one_is_told_fresh(with_history: bool) {
    const IDS: u64 = 50_000;
    let hour = Duration::from_secs(3600);
    let mut builder = Dedup::builder().window(hour).capacity(1).growth_thread(false).clock(ManualClock::new());
    if with_history {
        builder = builder.history(hapax::History {
            unconfirmed: Unconfirmed::Fresh,
            ..testkit::history(2 * hour, 1e-3, IDS as usize)
        });
    }
    let dedup = builder.build().unwrap();
    let fresh: Vec<AtomicU8> = (0..IDS).map(|_| AtomicU8::new(0)).collect();
    on_all_threads(|thread| {
        let mut verdicts = Vec::new();
        for start in (0..IDS).step_by(50) {
            let ids = start..start + 50;
            verdicts.clear();
            match thread % 3 {
                0 => verdicts.extend(ids.clone().map(|id| dedup.check(Int::from(id)))),
                1 => verdicts.extend(ids.clone().map(|id| dedup.check(dedup.prepare(Int::from(id))))),
                _ => dedup.check_batch(ids.clone().map(Int::from), &mut verdicts),
            }
            for (id, verdict) in ids.zip(&verdicts) {
                fresh[id as usize].fetch_add(u8::from(verdict.is_fresh()), Ordering::Relaxed);
            }
        }
    });
    let window = dedup.stats().window;
    assert!(window.tables > 1, "{window:?}");
    let twice: u64 = fresh.iter().map(|count| u64::from(count.load(Ordering::Relaxed)) - 1).sum();
    assert!(twice <= window.evicted_live && window.repaired_buckets == 0, "{twice} twice fresh, {window:?}");
}

fn a_window_under_pressure() {
    // The smallest table, which may not grow, time moving, and every id checked by two threads.
    let window = Window::with_max_memory_bytes(Duration::from_secs(100), 1, 64 << 10).unwrap();
    let digester = Digester::with_seed(3);
    let (per_second, seconds) = (200, 400);
    let fresh = AtomicU64::new(0);
    together(seconds, |thread, second| {
        for i in 0..per_second {
            let id = (second * per_second + i) * (THREADS / 2) + thread / 2;
            let outcome = window.check(digester.digest(id.to_le_bytes()), Timestamp::from_secs(second));
            fresh.fetch_add(u64::from(outcome == Outcome::Fresh), Ordering::Relaxed);
        }
    });
    let stats = window.stats(Timestamp::from_secs(seconds));
    let twice = fresh.into_inner() - per_second * seconds * THREADS / 2;
    assert!(stats.evicted_live > 0 && twice <= stats.evicted_live, "{twice} twice fresh, {stats:?}");
    assert_eq!(stats.repaired_buckets, 0);
}

fn what_is_forgotten_is_fresh() {
    const ROUNDS: u64 = 3_000;
    let hour = Duration::from_secs(3600);
    let dedup = Dedup::builder().window(hour).capacity(1).growth_thread(false).clock(ManualClock::new());
    let dedup = dedup.build().unwrap();
    on_all_threads(|thread| {
        for round in 0..ROUNDS {
            match thread {
                0 => {
                    let id = Int::from(round % 7);
                    assert!(dedup.check(id).is_fresh(), "round {round}: remembered after it was forgotten");
                    dedup.forget(id);
                    if round % 500 == 499 {
                        let _ = dedup.check(id);
                        dedup.clear();
                    }
                }
                // Traffic that keeps the buckets full and their entries moving.
                _ => (0..20).for_each(|id| _ = dedup.check(Int::from((thread << 32) + round * 20 + id))),
            }
        }
    });
    assert_eq!(dedup.stats().window.repaired_buckets, 0);
}

fn a_history_misses_nothing() {
    let history = HistoryTier::new(Duration::from_secs(10), 1e-2, 20_000).unwrap();
    let digester = Digester::with_seed(9);
    together(40, |thread, second| {
        let at = Timestamp::from_secs(second);
        let digest = |second: u64, i: u64| digester.digest(((second * THREADS + thread) * 200 + i).to_le_bytes());
        (0..200).for_each(|i| history.insert(digest(second, i), at));
        for age in 0..=second.min(10) {
            assert!((0..200).all(|i| history.contains(digest(second - age, i))), "{age} s old at {second} s");
        }
    });
}
