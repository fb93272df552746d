//! Tests of engines on a simulated disk: what outlives them, in virtual time, without a thread.

use super::faults::directory;
use crate::clock::{Clocks, Machine, TimeBase};
use crate::history::history;
use crate::journal::files::simulated::{Call, Fault, Simulated, below};
use crate::journal::{JournalOptions, Surroundings, SyncMode};
use crate::{Builder, Clock, Dedup, JournalError, ManualClock, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// Returns a builder of an engine whose journal is on this disk.
pub(crate) fn builder(disk: &Simulated, clock: &ManualClock, options: JournalOptions) -> Builder {
    let of_machine = clock.clone();
    let clocks = move || Clocks { engine: of_machine.now(), wall_nanos: of_machine.now().as_nanos(), boot_nanos: 1 };
    let machine = Machine { clocks: Arc::new(clocks), boot: 1 };
    let surroundings = Surroundings { disk: Arc::new(disk.of_this_boot()), machine, is_inline: true, clock: None };
    let builder = Dedup::builder().capacity(1_000).growth_thread(false).clock(clock.clone());
    builder.journal(directory(), options).surroundings(surroundings)
}

pub(crate) fn clock() -> ManualClock {
    let clock = ManualClock::new();
    clock.set(Timestamp::from_secs(1_000_000));
    clock
}

#[test]
fn without_a_thread_who_flushes_writes() {
    let (disk, clock) = (Simulated::new(), clock());
    let open = || builder(&disk, &clock, JournalOptions::new()).build().unwrap();
    let dedup = open();
    let _ = dedup.check("a");
    let durable = |dedup: &Dedup| dedup.journal().unwrap().durable().unwrap();
    assert_eq!(durable(&dedup), 0, "nobody has written it");
    dedup.engine.journal.as_ref().unwrap().step();
    assert_eq!(durable(&dedup), 1);
    let _ = dedup.check("b");
    dedup.journal().unwrap().flush().unwrap();
    let _ = dedup.check("c");
    disk.crash(0);
    drop(dedup); // too late
    let dedup = open();
    assert!(dedup.check("a").is_duplicate() && dedup.check("b").is_duplicate() && dedup.check("c").is_fresh());
}

#[test]
fn ids_of_many_blocks_are_replayed_together_and_in_order() {
    let (disk, clock) = (Simulated::new(), clock());
    let open = || builder(&disk, &clock, JournalOptions::new()).window(Duration::from_secs(100)).build().unwrap();
    let dedup = open();
    // A block each, at the same time.
    for n in 0..3_000_u16 {
        assert!(dedup.check(n.to_le_bytes()).is_fresh());
        if n % 10 == 0 {
            dedup.forget((n / 2).to_le_bytes());
        }
        dedup.journal().unwrap().flush().unwrap();
    }
    for _ in 0..2 {
        dedup.forget("forgotten and back");
        assert!(dedup.check("forgotten and back").is_fresh());
        dedup.journal().unwrap().flush().unwrap();
    }
    clock.advance(Duration::from_secs(60));
    assert!(dedup.check("later").is_fresh());
    dedup.journal().unwrap().flush().unwrap();
    drop(dedup);

    let dedup = open();
    for n in 0..3_000_u16 {
        let is_forgotten = n % 5 == 0 && n < 1_500;
        assert_eq!(dedup.contains(n.to_le_bytes()).is_none(), is_forgotten, "{n}");
    }
    assert!(dedup.contains("forgotten and back").is_some());
    clock.advance(Duration::from_secs(50));
    assert!(dedup.contains(7_u16.to_le_bytes()).is_none() && dedup.contains("later").is_some());
}

#[test]
fn how_time_was_counted_and_what_time_it_was_is_known_after_a_restart() {
    let (disk, clock) = (Simulated::new(), clock());
    let open = || builder(&disk, &clock, JournalOptions::new()).build().unwrap();
    let resumed = |dedup: &Dedup| dedup.engine.journal.as_ref().unwrap().resumed();
    let dedup = open();
    assert_eq!((resumed(&dedup).clocks, resumed(&dedup).base), (None, TimeBase::default()));
    // By the clock, which the file's header says; then, within the file, by events that are behind.
    let _ = dedup.check("a");
    dedup.journal().unwrap().flush().unwrap();
    let base = TimeBase { offset_nanos: 7, kind: 1 };
    let _ = dedup.check_at("b", Timestamp::from_nanos(clock.now().as_nanos() - 7));
    dedup.journal().unwrap().flush().unwrap();
    drop(dedup);
    let now = clock.now();
    clock.advance(Duration::from_secs(5));
    for _ in 0..3 {
        let dedup = open();
        let known = resumed(&dedup);
        assert_eq!((known.base, known.is_same_boot), (base, true));
        let clocks = known.clocks.unwrap();
        assert_eq!((clocks.engine, clocks.wall_nanos), (now, now.as_nanos()));
    }
    // A later file records it in its header.
    let dedup = open();
    clock.advance(Duration::from_secs(1));
    let _ = dedup.check_at("c", clock.now());
    drop(dedup);
    assert_eq!(resumed(&open()).base, base);
    assert_eq!(resumed(&open()).clocks.unwrap().engine, clock.now());
}

#[test]
fn ids_that_are_appended_late_are_in_the_history_at_the_time_of_their_checks_only_if_that_is_given() {
    const IDS: u32 = 1_000;
    const HORIZON: Duration = Duration::from_secs(100);
    // Returns how many of as many new ids the next engine's history takes for known, at a rate of 1
    // %, when those of two horizons were appended at once.
    let guesses = |is_time_given: bool| {
        let (disk, clock) = (Simulated::new(), clock());
        let options = || JournalOptions::new().deferred(true);
        let builder = || builder(&disk, &clock, options()).window(Duration::from_secs(10)).seed(7);
        let open = || builder().history(history(HORIZON, 0.01, IDS as usize)).build().unwrap();
        let check = |dedup: &Dedup, from: u32| {
            let mut verdicts = Vec::new();
            let ids = (from..from + IDS).map(|n| dedup.prepare(n.to_be_bytes())).collect::<Vec<_>>();
            if is_time_given {
                dedup.check_batch_at(ids.iter().copied(), clock.now(), &mut verdicts);
            } else {
                dedup.check_batch(ids.iter().copied(), &mut verdicts);
            }
            ids.into_iter().zip(verdicts).collect::<Vec<_>>()
        };
        let dedup = open();
        let mut handled = Vec::new();
        for n in 0..2 {
            handled.push((clock.now(), check(&dedup, n * IDS)));
            clock.advance(HORIZON + Duration::from_secs(1));
        }
        for (at, checked) in handled {
            let appended = if is_time_given {
                dedup.journal().unwrap().append_batch_at(checked, at)
            } else {
                dedup.journal().unwrap().append_batch(checked)
            };
            appended.unwrap();
        }
        dedup.journal().unwrap().flush().unwrap();
        drop(dedup);
        let dedup = open();
        clock.advance(HORIZON + Duration::from_secs(1));
        check(&dedup, 2 * IDS).iter().filter(|(_, verdict)| !verdict.is_certain()).count()
    };
    let (by_checks, by_appending) = (guesses(true), guesses(false));
    assert!(by_checks <= 20, "{by_checks} of {IDS}, at a rate of 1 %");
    assert!(by_appending > 40, "{by_appending} of {IDS}: those of two horizons were in one generation");
}

#[test]
fn it_is_synced_only_if_the_disk_has_to_have_it() {
    for (mode, is_synced) in [(SyncMode::Disk, true), (SyncMode::System, false)] {
        let (disk, clock) = (Simulated::new(), clock());
        let dedup = builder(&disk, &clock, JournalOptions::new().sync(mode)).build().unwrap();
        disk.plan(Some(Call::Sync), 0, Fault::Error(5));
        let _ = dedup.check("a");
        assert_eq!(dedup.journal().unwrap().flush().is_err(), is_synced, "{mode:?}");
    }
}

#[test]
fn what_was_dropped_while_it_had_failed_is_counted_and_never_durable() {
    let (disk, clock) = (Simulated::new(), clock());
    // Half of the budget may wait.
    let options = || JournalOptions::new().max_disk_bytes(1 << 20);
    let dedup = builder(&disk, &clock, options()).build().unwrap();
    let _ = dedup.check("a");
    dedup.journal().unwrap().flush().unwrap();
    disk.set_capacity(Some(disk.used()));
    let mut verdicts = Vec::new();
    dedup.check_batch((0..100_000_u32).map(u32::to_be_bytes), &mut verdicts);
    assert!(matches!(dedup.journal().unwrap().flush(), Err(JournalError::Io { .. })));
    let dropped = dedup.stats().journal.unwrap().dropped;
    assert!((50_000..80_000).contains(&dropped), "{dropped}");
    disk.set_capacity(None);
    let reopened = dedup.journal().unwrap().reopen().unwrap();
    assert_eq!((reopened.dropped, reopened.written_late), (dropped, 100_000 - dropped));
    assert_eq!(reopened.failed_at, Some(Duration::from_secs(1_000_000)));
    dedup.journal().unwrap().flush().unwrap();
    assert_eq!(dedup.stats().journal.unwrap().dropped, dropped, "also later");
    drop(dedup);
    let dedup = builder(&disk, &clock, options()).build().unwrap();
    let known = (0..100_000_u32).filter(|id| dedup.contains(id.to_be_bytes()).is_some()).count() as u64;
    assert_eq!(known, 100_000 - dropped);
}

/// Accepts a new id, and notes its time in stream time.
fn accept(dedup: &Dedup, clock: &ManualClock, events: bool, random: &mut u64, accepted: &mut Vec<(u32, Timestamp)>) {
    let steps = [Duration::from_secs(7), Duration::from_secs(61), Duration::from_millis(3), Duration::from_secs(1_800)];
    clock.advance(steps[below(random, 4) as usize] * below(random, 9) as u32);
    let id = accepted.len() as u32;
    let late = Duration::from_secs(below(random, 3) * below(random, 900));
    let at = Timestamp::from_nanos(clock.now().as_nanos() - late.as_nanos() as u64);
    match (events, below(random, 3)) {
        (true, _) => drop(dedup.check_at(id.to_be_bytes(), at).is_fresh()),
        (false, 0) => drop(dedup.check(id.to_be_bytes()).is_fresh()),
        (false, 1) => dedup.check_batch([id.to_be_bytes()], &mut Vec::new()),
        _ => drop(dedup.claim(id.to_be_bytes()).claimed().unwrap().complete()),
    }
    let latest = accepted.last().map_or(at, |(_, latest)| *latest);
    accepted.push((id, if events { at.max(latest) } else { clock.now() }));
}

/// Checks that another window over the same journal forgets nothing early, and remembers nothing
/// for much longer.
fn another_window(seed: u64) {
    let mut random = seed;
    let (disk, clock) = (Simulated::new(), clock());
    let windows = [60, 600, 3_600, 7 * 3_600, 24 * 3_600, 90_000].map(Duration::from_secs);
    let mut window = || windows[below(&mut random, 6) as usize];
    let (first, second) = (window(), window());
    let events = below(&mut random, 2) == 0;
    let dedup = builder(&disk, &clock, JournalOptions::new()).window(first).build().unwrap();
    let mut accepted = Vec::new();
    for _ in 0..40 {
        accept(&dedup, &clock, events, &mut random, &mut accepted);
        if below(&mut random, 4) == 0 {
            dedup.journal().unwrap().flush().unwrap();
        }
    }
    let first_tick = dedup.tick();
    drop(dedup);
    let dedup = builder(&disk, &clock, JournalOptions::new()).window(second).build().unwrap();
    let latest = accepted.last().unwrap().1;
    let mut at = latest;
    for _ in 0..20 {
        for (id, accepted_at) in &accepted {
            let age = at.since(*accepted_at);
            // An id that the first window had forgotten may be gone from the disk.
            let was_known = latest.since(*accepted_at) < first;
            let is_known = dedup.engine.window.contains(dedup.digester.digest(id.to_be_bytes()), at);
            let what = format!("seed {seed}: {first:?}, then {second:?}, events {events}: {id} after {age:?}");
            assert!(is_known || !was_known || age >= second, "{what} was forgotten");
            assert!(!is_known || age < second + 2 * dedup.tick() + 2 * first_tick, "{what} is remembered");
        }
        at = at + second / 8 + Duration::from_nanos(below(&mut random, 1 << 30));
    }
}

#[test]
fn another_window_over_the_same_journal_forgets_nothing_early() {
    let seed = u64::from(std::process::id()) << 20;
    for seed in (0..200).chain([4_237_295_703]).chain(seed..seed + 300) {
        another_window(seed);
    }
}

#[test]
fn a_day_and_then_an_hour() {
    let (disk, clock) = (Simulated::new(), clock());
    let hours = |n: u64| Duration::from_secs(3_600 * n);
    let open = |window| builder(&disk, &clock, JournalOptions::new()).window(window).build().unwrap();
    let dedup = open(hours(24));
    // Late in a tick of ten minutes.
    clock.advance(Duration::from_secs(599));
    let _ = dedup.check("a");
    drop(dedup);
    let dedup = open(hours(1));
    clock.advance(hours(1) - Duration::from_nanos(1));
    assert!(dedup.check("a").is_duplicate());
}

#[test]
fn what_was_read_after_a_failed_sync_is_durable_before_files_are_deleted_for_it() {
    for (after, seed) in (0..16).flat_map(|after| (0..8).map(move |seed| (after, seed))) {
        let (disk, clock) = (Simulated::new(), clock());
        let open = || builder(&disk, &clock, JournalOptions::new()).window(Duration::from_secs(100)).build();
        let dedup = open().unwrap();
        for id in ["a", "b", "c"] {
            assert!(dedup.check(id).is_fresh());
            dedup.journal().unwrap().flush().unwrap();
            clock.advance(Duration::from_secs(20));
        }
        // A new file, whose block says that the others have expired; it may be written, and not
        // durable.
        clock.advance(Duration::from_secs(1_000));
        assert!(dedup.check("d").is_fresh());
        disk.plan(None, after, Fault::Error(5));
        drop(dedup);
        disk.heal();
        drop(open().unwrap());
        disk.crash(seed);
        let opened = open();
        assert!(opened.is_ok(), "after {after} calls, seed {seed}: {}", opened.err().unwrap());
    }
}
