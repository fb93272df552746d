//! The sequential specification of one id. Pure.
//!
//! The exact time at which an operation took effect is not known, only a range of times. So the
//! state of an accepted id is a range of times of its acceptance, and that of a claimed one a range
//! of times at which its lease began; an answer narrows that down, or is impossible.

use crate::operation::{Event, Operation};
use crate::subject::Semantics;

/// A possible state of an id in a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum State {
    /// Not known.
    Unknown,
    /// Accepted (with refresh: seen) at a time in this range of nanoseconds, any of it, with this
    /// fingerprint (0: none).
    Accepted { earliest: u64, latest: u64, fingerprint: u8 },
    /// Claimed by a thread, and remembered only until the claim ends. The lease began at a time in
    /// this range.
    Claimed { by: u16, claim: u32, earliest: u64, latest: u64, fingerprint: u8 },
}

impl State {
    /// Returns true if everything that can follow on the other state can follow on this one.
    pub(crate) fn covers(self, other: State) -> bool {
        match (self, other) {
            (State::Unknown, State::Unknown) => true,
            (
                State::Claimed { by, claim, earliest, latest, fingerprint },
                State::Claimed {
                    by: other_by,
                    claim: other_claim,
                    earliest: other_earliest,
                    latest: other_latest,
                    fingerprint: other_fingerprint,
                },
            ) => {
                (by, claim, fingerprint) == (other_by, other_claim, other_fingerprint)
                    && earliest <= other_earliest
                    && other_latest <= latest
            }
            (
                State::Accepted { earliest, latest, fingerprint },
                State::Accepted { earliest: other_earliest, latest: other_latest, fingerprint: other_fingerprint },
            ) => fingerprint == other_fingerprint && earliest <= other_earliest && other_latest <= latest,
            _ => false,
        }
    }

    fn is_claimed(self) -> bool {
        matches!(self, State::Claimed { .. })
    }

    fn fingerprint(self) -> u8 {
        match self {
            State::Unknown => 0,
            State::Accepted { fingerprint, .. } | State::Claimed { fingerprint, .. } => fingerprint,
        }
    }
}

/// The part of an operation that decides what it does to an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Act {
    pub(crate) event: Event,
    pub(crate) thread: u16,
    pub(crate) claim: u32,
    pub(crate) fingerprint: u8,
}

impl Act {
    pub(crate) fn of(operation: &Operation) -> Self {
        let Operation { event, thread, claim, fingerprint, .. } = *operation;
        Act { event, thread, claim, fingerprint }
    }

    /// Returns true if it is the holder of a claimed id that acts.
    fn holds(self, state: State) -> bool {
        matches!(state, State::Claimed { by, claim, .. } if (by, claim) == (self.thread, self.claim))
    }
}

/// The time that counted for an operation: a range of nanoseconds, any of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Effective {
    pub(crate) earliest: u64,
    pub(crate) latest: u64,
}

impl Effective {
    /// Returns the range with an end, for an operation that has not returned and so has none.
    pub(crate) fn until(self, latest: u64) -> Self {
        Effective { latest: if self.latest == u64::MAX { latest } else { self.latest }, ..self }
    }
}

/// [`Semantics`] in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Specification {
    window: u64,
    /// The age from which on it is certainly forgotten.
    gone: u64,
    refresh: bool,
    forgets_meanwhile: bool,
    accepts_meanwhile: bool,
    lease: Option<Lease>,
}

/// The length of a lease, and the age from which on it certainly keeps nobody out.
#[derive(Clone, Copy, Debug)]
struct Lease {
    length: u64,
    gone: u64,
}

/// The possible effects of an operation: up to two next states, the second one only if the id had
/// to go before its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Next {
    pub(crate) state: Option<State>,
    pub(crate) evicted: Option<State>,
}

impl Specification {
    pub(crate) fn new(semantics: &Semantics) -> Self {
        let nanos = |duration: std::time::Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let window = nanos(semantics.window);
        let slack = nanos(semantics.slack);
        let lease = semantics.lease.map(nanos).map(|length| Lease { length, gone: length.saturating_add(slack) });
        let Semantics { refresh_on_duplicate: refresh, forgets_meanwhile, accepts_meanwhile, .. } = *semantics;
        let gone = window.saturating_add(slack);
        Specification { window, gone, refresh, forgets_meanwhile, accepts_meanwhile, lease }
    }

    pub(crate) fn refreshes(&self) -> bool {
        self.refresh
    }

    pub(crate) fn forgets_meanwhile(&self) -> bool {
        self.forgets_meanwhile
    }

    pub(crate) fn accepts_meanwhile(&self) -> bool {
        self.accepts_meanwhile
    }

    /// Returns the states that can follow on a state.
    #[inline]
    pub(crate) fn next(&self, state: State, act: Act, at: Effective) -> Next {
        let only = |state| Next { state, evicted: None };
        let is_mine = act.holds(state);
        match act.event {
            Event::Fresh => self.accept(state, at),
            Event::Duplicate => only(self.recognize(state, at)),
            // Both act like a fresh check, but differ in the state that follows.
            Event::Claimed => {
                let Next { state, evicted } = self.accept(state, at);
                let claimed = |state| self.claim(state, act);
                let state = state.map(claimed);
                Next { state, evicted: evicted.map(claimed).filter(|&evicted| state != Some(evicted)) }
            }
            Event::InProgress => only(self.keeps_out(state, at)),
            Event::Completed => only(is_mine.then(|| accepted(at, state.fingerprint()))),
            Event::Released => only(is_mine.then_some(State::Unknown)),
            Event::Renewed => {
                only(is_mine.then(|| self.claim(accepted(at, 0), Act { fingerprint: state.fingerprint(), ..act })))
            }
            Event::Lost => only(if is_mine { self.lapse(state, at) } else { Some(state) }),
            Event::Mismatch => only(self.differs(state, act, at)),
            // A claimed id cannot be forgotten, while its lease lasts.
            Event::Forget => only((!state.is_claimed() || self.lapse(state, at).is_some()).then_some(State::Unknown)),
            Event::Evict => only(Some(if state.is_claimed() { state } else { State::Unknown })),
            // If it was a duplicate, and that has changed something, then it has refreshed; if it
            // has changed nothing, it need not have happened.
            Event::Unanswered => {
                let accepted = self.accept(state, at);
                let refreshed = self.recognize(state, at).filter(|_| self.refresh);
                Next { state: either(accepted.state, refreshed), ..accepted }
            }
        }
    }

    fn accept(&self, state: State, at: Effective) -> Next {
        let fresh = accepted(at, 0);
        match state {
            State::Unknown => Next { state: Some(fresh), evicted: None },
            State::Claimed { earliest, .. } => {
                let ends = self.lease.map(|lease| earliest.saturating_add(lease.length));
                let taken = ends.filter(|&ends| ends <= at.latest);
                let taken = taken.map(|ends| accepted(Effective { earliest: at.earliest.max(ends), ..at }, 0));
                Next { state: taken, evicted: None }
            }
            State::Accepted { earliest, .. } => {
                let expires = earliest.saturating_add(self.window);
                let expired = accepted(Effective { earliest: at.earliest.max(expires), ..at }, 0);
                let state = (expires <= at.latest).then_some(expired);
                // An eviction explains no more than expiry if all of the range is beyond it.
                Next { state, evicted: (state != Some(fresh)).then_some(fresh) }
            }
        }
    }

    /// Returns the state of an id that was got at the time of an accepted one, by a claim.
    fn claim(&self, state: State, Act { thread: by, claim, fingerprint, .. }: Act) -> State {
        let (earliest, latest) = match state {
            State::Accepted { earliest, latest, .. } if self.lease.is_some() => (earliest, latest),
            // A claim that lasts has no use for it.
            _ => (0, 0),
        };
        State::Claimed { by, claim, earliest, latest, fingerprint }
    }

    fn recognize(&self, state: State, at: Effective) -> Option<State> {
        let State::Accepted { earliest, latest, fingerprint } = remembered(state, at, self.gone)? else {
            return None;
        };
        Some(if self.refresh {
            let seen = at.latest.min(latest.saturating_add(self.gone - 1));
            State::Accepted { earliest: earliest.max(at.earliest), latest: latest.max(seen), fingerprint }
        } else {
            State::Accepted { earliest, latest, fingerprint }
        })
    }

    /// Returns the state of a claimed id that keeps somebody out.
    fn keeps_out(&self, state: State, at: Effective) -> Option<State> {
        match self.lease {
            _ if !state.is_claimed() => None,
            Some(lease) => remembered(state, at, lease.gone),
            None => Some(state),
        }
    }

    /// Returns the state of a claimed id whose lease has ended.
    fn lapse(&self, state: State, at: Effective) -> Option<State> {
        let (State::Claimed { by, claim, earliest, latest, fingerprint }, Some(lease)) = (state, self.lease) else {
            return None;
        };
        let latest = latest.min(at.latest.checked_sub(lease.length)?);
        (earliest <= latest).then_some(State::Claimed { by, claim, earliest, latest, fingerprint })
    }

    /// Returns the state of an id that is known with another fingerprint.
    fn differs(&self, state: State, act: Act, at: Effective) -> Option<State> {
        let known = state.fingerprint();
        if known == 0 || act.fingerprint == 0 || known == act.fingerprint {
            return None;
        }
        if state.is_claimed() { self.keeps_out(state, at) } else { remembered(state, at, self.gone) }
    }

    /// Returns true if a state means nothing any more to operations whose time is this or later.
    pub(crate) fn is_over(&self, state: State, earliest: u64) -> bool {
        match state {
            State::Unknown => true,
            State::Claimed { .. } => false,
            State::Accepted { latest, .. } => latest.saturating_add(self.gone) <= earliest,
        }
    }
}

fn accepted(Effective { earliest, latest }: Effective, fingerprint: u8) -> State {
    State::Accepted { earliest, latest, fingerprint }
}

/// Returns what remains of a state of which it is known that it was not yet `gone` old.
fn remembered(mut state: State, at: Effective, gone: u64) -> Option<State> {
    match &mut state {
        State::Unknown => None,
        State::Accepted { earliest, latest, .. } | State::Claimed { earliest, latest, .. } => {
            // What began before that is gone.
            if let Some(too_old) = at.earliest.checked_sub(gone) {
                *earliest = (*earliest).max(too_old + 1);
            }
            (*earliest <= *latest).then_some(state)
        }
    }
}

/// Returns the least state that covers both, if they are of one kind.
fn either(one: Option<State>, other: Option<State>) -> Option<State> {
    match (one, other) {
        (
            Some(State::Accepted { earliest, latest, fingerprint }),
            Some(State::Accepted { earliest: other_earliest, latest: other_latest, fingerprint: other_fingerprint }),
        ) => Some(State::Accepted {
            earliest: earliest.min(other_earliest),
            latest: latest.max(other_latest),
            // More can follow where it has one.
            fingerprint: fingerprint.max(other_fingerprint),
        }),
        _ => one.or(other),
    }
}
