//! Rushes: new ids as fast as threads can bring them, into a window with little room.

use crate::long::long;
use crate::window::TableStats;
use crate::{Dedup, Int, ManualClock, WindowStats};
use std::cell::Cell;
use std::time::Duration;

thread_local! {
    /// The waits of this thread that have ended without what was waited for.
    pub(super) static IMPATIENT: Cell<u64> = const { Cell::new(0) };
}

/// Checks that nothing is lost. Where a caller has waited in vain, since the system ran something
/// else for ten milliseconds, one id in a thousand may be. (It was one in seventy when callers did
/// not help.)
fn assert_few(lost: u64, impatient: u64, ids: u64, what: &str) {
    println!("{what}: {lost} of {ids} lost, {impatient} waits in vain");
    assert!(lost == 0 || (impatient > 0 && lost <= ids / 1_000), "{what}: {lost} of {ids}, {impatient} waits in vain");
}

const WINDOW: Duration = Duration::from_secs(100);

/// Checks ids in batches. Returns how many are fresh.
fn fresh(dedup: &Dedup, ids: std::ops::Range<u64>) -> u64 {
    let mut verdicts = Vec::new();
    let batches = ids.clone().step_by(1_000).map(|from| from..ids.end.min(from + 1_000));
    batches
        .map(|batch| {
            dedup.check_batch(batch.map(Int::from), &mut verdicts);
            verdicts.iter().filter(|verdict| verdict.is_fresh()).count() as u64
        })
        .sum()
}

fn window(dedup: &Dedup) -> WindowStats {
    dedup.stats().window
}

fn bytes(tables: &[TableStats]) -> usize {
    tables.iter().map(|table| table.bytes).sum()
}

/// Checks new ids in a rush, as after a restart: as fast as threads can, from room for 1,000, with
/// the default options; all of them twice. Returns how many were lost early, and how many of the
/// second round were called fresh, together, and how many waits were in vain.
fn rush(threads: u64, ids: u64, in_batches: bool, refresh: bool) -> (u64, u64) {
    let builder = Dedup::builder().seed(7).window(Duration::from_secs(3_600)).capacity(1_000);
    let dedup = &builder.refresh_on_duplicate(refresh).build().unwrap();
    let round = |in_batches: bool| {
        let share = |thread: u64| thread * ids / threads..(thread + 1) * ids / threads;
        let one_by_one =
            |mine: std::ops::Range<u64>| mine.filter(|id| dedup.check(Int::from(*id)).is_fresh()).count() as u64;
        std::thread::scope(|scope| {
            let rush = |mine| {
                scope.spawn(move || {
                    let fresh = if in_batches { fresh(dedup, mine) } else { one_by_one(mine) };
                    (fresh, IMPATIENT.get())
                })
            };
            let threads: Vec<_> = (0..threads).map(|thread| rush(share(thread))).collect();
            let sum = |(fresh, impatient): (u64, u64), (more, others): (u64, u64)| (fresh + more, impatient + others);
            threads.into_iter().map(|thread| thread.join().unwrap()).fold((0, 0), sum)
        })
    };
    let (fresh, impatient) = round(in_batches);
    assert_eq!(fresh, ids, "of ids that never came before");
    let lost = window(dedup).evicted_live;
    let (fresh_again, impatient_again) = round(true);
    (lost + fresh_again, impatient + impatient_again)
}

#[test]
fn a_rush_from_a_small_window_loses_nothing() {
    for (threads, in_batches) in [(1, true), (1, false), (2, true), (2, false), (4, true), (4, false)] {
        let ids = long(60_000, 2_000_000);
        let (lost, impatient) = rush(threads, ids, in_batches, false);
        assert_few(lost, impatient, ids, &format!("{threads} threads, in batches: {in_batches}"));
    }
    let ids = long(60_000, 500_000);
    let (lost, impatient) = rush(2, ids, true, true);
    assert_few(lost, impatient, ids, "with refresh");
}

#[test]
fn a_rush_at_one_moment_from_a_small_window_to_many_times_as_many_loses_nothing() {
    let (clock, ids) = (ManualClock::new(), long(600_000, 3_000_000));
    clock.advance(Duration::from_secs(1_000));
    let builder = Dedup::builder().seed(7).window(WINDOW).capacity(1_000).max_memory_bytes(4096 << 20);
    let dedup = builder.clock(clock).build().unwrap();
    assert_eq!(fresh(&dedup, 0..ids), ids);
    let stats = window(&dedup);
    assert_eq!(stats.refused_tables, 0, "{stats:?}");
    assert!(bytes(&crate::seam::tables(&dedup)) as f64 / (ids as f64) < 80.0, "{stats:?}");
    let fresh_again = fresh(&dedup, 0..ids);
    assert_few(stats.evicted_live + fresh_again, IMPATIENT.get(), ids, "at one moment");
}
