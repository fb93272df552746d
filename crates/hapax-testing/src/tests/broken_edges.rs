//! Strategies that are wrong at an edge, by a nanosecond: the default workload must find each.

use super::judged::{accepted, found, long};
use crate::checker::problem::name;
use crate::{Attempt, Lease, Problem, Rule, Semantics, Subject, Time, Workload, verify};
use hapax::{Outcome, Timestamp};
use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::time::Duration;

const WINDOW: Duration = Duration::from_secs(60);
const LEASE: Duration = Duration::from_secs(10);

/// A map behind a lock that remembers ids for some nanoseconds.
struct Map {
    nanos: u64,
    lease: u64,
    batch_nanos: u64,
    claim_nanos: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    latest: u64,
    claims: u64,
    /// The time at which each id is over, and the number of its claim, 0 if it has none.
    ids: HashMap<u64, (u64, u64)>,
}

impl Map {
    fn new(nanos: u64) -> Self {
        let lease = LEASE.as_nanos() as u64;
        Map { nanos, lease, batch_nanos: nanos, claim_nanos: nanos, state: Mutex::default() }
    }

    /// Takes an id that nobody has. Returns the number of the claim, if it is to be one.
    fn take(&self, id: u64, at: Timestamp, nanos: u64, is_claim: bool) -> Result<u64, Outcome> {
        let mut state = self.state.lock().unwrap();
        state.latest = state.latest.max(at.as_nanos());
        let now = state.latest;
        match state.ids.get(&id) {
            Some((until, 0)) if now < *until => Err(Outcome::Duplicate),
            Some((until, _)) if now < *until => Err(Outcome::InProgress),
            _ => {
                state.claims += 1;
                let claim = if is_claim { state.claims } else { 0 };
                state.ids.insert(id, (now + nanos, claim));
                Ok(claim)
            }
        }
    }
}

impl Subject for Map {
    fn check(&self, id: u64, at: Timestamp) -> Option<Outcome> {
        Some(self.take(id, at, self.nanos, false).err().unwrap_or(Outcome::Fresh))
    }

    fn check_batch(&self, ids: &[u64], at: Timestamp, answers: &mut Vec<Option<Outcome>>) {
        let check = |&id| self.take(id, at, self.batch_nanos, false).err().unwrap_or(Outcome::Fresh);
        answers.extend(ids.iter().map(|id| Some(check(id))));
    }

    fn claim(&self, id: u64, at: Timestamp) -> Option<Attempt<'_>> {
        Some(match self.take(id, at, self.lease, true) {
            Ok(claim) => Attempt::Claimed(Box::new(Held(self, id, claim))),
            Err(Outcome::Duplicate) => Attempt::Duplicate,
            Err(_) => Attempt::InProgress,
        })
    }
}

struct Held<'m>(&'m Map, u64, u64);

impl Lease for Held<'_> {
    fn end(self: Box<Self>, completes: bool, at: Timestamp) -> bool {
        let mut state = self.0.state.lock().unwrap();
        state.latest = state.latest.max(at.as_nanos());
        let now = state.latest;
        // A late holder is refused.
        let held = state.ids.get(&self.1).is_some_and(|&(until, claim)| claim == self.2 && now < until);
        if held && completes {
            state.ids.insert(self.1, (now + self.0.claim_nanos, 0));
        } else if held {
            state.ids.remove(&self.1);
        }
        held
    }
}

const EXACT: u64 = WINDOW.as_nanos() as u64;

#[test]
fn one_nanosecond_is_found_by_default() {
    let by_default = Workload::of_window(WINDOW);
    let workload = Workload { operations: long(200_000, by_default.operations), ..by_default };
    let semantics = Semantics::of_window(WINDOW);
    let judged = |map: &Map| verify(map, &workload, &semantics);
    let report = accepted("exact", || judged(&Map::new(EXACT)));
    assert!(report.probes > 0);
    assert!(!report.never_exercised().any(|rule| rule == Rule::Edges), "{report}");
    let early = |nanos| Problem::ForgottenEarly { by: Duration::from_nanos(nanos), of: WINDOW };
    let late = |nanos| Problem::RememberedTooLong { by: Duration::from_nanos(nanos), of: WINDOW };
    for (flaw, map, problem) in [
        ("a duplicate at the window's end", Map::new(EXACT + 1), late(0)),
        ("a duplicate 1 ns after it", Map::new(EXACT + 2), late(1)),
        ("fresh 1 ns before it", Map::new(EXACT - 1), early(1)),
        ("batches: a duplicate at the end", Map { batch_nanos: EXACT + 1, ..Map::new(EXACT) }, late(0)),
        ("batches: fresh 1 ns before it", Map { batch_nanos: EXACT - 1, ..Map::new(EXACT) }, early(1)),
    ] {
        let mut operations = 0;
        let found = found(flaw, &[&name(problem)], |_| {
            judged(&map).inspect_err(|violation| operations = violation.operations.len())
        });
        assert_eq!((found, operations), (problem, 2), "{flaw}");
    }
    found("fresh 1 ms before it", &["ForgottenEarly"], |_| judged(&Map::new(EXACT - 1_000_000)));
}

/// A map with room for some ids: the one that was asked for least recently has to go, uncounted.
struct LeastRecent {
    room: usize,
    state: Mutex<Asked>,
}

#[derive(Default)]
struct Asked {
    calls: u64,
    /// The time at which each id is over, and the number of its last call.
    ids: HashMap<u64, (u64, u64)>,
    by_call: BTreeMap<u64, u64>,
}

impl Subject for LeastRecent {
    fn check(&self, id: u64, at: Timestamp) -> Option<Outcome> {
        let mut state = self.state.lock().unwrap();
        let (now, call) = (at.as_nanos(), state.calls);
        state.calls += 1;
        let known = state.ids.get(&id).copied();
        let until = known.map(|(until, _)| until).filter(|&until| now < until);
        known.map(|(_, asked)| state.by_call.remove(&asked));
        state.by_call.insert(call, id);
        state.ids.insert(id, (until.unwrap_or(now + EXACT), call));
        if state.ids.len() > self.room
            && let Some((_, oldest)) = state.by_call.pop_first()
        {
            state.ids.remove(&oldest);
        }
        Some(if until.is_some() { Outcome::Duplicate } else { Outcome::Fresh })
    }
}

#[test]
fn too_little_room_is_found_and_enough_by_chance_is_said_to_be_untested() {
    let workload = Workload { operations: long(150_000, 300_000), skew: Duration::ZERO, ..Workload::of_window(WINDOW) };
    let semantics = Semantics { time: Time::AsGiven, ..Semantics::of_window(WINDOW) };
    let with_room = |room| verify(&LeastRecent { room, state: Mutex::default() }, &workload, &semantics);
    let plenty = accepted("room for all ids", || with_room(usize::MAX)).live_max as usize;
    let just_enough = accepted("room for a tenth more ids than live", || with_room(plenty * 11 / 10));
    assert!(just_enough.never_exercised().any(|rule| rule == Rule::Eviction), "{just_enough}");
    found("room for nine tenths of the ids that live", &["ForgottenEarly"], |_| with_room(plenty * 9 / 10));
}

#[test]
fn the_edges_of_a_slack_are_found_as_well() {
    let workload = Workload { operations: 20_000, ..Workload::of_window(WINDOW) };
    let slack = Duration::from_secs(1);
    let gone = EXACT + slack.as_nanos() as u64;
    for time in [Time::LargestSoFar, Time::AsGiven] {
        // By the caller's time alone, the largest so far is only right if all have one clock.
        let skew = if time == Time::AsGiven { Duration::ZERO } else { workload.skew };
        // One thread: others are behind by some steps.
        let threads = if time == Time::AsGiven { 1 } else { workload.threads };
        let workload = Workload { skew, threads, ..workload.clone() };
        let semantics = Semantics { slack, time, ..Semantics::of_window(WINDOW) };
        for (nanos, is_right) in [(EXACT - 1, false), (EXACT, true), (gone, true), (gone + 1, false)] {
            let judged = verify(&Map::new(nanos), &workload, &semantics);
            assert_eq!(judged.is_ok(), is_right, "{time:?}, {nanos} ns: {judged:?}");
        }
    }
}

#[test]
fn the_edges_of_leases_and_of_completed_claims_are_found() {
    let workload = Workload { operations: 20_000, leases: 5, lease: LEASE, ..Workload::of_window(WINDOW) };
    let semantics = Semantics { lease: Some(LEASE), ..Semantics::of_window(WINDOW) };
    let lease = LEASE.as_nanos() as u64;
    for (name, map, is_right) in [
        ("exact", Map::new(EXACT), true),
        ("a lease that ends 1 ns early", Map { lease: lease - 1, ..Map::new(EXACT) }, false),
        ("a lease that ends 1 ns late", Map { lease: lease + 1, ..Map::new(EXACT) }, false),
        ("completed: fresh 1 ns before the end", Map { claim_nanos: EXACT - 1, ..Map::new(EXACT) }, false),
        ("completed: a duplicate at the end", Map { claim_nanos: EXACT + 1, ..Map::new(EXACT) }, false),
    ] {
        let judged = verify(&map, &workload, &semantics);
        assert_eq!(judged.is_ok(), is_right, "{name}: {judged:?}");
    }
}
