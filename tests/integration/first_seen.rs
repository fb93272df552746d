//! The time at which an id was first seen: never outside of what is said, whatever happened since.

use hapax::{Dedup, EventTime, FirstSeen, Int, JournalOptions, ManualClock, Tier, Timestamp, Unconfirmed};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use testkit::random::Random;

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn contains(first: &FirstSeen, at: u64) -> bool {
    let at = Timestamp::from_nanos(at);
    first.earliest() <= at && at <= first.latest()
}

/// Returns a seed from `HAPAX_SEED`, or the usual one; it is printed.
fn seed() -> u64 {
    let seed = std::env::var("HAPAX_SEED").map_or(17, |seed| seed.parse().expect("HAPAX_SEED is no number"));
    println!("HAPAX_SEED={seed}");
    seed
}

/// The source of an engine's time.
#[derive(Clone, Copy, Debug, PartialEq)]
enum By {
    Clock,
    Events,
}

/// Compares with when each id was accepted: in a table that overflows, across tables that are
/// started and retired, and over many more ticks than a slot can tell apart.
fn compare(by: By, refresh: bool, seed: u64) {
    let mut random = Random(seed);
    let window = Duration::from_nanos(100 + random.below(1 << 40));
    let clock = ManualClock::new();
    let builder = Dedup::builder().window(window).capacity(1_000).refresh_on_duplicate(refresh).seed(seed);
    let builder = builder.growth_thread(false).clock(clock.clone());
    let dedup = match by {
        By::Clock => builder.build().unwrap(),
        By::Events => builder.event_time(EventTime::unrelated()).build().unwrap(),
    };
    let (tick, step) = (dedup.tick(), window.as_nanos() as u64 / 5_000 + 1);
    let (mut now, mut latest, mut accepted, mut told) = (1_u64 << 41, 0, HashMap::new(), 0);
    for call in 0..60_000_u64 {
        now += random.below(2 * step);
        // Now and then everything expires, and more.
        if random.below(20_000) == 0 {
            now += window.as_nanos() as u64 * (1 + random.below(12));
        }
        let id = Int::from(random.below(call / 4 + 100));
        clock.set(Timestamp::from_nanos(now));
        let (verdict, first) = match by {
            By::Clock => dedup.check_first_seen(id),
            // Some come late, and count as of the latest.
            By::Events if call > 0 && random.below(10) == 0 => {
                now = latest;
                dedup.check_first_seen_at(id, Timestamp::from_nanos(latest - random.below(step)))
            }
            By::Events => dedup.check_first_seen_at(id, Timestamp::from_nanos(now)),
        };
        latest = now;
        // (The window knows the latest event by its tick: see `slack`.)
        let slack = if by == By::Events { 2 * tick } else { Duration::ZERO };
        match accepted.get(&id) {
            Some(&at) if verdict.is_duplicate() => {
                let first = first.unwrap_or_else(|| panic!("{by:?}, seed {seed}, call {call}: no time"));
                let what = format!("{by:?}, seed {seed}, call {call}: {at} {first:?}");
                assert!(contains(&first, at), "{what}");
                assert!(first.latest() - first.earliest() <= tick, "{what}");
                let age = Duration::from_nanos(now - at);
                assert!(first.age_at_least() <= age + slack && age <= first.age_at_most() + slack, "{what}");
                told += 1;
            }
            _ => assert!(verdict.is_fresh() && first.is_none(), "{by:?}, seed {seed}, call {call}: {verdict:?}"),
        }
        if verdict.is_fresh() || refresh {
            accepted.insert(id, now);
        }
    }
    assert!(told > 1_000, "{told}");
    let stats = dedup.stats();
    assert_eq!(stats.window.evicted_live, 0, "{stats:?}");
}

#[test]
fn it_was_when_it_is_said_to_have_been() {
    for by in [By::Clock, By::Events] {
        for refresh in [false, true] {
            (0..6).for_each(|run| compare(by, refresh, seed() + run));
        }
    }
}

#[test]
fn a_window_that_overflows_tells_the_times_of_what_it_has() {
    let clock = ManualClock::new();
    let builder = Dedup::builder().window(secs(600)).capacity(1_000).max_memory_bytes(64 << 10).seed(seed());
    let dedup = builder.clock(clock.clone()).build().unwrap();
    // Ten times as many as there is room for: most entries have moved, or are gone.
    for id in 0..80_000_u64 {
        clock.set(Timestamp::from_nanos(1_000_000_000_000 + id * 1_000_000));
        dedup.check(Int::from(id));
    }
    assert!(dedup.evicted_live() > 0);
    let mut told = 0;
    for id in 0..80_000_u64 {
        let is_there = dedup.contains(Int::from(id)) == Some(Tier::Window);
        let first = dedup.first_seen(Int::from(id));
        assert_eq!(is_there, first.is_some(), "{id}");
        if let Some(first) = first {
            assert!(contains(&first, 1_000_000_000_000 + id * 1_000_000), "{id}: {first:?}");
            told += 1;
        }
    }
    assert!(told > 5_000, "{told}");
}

#[test]
fn of_what_the_window_does_not_have_there_is_no_time() {
    let clock = ManualClock::new();
    let builder = Dedup::builder().window(secs(60)).history(secs(6_000), 1e-6, 1_000).clock(clock.clone());
    let dedup = builder.unconfirmed(Unconfirmed::Duplicate).build().unwrap();
    assert_eq!(dedup.first_seen("a"), None);
    let (verdict, first) = dedup.check_first_seen("a");
    assert!(verdict.is_fresh() && first.is_none());
    assert!(dedup.first_seen("a").is_some());
    clock.advance(secs(100));
    let (verdict, first) = dedup.check_first_seen("a");
    assert_eq!((verdict.tier(), first), (Tier::History, None));
    assert_eq!(dedup.first_seen("a"), None);

    let hapax::Attempt::Claimed(claim) = dedup.claim("b") else { panic!("nobody else has it") };
    let (verdict, first) = dedup.check_first_seen("b");
    assert!(verdict.is_in_progress() && first.is_none());
    clock.advance(secs(7));
    claim.complete().unwrap();
    assert!(contains(&dedup.first_seen("b").unwrap(), 107_000_000_000));

    dedup.forget("b");
    assert_eq!(dedup.first_seen("b"), None);
}

#[test]
fn events_of_the_past_keep_the_times_that_their_callers_gave() {
    let clock = ManualClock::new();
    clock.set(Timestamp::from_secs(1_000_000));
    let dedup = Dedup::builder().window(secs(600)).clock(clock).build().unwrap();
    dedup.check("by the clock");
    // From here on times are the events': the first of them is the present.
    dedup.check_at("a", Timestamp::from_secs(2_000));
    let (verdict, first) = dedup.check_first_seen_at("a", Timestamp::from_secs(2_100));
    assert!(verdict.is_duplicate() && contains(&first.unwrap(), 2_000_000_000_000), "{first:?}");
    assert!(contains(&dedup.first_seen("by the clock").unwrap(), 2_000_000_000_000));
    let refused = dedup.check_first_seen_at("a", Timestamp::from_secs(1_000_000_000));
    assert!(refused.0.is_refused() && refused.1.is_none());
}

#[test]
fn a_journal_keeps_the_times_to_within_three_ticks() {
    let directory = testkit::directory::Directory::new("first-seen");
    let clock = ManualClock::new();
    let open = || {
        let builder = Dedup::builder().window(secs(600)).clock(clock.clone());
        builder.journal(directory.path(), JournalOptions::new()).build().unwrap()
    };
    let at = |id: u64| 1_000_000_000_000 + id * 77_777_777;
    let dedup = open();
    for id in 0..1_000 {
        clock.set(Timestamp::from_nanos(at(id)));
        assert!(dedup.check(Int::from(id)).is_fresh());
    }
    dedup.flush().unwrap();
    drop(dedup);
    let dedup = open();
    for id in 0..1_000 {
        let (verdict, first) = dedup.check_first_seen(Int::from(id));
        let first = first.unwrap();
        assert!(verdict.is_duplicate() && contains(&first, at(id)), "{id}: {} {first:?}", at(id));
        assert!(first.latest() - first.earliest() <= 3 * dedup.tick(), "{first:?}");
    }
}

/// Threads check while time goes on by whole windows: whatever a duplicate is said to be, some
/// check has accepted it at such a time.
#[test]
fn beside_other_threads_and_expiry_a_time_is_one_at_which_the_id_was_accepted() {
    const IDS: usize = 4;
    let (seed, clock) = (seed(), ManualClock::new());
    clock.set(Timestamp::from_secs(1_000));
    let dedup = Dedup::builder().window(secs(100)).capacity(1_000).clock(clock.clone()).seed(seed).build().unwrap();
    let accepted: [std::sync::Mutex<Vec<(u64, u64)>>; IDS] = Default::default();
    let told = AtomicU64::new(0);
    let all = std::thread::scope(|scope| {
        let thread = |number: u64| {
            let (dedup, clock, accepted, told) = (&dedup, &clock, &accepted, &told);
            move || {
                let mut random = Random(seed + number);
                let mut firsts = Vec::new();
                for _ in 0..20_000 {
                    let id = random.below(IDS as u64) as usize;
                    if number == 0 && random.below(20) == 0 {
                        clock.advance(Duration::from_millis(random.below(30_000)));
                    }
                    let before = dedup_now(clock);
                    let (verdict, first) = dedup.check_first_seen(Int::from(id as u64));
                    let after = dedup_now(clock);
                    if verdict.is_fresh() {
                        accepted[id].lock().unwrap().push((before, after));
                    }
                    if let Some(first) = first {
                        told.fetch_add(1, Ordering::Relaxed);
                        firsts.push((id, first));
                    }
                }
                firsts
            }
        };
        let threads: Vec<_> = (0..4).map(|number| scope.spawn(thread(number))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert!(told.load(Ordering::Relaxed) > 1_000);
    for (id, first) in all {
        let accepted = accepted[id].lock().unwrap();
        let is_one =
            |&(before, after): &(u64, u64)| first.earliest().as_nanos() <= after && before <= first.latest().as_nanos();
        assert!(accepted.iter().any(is_one), "seed {seed}, id {id}: {first:?}");
    }
}

fn dedup_now(clock: &ManualClock) -> u64 {
    use hapax::Clock;
    clock.now().as_nanos()
}
