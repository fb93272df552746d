//! Subjects with claims that expire, tokens, fingerprints and restarts, right ones and wrong ones:
//! the workload that turns everything on must tell them apart, in virtual time.

use super::judged::{accepted, found, long};
use super::told_clock::Told;
use crate::subject::Time;
use crate::{Attempt, Clocks, Lease, Report, Semantics, Subject, Violation, Workload, verify};
use hapax::{Clock, Outcome, Timestamp};
use std::collections::HashMap;
use std::sync::Mutex;
use std::thread::yield_now;
use std::time::Duration;

const WINDOW: Duration = Duration::from_millis(50);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flaw {
    None,
    /// Calls of a holder whose lease has ended are refused, though nobody has taken the id over:
    /// which is right.
    RefusesLateHolders,
    TakesOverEarly,
    /// A lease ends half as late again as it should.
    KeepsTooLong,
    /// Looks whether the lease has ended, and takes the id later: two can have looked.
    TakesOverTwice,
    /// Whoever held the id may complete, release, renew it, whoever holds it now.
    LateHoldersComplete,
    LateHoldersRelease,
    LateHoldersRenew,
    /// Says that a lease was renewed, and changes nothing.
    RenewsNothing,
    /// Counts the claims of each id anew when it was released or completed.
    GivesTokensTwice,
    TokensShrink,
    /// Counts anew when it is started again.
    RestartsTokens,
    /// An id without a fingerprint is told from one with a fingerprint.
    MismatchOfNone,
    /// An id that was forgotten keeps its fingerprint.
    KeepsFingerprints,
    /// A claim that finds its id done does not extend its stay.
    ClaimsDoNotRefresh,
    /// A claim that is in progress is forgotten when somebody asks for that.
    ForgetsClaims,
    ForgetsAtRestart,
    /// Of what was accepted in the last moments before a stop, it has stored nothing.
    StoresLate,
}

/// A map behind a lock.
struct Map {
    flaw: Flaw,
    clock: Told,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ids: HashMap<u64, Known>,
    /// The fingerprints of those that are done, and of some that are forgotten.
    fingerprints: HashMap<u64, u8>,
    claims: u64,
    /// The tokens that ids have got.
    tokens: HashMap<u64, u64>,
}

#[derive(Clone, Copy, Debug)]
enum Known {
    Accepted(Duration),
    Claimed { key: u64, since: Duration },
}

/// The answer to an attempt.
enum Tried {
    Got { key: u64, token: u64 },
    Not(Attempt<'static>),
}

impl State {
    /// Returns the state of an id, unless it means nothing any more.
    fn known(&self, id: u64, now: Duration, lease: Duration) -> Option<Known> {
        self.ids.get(&id).copied().filter(|known| match known {
            Known::Accepted(then) => now.saturating_sub(*then) < WINDOW,
            Known::Claimed { since, .. } => now.saturating_sub(*since) < lease,
        })
    }

    fn accept(&mut self, id: u64, now: Duration, flaw: Flaw) {
        self.ids.insert(id, Known::Accepted(now));
        if flaw != Flaw::KeepsFingerprints {
            self.fingerprints.remove(&id);
        }
    }
}

impl Map {
    fn new(flaw: Flaw) -> Self {
        Map { flaw, clock: Told::default(), state: Mutex::default() }
    }

    fn lease(&self) -> Duration {
        match self.flaw {
            Flaw::TakesOverEarly => WINDOW / 2 * 9 / 10,
            Flaw::KeepsTooLong => WINDOW / 2 * 3 / 2,
            _ => WINDOW / 2,
        }
    }

    /// Returns the time, which is read under the lock.
    fn now(&self, at: Timestamp) -> Duration {
        self.clock.tell(at);
        self.clock.now().since(Timestamp::default())
    }

    fn attempt(&self, id: u64, fingerprint: u8, at: Timestamp) -> Tried {
        let mut state = self.state.lock().unwrap();
        let now = self.now(at);
        let differs = match state.fingerprints.get(&id) {
            Some(known) => fingerprint != 0 && *known != fingerprint,
            None => fingerprint != 0 && self.flaw == Flaw::MismatchOfNone,
        };
        match state.known(id, now, self.lease()) {
            Some(_) if differs => return Tried::Not(Attempt::Mismatch),
            Some(Known::Claimed { .. }) => return Tried::Not(Attempt::InProgress),
            Some(Known::Accepted(_)) => {
                if self.flaw != Flaw::ClaimsDoNotRefresh {
                    state.ids.insert(id, Known::Accepted(now));
                }
                return Tried::Not(Attempt::Duplicate);
            }
            None if self.flaw == Flaw::TakesOverTwice && state.ids.contains_key(&id) => {
                drop(state);
                yield_now();
                state = self.state.lock().unwrap();
            }
            None => {}
        }
        state.claims += 1;
        let key = state.claims;
        state.ids.insert(id, Known::Claimed { key, since: now });
        state.fingerprints.remove(&id);
        if fingerprint != 0 {
            state.fingerprints.insert(id, fingerprint);
        }
        let token = match self.flaw {
            Flaw::TokensShrink => u64::MAX - key,
            Flaw::GivesTokensTwice | Flaw::RestartsTokens => {
                let token = state.tokens.entry(id).or_default();
                *token += 1;
                *token
            }
            _ => key,
        };
        Tried::Got { key, token }
    }

    fn attempt_by(&self, id: u64, fingerprint: u8, at: Timestamp) -> Attempt<'_> {
        match self.attempt(id, fingerprint, at) {
            Tried::Not(attempt) => attempt,
            Tried::Got { key, token } => Attempt::Claimed(Box::new(Held { map: self, id, key, token })),
        }
    }
}

/// A claim of an id.
struct Held<'m> {
    map: &'m Map,
    id: u64,
    key: u64,
    token: u64,
}

impl Held<'_> {
    /// Does something to the id, if it is the holder's.
    fn act(&self, ignores_others: bool, at: Timestamp, act: impl FnOnce(&mut State, Duration)) -> bool {
        let mut state = self.map.state.lock().unwrap();
        let now = self.map.now(at);
        let held = match state.ids.get(&self.id) {
            Some(Known::Claimed { since, .. })
                if self.map.flaw == Flaw::RefusesLateHolders && now - *since >= WINDOW / 2 =>
            {
                false
            }
            Some(Known::Claimed { key, .. }) => ignores_others || *key == self.key,
            _ => ignores_others,
        };
        if held {
            act(&mut state, now);
        }
        held
    }
}

impl Lease for Held<'_> {
    fn token(&self) -> Option<u64> {
        Some(self.token)
    }

    fn renew(&mut self, at: Timestamp) -> Option<bool> {
        let flaw = self.map.flaw;
        Some(self.act(flaw == Flaw::LateHoldersRenew, at, |state, since| {
            if flaw != Flaw::RenewsNothing {
                state.ids.insert(self.id, Known::Claimed { key: self.key, since });
            }
        }))
    }

    fn end(self: Box<Self>, completes: bool, at: Timestamp) -> bool {
        let flaw = self.map.flaw;
        let ignores_others = flaw == if completes { Flaw::LateHoldersComplete } else { Flaw::LateHoldersRelease };
        self.act(ignores_others, at, |state, now| {
            if completes {
                state.ids.insert(self.id, Known::Accepted(now));
            } else {
                state.ids.remove(&self.id);
                state.fingerprints.remove(&self.id);
            }
            if flaw == Flaw::GivesTokensTwice {
                state.tokens.remove(&self.id);
            }
        })
    }
}

impl Subject for Map {
    fn check(&self, id: u64, at: Timestamp) -> Option<Outcome> {
        let mut state = self.state.lock().unwrap();
        let now = self.now(at);
        Some(match state.known(id, now, self.lease()) {
            Some(Known::Claimed { .. }) => Outcome::InProgress,
            Some(Known::Accepted(_)) => {
                state.ids.insert(id, Known::Accepted(now));
                Outcome::Duplicate
            }
            None => {
                state.accept(id, now, self.flaw);
                Outcome::Fresh
            }
        })
    }

    fn forget(&self, id: u64, at: Timestamp) -> bool {
        let mut state = self.state.lock().unwrap();
        let known = state.known(id, self.now(at), self.lease());
        if matches!(known, Some(Known::Claimed { .. })) && self.flaw != Flaw::ForgetsClaims {
            return false;
        }
        state.ids.remove(&id);
        if self.flaw != Flaw::KeepsFingerprints {
            state.fingerprints.remove(&id);
        }
        true
    }

    fn claim(&self, id: u64, at: Timestamp) -> Option<Attempt<'_>> {
        Some(self.attempt_by(id, 0, at))
    }

    fn claim_with(&self, id: u64, fingerprint: u8, at: Timestamp) -> Option<Attempt<'_>> {
        Some(self.attempt_by(id, fingerprint, at))
    }

    fn restart(&self) -> bool {
        let mut state = self.state.lock().unwrap();
        let now = self.now(Timestamp::default());
        match self.flaw {
            Flaw::ForgetsAtRestart => state.ids.clear(),
            Flaw::StoresLate => {
                let newest = state.ids.values().filter_map(|known| match known {
                    Known::Accepted(then) => Some(*then),
                    Known::Claimed { .. } => None,
                });
                let newest = newest.max().unwrap_or(now);
                let is_stored = |known: &Known| matches!(known, Known::Accepted(then) if newest - *then > WINDOW / 50);
                state.ids.retain(|_, known| is_stored(known));
            }
            Flaw::RestartsTokens => state.tokens.clear(),
            _ => {}
        }
        true
    }
}

fn judged(flaw: Flaw, seed: u64) -> Result<Report, Box<Violation>> {
    let everything = Workload::of_everything(WINDOW);
    let (operations, restart_every) = long((60_000, 20_000), (everything.operations, everything.restart_every));
    let workload = Workload { seed, operations, restart_every, clocks: Clocks::Virtual, ..everything };
    let exact = Semantics { forgets_meanwhile: false, accepts_meanwhile: false, ..Semantics::of_everything(WINDOW) };
    let semantics = Semantics { time: Time::LargestSoFar, ..exact };
    verify(&Map::new(flaw), &workload, &semantics)
}

#[test]
fn subjects_without_a_flaw_are_accepted() {
    for (seed, flaw) in (0..).zip([Flaw::None, Flaw::RefusesLateHolders]) {
        let report = accepted(flaw, || judged(flaw, seed));
        let Report { claimed, renewed, lost, mismatches, restarts, forgotten, in_progress, .. } = report;
        let seen = [claimed, renewed, lost, mismatches, restarts, forgotten, in_progress];
        assert!(seen.iter().all(|count| *count > 0), "{report}");
    }
}

#[test]
fn every_flaw_is_found_and_named() {
    let cases: [(Flaw, &[&str]); 16] = [
        (Flaw::TakesOverEarly, &["TakenOverEarly"]),
        (Flaw::KeepsTooLong, &["KeptTooLong"]),
        (Flaw::TakesOverTwice, &["TwoFresh", "TakenOverEarly"]),
        (Flaw::LateHoldersComplete, &["LateHolder"]),
        (Flaw::LateHoldersRelease, &["LateHolder"]),
        (Flaw::LateHoldersRenew, &["LateHolder"]),
        (Flaw::RenewsNothing, &["TakenOverEarly"]),
        (Flaw::GivesTokensTwice, &["TokenGivenTwice", "TokenTooSmall"]),
        (Flaw::TokensShrink, &["TokenTooSmall"]),
        (Flaw::RestartsTokens, &["TokenGivenTwice", "TokenTooSmall"]),
        (Flaw::MismatchOfNone, &["FalseMismatch"]),
        (Flaw::KeepsFingerprints, &["FalseMismatch"]),
        (Flaw::ClaimsDoNotRefresh, &["ForgottenEarly"]),
        (Flaw::ForgetsClaims, &["ForgottenWhileClaimed", "TwoFresh", "TakenOverEarly", "HolderRefused"]),
        (Flaw::ForgetsAtRestart, &["ForgottenEarly"]),
        (Flaw::StoresLate, &["ForgottenEarly"]),
    ];
    for (flaw, expected) in cases {
        found(flaw, expected, |seed| judged(flaw, seed));
    }
}
