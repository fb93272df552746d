//! Strategies of other shapes than a map, each wrong in its own way: slots without locks, and two
//! generations.

use super::broken::{WINDOW, workload};
use super::judged::{accepted, found, long};
use crate::{Semantics, Subject, Time, verify};
use hapax::seam::random::mix;
use hapax::{Outcome, Timestamp};
use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::yield_now;

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

/// Slots with an id and a time each, which are written in this order: whoever comes in between sees
/// the id without its time.
struct IdBeforeTime(Vec<[AtomicU64; 2]>);

impl Subject for IdBeforeTime {
    fn check(&self, id: u64, at: Timestamp) -> Option<Outcome> {
        // A time: one more than when the id was accepted, in nanoseconds, or 0.
        let (key, now) = (id + 1, at.as_nanos() + 1);
        let start = mix(id) as usize;
        let slots = (0..self.0.len()).map(|i| &self.0[start.wrapping_add(i) % self.0.len()]);
        for [known, then] in slots {
            match known.compare_exchange(0, key, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => {
                    yield_now();
                    then.store(now, Ordering::SeqCst);
                    return Some(Outcome::Fresh);
                }
                Err(other) if other == key => {
                    let seen = then.load(Ordering::SeqCst);
                    let is_live = seen != 0 && now.saturating_sub(seen) < WINDOW.as_nanos() as u64;
                    let is_first =
                        !is_live && then.compare_exchange(seen, now, Ordering::SeqCst, Ordering::SeqCst).is_ok();
                    return Some(if is_first { Outcome::Fresh } else { Outcome::Duplicate });
                }
                Err(_) => {}
            }
        }
        unreachable!("there are more slots than ids")
    }
}

/// Two sets: when the newer one is a window old, it becomes the older one.
struct Generations {
    /// Looks again whether it is still due, once it has the lock.
    looks_again: bool,
    latest: AtomicU64,
    begun: AtomicU64,
    sets: Mutex<[HashSet<u64>; 2]>,
}

impl Generations {
    fn new(looks_again: bool) -> Self {
        let ([latest, begun], sets) = Default::default();
        Generations { looks_again, latest, begun, sets }
    }

    fn is_due(&self) -> bool {
        let (begun, latest) = (self.begun.load(Ordering::SeqCst), self.latest.load(Ordering::SeqCst));
        latest >= begun + WINDOW.as_nanos() as u64
    }
}

impl Subject for Generations {
    fn check(&self, id: u64, at: Timestamp) -> Option<Outcome> {
        self.latest.fetch_max(at.as_nanos(), Ordering::SeqCst);
        let is_due = self.is_due();
        if is_due {
            yield_now();
        }
        let mut sets = self.sets.lock().unwrap();
        if is_due && (!self.looks_again || self.is_due()) {
            sets.swap(0, 1);
            sets[0].clear();
            self.begun.store(self.latest.load(Ordering::SeqCst), Ordering::SeqCst);
        }
        let is_known = sets[1].contains(&id) || !sets[0].insert(id);
        Some(if is_known { Outcome::Duplicate } else { Outcome::Fresh })
    }
}

#[test]
fn slots_without_locks_are_found() {
    let semantics = Semantics { time: Time::AsGiven, ..Semantics::of_hapax(WINDOW) };
    let slots = || FirstFree { lines: (0..512).map(|_| Default::default()).collect() };
    let names = ["TwoFresh", "ForgottenEarly"];
    found("FirstFree", &names, |seed| verify(&slots(), &workload(seed), &semantics));
    let slots = || IdBeforeTime((0..1 << 16).map(|_| Default::default()).collect());
    found("IdBeforeTime", &names, |seed| verify(&slots(), &workload(seed), &semantics));
}

#[test]
fn generations_that_are_exchanged_twice_are_found() {
    let semantics = Semantics { slack: WINDOW * 6 / 5, ..Semantics::of_hapax(WINDOW) };
    for seed in 0..long(2, 5) {
        accepted(format!("two generations, seed {seed}"), || {
            verify(&Generations::new(true), &workload(seed), &semantics)
        });
    }
    let names = ["TwoFresh", "ForgottenEarly"];
    found("GenerationsExchangedTwice", &names, |seed| verify(&Generations::new(false), &workload(seed), &semantics));
}
