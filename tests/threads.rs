//! Many threads, one engine. (Two cores hardly ever interleave two lines of code: the models are the proof, this is the check that
//! the whole engine holds together.)

use hapax::{Dedup, Int, Outcome, Timestamp, Unconfirmed, Window};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

const THREADS: u64 = 8;

/// Runs the same work on all threads, second by second: nobody begins a second before all have ended the one before.
fn together(seconds: u64, work: impl Fn(u64, u64) + Sync) {
    let barrier = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (work, barrier) = (&work, &barrier);
            scope.spawn(move || {
                for second in 0..seconds {
                    barrier.wait();
                    work(thread, second);
                }
            });
        }
    });
}

#[test]
fn of_all_threads_that_check_an_id_exactly_one_finds_it_fresh() {
    const IDS: u64 = 50_000;
    let hour = Duration::from_secs(3600);
    for with_history in [false, true] {
        let mut builder = Dedup::builder().window(hour).capacity(IDS as usize * 2);
        if with_history {
            builder = builder.history(2 * hour, 1e-3, IDS as usize).unconfirmed(Unconfirmed::Fresh);
        }
        let dedup = builder.build().unwrap();
        let fresh: Vec<AtomicU8> = (0..IDS).map(|_| AtomicU8::new(0)).collect();
        together(1, |thread, _| {
            let mut verdicts = Vec::new();
            for start in (0..IDS).step_by(50) {
                let ids = start..start + 50;
                // Some one by one, some prepared, some in batches.
                verdicts.clear();
                match thread % 3 {
                    0 => verdicts.extend(ids.clone().map(|id| dedup.check(Int::from(id)))),
                    1 => verdicts.extend(ids.clone().map(|id| dedup.check_prepared(dedup.prepare(Int::from(id))))),
                    _ => dedup.check_batch(ids.clone().map(Int::from), &mut verdicts),
                }
                for (id, verdict) in ids.zip(&verdicts) {
                    fresh[id as usize].fetch_add(u8::from(verdict.is_fresh()), Ordering::Relaxed);
                }
            }
        });
        let stats = dedup.stats();
        assert_eq!((stats.fresh, stats.checks()), (IDS, IDS * THREADS));
        assert_eq!((stats.window.live, stats.window.evicted_live), (IDS, 0));
        assert!(fresh.iter().all(|count| count.load(Ordering::Relaxed) == 1));
    }
}

#[test]
fn a_window_under_pressure_misses_only_what_it_counts() {
    // The smallest table, which may not grow, twice as many ids as it can hold, time moving, and every id checked by two threads.
    let window = Window::with_max_memory_bytes(Duration::from_secs(100), 1, 64 << 10).unwrap();
    let (per_second, seconds) = (160, 400);
    let digester = hapax::Digester::with_seed(3);
    let fresh = AtomicU64::new(0);
    together(seconds, |thread, second| {
        for i in 0..per_second {
            // Two threads have the same ids.
            let id = (second * per_second + i) * (THREADS / 2) + thread / 2;
            let outcome = window.check(digester.digest(id.to_le_bytes()), Timestamp::from_secs(second));
            fresh.fetch_add(u64::from(outcome == Outcome::Fresh), Ordering::Relaxed);
        }
    });
    let distinct = per_second * seconds * THREADS / 2;
    let stats = window.stats(Timestamp::from_secs(seconds));
    let twice = fresh.load(Ordering::Relaxed) - distinct;
    assert!(stats.evicted_live > 0 && twice <= stats.evicted_live, "{twice} twice fresh, {stats:?}");
    assert_eq!(stats.repaired_lines, 0);
}

#[test]
fn forgetting_and_clearing_beside_checks_is_seen_by_the_next_check() {
    let dedup = Dedup::builder().window(Duration::from_secs(3600)).capacity(1_000).build().unwrap();
    let stop = AtomicBool::new(false);
    let (dedup, stop) = (&dedup, &stop);
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            // Traffic that keeps the lines full and their entries moving.
            scope.spawn(move || {
                for id in (0..).take_while(|_| !stop.load(Ordering::Relaxed)) {
                    dedup.check(Int::from(1_000_000 * (thread + 1) + id));
                }
            });
        }
        for round in 0..20_000_u64 {
            let id = Int::from(round % 7);
            if dedup.check(id).is_duplicate() {
                // Only this thread checks it, and it was forgotten last.
                panic!("round {round}: remembered after it was forgotten");
            }
            dedup.forget(id);
            if round % 2_000 == 0 {
                dedup.check(id);
                dedup.clear();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(dedup.stats().window.repaired_lines, 0);
}

#[test]
fn the_history_misses_nothing_while_others_insert_and_generations_turn() {
    let history = hapax::History::new(Duration::from_secs(10), 1e-2, 20_000).unwrap();
    let digester = hapax::Digester::with_seed(9);
    together(100, |thread, second| {
        let at = Timestamp::from_secs(second);
        let digest = |second: u64, i: u64| digester.digest(((second * THREADS + thread) * 200 + i).to_le_bytes());
        (0..200).for_each(|i| history.insert(digest(second, i), at));
        for age in 0..=second.min(10) {
            assert!((0..200).all(|i| history.contains(digest(second - age, i))), "{age} s old at {second} s");
        }
    });
}
