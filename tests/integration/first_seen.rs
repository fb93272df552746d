//! The time at which an id was first seen: never outside of what is said, whatever happened since.

use hapax::{Clock, Dedup, EventTime, FirstSeen, Int, JournalOptions, ManualClock, Tier, Timestamp, Verdict};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use testkit::long;
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
    /// A clock that lags by up to so many nanoseconds.
    LaggingClock(u64),
    Events,
}

/// A clock that shows a time of up to `lag` ago.
#[derive(Clone, Debug)]
struct Lagging {
    clock: ManualClock,
    lag: u64,
}

impl Clock for Lagging {
    fn now(&self) -> Timestamp {
        let now = self.clock.now().as_nanos();
        // It goes on in steps, as the coarse clock does.
        Timestamp::from_nanos(now - now % (self.lag + 1))
    }

    fn lag(&self) -> Duration {
        Duration::from_nanos(self.lag)
    }
}

/// An engine, the times that it was given, and what it must say.
struct Compared {
    dedup: Dedup,
    clock: ManualClock,
    by: By,
    refresh: bool,
    /// The true time: the clock's without its lag, or the latest event's.
    now: u64,
    accepted: HashMap<Int<8>, u64>,
    told: u64,
    seed: u64,
    call: u64,
}

impl Compared {
    /// Returns the words of a failure. (Written for each call, they would take most of the time.)
    fn what(&self) -> String {
        format!("{:?}, refresh {}, seed {}, call {}", self.by, self.refresh, self.seed, self.call)
    }

    /// Goes on by so much, or by nothing and with an event that is late by so much; returns the
    /// time of the call.
    fn go_on(&mut self, by: u64, is_late: bool) -> Timestamp {
        if is_late && self.by == By::Events && !self.accepted.is_empty() {
            return Timestamp::from_nanos(self.now - by);
        }
        self.now += by;
        self.clock.set(Timestamp::from_nanos(self.now));
        Timestamp::from_nanos(self.now)
    }

    /// Checks that an id was seen when it is said to have been, and is as old as is said; and that
    /// neither is less sure than is documented.
    fn judge(&mut self, id: Int<8>, first: Option<FirstSeen>) {
        let Some(&at) = self.accepted.get(&id) else { panic!("{}: {id:?} is unknown", self.what()) };
        let what = || format!("{} {id:?}: {at}, now {}, {first:?}", self.what(), self.now);
        let first = first.unwrap_or_else(|| panic!("{}: no time", what()));
        let (tick, age) = (self.dedup.tick(), Duration::from_nanos(self.now - at));
        let lag = Duration::from_nanos(if let By::LaggingClock(lag) = self.by { lag } else { 0 });
        let present = if self.by == By::Events { tick } else { lag };
        assert!(contains(&first, at), "{}", what());
        assert!(first.latest() - first.earliest() <= tick + lag, "{}", what());
        assert!(first.age_at_least() <= age && age <= first.age_at_most(), "{age:?}, {}", what());
        let width = first.age_at_most() - first.age_at_least();
        assert!(width <= first.latest() - first.earliest() + present, "{width:?}, {}", what());
        self.told += 1;
    }

    /// Notes what was said of an id.
    fn note(&mut self, id: Int<8>, verdict: Verdict) {
        let is_known = self.accepted.contains_key(&id);
        assert!(verdict.is_fresh() || (verdict.is_duplicate() && is_known), "{}: {verdict:?}", self.what());
        if verdict.is_fresh() || self.refresh {
            self.accepted.insert(id, self.now);
        }
    }

    fn check(&mut self, id: Int<8>, at: Timestamp) {
        let (verdict, first) = match self.by {
            By::Events => self.dedup.check_first_seen_at(id, at),
            _ => self.dedup.check_first_seen(id),
        };
        if verdict.is_duplicate() {
            self.judge(id, first);
        } else {
            assert_eq!(first, None, "{}", self.what());
        }
        self.note(id, verdict);
    }

    fn check_batch(&mut self, ids: &[Int<8>], at: Timestamp) {
        let mut verdicts = Vec::new();
        match self.by {
            By::Events => self.dedup.check_batch_at(ids, at, &mut verdicts),
            _ => self.dedup.check_batch(ids, &mut verdicts),
        }
        ids.iter().zip(verdicts).for_each(|(&id, verdict)| self.note(id, verdict));
    }

    /// Looks without a check.
    fn look(&mut self, id: Int<8>) {
        if self.dedup.contains(id).is_some() {
            self.judge(id, self.dedup.first_seen(id));
        }
    }
}

/// Compares with when each id was accepted: in a table that overflows, across tables that are
/// started and retired, and over many more ticks than a slot can tell apart.
fn compare(by: By, refresh: bool, seed: u64) {
    let mut random = Random(seed);
    let window = Duration::from_nanos(100 + random.below(1 << 40));
    let clock = ManualClock::new();
    let builder = || Dedup::builder().window(window).growth_thread(false);
    let tick = builder().build().unwrap().tick().as_nanos() as u64;
    let builder = builder().capacity(1_000).refresh_on_duplicate(refresh).seed(seed);
    let (builder, by) = match by {
        By::Clock => (builder.clock(clock.clone()), by),
        By::LaggingClock(_) => {
            let lag = random.below(tick);
            (builder.clock(Lagging { clock: clock.clone(), lag }), By::LaggingClock(lag))
        }
        By::Events => (builder.clock(clock.clone()).event_time(EventTime::unrelated()), by),
    };
    let dedup = builder.build().unwrap();
    let now = 1_u64 << 41;
    let mut compared = Compared { dedup, clock, by, refresh, now, accepted: HashMap::new(), told: 0, seed, call: 0 };
    // So that there are many calls in a tick, or few, or none.
    let step = window.as_nanos() as u64 / 5_000 + 1;
    for call in 0..60_000_u64 {
        compared.call = call;
        let id = |random: &mut Random| Int::from(random.below(call / 4 + 100));
        // Now and then everything expires, and more; or an event is late by many ticks.
        let by = match random.below(20_000) {
            0 => window.as_nanos() as u64 * (1 + random.below(12)),
            _ => random.below(2 * step),
        };
        let at = compared.go_on(by, random.below(10) == 0);
        match random.below(20) {
            0 => {
                let ids: Vec<_> = (0..=random.below(40)).map(|_| id(&mut random)).collect();
                compared.check_batch(&ids, at);
            }
            // What a call without a check sees is the latest event, not this one.
            1 if compared.by != By::Events || at.as_nanos() < compared.now => compared.look(id(&mut random)),
            _ => compared.check(id(&mut random), at),
        }
    }
    assert!(compared.told > 1_000, "{}", compared.told);
    let stats = compared.dedup.stats();
    assert_eq!(stats.window.evicted_live, 0, "{stats:?}");
}

#[test]
fn it_was_when_it_is_said_to_have_been() {
    for by in [By::Clock, By::LaggingClock(0), By::Events] {
        for refresh in [false, true] {
            (0..long(2, 4)).for_each(|run| compare(by, refresh, seed() + run));
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
        let _ = dedup.check(Int::from(id));
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

/// With refresh, an id whose entry has moved away gets a new one at home, which may move away, too:
/// the time is that of the newest.
#[test]
fn an_id_that_is_refreshed_where_entries_move_tells_the_last_time() {
    for seed in seed()..seed() + 5 {
        let (mut random, clock) = (Random(seed), ManualClock::new());
        let builder = Dedup::builder()
            .window(secs(100))
            .capacity(1_000)
            .max_memory_bytes(64 << 10)
            .refresh_on_duplicate(true)
            .seed(seed);
        let dedup = builder.growth_thread(false).clock(clock.clone()).build().unwrap();
        let mut last = HashMap::new();
        for second in 1_000..1_090_u64 {
            clock.set(Timestamp::from_secs(second));
            for _ in 0..400 {
                let id = random.below(2_100);
                let _ = dedup.check(Int::from(id));
                last.insert(id, second * 1_000_000_000);
            }
            // (What is evicted may be the newest entry of an id.)
            if dedup.evicted_live() > 0 {
                break;
            }
            for (&id, &at) in &last {
                let first = dedup.first_seen(Int::from(id)).expect("its stay was extended");
                assert!(contains(&first, at), "seed {seed}, id {id}: {at} {first:?}");
            }
        }
        assert!(last.len() > 1_900, "seed {seed}: {} ids", last.len());
    }
}

#[test]
fn of_what_the_window_does_not_have_there_is_no_time() {
    let clock = ManualClock::new();
    let builder =
        Dedup::builder().window(secs(60)).history(testkit::history(secs(6_000), 1e-6, 1_000)).clock(clock.clone());
    let dedup = builder.build().unwrap();
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
    let _ = dedup.check("by the clock");
    // From here on times are the events': the first of them is the present.
    let _ = dedup.check_at("a", Timestamp::from_secs(2_000));
    let (verdict, first) = dedup.check_first_seen_at("a", Timestamp::from_secs(2_100));
    assert!(verdict.is_duplicate() && contains(&first.unwrap(), 2_000_000_000_000), "{first:?}");
    assert!(contains(&dedup.first_seen("by the clock").unwrap(), 2_000_000_000_000));
    let refused = dedup.check_first_seen_at("a", Timestamp::from_secs(1_000_000_000));
    assert!(refused.0.is_refused() && refused.1.is_none());
}

#[test]
fn an_age_is_as_of_the_event_that_asks() {
    for refresh in [false, true] {
        let builder = Dedup::builder().window(secs(60)).refresh_on_duplicate(refresh);
        let dedup = builder.clock(ManualClock::new()).event_time(EventTime::unrelated()).build().unwrap();
        let _ = dedup.check_at("a", Timestamp::from_secs(1_000));
        let ages = |at: u64| {
            let first = dedup.check_first_seen_at("a", Timestamp::from_secs(at)).1.expect("the window has it");
            (first.age_at_least(), first.age_at_most())
        };
        let (at_least, at_most) = ages(1_020);
        assert!(at_least <= secs(20) && secs(20) <= at_most, "refresh {refresh}: {at_least:?} {at_most:?}");
        assert!(at_most - at_least <= 2 * dedup.tick(), "refresh {refresh}: {at_least:?} {at_most:?}");
        // One that is late is of the latest event's time.
        let (age, (at_least, at_most)) = (secs(if refresh { 0 } else { 20 }), ages(1_010));
        assert!(at_least <= age && age <= at_most, "refresh {refresh}: {at_least:?} {at_most:?}");
    }
}

#[test]
fn the_first_event_tells_in_its_own_time_what_the_clock_has_accepted() {
    for refresh in [false, true] {
        let clock = ManualClock::new();
        clock.set(Timestamp::from_secs(1_000_000));
        let builder = Dedup::builder().window(secs(600)).refresh_on_duplicate(refresh);
        let dedup = builder.clock(clock.clone()).build().unwrap();
        let _ = dedup.check("a");
        clock.advance(secs(100));
        let (verdict, first) = dedup.check_first_seen_at("a", Timestamp::from_secs(2_000));
        assert!(verdict.is_duplicate() && contains(&first.unwrap(), 1_900_000_000_000), "{refresh}: {first:?}");
        let first = first.unwrap();
        assert!(first.age_at_least() <= secs(100) && secs(100) <= first.age_at_most(), "{refresh}: {first:?}");
    }
}

#[test]
fn under_a_clock_that_was_set_back_an_id_ages_from_where_the_window_is() {
    let clock = ManualClock::new();
    clock.set(Timestamp::from_secs(1_000));
    let dedup = Dedup::builder().window(secs(600)).clock(clock.clone()).build().unwrap();
    let _ = dedup.check("a");
    clock.set(Timestamp::from_secs(100));
    for _ in 0..2 {
        let first = dedup.first_seen("a").unwrap();
        assert!(contains(&first, 1_000_000_000_000) && first.age_at_least() == Duration::ZERO, "{first:?}");
        assert!(first.age_at_most() <= 2 * dedup.tick(), "{first:?}");
        let _ = dedup.check_first_seen("a");
    }
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
    dedup.journal().unwrap().flush().unwrap();
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
    clock.now().as_nanos()
}
