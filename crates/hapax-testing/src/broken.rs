//! Strategies that are wrong, each in its own way, and the same one without a flaw: the harness
//! must tell them apart.

use super::problem::name;
use super::{Clocks, Problem, Semantics, Subject, Time, Violation, Workload, verify};
use hapax::tier::random::mix;
use hapax::{Outcome, Timestamp};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::yield_now;
use std::time::{Duration, Instant};

const WINDOW: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    /// Looks, and inserts later: two threads can both have looked.
    LooksThenInserts,
    /// Looks for all ids of a batch, and then inserts them.
    LooksForTheWholeBatch,
    ForgetsEarly,
    RemembersTooLong,
    /// Does not remember one id in ten thousand.
    LosesOne,
    /// Loses as many, and counts every other one.
    CountsTooFew,
    /// Compares with the caller's clock, whatever others have given.
    GoesByTheCallersClock,
    /// Does not refresh, or does.
    Refreshes,
    /// Sometimes forgets nothing.
    ForgetsNothing,
    /// Forgets, and then forgets again an id that was accepted meanwhile.
    ForgetsTwice,
    /// Answers fresh, and remembers nothing, when another thread is in its way.
    FreshIfBusy,
    /// Gives no answer then, whether it has remembered the id or not: which is right.
    SilentIfBusy,
    /// Gives no answer then, and remembers the id later, again and again.
    RepeatsIfSilent,
}

/// A map in shards, behind locks.
struct Map {
    flaw: Flaw,
    shards: [Mutex<HashMap<u64, u64>>; 16],
    /// Ids that were not answered, and are to be repeated.
    silent: Mutex<Vec<u64>>,
    latest: AtomicU64,
    accepted: AtomicU64,
    lost: AtomicU64,
}

impl Map {
    fn new(flaw: Flaw) -> Self {
        let (shards, silent) = Default::default();
        let [latest, accepted, lost] = Default::default();
        Map { flaw, shards, silent, latest, accepted, lost }
    }

    fn shard(&self, id: u64) -> &Mutex<HashMap<u64, u64>> {
        &self.shards[mix(id) as usize % self.shards.len()]
    }

    fn now(&self, at: Timestamp) -> u64 {
        let latest = self.latest.fetch_max(at.as_nanos(), Ordering::SeqCst).max(at.as_nanos());
        if self.flaw == Flaw::GoesByTheCallersClock { at.as_nanos() } else { latest }
    }

    fn knows(&self, accepted: &HashMap<u64, u64>, id: u64, now: u64) -> bool {
        let window = match self.flaw {
            Flaw::ForgetsEarly => WINDOW * 9 / 10,
            Flaw::RemembersTooLong => WINDOW * 11 / 10,
            _ => WINDOW,
        };
        accepted.get(&id).is_some_and(|&then| now.saturating_sub(then) < window.as_nanos() as u64)
    }

    fn accept(&self, accepted: &mut HashMap<u64, u64>, id: u64, now: u64) {
        let count = self.accepted.fetch_add(1, Ordering::Relaxed) + 1;
        let loses = matches!(self.flaw, Flaw::LosesOne | Flaw::CountsTooFew) && count.is_multiple_of(10_000);
        if loses {
            self.lost.fetch_add(1, Ordering::Relaxed);
        } else {
            accepted.insert(id, now);
        }
    }
}

impl Subject for Map {
    fn check(&self, id: u64, at: Timestamp) -> Option<Outcome> {
        let shard = self.shard(id);
        let busy = shard.try_lock().is_err();
        // Under the lock, or a refresh by a thread that has read the time and then waited would
        // make the id older.
        let mut accepted = shard.lock().unwrap();
        let now = self.now(at);
        match self.flaw {
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
        if self.flaw == Flaw::ForgetsNothing && id.is_multiple_of(7) {
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

/// Slots in a line of eight: an id goes into the first free one, on which callers with different
/// clocks do not agree.
struct FirstFree {
    lines: Vec<[AtomicU64; 8]>,
}

impl Subject for FirstFree {
    fn check(&self, id: u64, at: Timestamp) -> Option<Outcome> {
        // An entry: 32 bits of the id, and the time of its acceptance, in microseconds.
        let now = at.as_nanos() / 1_000;
        let key = mix(id) << 32;
        let line = &self.lines[(mix(id) >> 32) as usize % self.lines.len()];
        let live = |entry: u64| entry != 0 && now.saturating_sub(entry & 0xffff_ffff) < WINDOW.as_micros() as u64;
        loop {
            let entries = line.each_ref().map(|slot| slot.load(Ordering::SeqCst));
            if entries.iter().any(|&entry| entry >> 32 == key >> 32 && live(entry)) {
                return Some(Outcome::Duplicate);
            }
            let free = entries.iter().position(|&entry| !live(entry)).unwrap_or(id as usize % 8);
            yield_now();
            let swap = line[free].compare_exchange(entries[free], key | now, Ordering::SeqCst, Ordering::SeqCst);
            if swap.is_ok() {
                return Some(Outcome::Fresh);
            }
        }
    }
}

fn workload(seed: u64) -> Workload {
    Workload {
        seed,
        threads: 3,
        operations: 60_000,
        operations_per_window: 10_000,
        ids: 5_000,
        forgets: 2,
        ..Workload::of_window(WINDOW)
    }
}

/// Returns what is wrong with a subject: the first finding of these names.
fn found(
    flaw: &str,
    subject: impl Fn() -> Box<dyn Run>,
    semantics: &Semantics,
    threads: u16,
    names: &[&str],
) -> Problem {
    const WORKLOADS_MAX: u64 = 30;
    let named = |seed| {
        let violation = subject().run(&Workload { threads, ..workload(seed) }, semantics).err()?;
        println!("{flaw}, seed {seed}: {violation}");
        names.contains(&&*name(violation.problem)).then_some(violation.problem)
    };
    (0..WORKLOADS_MAX).find_map(named).unwrap_or_else(|| panic!("{flaw} was not found as one of {names:?}"))
}

/// A subject of any type.
trait Run {
    fn run(&self, workload: &Workload, semantics: &Semantics) -> Result<(), Box<Violation>>;
}

impl<S: Subject> Run for S {
    fn run(&self, workload: &Workload, semantics: &Semantics) -> Result<(), Box<Violation>> {
        verify(self, workload, semantics).map(drop)
    }
}

#[test]
fn a_strategy_without_a_flaw_is_accepted() {
    let semantics = Semantics { forgets_meanwhile: false, ..Semantics::of_hapax(WINDOW) };
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
        for seed in 0..10 {
            let clocks = if seed % 2 == 0 { Clocks::Virtual } else { Clocks::Real(Instant::now()) };
            let skew = WINDOW / [50, 1_000_000, 2][seed as usize % 3];
            let workload = Workload { clocks, skew, ..workload(seed) };
            match verify(&Map::new(flaw), &workload, &semantics) {
                Ok(report) => println!("{flaw:?}, seed {seed}: {report}"),
                Err(violation) => panic!("{flaw:?}, {workload:?}: {violation}"),
            }
        }
    }
}

#[test]
fn every_flaw_is_found_and_named() {
    let semantics = Semantics { forgets_meanwhile: false, ..Semantics::of_hapax(WINDOW) };
    let refreshing = Semantics { refresh_on_duplicate: true, ..semantics };
    // A flaw may show in several ways, and what the threads do decides which is seen first: one of
    // the workloads must show what it is known for.
    let cases: [(Flaw, Semantics, &[&str]); 13] = [
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
    ];
    for (flaw, semantics, expected) in cases {
        // Alone, a batch races with nothing but itself.
        let threads = if flaw == Flaw::LooksForTheWholeBatch { 1 } else { 3 };
        let problem = found(&format!("{flaw:?}"), || Box::new(Map::new(flaw)), &semantics, threads, expected);
        // By a tenth of the window, less what is allowed.
        if let (Flaw::ForgetsEarly | Flaw::RemembersTooLong, Problem::ForgottenEarly { by, .. })
        | (Flaw::ForgetsEarly | Flaw::RemembersTooLong, Problem::RememberedTooLong { by, .. }) = (flaw, problem)
        {
            assert!(by <= WINDOW / 10, "{flaw:?}: {problem}");
        }
    }
}

#[test]
fn the_first_free_slot_is_found() {
    let subject = || Box::new(FirstFree { lines: (0..512).map(|_| Default::default()).collect() }) as Box<dyn Run>;
    let semantics = Semantics { time: Time::AsGiven, ..Semantics::of_hapax(WINDOW) };
    found("first free slot", subject, &semantics, 3, &["TwoFresh", "ForgottenEarly"]);
}
