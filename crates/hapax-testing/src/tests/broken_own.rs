//! Strategies that read a clock of their own, right ones and wrong ones: the harness must tell them
//! apart. They run in real time, for as short as it takes; however busy the machine is, a right one
//! is never rejected.

use super::judged::{accepted, found, long};
use crate::{Semantics, Subject, Workload, verify};
use hapax::seam::random::mix;
use hapax::{Outcome, Timestamp};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::yield_now;
use std::time::{Duration, Instant};

const WINDOW: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    /// Reads the clock before it takes the lock: still during the call.
    ReadsBeforeTheLock,
    /// One of those, and waits in between, as a thread that is interrupted does.
    WaitsAfterReading,
    /// Gets, and inserts what was not there.
    GetsThenInserts,
    ForgetsEarly,
    RemembersTooLong,
    /// Reads the clock once in thousands of calls, and goes by what it read then, before the call.
    ReadsRarely,
    /// Duplicates extend the stay.
    Refreshes,
    /// Removes what has expired, and looks at the time before it takes the lock for that.
    SweepsByAnOldTime,
}

/// A map in shards, each behind a lock, as `DashMap::entry` has it.
struct Map {
    flaw: Flaw,
    shards: [Mutex<HashMap<u64, Duration>>; 16],
    origin: Instant,
    calls: AtomicU64,
    read: AtomicU64,
}

impl Map {
    fn new(flaw: Flaw) -> Self {
        let (shards, calls, read) = Default::default();
        Map { flaw, shards, origin: Instant::now(), calls, read }
    }

    fn now(&self) -> Duration {
        let calls = self.calls.fetch_add(1, Ordering::Relaxed);
        if self.flaw == Flaw::ReadsRarely && !calls.is_multiple_of(2_000) {
            return Duration::from_nanos(self.read.load(Ordering::SeqCst));
        }
        let now = self.origin.elapsed();
        self.read.store(now.as_nanos() as u64, Ordering::SeqCst);
        now
    }

    fn window(&self) -> Duration {
        match self.flaw {
            Flaw::ForgetsEarly => WINDOW * 9 / 10,
            Flaw::RemembersTooLong => WINDOW * 11 / 10,
            _ => WINDOW,
        }
    }
}

impl Subject for Map {
    fn check(&self, id: u64, _at: Timestamp) -> Option<Outcome> {
        let shard = &self.shards[mix(id) as usize % self.shards.len()];
        let before = self.now();
        if self.flaw == Flaw::WaitsAfterReading && id.is_multiple_of(64) {
            yield_now();
        }
        let mut accepted = shard.lock().unwrap();
        let is_old = matches!(self.flaw, Flaw::ReadsBeforeTheLock | Flaw::WaitsAfterReading | Flaw::ReadsRarely);
        let now = if is_old { before } else { self.now() };
        if self.flaw == Flaw::SweepsByAnOldTime && id.is_multiple_of(8) {
            // As if the sweep had begun a while ago.
            let sweep = now + WINDOW / 8;
            accepted.retain(|_, then| sweep.saturating_sub(*then) < WINDOW);
        }
        if accepted.get(&id).is_some_and(|then| now.saturating_sub(*then) < self.window()) {
            if self.flaw == Flaw::Refreshes {
                accepted.insert(id, now);
            }
            return Some(Outcome::Duplicate);
        }
        if self.flaw == Flaw::GetsThenInserts {
            drop(accepted);
            yield_now();
            accepted = shard.lock().unwrap();
        }
        accepted.insert(id, now);
        Some(Outcome::Fresh)
    }

    fn forget(&self, id: u64, _at: Timestamp) -> bool {
        self.shards[mix(id) as usize % self.shards.len()].lock().unwrap().remove(&id);
        true
    }
}

/// Returns a workload of three windows.
fn workload(seed: u64) -> Workload {
    Workload {
        seed,
        operations: long(30_000, 60_000),
        operations_per_window: long(10_000, 20_000),
        forgets: 2,
        ..Workload::of_own_clock(WINDOW)
    }
}

#[track_caller]
fn assert_accepted(name: &str, seed: u64, subject: &impl Subject, semantics: &Semantics) {
    let name = format!("{name}, seed {seed}");
    let report = accepted(&name, || verify(subject, &workload(seed), semantics));
    assert!(report.fresh > 0 && report.duplicates > 0, "{name}: {report}");
}

#[test]
fn strategies_with_a_clock_of_their_own_are_accepted() {
    let semantics = Semantics { forgets_meanwhile: false, accepts_meanwhile: false, ..Semantics::of_own_clock(WINDOW) };
    for (seed, flaw) in (0..).zip([Flaw::None, Flaw::ReadsBeforeTheLock, Flaw::WaitsAfterReading]) {
        assert_accepted(&format!("{flaw:?}"), seed, &Map::new(flaw), &semantics);
        // Nothing is remembered for a moment longer, either.
        let exact = Semantics { slack: Duration::ZERO, ..semantics };
        assert_accepted(&format!("{flaw:?}"), seed, &Map::new(flaw), &exact);
    }
    let refreshing = Semantics { refresh_on_duplicate: true, ..semantics };
    assert_accepted("refreshing", 0, &Map::new(Flaw::Refreshes), &refreshing);
}

#[test]
fn every_flaw_is_found_and_named() {
    let semantics = Semantics { forgets_meanwhile: false, accepts_meanwhile: false, ..Semantics::of_own_clock(WINDOW) };
    let refreshing = Semantics { refresh_on_duplicate: true, ..semantics };
    let cases: [(Flaw, Semantics, &[&str]); 7] = [
        (Flaw::GetsThenInserts, semantics, &["TwoFresh"]),
        (Flaw::ForgetsEarly, semantics, &["ForgottenEarly"]),
        (Flaw::RemembersTooLong, semantics, &["RememberedTooLong"]),
        (Flaw::ReadsRarely, semantics, &["ForgottenEarly", "RememberedTooLong"]),
        (Flaw::SweepsByAnOldTime, semantics, &["ForgottenEarly"]),
        (Flaw::Refreshes, semantics, &["RememberedTooLong"]),
        (Flaw::None, refreshing, &["ForgottenEarly"]),
    ];
    for (flaw, semantics, expected) in cases {
        let called = if flaw == Flaw::None { "DoesNotRefresh".into() } else { format!("{flaw:?}") };
        found(called, expected, |seed| verify(&Map::new(flaw), &workload(seed), &semantics));
    }
}
