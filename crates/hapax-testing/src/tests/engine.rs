//! The engine by its own clock, with all that it has: claims, fingerprints, a journal, and
//! restarts.
//!
//! Its time is virtual: 64 steps, after which threads meet, are less than a twentieth of any window
//! and of any lease here. (What a stall of a window can do is in docs/testing.md.)

use super::told_clock::Told;
use crate::subject::Time;
use crate::{Attempt, Clocks, Lease, Report, Semantics, Subject, Workload, verify};
use hapax::{
    Builder, Claim, ClaimOptions, Dedup, Forgotten, Int, JournalOptions, LongMemory, Outcome, SyncMode, Timestamp,
};
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

const WINDOW: Duration = Duration::from_millis(100);
/// Two ticks of the window are not remembered exactly.
const LEASE: Duration = Duration::from_millis(50);

/// An engine that is stopped and started.
struct Engine {
    /// `None` while it is stopped.
    dedup: RwLock<Option<Dedup>>,
    build: Box<dyn Fn() -> Builder + Send + Sync>,
    has_journal: bool,
    clock: Told,
}

impl Engine {
    fn new(has_journal: bool, build: impl Fn() -> Builder + Send + Sync + 'static) -> Self {
        let clock = Told::default();
        let build = Box::new({
            let clock = clock.clone();
            move || build().clock(clock.clone())
        });
        let dedup = build().build().expect("these options are valid");
        Engine { dedup: RwLock::new(Some(dedup)), build, has_journal, clock }
    }

    fn running(&self) -> Running<'_> {
        Running(self.dedup.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn attempt(&self, id: u64, options: ClaimOptions<'_>, at: Timestamp) -> Attempt<'static> {
        self.clock.tell(at);
        match self.running().dedup().claim_with(Int::from(id), options) {
            hapax::Attempt::Claimed(claim) => Attempt::Claimed(Box::new(Held(claim.into_owned(), self.clock.clone()))),
            hapax::Attempt::Duplicate(_) => Attempt::Duplicate,
            hapax::Attempt::Mismatch => Attempt::Mismatch,
            _ => Attempt::InProgress,
        }
    }
}

/// An engine that is not stopped meanwhile.
struct Running<'e>(RwLockReadGuard<'e, Option<Dedup>>);

impl Running<'_> {
    fn dedup(&self) -> &Dedup {
        self.0.as_ref().expect("nobody calls it while it is stopped")
    }
}

struct Held(Claim<'static>, Told);

impl Lease for Held {
    fn token(&self) -> Option<u64> {
        Some(self.0.token().as_u64())
    }

    fn renew(&mut self, at: Timestamp) -> Option<bool> {
        self.1.tell(at);
        Some(self.0.renew(LEASE).is_ok())
    }

    fn end(self: Box<Self>, completes: bool, at: Timestamp) -> bool {
        self.1.tell(at);
        if completes { self.0.complete().is_ok() } else { self.0.release().is_ok() }
    }
}

impl Subject for Engine {
    fn check(&self, id: u64, at: Timestamp) -> Option<Outcome> {
        self.clock.tell(at);
        Some(self.running().dedup().check(Int::from(id)).outcome())
    }

    fn check_batch(&self, ids: &[u64], at: Timestamp, answers: &mut Vec<Option<Outcome>>) {
        self.clock.tell(at);
        let mut verdicts = Vec::new();
        self.running().dedup().check_batch(ids.iter().copied().map(Int::from), &mut verdicts);
        answers.extend(verdicts.iter().map(|verdict| Some(verdict.outcome())));
    }

    fn forget(&self, id: u64, at: Timestamp) -> bool {
        self.clock.tell(at);
        self.running().dedup().forget(Int::from(id)) != Forgotten::InProgress
    }

    fn claim(&self, id: u64, at: Timestamp) -> Option<Attempt<'_>> {
        Some(self.attempt(id, ClaimOptions::new(), at))
    }

    fn claim_with(&self, id: u64, fingerprint: u8, at: Timestamp) -> Option<Attempt<'_>> {
        Some(self.attempt(id, ClaimOptions::new().fingerprint(&[fingerprint]), at))
    }

    fn restart(&self) -> bool {
        if !self.has_journal {
            return false;
        }
        let mut dedup = self.dedup.write().unwrap_or_else(PoisonError::into_inner);
        dedup.take().expect("it runs").journal().unwrap().flush().expect("the disk takes it");
        *dedup = Some((self.build)().build().expect("the journal is what it wrote"));
        true
    }

    fn evicted(&self) -> u64 {
        self.running().dedup().evicted_live()
    }
}

fn builder() -> Builder {
    Dedup::builder().window(WINDOW).lease(LEASE).capacity(100_000)
}

#[track_caller]
fn assert_accepted(engine: &Engine, workload: &Workload, semantics: &Semantics) -> Report {
    let workload = &Workload { clocks: Clocks::Virtual, ..workload.clone() };
    let semantics = &Semantics { time: Time::LargestSoFar, ..*semantics };
    let report = verify(engine, workload, semantics).unwrap_or_else(|violation| panic!("{workload:?}: {violation}"));
    println!("seed {}: {report}", workload.seed);
    assert!(report.fresh > 0 && report.duplicates > 0, "{report}");
    report
}

#[test]
fn the_engine_reads_a_clock_of_its_own() {
    let workload = Workload { operations: 60_000, forgets: 2, ..Workload::of_own_clock(WINDOW) };
    assert_accepted(&Engine::new(false, builder), &workload, &Semantics::of_own_clock(WINDOW));
}

#[test]
fn the_engine_with_everything_is_accepted() {
    for refreshes in [false, true] {
        // A run may be without a lease that expires: then another one is made.
        let is_exercised = (0..5).any(|seed| everything_is_accepted(seed, refreshes));
        assert!(is_exercised, "refreshes: {refreshes}");
    }
}

/// Returns true if everything was exercised.
#[track_caller]
fn everything_is_accepted(seed: u64, refreshes: bool) -> bool {
    let workload = Workload { seed, ..Workload::of_everything(WINDOW) };
    let semantics = Semantics { refresh_on_duplicate: refreshes, ..Semantics::of_everything(WINDOW) };
    let directory = Directory::new(u64::from(refreshes));
    let path = directory.0.clone();
    let build = move || {
        let options = JournalOptions::new().sync(SyncMode::System);
        builder().refresh_on_duplicate(refreshes).journal(&path, options)
    };
    let report = assert_accepted(&Engine::new(true, build), &workload, &semantics);
    let Report { claimed, renewed, lost, mismatches, restarts, forgotten, in_progress, .. } = report;
    let seen = [claimed, renewed, lost, mismatches, restarts, forgotten, in_progress];
    seen.iter().all(|count| *count > 0)
}

/// Ids leave the window after half of the time for which they are remembered: while others ask for
/// them, forget them and claim them, a thread seals and merges, and the engine is started anew.
#[test]
fn the_engine_with_a_long_memory_is_accepted() {
    let retention = 3 * WINDOW;
    let workload = Workload { seed: 2, fingerprints: 0, ..Workload::of_everything(retention) };
    // (Ids that are asked for again may be remembered for a window longer.)
    let semantics = Semantics { refresh_on_duplicate: false, ..Semantics::of_everything(retention) };
    let semantics = Semantics { slack: semantics.slack + 2 * WINDOW, lease: Some(LEASE), ..semantics };
    let directory = Directory::new(3);
    let path = directory.0.clone();
    let build = move || {
        let options = JournalOptions::new().sync(SyncMode::System);
        builder().journal(path.join("journal"), options).long_memory(path.join("segments"), LongMemory::new(retention))
    };
    let engine = Engine::new(true, build);
    let report = assert_accepted(&engine, &workload, &semantics);
    assert!(report.forgotten > 0 && report.restarts > 0 && report.claimed > 0, "{report}");
    let stats = engine.running().dedup().stats();
    let long_memory = stats.long_memory.as_ref().expect("it has one");
    assert!(stats.duplicates_by_segments > 0 && long_memory.segments.sealed_events > 0, "{stats:?}");
    assert!(long_memory.in_doubt == 0 && long_memory.failed.is_none(), "{long_memory:?}");
}

/// A directory of a test's own, removed when this is dropped.
struct Directory(PathBuf);

impl Directory {
    fn new(seed: u64) -> Self {
        let path = std::env::temp_dir().join(format!("hapax-testing-engine-{seed}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
