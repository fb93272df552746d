//! The sequential specification of one id. Pure.
//!
//! The exact time at which an operation took effect is not known, only a range of times. So the
//! state of an accepted id is a range of times of its acceptance; an answer narrows that down, or
//! is impossible.

use super::operation::Event;
use super::subject::Semantics;

/// A possible state of an id in a subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum State {
    /// Not known.
    Unknown,
    /// Accepted (with refresh: seen) at a time in this range of nanoseconds, any of it.
    Accepted { earliest: u64, latest: u64 },
    /// Claimed by a thread, and remembered only until the claim ends.
    Claimed { by: u16 },
}

impl State {
    /// Returns true if everything that can follow on the other state can follow on this one.
    pub(super) fn covers(self, other: State) -> bool {
        match (self, other) {
            (State::Unknown, State::Unknown) => true,
            (State::Claimed { by }, State::Claimed { by: other }) => by == other,
            (
                State::Accepted { earliest, latest },
                State::Accepted { earliest: other_earliest, latest: other_latest },
            ) => earliest <= other_earliest && other_latest <= latest,
            _ => false,
        }
    }
}

/// The time that counted for an operation: a range of nanoseconds, any of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Effective {
    pub(super) earliest: u64,
    pub(super) latest: u64,
}

impl Effective {
    /// Returns the range with an end, for an operation that has not returned and so has none.
    pub(super) fn until(self, latest: u64) -> Self {
        Effective { latest: if self.latest == u64::MAX { latest } else { self.latest }, ..self }
    }
}

/// [`Semantics`] in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Specification {
    window: u64,
    /// The age from which on it is certainly forgotten.
    gone: u64,
    refresh: bool,
    forgets_meanwhile: bool,
}

/// The possible effects of an operation: up to two next states, the second one only if the id had
/// to go before its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Next {
    pub(super) state: Option<State>,
    pub(super) evicted: Option<State>,
}

impl Specification {
    pub(super) fn new(semantics: &Semantics) -> Self {
        let nanos = |duration: std::time::Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let window = nanos(semantics.window);
        let gone = window.saturating_add(nanos(semantics.slack));
        let Semantics { refresh_on_duplicate: refresh, forgets_meanwhile, .. } = *semantics;
        Specification { window, gone, refresh, forgets_meanwhile }
    }

    pub(super) fn refreshes(&self) -> bool {
        self.refresh
    }

    pub(super) fn forgets_meanwhile(&self) -> bool {
        self.forgets_meanwhile
    }

    /// Returns the states that can follow on a state.
    #[inline]
    pub(super) fn next(&self, state: State, event: Event, thread: u16, at: Effective) -> Next {
        let only = |state| Next { state, evicted: None };
        let is_claimed = matches!(state, State::Claimed { .. });
        let is_mine = state == State::Claimed { by: thread };
        match event {
            Event::Fresh => self.accept(state, at),
            Event::Duplicate => only(self.recognize(state, at)),
            // Both act like a fresh check, but differ in the state that follows.
            Event::Claimed => {
                let Next { state, evicted } = self.accept(state, at);
                let claimed = State::Claimed { by: thread };
                Next {
                    state: state.and(Some(claimed)),
                    evicted: evicted.filter(|_| state.is_none()).and(Some(claimed)),
                }
            }
            Event::InProgress => only(is_claimed.then_some(state)),
            Event::Completed => only(is_mine.then_some(State::Accepted { earliest: at.earliest, latest: at.latest })),
            Event::Released => only(is_mine.then_some(State::Unknown)),
            // A claimed id cannot be forgotten.
            Event::Forget => only((!is_claimed).then_some(State::Unknown)),
            Event::Evict => only(Some(if is_claimed { state } else { State::Unknown })),
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
        let fresh = State::Accepted { earliest: at.earliest, latest: at.latest };
        match state {
            State::Unknown => Next { state: Some(fresh), evicted: None },
            State::Claimed { .. } => Next::default(),
            State::Accepted { earliest, .. } => {
                let expires = earliest.saturating_add(self.window);
                let expired = State::Accepted { earliest: at.earliest.max(expires), latest: at.latest };
                let state = (expires <= at.latest).then_some(expired);
                // An eviction explains no more than expiry if all of the range is beyond it.
                Next { state, evicted: (state != Some(fresh)).then_some(fresh) }
            }
        }
    }

    fn recognize(&self, state: State, at: Effective) -> Option<State> {
        let State::Accepted { earliest, latest } = state else {
            return None;
        };
        // An id that was accepted before that is gone.
        let earliest = match at.earliest.checked_sub(self.gone) {
            Some(gone) => earliest.max(gone + 1),
            None => earliest,
        };
        if earliest > latest {
            return None;
        }
        Some(match self.refresh {
            false => State::Accepted { earliest, latest },
            true => {
                let seen = at.latest.min(latest.saturating_add(self.gone - 1));
                State::Accepted { earliest: earliest.max(at.earliest), latest: latest.max(seen) }
            }
        })
    }

    /// Returns true if a state means nothing any more to operations whose time is this or later.
    pub(super) fn is_over(&self, state: State, earliest: u64) -> bool {
        match state {
            State::Unknown => true,
            State::Claimed { .. } => false,
            State::Accepted { latest, .. } => latest.saturating_add(self.gone) <= earliest,
        }
    }
}

/// Returns the least state that covers both, if they are of one kind.
fn either(one: Option<State>, other: Option<State>) -> Option<State> {
    match (one, other) {
        (
            Some(State::Accepted { earliest, latest }),
            Some(State::Accepted { earliest: other_earliest, latest: other_latest }),
        ) => Some(State::Accepted { earliest: earliest.min(other_earliest), latest: latest.max(other_latest) }),
        _ => one.or(other),
    }
}
