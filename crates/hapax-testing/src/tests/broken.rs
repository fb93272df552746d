//! Strategies that are wrong, each in its own way, and the same one without a flaw: the harness
//! must tell them apart.

use super::judged::{accepted, found, long};
use crate::{Clocks, Problem, Semantics, Subject, Time, Workload, verify};
use hapax::seam::random::mix;
use hapax::{Outcome, Timestamp};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::yield_now;
use std::time::{Duration, Instant};

const WINDOW: Duration = Duration::from_millis(100);
/// The window of those that read a clock of their own, in real time, for as short as it takes.
const SHORT: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    /// Looks, and inserts later: two threads can both have looked.
    LooksThenInserts,
    /// Looks for all ids of a batch, and then inserts them.
    LooksForTheWholeBatch,
    ForgetsEarly,
    RemembersTooLong,
    /// Does not remember one id in ten thousand (or four thousand, in a smaller workload).
    LosesOne,
    /// Loses as many, and counts every other one.
    CountsTooFew,
    /// Compares with the caller's clock, whatever others have given.
    GoesByTheCallersClock,
    /// Does not refresh, or does.
    Refreshes,
    /// One call in a thousand forgets nothing.
    ForgetsNothing,
    /// Forgets, and then forgets again an id that was accepted meanwhile.
    ForgetsTwice,
    /// Answers fresh, and remembers nothing, when another thread is in its way.
    FreshIfBusy,
    /// Gives no answer then, whether it has remembered the id or not: which is right.
    SilentIfBusy,
    /// Gives no answer then, and remembers the id later, again and again.
    RepeatsIfSilent,
    /// Looks for what has expired, and removes it later, whatever has become of it.
    SweepsWithoutLookingAgain,
    /// Looks for one id in a hundred where only some calls do.
    LooksInTheWrongShard,
    /// Writes a few fresh ids at once, later.
    WritesBehind,
    /// Reads its clock before it takes the lock: still during the call.
    ReadsBeforeTheLock,
    /// One of those, and waits in between, as a thread that is interrupted does.
    WaitsAfterReading,
    /// Reads its clock once in thousands of calls, and goes by what it read then.
    ReadsRarely,
    /// Removes what has expired, and looks at the time before it takes the lock for that.
    SweepsByAnOldTime,
}

/// A map in shards, behind locks.
struct Map {
    flaw: Flaw,
    window: Duration,
    /// The beginning of its own clock, if it reads one; the number of readings, and the last.
    origin: Option<Instant>,
    calls: AtomicU64,
    read: AtomicU64,
    shards: [Mutex<HashMap<u64, u64>>; 16],
    /// Ids that were not answered, and are to be repeated.
    silent: Mutex<Vec<u64>>,
    /// Ids that are to be written, and when they were accepted.
    behind: Mutex<Vec<(u64, u64)>>,
    forgets: AtomicU64,
    latest: AtomicU64,
    accepted: AtomicU64,
    lost: AtomicU64,
}

impl Map {
    fn new(flaw: Flaw) -> Self {
        let (shards, silent, behind) = Default::default();
        let [calls, read, forgets, latest, accepted, lost] = Default::default();
        let (window, origin) = (WINDOW, None);
        Map { flaw, window, origin, calls, read, shards, silent, behind, forgets, latest, accepted, lost }
    }

    /// Returns one that reads a clock of its own.
    fn with_clock(flaw: Flaw) -> Self {
        Map { window: SHORT, origin: Some(Instant::now()), ..Map::new(flaw) }
    }

    fn shard(&self, id: u64) -> &Mutex<HashMap<u64, u64>> {
        let is_astray = self.flaw == Flaw::LooksInTheWrongShard && id.is_multiple_of(100);
        let off = if is_astray { self.accepted.load(Ordering::Relaxed) } else { 0 };
        &self.shards[mix(id).wrapping_add(off) as usize % self.shards.len()]
    }

    fn now(&self, at: Timestamp) -> u64 {
        let at = self.origin.map_or(at.as_nanos(), |origin| self.read(origin));
        let latest = self.latest.fetch_max(at, Ordering::SeqCst).max(at);
        if self.flaw == Flaw::GoesByTheCallersClock { at } else { latest }
    }

    fn read(&self, origin: Instant) -> u64 {
        let calls = self.calls.fetch_add(1, Ordering::Relaxed);
        if self.flaw == Flaw::ReadsRarely && !calls.is_multiple_of(2_000) {
            return self.read.load(Ordering::SeqCst);
        }
        let now = origin.elapsed().as_nanos() as u64;
        self.read.store(now, Ordering::SeqCst);
        now
    }

    fn knows(&self, accepted: &HashMap<u64, u64>, id: u64, now: u64) -> bool {
        let window = match self.flaw {
            Flaw::ForgetsEarly => self.window * 9 / 10,
            Flaw::RemembersTooLong => self.window * 11 / 10,
            _ => self.window,
        };
        accepted.get(&id).is_some_and(|&then| now.saturating_sub(then) < window.as_nanos() as u64)
    }

    fn accept(&self, accepted: &mut HashMap<u64, u64>, id: u64, now: u64) {
        let count = self.accepted.fetch_add(1, Ordering::Relaxed) + 1;
        let loses =
            matches!(self.flaw, Flaw::LosesOne | Flaw::CountsTooFew) && count.is_multiple_of(long(4_000, 10_000));
        if loses {
            self.lost.fetch_add(1, Ordering::Relaxed);
        } else if self.flaw == Flaw::WritesBehind {
            self.behind.lock().unwrap().push((id, now));
        } else {
            accepted.insert(id, now);
        }
    }

    fn write_behind(&self) {
        const ENOUGH: usize = 8;
        let written = self.behind.lock().unwrap().split_off(0);
        if written.len() < ENOUGH {
            self.behind.lock().unwrap().extend(written);
            return;
        }
        for (id, now) in written {
            self.shard(id).lock().unwrap().insert(id, now);
        }
    }

    fn sweep(&self, shard: &Mutex<HashMap<u64, u64>>, now: u64) {
        let is_over = |then: u64| now.saturating_sub(then) >= WINDOW.as_nanos() as u64;
        let over: Vec<u64> =
            shard.lock().unwrap().iter().filter(|(_, then)| is_over(**then)).map(|(&id, _)| id).collect();
        yield_now();
        let mut accepted = shard.lock().unwrap();
        accepted.retain(|id, _| !over.contains(id));
    }
}

impl Subject for Map {
    fn check(&self, id: u64, at: Timestamp) -> Option<Outcome> {
        let shard = self.shard(id);
        match self.flaw {
            Flaw::WritesBehind => self.write_behind(),
            Flaw::SweepsWithoutLookingAgain if id.is_multiple_of(16) => self.sweep(shard, self.now(at)),
            _ => {}
        }
        let is_old = matches!(self.flaw, Flaw::ReadsBeforeTheLock | Flaw::WaitsAfterReading | Flaw::ReadsRarely);
        let before = is_old.then(|| self.now(at));
        if self.flaw == Flaw::WaitsAfterReading && id.is_multiple_of(64) {
            yield_now();
        }
        let busy = shard.try_lock().is_err();
        // Under the lock, or a refresh by a thread that has read the time and then waited would
        // make the id older.
        let mut accepted = shard.lock().unwrap();
        let now = before.unwrap_or_else(|| self.now(at));
        match self.flaw {
            // As if the sweep had begun a while ago.
            Flaw::SweepsByAnOldTime if id.is_multiple_of(8) => {
                let (sweep, window) = (now + self.window.as_nanos() as u64 / 8, self.window.as_nanos() as u64);
                accepted.retain(|_, then| sweep.saturating_sub(*then) < window);
            }
            Flaw::FreshIfBusy if busy => return Some(Outcome::Fresh),
            Flaw::SilentIfBusy if busy && id.is_multiple_of(2) => return None,
            Flaw::RepeatsIfSilent if busy => self.silent.lock().unwrap().push(id),
            Flaw::RepeatsIfSilent => {
                let again = self.silent.lock().unwrap().contains(&id);
                if again && mix(now).is_multiple_of(16) {
                    accepted.insert(id, now);
                }
            }
            _ => {}
        }
        if self.knows(&accepted, id, now) {
            if self.flaw == Flaw::Refreshes {
                accepted.insert(id, now);
            }
            return Some(Outcome::Duplicate);
        }
        if matches!(self.flaw, Flaw::FreshIfBusy | Flaw::SilentIfBusy | Flaw::RepeatsIfSilent) {
            yield_now();
        }
        if self.flaw == Flaw::LooksThenInserts {
            drop(accepted);
            yield_now();
            accepted = shard.lock().unwrap();
        }
        self.accept(&mut accepted, id, now);
        let silent = busy && matches!(self.flaw, Flaw::SilentIfBusy | Flaw::RepeatsIfSilent);
        (!silent).then_some(Outcome::Fresh)
    }

    fn check_batch(&self, ids: &[u64], at: Timestamp, answers: &mut Vec<Option<Outcome>>) {
        if self.flaw != Flaw::LooksForTheWholeBatch {
            answers.extend(ids.iter().map(|&id| self.check(id, at)));
            return;
        }
        let now = self.now(at);
        let known = ids.iter().map(|&id| self.knows(&self.shard(id).lock().unwrap(), id, now));
        let known: Vec<_> = known.collect();
        for (&id, known) in ids.iter().zip(known) {
            if !known {
                self.accept(&mut self.shard(id).lock().unwrap(), id, now);
            }
            answers.push(Some(if known { Outcome::Duplicate } else { Outcome::Fresh }));
        }
    }

    fn forget(&self, id: u64, _at: Timestamp) -> bool {
        let forgets = self.forgets.fetch_add(1, Ordering::Relaxed) + 1;
        if self.flaw == Flaw::ForgetsNothing && forgets.is_multiple_of(1_000) {
            return true;
        }
        self.shard(id).lock().unwrap().remove(&id);
        if self.flaw == Flaw::ForgetsTwice {
            yield_now();
            self.shard(id).lock().unwrap().remove(&id);
        }
        true
    }

    fn evicted(&self) -> u64 {
        match self.flaw {
            Flaw::CountsTooFew => self.lost.load(Ordering::Relaxed) / 2,
            _ => 0,
        }
    }
}

fn workload(seed: u64) -> Workload {
    Workload {
        seed,
        threads: 3,
        operations: long(24_000, 60_000),
        operations_per_window: long(4_000, 10_000),
        ids: long(2_000, 5_000),
        forgets: 2,
        ..Workload::of_window(WINDOW)
    }
}

#[test]
fn a_strategy_without_a_flaw_is_accepted() {
    let semantics = Semantics { forgets_meanwhile: false, accepts_meanwhile: false, ..Semantics::of_hapax(WINDOW) };
    let refreshing = Semantics { refresh_on_duplicate: true, ..semantics };
    let meanwhile = Semantics { forgets_meanwhile: true, ..semantics };
    let by_the_caller = Semantics { time: Time::AsGiven, ..semantics };
    for (flaw, semantics) in [
        (Flaw::None, semantics),
        (Flaw::SilentIfBusy, semantics),
        (Flaw::Refreshes, refreshing),
        (Flaw::ForgetsTwice, meanwhile),
        (Flaw::GoesByTheCallersClock, by_the_caller),
    ] {
        for seed in 0..long(3, 10) {
            let clocks = if seed % 2 == 0 { Clocks::Virtual } else { Clocks::Real(Instant::now()) };
            let skew = WINDOW / [50, 1_000_000, 2][seed as usize % 3];
            let workload = Workload { clocks, skew, ..workload(seed) };
            accepted(format!("{flaw:?}, seed {seed}"), || verify(&Map::new(flaw), &workload, &semantics));
        }
    }
}

#[test]
fn every_flaw_is_found_and_named() {
    let semantics = Semantics { forgets_meanwhile: false, accepts_meanwhile: false, ..Semantics::of_hapax(WINDOW) };
    let refreshing = Semantics { refresh_on_duplicate: true, ..semantics };
    let cases: [(Flaw, Semantics, &[&str]); 16] = [
        (Flaw::LooksThenInserts, semantics, &["TwoFresh"]),
        (Flaw::LooksForTheWholeBatch, semantics, &["LostInBatch"]),
        (Flaw::ForgetsEarly, semantics, &["ForgottenEarly"]),
        (Flaw::RemembersTooLong, semantics, &["RememberedTooLong"]),
        (Flaw::LosesOne, semantics, &["ForgottenEarly"]),
        (Flaw::CountsTooFew, semantics, &["TooManyEvictions", "ForgottenEarly"]),
        (Flaw::GoesByTheCallersClock, semantics, &["ForgottenEarly", "RememberedTooLong"]),
        (Flaw::Refreshes, semantics, &["RememberedTooLong"]),
        (Flaw::None, refreshing, &["ForgottenEarly"]),
        (Flaw::ForgetsNothing, semantics, &["NotForgotten"]),
        (Flaw::ForgetsTwice, semantics, &["ForgottenMeanwhile"]),
        (Flaw::FreshIfBusy, semantics, &["TwoFresh", "ForgottenEarly"]),
        (Flaw::RepeatsIfSilent, semantics, &["RememberedTooLong", "NotForgotten"]),
        (Flaw::SweepsWithoutLookingAgain, semantics, &["ForgottenEarly", "TwoFresh"]),
        (Flaw::LooksInTheWrongShard, semantics, &["ForgottenEarly", "TwoFresh"]),
        (Flaw::WritesBehind, semantics, &["ForgottenEarly", "TwoFresh"]),
    ];
    for (flaw, semantics, expected) in cases {
        // Alone, a batch races with nothing but itself.
        let threads = if flaw == Flaw::LooksForTheWholeBatch { 1 } else { 3 };
        let forgets = if flaw == Flaw::ForgetsNothing { 20 } else { 2 };
        let called = if flaw == Flaw::None { "DoesNotRefresh".into() } else { format!("{flaw:?}") };
        let problem = found(called, expected, |seed| {
            verify(&Map::new(flaw), &Workload { threads, forgets, ..workload(seed) }, &semantics)
        });
        // By a tenth of the window, less what is allowed.
        if let (Flaw::ForgetsEarly | Flaw::RemembersTooLong, Problem::ForgottenEarly { by, .. })
        | (Flaw::ForgetsEarly | Flaw::RemembersTooLong, Problem::RememberedTooLong { by, .. }) = (flaw, problem)
        {
            assert!(by <= WINDOW / 10, "{flaw:?}: {problem}");
        }
    }
}

/// Returns a workload of three windows.
fn own_workload(seed: u64) -> Workload {
    Workload {
        seed,
        operations: long(30_000, 60_000),
        operations_per_window: long(10_000, 20_000),
        forgets: 2,
        ..Workload::of_own_clock(SHORT)
    }
}

#[track_caller]
fn assert_accepted(name: &str, seed: u64, subject: &impl Subject, semantics: &Semantics) {
    let name = format!("{name}, seed {seed}");
    let report = accepted(&name, || verify(subject, &own_workload(seed), semantics));
    assert!(report.fresh > 0 && report.duplicates > 0, "{name}: {report}");
}

/// However busy the machine is, a right one is never rejected.
#[test]
fn strategies_with_a_clock_of_their_own_are_accepted() {
    let semantics = Semantics { forgets_meanwhile: false, accepts_meanwhile: false, ..Semantics::of_own_clock(SHORT) };
    for (seed, flaw) in (0..).zip([Flaw::None, Flaw::ReadsBeforeTheLock, Flaw::WaitsAfterReading]) {
        assert_accepted(&format!("{flaw:?}"), seed, &Map::with_clock(flaw), &semantics);
        // Nothing is remembered for a moment longer, either.
        let exact = Semantics { slack: Duration::ZERO, ..semantics };
        assert_accepted(&format!("{flaw:?}"), seed, &Map::with_clock(flaw), &exact);
    }
    let refreshing = Semantics { refresh_on_duplicate: true, ..semantics };
    assert_accepted("refreshing", 0, &Map::with_clock(Flaw::Refreshes), &refreshing);
}

#[test]
fn every_flaw_of_those_is_found_and_named() {
    let semantics = Semantics { forgets_meanwhile: false, accepts_meanwhile: false, ..Semantics::of_own_clock(SHORT) };
    let refreshing = Semantics { refresh_on_duplicate: true, ..semantics };
    let cases: [(Flaw, Semantics, &[&str]); 7] = [
        (Flaw::LooksThenInserts, semantics, &["TwoFresh"]),
        (Flaw::ForgetsEarly, semantics, &["ForgottenEarly"]),
        (Flaw::RemembersTooLong, semantics, &["RememberedTooLong"]),
        (Flaw::ReadsRarely, semantics, &["ForgottenEarly", "RememberedTooLong"]),
        (Flaw::SweepsByAnOldTime, semantics, &["ForgottenEarly"]),
        (Flaw::Refreshes, semantics, &["RememberedTooLong"]),
        (Flaw::None, refreshing, &["ForgottenEarly"]),
    ];
    for (flaw, semantics, expected) in cases {
        let called = if flaw == Flaw::None { "DoesNotRefresh".into() } else { format!("{flaw:?}") };
        found(called, expected, |seed| verify(&Map::with_clock(flaw), &own_workload(seed), &semantics));
    }
}
