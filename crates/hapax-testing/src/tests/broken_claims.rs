//! Claims that are wrong, each in its own way, and the same ones without a flaw: the harness must
//! tell them apart.

use super::judged::{accepted, found, long};
use crate::{Attempt, Lease, Report, Semantics, Subject, Violation, Workload, verify};
use hapax::{Outcome, Timestamp};
use std::collections::HashMap;
use std::sync::Mutex;
use std::thread::yield_now;
use std::time::Duration;

const WINDOW: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    /// A check gets an id that another thread has claimed.
    ChecksIgnoreClaims,
    ClaimsIgnoreClaims,
    /// Looks whether an id is there, and claims it later: two can have looked.
    LooksThenClaims,
    /// An id in progress is called done.
    DuplicateInProgress,
    /// A completed id is fresh again.
    ForgetsCompletion,
    /// A released id is done.
    RemembersRelease,
    /// A claimed id is remembered from the claim on, not from its completion.
    CompletesAtTheClaim,
    /// A claimed id can be forgotten, and its holder does not learn of it.
    ForgetsClaims,
}

/// A map behind a lock.
struct Map(Flaw, Mutex<State>);

#[derive(Default)]
struct State {
    latest: u64,
    ids: HashMap<u64, Known>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    Accepted(u64),
    Claimed(u64),
}

impl State {
    fn now(&mut self, at: Timestamp) -> u64 {
        self.latest = self.latest.max(at.as_nanos());
        self.latest
    }

    /// Returns the state of an id, unless it has expired.
    fn known(&self, id: u64, now: u64) -> Option<Known> {
        self.ids.get(&id).copied().filter(|known| match known {
            Known::Accepted(then) => now - then < WINDOW.as_nanos() as u64,
            Known::Claimed(_) => true,
        })
    }
}

impl Map {
    /// Gives an id without a state a new one; otherwise returns its state.
    fn take(&self, id: u64, at: Timestamp, ignores_claims: bool, becomes: impl Fn(u64) -> Known) -> Outcome {
        let mut state = self.1.lock().unwrap();
        let now = state.now(at);
        match state.known(id, now) {
            Some(Known::Accepted(_)) => Outcome::Duplicate,
            Some(Known::Claimed(_)) if self.0 == Flaw::DuplicateInProgress => Outcome::Duplicate,
            Some(Known::Claimed(_)) if !ignores_claims => Outcome::InProgress,
            _ => {
                if self.0 == Flaw::LooksThenClaims {
                    drop(state);
                    yield_now();
                    state = self.1.lock().unwrap();
                }
                state.ids.insert(id, becomes(now));
                Outcome::Fresh
            }
        }
    }

    fn end(&self, id: u64, completes: bool, at: Timestamp) -> bool {
        let mut state = self.1.lock().unwrap();
        let now = state.now(at);
        let claimed_at = match state.ids.remove(&id) {
            Some(Known::Claimed(then)) => then,
            _ => now,
        };
        let accepted_at = if self.0 == Flaw::CompletesAtTheClaim { claimed_at } else { now };
        let forgets = if completes { self.0 == Flaw::ForgetsCompletion } else { self.0 != Flaw::RemembersRelease };
        if !forgets {
            state.ids.insert(id, Known::Accepted(accepted_at));
        }
        true
    }
}

struct Claimed<'m>(&'m Map, u64);

impl Lease for Claimed<'_> {
    fn end(self: Box<Self>, completes: bool, at: Timestamp) -> bool {
        self.0.end(self.1, completes, at)
    }
}

impl Subject for Map {
    fn check(&self, id: u64, at: Timestamp) -> Option<Outcome> {
        Some(self.take(id, at, self.0 == Flaw::ChecksIgnoreClaims, Known::Accepted))
    }

    fn forget(&self, id: u64, at: Timestamp) -> bool {
        let mut state = self.1.lock().unwrap();
        let now = state.now(at);
        let is_claimed = matches!(state.known(id, now), Some(Known::Claimed(_)));
        let forgets = !is_claimed || self.0 == Flaw::ForgetsClaims;
        if forgets {
            state.ids.remove(&id);
        }
        forgets
    }

    fn claim(&self, id: u64, at: Timestamp) -> Option<Attempt<'_>> {
        Some(match self.take(id, at, self.0 == Flaw::ClaimsIgnoreClaims, Known::Claimed) {
            Outcome::Fresh => Attempt::Claimed(Box::new(Claimed(self, id))),
            // (`Refused` does not occur: it takes every time.)
            Outcome::InProgress | Outcome::Refused(_) => Attempt::InProgress,
            Outcome::Duplicate => Attempt::Duplicate,
        })
    }
}

fn judged(flaw: Flaw, seed: u64) -> Result<Report, Box<Violation>> {
    let workload = Workload {
        seed,
        threads: 3,
        operations: 30_000,
        operations_per_window: 3_000,
        ids: 2_000,
        forgets: 2,
        claims: 25,
        ..Workload::of_window(WINDOW)
    };
    let semantics = Semantics { forgets_meanwhile: false, accepts_meanwhile: false, ..Semantics::of_hapax(WINDOW) };
    verify(&Map(flaw, Mutex::default()), &workload, &semantics)
}

#[test]
fn claims_without_a_flaw_are_accepted() {
    for seed in 0..long(2, 5) {
        accepted(format!("claims without a flaw, seed {seed}"), || judged(Flaw::None, seed));
    }
}

#[test]
fn every_flaw_is_found_and_named() {
    let cases: [(Flaw, &[&str]); 8] = [
        (Flaw::ChecksIgnoreClaims, &["TakenWhileClaimed", "TwoFresh"]),
        (Flaw::ClaimsIgnoreClaims, &["TakenWhileClaimed", "TwoFresh"]),
        (Flaw::LooksThenClaims, &["TwoFresh", "TakenWhileClaimed"]),
        (Flaw::DuplicateInProgress, &["DuplicateInProgress", "NotReleased", "FreshToNobody"]),
        (Flaw::ForgetsCompletion, &["ForgottenEarly"]),
        (Flaw::RemembersRelease, &["NotReleased"]),
        (Flaw::CompletesAtTheClaim, &["ForgottenEarly"]),
        (Flaw::ForgetsClaims, &["ForgottenWhileClaimed", "TakenWhileClaimed", "TwoFresh"]),
    ];
    for (flaw, expected) in cases {
        found(flaw, expected, |seed| judged(flaw, seed));
    }
}
