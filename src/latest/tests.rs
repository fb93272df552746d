//! A memory of versions against a plain model, and on threads.

use super::judge::{Call, judge};
use super::{Latest, VersionVerdict};
use crate::random::Random;
use crate::rules::{Rule, be_interrupted, leave_out};
use crate::sync::{Ordering, StdAtomicU64};
use crate::{Clock, EventTime, Int, ManualClock, Refusal, Timestamp};
use std::collections::HashMap;
use std::time::Duration;

const RETENTION: u64 = 100;

/// A memory of versions, plainly.
struct Model {
    capacity: usize,
    /// By id: its highest version, when that was accepted, and as which acceptance of all.
    known: HashMap<u64, (u64, u64, u64)>,
    now: u64,
    acceptances: u64,
    forgotten_early: u64,
}

impl Model {
    fn known(&self, id: u64) -> Option<u64> {
        let (version, accepted, _) = self.known.get(&id)?;
        (self.now - accepted < RETENTION).then_some(*version)
    }

    fn advance(&mut self, id: u64, version: u64, at: u64) -> VersionVerdict {
        self.now = self.now.max(at);
        match self.known(id) {
            Some(known) if known == version => return VersionVerdict::Duplicate,
            Some(known) if known > version => return VersionVerdict::Stale { known },
            _ => {}
        }
        let now = self.now;
        self.known.retain(|_, (_, accepted, _)| now - *accepted < RETENTION);
        if self.known.len() == self.capacity && !self.known.contains_key(&id) {
            let oldest = *self.known.iter().min_by_key(|(_, known)| known.2).expect("it is full").0;
            self.known.remove(&oldest);
            self.forgotten_early += 1;
        }
        self.acceptances += 1;
        self.known.insert(id, (version, now, self.acceptances));
        VersionVerdict::Newer
    }
}

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(1_000_000 + nanos)
}

fn memory(capacity: usize) -> Latest {
    let retention = Duration::from_nanos(RETENTION);
    let builder = Latest::builder().retention(retention).capacity(capacity).seed(7);
    builder.event_time(EventTime::unrelated()).build().unwrap()
}

fn must_be<T: PartialEq + std::fmt::Debug>(what: &str, got: T, expected: T) -> Result<(), String> {
    if got == expected { Ok(()) } else { Err(format!("{what}: got {got:?}, expected {expected:?}")) }
}

/// Compares a memory with the model in a random sequence of calls.
fn compare(seed: u64) -> Result<(), String> {
    let mut random = Random::new(seed);
    let capacity = 1 + random.below(12) as usize;
    let (ids, versions, step) = (1 + random.below(24), 1 + random.below(9), 1 + random.below(40));
    let latest = memory(capacity);
    let mut model = Model { capacity, known: HashMap::new(), now: 0, acceptances: 0, forgotten_early: 0 };
    let mut now = 0;
    let mut verdicts = Vec::new();
    for call in 0..300 {
        let id = random.below(ids);
        let version = if random.chance(2) { u64::MAX - random.below(2) } else { random.below(versions) };
        let what = format!("seed {seed}, call {call}, id {id}, version {version}, capacity {capacity}");
        now += if random.chance(30) { random.below(step) } else { 0 };
        // Some come late, and count as of the latest.
        let then = if random.chance(20) { now.saturating_sub(random.below(step)) } else { now };
        match random.below(12) {
            0 => {
                let known = model.known(id);
                must_be(&what, latest.forget(Int::from(id)), known)?;
                model.known.remove(&id);
            }
            1 => must_be(&what, latest.known(Int::from(id)), model.known(id))?,
            2 if random.chance(10) => {
                latest.clear();
                model.known.clear();
            }
            3 | 4 => {
                let batch: Vec<_> =
                    (0..random.below(150)).map(|_| (random.below(ids), random.below(versions))).collect();
                let ids = batch.iter().map(|&(id, version)| (Int::from(id), version));
                latest.check_batch_at(ids, at(then), &mut verdicts);
                model.now = model.now.max(then);
                let expected: Vec<_> = batch.iter().map(|&(id, version)| model.advance(id, version, then)).collect();
                must_be(&what, &verdicts, &expected)?;
            }
            _ => {
                let verdict = latest.check_at(Int::from(id), version, at(then));
                must_be(&what, verdict, model.advance(id, version, then))?;
            }
        }
        let stats = latest.stats();
        let live = (0..ids).filter(|id| model.known(*id).is_some()).count();
        must_be(&what, (stats.live, stats.forgotten_early), (live, model.forgotten_early))?;
    }
    Ok(())
}

fn seeds() -> std::ops::Range<u64> {
    let first = std::env::var("HAPAX_SEED").map_or(1, |seed| seed.parse().expect("HAPAX_SEED is no number"));
    first..first + 400
}

#[test]
fn it_answers_as_a_plain_map_does_whatever_is_asked_when() {
    seeds().try_for_each(compare).unwrap();
}

#[test]
fn the_comparison_notices_when_a_rule_is_left_out() {
    for rule in [Rule::VersionRises, Rule::CountForgotten] {
        leave_out(Some(rule));
        let noticed = seeds().try_for_each(compare).is_err();
        leave_out(None);
        assert!(noticed, "{rule:?} was left out, and nobody noticed");
    }
}

/// Records what threads that bring versions of a few ids are told, and judges it.
fn record(rule: Option<Rule>, seed: u64) -> Result<(), String> {
    const IDS: usize = 3;
    const CALLS: u64 = 400;
    let latest = memory(10_000);
    let count = StdAtomicU64::new(0);
    let calls: Vec<(usize, Call)> = std::thread::scope(|scope| {
        let thread = |number: u64| {
            let (latest, count) = (&latest, &count);
            move || {
                leave_out(rule);
                be_interrupted();
                let mut random = Random::new(seed.wrapping_mul(31) + number);
                let call = |step: u64| {
                    // Versions that rise on the whole, so that some pass to the end.
                    let (id, version) = (random.below(IDS as u64), step / 4 + random.below(12));
                    let began = count.fetch_add(1, Ordering::SeqCst);
                    let verdict = latest.check_at(Int::from(id), version, at(0));
                    let ended = count.fetch_add(1, Ordering::SeqCst);
                    (id as usize, Call { version, began, ended, verdict })
                };
                (0..CALLS).map(call).collect::<Vec<_>>()
            }
        };
        let threads: Vec<_> = (0..4).map(|number| scope.spawn(thread(number))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    (0..IDS).try_for_each(|id| {
        let of_id: Vec<Call> = calls.iter().filter(|(other, _)| *other == id).map(|(_, call)| *call).collect();
        judge(&of_id, latest.known(Int::from(id as u64))).map_err(|wrong| format!("seed {seed}: {wrong}"))
    })
}

#[test]
fn of_threads_that_bring_versions_of_one_id_each_passes_once_and_none_after_a_higher_one() {
    (0..30).try_for_each(|seed| record(None, seed)).unwrap();
}

#[test]
fn a_look_and_a_write_that_are_two_steps_are_noticed() {
    assert!((0..200).any(|seed| record(Some(Rule::AdvanceAsOne), seed).is_err()));
}

#[test]
fn nothing_is_forgotten_up_to_the_capacity_and_beyond_it_what_is_is_counted() {
    for capacity in [1, 100, 2_047, 2_048, 50_000] {
        let latest = memory(capacity);
        let ids = |range: std::ops::Range<usize>| range.map(|id| (Int::from(id as u64), 1));
        let mut verdicts = Vec::new();
        latest.check_batch_at(ids(0..capacity), at(0), &mut verdicts);
        assert!(verdicts.iter().all(|verdict| verdict.is_newer()));
        latest.check_batch_at(ids(0..capacity), at(0), &mut verdicts);
        assert!(verdicts.iter().all(|verdict| *verdict == VersionVerdict::Duplicate));
        assert_eq!((latest.stats().forgotten_early, latest.stats().live), (0, capacity));

        latest.check_batch_at(ids(capacity..3 * capacity), at(1), &mut verdicts);
        let stats = latest.stats();
        let forgotten = (0..3 * capacity).filter(|id| latest.known(Int::from(*id as u64)).is_none()).count();
        assert_eq!((stats.forgotten_early as usize, stats.live), (forgotten, 3 * capacity - forgotten));
        assert!(stats.live <= stats.room && stats.room >= capacity, "{stats:?}");
        assert!(capacity < 100 || stats.room <= capacity + capacity / 3, "{stats:?}");
        // The oldest went.
        let of_the_first = (0..capacity).filter(|id| latest.known(Int::from(*id as u64)).is_some()).count();
        assert_eq!(of_the_first, 0, "{stats:?}");
    }
}

#[test]
fn what_has_expired_makes_room_and_is_not_counted_as_forgotten_early() {
    let latest = memory(10);
    for round in 0..50 {
        for id in 0..10_u64 {
            let verdict = latest.check_at(Int::from(1_000 * round + id), 1, at(round * RETENTION));
            assert!(verdict.is_newer());
        }
    }
    assert_eq!((latest.stats().forgotten_early, latest.stats().live), (0, 10));
    latest.check_batch_at([("", 0); 0], at(50 * RETENTION), &mut Vec::new());
    assert_eq!((latest.stats().live, latest.stats().oldest), (0, Duration::ZERO));
}

#[test]
fn a_duplicate_and_a_stale_version_extend_nothing_and_a_newer_one_does() {
    let latest = memory(10);
    assert!(latest.check_at("a", 6, at(0)).is_newer());
    assert_eq!(latest.check_at("a", 6, at(99)), VersionVerdict::Duplicate);
    assert_eq!(latest.check_at("a", 5, at(99)), VersionVerdict::Stale { known: 6 });
    assert!(latest.check_at("a", 7, at(99)).is_newer());
    assert_eq!(latest.check_at("a", 6, at(198)), VersionVerdict::Stale { known: 7 });
    assert!(latest.check_at("a", 1, at(199)).is_newer());
}

/// A clock that lags by up to two seconds.
struct Lagging(ManualClock);

impl Clock for Lagging {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn lag(&self) -> Duration {
        Duration::from_secs(2)
    }
}

#[test]
fn by_a_clock_that_lags_nothing_is_forgotten_early() {
    let (clock, retention) = (ManualClock::new(), Duration::from_secs(1_000));
    let latest = Latest::builder().retention(retention).clock(Lagging(clock.clone())).build().unwrap();
    assert!(latest.check("a", 6).is_newer());
    clock.advance(Duration::from_nanos(1_001_999_999_999));
    assert_eq!(latest.check("a", 5), VersionVerdict::Stale { known: 6 });
    clock.advance(Duration::from_nanos(1));
    assert_eq!(latest.known("a"), None);
    assert!(latest.check("a", 5).is_newer());
    // A clock that goes back changes nothing.
    clock.set(Timestamp::from_secs(1));
    assert_eq!(latest.check("a", 5), VersionVerdict::Duplicate);
}

#[test]
fn a_time_that_cannot_be_right_changes_nothing() {
    let clock = ManualClock::new();
    clock.set(Timestamp::from_secs(1_000));
    let latest = Latest::builder().retention(Duration::from_secs(100)).clock(clock.clone()).build().unwrap();
    assert!(latest.check_at("a", 6, Timestamp::from_secs(990)).is_newer());
    let ahead = Timestamp::from_secs(1_000_000_000);
    assert_eq!(latest.check_at("a", 7, ahead), VersionVerdict::Refused(Refusal::Ahead));
    let mut verdicts = Vec::new();
    latest.check_batch_at([("a", 8), ("b", 1)], ahead, &mut verdicts);
    assert_eq!(verdicts, [VersionVerdict::Refused(Refusal::Ahead); 2]);
    assert_eq!((latest.known("a"), latest.known("b"), latest.stats().refused), (Some(6), None, 3));
    // From the first event on the clock does not count.
    clock.advance(Duration::from_secs(5_000));
    assert_eq!(latest.check("a", 5), VersionVerdict::Stale { known: 6 });
}

#[test]
fn events_of_the_past_count_from_what_the_clock_has_accepted() {
    let clock = ManualClock::new();
    clock.set(Timestamp::from_secs(1_000_000));
    let latest = Latest::builder().retention(Duration::from_secs(100)).clock(clock).build().unwrap();
    assert!(latest.check("a", 6).is_newer());
    // A replay of what was long ago: its first event is the present.
    assert_eq!(latest.check_at("a", 5, Timestamp::from_secs(1_000)), VersionVerdict::Stale { known: 6 });
    assert_eq!(latest.check_at("a", 5, Timestamp::from_secs(1_098)), VersionVerdict::Stale { known: 6 });
    assert!(latest.check_at("a", 5, Timestamp::from_secs(1_101)).is_newer());
}

#[test]
fn options_that_make_no_sense_are_named() {
    let refused = |builder: super::LatestBuilder| builder.build().unwrap_err().to_string();
    assert!(refused(Latest::builder().retention(Duration::ZERO)).starts_with("option `retention`: got 0ns"));
    assert!(refused(Latest::builder().capacity(0)).starts_with("option `capacity`: got 0"));
    assert!(refused(Latest::builder().capacity(usize::MAX)).starts_with("option `capacity`"));
}

#[test]
fn an_id_takes_as_many_bytes_as_it_says() {
    let stats = Latest::builder().capacity(1_000_000).build().unwrap().stats();
    let bytes = stats.bytes as f64 / 1_000_000.0;
    assert!((50.0..56.0).contains(&bytes), "{bytes} bytes an id");
}
