//! Windows that grow and shrink, on a manual clock; without a thread, so that every run is the
//! same.

use hapax::seam::{TableStats, tables};
use hapax::{Dedup, Int, ManualClock, Verdict, WindowStats};
use std::time::Duration;
use testkit::long;

const WINDOW: Duration = Duration::from_secs(100);
const MIB: usize = 1 << 20;
/// Many more ids than there is room for to begin with, and less than what they take.
const PEAK: u64 = 500_000;
const PEAK_BYTES: usize = 9 * MIB;

/// Builds an engine with room for 10,000 ids (184 kB) to begin with, and its clock.
fn engine(max_memory_bytes: usize) -> (Dedup, ManualClock) {
    let clock = clock_at_1000();
    let builder = Dedup::builder().seed(7).window(WINDOW).capacity(10_000).max_memory_bytes(max_memory_bytes);
    let dedup = builder.growth_thread(false).clock(clock.clone()).seed(7).build().unwrap();
    (dedup, clock)
}

fn clock_at_1000() -> ManualClock {
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(1_000));
    clock
}

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

#[test]
fn it_grows_with_what_comes_and_forgets_nothing() {
    let ((dedup, _), ids) = (engine(1024 * MIB), long(200_000, 3_000_000));
    assert_eq!(fresh(&dedup, 0..ids), ids);
    let stats = window(&dedup);
    assert!((3..=8).contains(&stats.tables), "{stats:?}");
    let tables = tables(&dedup);
    assert!(tables.windows(2).all(|pair| pair[0].capacity > pair[1].capacity), "{tables:?}");
    assert!(tables[0].closed.is_none() && tables[1..].iter().all(|table| table.closed.is_some()));
    assert_eq!((stats.evicted_live, stats.effective_window), (0, WINDOW));
    // Ids whose table was not the newest any more when they were inserted are in two.
    assert!((ids..=ids + 64 * stats.tables as u64).contains(&stats.live), "{stats:?}");
    assert!((bytes(&tables)..bytes(&tables) + 10_000).contains(&stats.bytes), "{stats:?}");
    // Each way to ask finds ids of every table.
    assert_eq!(fresh(&dedup, 0..ids), 0);
    for id in (0..ids).step_by(1_009).map(Int::from) {
        assert!(dedup.contains(id).is_some());
        assert!(dedup.check(id).is_duplicate());
        dedup.forget(id);
        assert!(dedup.contains(id).is_none());
        assert!(dedup.check(dedup.prepare(id)).is_fresh());
        assert!(dedup.check(id).is_duplicate());
    }
}

#[test]
fn each_id_is_remembered_for_its_own_window_while_tables_come_and_go() {
    let (dedup, clock) = engine(1024 * MIB);
    // In each second as many as in the ones before together, up to a peak, and then down again.
    let a_second = |second: u64| long(10, 500) << second.min(30 - second.min(30)).min(10);
    let ids = |second: u64| second << 32..(second << 32) + a_second(second);
    for second in 0..300_u64 {
        assert_eq!(fresh(&dedup, ids(second)), a_second(second), "second {second}");
        // Those that are just within the window, and those that have just left it.
        for known in [second, second.saturating_sub(60), second.saturating_sub(99)] {
            assert_eq!(fresh(&dedup, ids(known)), 0, "ids of second {known} in second {second}");
        }
        if let Some(gone) = second.checked_sub(102) {
            assert!(dedup.contains(Int::from(ids(gone).start)).is_none());
        }
        clock.advance(Duration::from_secs(1));
    }
    let stats = window(&dedup);
    assert_eq!((stats.evicted_live, stats.effective_window), (0, WINDOW));
}

#[test]
fn after_a_peak_memory_goes_back_within_two_windows_on_a_trickle() {
    let (dedup, clock) = engine(1024 * MIB);
    let at_rest = dedup.stats().bytes;
    for round in 0..long(2, 5_u64) {
        let peak = round * 10_000_000;
        fresh(&dedup, peak..peak + PEAK);
        assert!(dedup.stats().bytes > PEAK_BYTES);
        let at_peak = resident_bytes();
        // An id every five seconds.
        for second in (0..190).step_by(5) {
            clock.advance(Duration::from_secs(5));
            let _ = dedup.check(Int::from(peak + 9_000_000 + second));
        }
        let stats = dedup.stats();
        assert_eq!(stats.bytes, at_rest, "round {round}: {stats:?}");
        assert_eq!((stats.window.tables, stats.window.evicted_live), (1, 0));
        if let (Some(at_peak), Some(now)) = (at_peak, resident_bytes()) {
            assert!(now + PEAK_BYTES / 6 * 5 < at_peak, "round {round}: {at_peak} bytes at the peak, {now} now");
        }
    }
}

#[test]
fn after_a_peak_without_any_traffic_stats_give_memory_back() {
    let (dedup, clock) = engine(1024 * MIB);
    let at_rest = dedup.stats().bytes;
    fresh(&dedup, 0..PEAK);
    let at_peak = dedup.stats();
    assert!(at_peak.bytes > PEAK_BYTES && at_peak.window.live >= PEAK, "{at_peak:?}");
    // No more ids come. There are only calls as for metrics, a few times a window.
    for _ in 0..9 {
        clock.advance(WINDOW / 4);
        dedup.stats();
    }
    let stats = dedup.stats();
    assert_eq!((stats.window.live, stats.window.evicted_live, stats.bytes), (0, 0, at_rest), "{stats:?}");
    // Without such calls for long, one call frees the old tables, and another one, when a window
    // has passed, the last one.
    fresh(&dedup, 0..PEAK / 4);
    assert!(dedup.stats().window.tables > 2);
    clock.advance(5 * WINDOW);
    assert_eq!(dedup.stats().window.live, 0);
    assert!(dedup.stats().window.tables <= 2);
    clock.advance(WINDOW + WINDOW / 10);
    dedup.stats();
    assert_eq!(dedup.stats().bytes, at_rest);
}

#[test]
fn stats_do_not_move_the_time_of_events() {
    let (dedup, clock) = engine(1024 * MIB);
    let at = |seconds| hapax::Timestamp::from_secs(seconds);
    clock.advance(100 * WINDOW);
    dedup.stats(); // before the first event
    assert!(dedup.check_at("a", at(5_000)).is_fresh());
    clock.advance(100 * WINDOW);
    assert_eq!(dedup.stats().window.live, 1);
    assert!(dedup.check_at("a", at(5_050)).is_duplicate());
    assert!(dedup.check_at("b", at(5_050)).is_fresh() && dedup.check_at("b", at(5_149)).is_duplicate());
}

/// Returns the resident memory of this process, where the system tells. (Other tests run at the
/// same time, so the margins are wide, and the figures only count in a process of its own.)
fn resident_bytes() -> Option<usize> {
    let alone = std::env::var_os("NEXTEST").is_some();
    let statm = std::fs::read_to_string("/proc/self/statm").ok().filter(|_| alone)?;
    statm.split(' ').nth(1)?.parse::<usize>().ok().map(|pages| pages * 4096)
}

#[test]
fn a_steady_rate_within_the_capacity_changes_nothing() {
    for (in_thread, share) in [(false, 70), (true, 100)] {
        let clock = clock_at_1000();
        let builder = Dedup::builder().seed(7).window(WINDOW).capacity(100_000).growth_thread(in_thread);
        let dedup = builder.clock(clock.clone()).seed(3).build().unwrap();
        let seconds = long(300, 1_000_u64);
        for second in 0..seconds {
            assert_eq!(fresh(&dedup, second << 32..(second << 32) + 10 * share), 10 * share);
            clock.advance(Duration::from_secs(1));
        }
        let stats = window(&dedup);
        assert_eq!(
            (stats.tables, tables(&dedup)[0].age),
            (1, Duration::from_secs(1_000 + seconds)),
            "{in_thread}: {stats:?}"
        );
    }
}

#[test]
fn a_fifth_more_than_the_capacity_fits_into_its_table() {
    let large = long(200_000, 1_000_000);
    for (capacity, steps) in [(100_000, 1), (100_000, 200), (large, 1), (large, 150)] {
        let clock = clock_at_1000();
        let dedup = Dedup::builder().seed(7).window(WINDOW).capacity(capacity).clock(clock.clone()).build().unwrap();
        let live = capacity as u64 * 122 / 100;
        // All at once; or at a steady rate for longer than a window.
        let each = if steps == 1 { live } else { live / 100 };
        for step in 0..steps {
            fresh(&dedup, step << 32..(step << 32) + each);
            clock.advance(if steps == 1 { Duration::ZERO } else { WINDOW / 100 });
        }
        let stats = window(&dedup);
        let bytes_an_id = stats.bytes as f64 / live as f64;
        assert!(stats.tables == 1 && bytes_an_id < 18.4, "{steps} steps: {bytes_an_id} bytes, {stats:?}");
        assert!(stats.live + stats.evicted_live >= live - each && stats.evicted_live < 30, "{stats:?}");
    }
}

#[test]
fn a_rush_of_a_fifth_too_many_makes_no_table_ready_whatever_the_ids_are() {
    for seed in 0..long(4, 30) {
        let builder = Dedup::builder().seed(seed).window(WINDOW).capacity(100_000);
        let dedup = builder.clock(clock_at_1000()).build().unwrap();
        fresh(&dedup, 0..123_000);
        let bytes = window(&dedup).bytes;
        assert!(bytes < 2_200_000, "seed {seed}: {bytes} bytes");
    }
}

#[test]
fn at_the_budget_the_oldest_go_first_and_it_says_how_long_ids_are_remembered() {
    let (dedup, clock) = engine(long(1, 4) * MIB);
    // A window would bring four times as many as the last table is rated for, and more than it has
    // slots.
    let (seconds, each) = (long(300, 1_000_u64), long(1_250, 5_000));
    for second in 0..seconds {
        fresh(&dedup, second << 32..(second << 32) + each);
        clock.advance(Duration::from_secs(1));
        assert!(dedup.stats().bytes <= long(1, 4) * MIB + 40_000);
    }
    let stats = window(&dedup);
    assert!(stats.evicted_live > 200 * each, "{stats:?}");
    assert!((Duration::from_secs(4)..Duration::from_secs(60)).contains(&stats.effective_window), "{stats:?}");
    // The ids of the last seconds are all there; those of long ago are not.
    let known = |ago: u64| {
        let second = seconds - 1 - ago;
        (0..each).filter(|i| dedup.contains(Int::from((second << 32) + i)).is_some()).count()
    };
    let all_of = stats.effective_window.as_secs();
    assert!((0..all_of.saturating_sub(1)).all(|ago| known(ago) == each as usize), "{stats:?}");
    assert!(known(90) < each as usize / 2);
}

#[test]
fn when_a_peak_comes_again_the_oldest_table_makes_room() {
    let (dedup, clock) = engine(4 * MIB);
    fresh(&dedup, 0..150_000);
    // This is more than a window of little traffic: a small table is started as soon as there is
    // room for it, and the large one is still looked at.
    for i in 0..25 {
        clock.advance(Duration::from_secs(5));
        fresh(&dedup, 1_000_000 + i..1_000_001 + i);
    }
    let before = window(&dedup);
    assert_eq!((before.tables, before.evicted_live), (2, 0), "{before:?}");
    assert!(tables(&dedup)[1].capacity > 100_000);
    assert_eq!(fresh(&dedup, 2_000_000..2_150_000), 150_000);
    assert_eq!(fresh(&dedup, 2_000_000..2_150_000), 0);
    let after = window(&dedup);
    assert!(after.bytes <= 4 * MIB + 10_000, "{after:?}");
    // The large table has gone, and with it the ids of the little traffic that it had.
    assert!((1..=20).contains(&after.evicted_live) && after.effective_window < WINDOW, "{after:?}");
    let knows = |id: u64| dedup.contains(Int::from(id)).is_some();
    assert!(!knows(1_000_010) && knows(1_000_024));
}

#[test]
fn with_refresh_an_id_seen_in_an_older_table_is_remembered_from_then_on() {
    let clock = clock_at_1000();
    let builder =
        Dedup::builder().seed(7).window(WINDOW).capacity(10_000).growth_thread(false).refresh_on_duplicate(true);
    let dedup = builder.clock(clock.clone()).build().unwrap();
    let kept = 0..1_000;
    assert_eq!(fresh(&dedup, kept.clone()), 1_000);
    for second in 0..long(300, 500_u64) {
        clock.advance(Duration::from_secs(1));
        fresh(&dedup, (second + 1) << 32..((second + 1) << 32) + 2_000);
        if second % 60 == 0 {
            assert_eq!(fresh(&dedup, kept.clone()), 0, "second {second}");
        }
    }
    assert!(window(&dedup).tables == 1 && tables(&dedup)[0].capacity > 200_000);
    let alone: Vec<Verdict> = kept.map(|id| dedup.check(Int::from(id))).collect();
    assert!(alone.iter().all(|verdict| verdict.is_duplicate()));
    clock.advance(Duration::from_secs(102));
    assert_eq!(fresh(&dedup, 0..1_000), 1_000);
}

#[test]
fn a_thread_does_the_same_in_the_background() {
    let clock = clock_at_1000();
    let dedup = Dedup::builder().seed(7).window(WINDOW).capacity(10_000).clock(clock.clone()).build().unwrap();
    let mut next = 0;
    // This may take any time: a thread is started when growth is due, and ends when it is done.
    while tables(&dedup)[0].capacity < long(100_000, 1_000_000) {
        assert_eq!(fresh(&dedup, next..next + 1_000), 1_000);
        assert!(next < 1 << 32, "it never grows");
        next += 1_000;
    }
    let evicted = window(&dedup).evicted_live;
    let again = fresh(&dedup, 0..next);
    assert!(again <= evicted + window(&dedup).evicted_live, "{again} of {next} were forgotten, {evicted} counted");
    let at_peak = dedup.stats().bytes;
    for trickle in 0.. {
        clock.advance(Duration::from_secs(5));
        let _ = dedup.check(Int::from((1_u64 << 40) + trickle));
        if window(&dedup).tables == 1 && dedup.stats().bytes < at_peak / 10 {
            break;
        }
        assert!(trickle < 1 << 24, "memory never goes back");
        std::thread::yield_now();
    }
}

#[test]
fn the_limit_must_have_room_for_the_capacity() {
    let error = Dedup::builder().capacity(1_000_000).max_memory_bytes(MIB).build().unwrap_err();
    let expected = "option `max_memory_bytes`: got 1048576, expected at least the 21164032 bytes that the capacity of 1000000 takes";
    assert_eq!(error.to_string(), expected);
    // More than the default limit is possible, and then there is no growth.
    assert!(Dedup::builder().capacity(1_000).max_memory_bytes(64 << 10).build().is_ok());
}
