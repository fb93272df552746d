use super::run::{CHANGES, Session};
use super::shuttle::scheduler::{PctScheduler, RandomScheduler};
use super::shuttle::sync::Mutex;
use super::shuttle::sync::atomic::{AtomicU64, Ordering};
use super::*;
use crate::subject::{Attempt, Semantics, Subject, Time};
use hapax::{Outcome, Timestamp};
use std::collections::HashMap;
use std::time::Duration;

const WINDOW: Duration = Duration::from_secs(60);

fn semantics() -> Semantics {
    Semantics { time: Time::AsGiven, ..Semantics::of_window(WINDOW) }
}

fn few() -> Schedules {
    Schedules { schedules: 2_000, ..Schedules::of_window(WINDOW) }
}

/// One flaw, or none.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Flaw {
    None,
    /// Looks under one lock, writes under the next.
    LooksBefore,
    /// A batch takes the locks of its ids in their order.
    LocksInAnyOrder,
    /// Waits for somebody who never comes.
    SpinsForEver,
    /// A claim is given to two: looked at under one lock, taken under the next.
    ClaimsTwice,
    /// A forgetting removes what was looked at before.
    Panics,
}

/// A map in two parts, each behind a lock.
struct Map {
    parts: [Mutex<HashMap<u64, State>>; 2],
    spins: AtomicU64,
    flaw: Flaw,
}

#[derive(Clone, Copy)]
enum State {
    Accepted(Timestamp),
    Claimed,
}

impl Map {
    fn new(flaw: Flaw) -> Self {
        Map { parts: Default::default(), spins: AtomicU64::new(0), flaw }
    }

    fn part(&self, id: u64) -> &Mutex<HashMap<u64, State>> {
        &self.parts[id as usize % 2]
    }
}

/// Returns the answer for an id that is known.
fn known(part: &HashMap<u64, State>, id: u64, at: Timestamp) -> Option<Outcome> {
    match *part.get(&id)? {
        State::Claimed => Some(Outcome::InProgress),
        State::Accepted(then) => (at < then + WINDOW).then_some(Outcome::Duplicate),
    }
}

impl Subject for Map {
    fn check(&self, id: u64, at: Timestamp) -> Option<Outcome> {
        if self.flaw == Flaw::SpinsForEver {
            self.spins.fetch_add(1, Ordering::Relaxed);
            while self.spins.load(Ordering::Relaxed) == 7 {
                shuttle::thread::yield_now();
            }
        }
        let mut part = self.part(id).lock().unwrap();
        if let Some(answer) = known(&part, id, at) {
            return Some(answer);
        }
        if self.flaw == Flaw::LooksBefore {
            drop(part);
            part = self.part(id).lock().unwrap();
        }
        part.insert(id, State::Accepted(at));
        Some(Outcome::Fresh)
    }

    fn check_batch(&self, ids: &[u64], at: Timestamp, answers: &mut Vec<Option<Outcome>>) {
        let locks = match ids {
            &[first, second, ..] if self.flaw == Flaw::LocksInAnyOrder && first != second => {
                Some((self.part(first).lock().unwrap(), self.part(second).lock().unwrap()))
            }
            _ => None,
        };
        drop(locks);
        answers.extend(ids.iter().map(|&id| self.check(id, at)));
    }

    fn forget(&self, id: u64, _: Timestamp) -> bool {
        let is_accepted = |part: &HashMap<_, _>| matches!(part.get(&id), Some(State::Accepted(_)));
        let mut part = self.part(id).lock().unwrap();
        let seen = is_accepted(&part);
        if self.flaw == Flaw::Panics {
            drop(part);
            part = self.part(id).lock().unwrap();
        }
        assert!(!seen || is_accepted(&part), "somebody else has removed {id}");
        if seen {
            part.remove(&id);
        }
        seen
    }

    fn claim(&self, id: u64, at: Timestamp) -> Option<Attempt<'_>> {
        let mut part = self.part(id).lock().unwrap();
        match known(&part, id, at) {
            Some(Outcome::InProgress) => return Some(Attempt::InProgress),
            Some(_) => return Some(Attempt::Duplicate),
            None => {}
        }
        if self.flaw == Flaw::ClaimsTwice {
            drop(part);
            part = self.part(id).lock().unwrap();
        }
        part.insert(id, State::Claimed);
        drop(part);
        Some(Attempt::Claimed(Box::new(move |completes, at| {
            let mut part = self.part(id).lock().unwrap();
            if completes {
                part.insert(id, State::Accepted(at));
            } else {
                part.remove(&id);
            }
            true
        })))
    }
}

fn found(flaw: Flaw, schedules: &Schedules) -> Box<FailedSchedule> {
    match verify_schedules(move || Map::new(flaw), schedules, &semantics()) {
        Err(found) => found,
        Ok(explored) => panic!("{flaw:?} is not noticed: {explored}"),
    }
}

#[test]
fn what_is_right_is_accepted_and_threads_really_interleave() {
    let schedules = Schedules { forgets: 10, claims: 20, ..few() };
    let explored = verify_schedules(|| Map::new(Flaw::None), &schedules, &semantics()).unwrap();
    assert_eq!(explored.schedules, 2_000);
    assert!(explored.overlapping > explored.operations / 4, "{explored}");
}

#[test]
fn a_look_before_is_found_and_found_again_by_the_same_seed() {
    let found_first = found(Flaw::LooksBefore, &few());
    assert!(matches!(found_first.failure, Failure::Wrong(_)), "{found_first}");
    assert!(found_first.schedule < 100, "{found_first}");
    assert_eq!(found_first.to_string(), found(Flaw::LooksBefore, &few()).to_string());
}

#[test]
fn both_ways_to_draw_schedules_find_it() {
    let session = || Session::new(|| Map::new(Flaw::LooksBefore), &few(), &semantics());
    session().run(RandomScheduler::new_from_seed(5, 100)).expect_err("evenly drawn");
    session().run(PctScheduler::new_from_seed(5, CHANGES, 100)).expect_err("drawn by priorities");
}

#[test]
fn a_deadlock_is_found() {
    let found = found(Flaw::LocksInAnyOrder, &Schedules { batches: 100, ..few() });
    assert!(matches!(&found.failure, Failure::Stopped(message) if message.contains("deadlock")), "{found}");
}

#[test]
fn threads_that_go_round_for_ever_are_found() {
    let found = found(Flaw::SpinsForEver, &Schedules { steps_max: 5_000, ..few() });
    assert!(matches!(&found.failure, Failure::Stopped(message) if message.contains("steps")), "{found}");
}

#[test]
fn a_claim_of_two_is_found() {
    let found = found(Flaw::ClaimsTwice, &Schedules { claims: 60, ..few() });
    assert!(matches!(found.failure, Failure::Wrong(_)), "{found}");
}

#[test]
fn a_panic_is_found_with_its_words() {
    let found = found(Flaw::Panics, &Schedules { forgets: 60, ..few() });
    assert!(matches!(&found.failure, Failure::Stopped(message) if message.contains("somebody else")), "{found}");
}

#[test]
fn locks_that_are_not_shuttles_are_told() {
    struct Plain(std::sync::Mutex<HashMap<u64, State>>);
    impl Subject for Plain {
        fn check(&self, id: u64, at: Timestamp) -> Option<Outcome> {
            let mut accepted = self.0.lock().unwrap();
            let answer = known(&accepted, id, at).unwrap_or(Outcome::Fresh);
            if answer == Outcome::Fresh {
                accepted.insert(id, State::Accepted(at));
            }
            Some(answer)
        }
    }
    let plain = || Plain(std::sync::Mutex::default());
    let explored = verify_schedules(plain, &few(), &semantics()).unwrap();
    assert_eq!(explored.overlapping, 0);
    assert!(explored.to_string().ends_with("those of shuttle?"), "{explored}");
}

#[test]
fn the_same_seed_has_the_same_calls() {
    let schedules = Schedules { forgets: 10, claims: 20, lease: Some(WINDOW / 2), ..few() };
    assert_eq!(schedules.script(17, 1), schedules.script(17, 1));
    assert_ne!(schedules.script(17, 1), schedules.script(18, 1));
}
