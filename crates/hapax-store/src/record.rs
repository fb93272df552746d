//! One record and the effect of requests on it: pure, for the backends that decide in this process.

use super::request::*;
use hapax::Timestamp;
use std::time::Duration;

/// The record of an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    pub state: State,
    /// The token of the claim, or of the last one.
    pub token: u64,
    pub fingerprint: Option<Fingerprint>,
    /// The end of the lease, the failure or the retention: from this time on, the record counts as
    /// nothing.
    pub until: Timestamp,
}

/// The progress of an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    InProgress {
        attempt: u64,
    },
    Failed,
    /// `attempt` is that of a mark; a completed claim and a record have none.
    Completed {
        attempt: Option<u64>,
        result: Option<Vec<u8>>,
    },
}

/// The change of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    None,
    Put(Kept),
}

impl Kept {
    fn left(&self, now: Timestamp) -> Duration {
        self.until.since(now)
    }

    fn completed(&self, result: &Option<Vec<u8>>, now: Timestamp) -> Completed {
        Completed { expires_in: self.left(now), fingerprint: self.fingerprint, result: result.clone() }
    }

    /// Returns the attempt of a mark.
    fn attempt(&self) -> Option<u64> {
        match self.state {
            State::Completed { attempt, .. } => attempt,
            State::InProgress { .. } | State::Failed => None,
        }
    }

    /// Returns the remainder of a record that has ended: its token, so that the next one is larger
    /// even if the clock stands still.
    fn ended(&self, now: Timestamp) -> Kept {
        Kept { state: State::Failed, token: self.token, fingerprint: None, until: now }
    }

    /// Returns the record of an id that is done.
    pub fn recorded(record: &Record, now: Timestamp) -> Kept {
        Kept {
            state: State::Completed { attempt: None, result: record.result.clone() },
            token: 0,
            fingerprint: record.fingerprint,
            until: now + record.retention,
        }
    }
}

/// Returns the record unless it has expired.
pub fn live(kept: Option<&Kept>, now: Timestamp) -> Option<&Kept> {
    kept.filter(|kept| now < kept.until)
}

/// Returns a token larger than any before.
pub fn next_token(kept: Option<&Kept>, now: Timestamp) -> u64 {
    (now.as_nanos() / 1_000).max(kept.map_or(0, |kept| kept.token + 1))
}

pub fn mark(kept: Option<&Kept>, mark: &Mark, now: Timestamp) -> (Marked, Change) {
    match live(kept, now) {
        Some(Kept { state: State::Completed { attempt: Some(attempt), .. }, .. }) if *attempt == mark.attempt => {
            (Marked::Fresh, Change::None)
        }
        Some(kept @ Kept { state: State::Completed { .. }, .. }) => {
            (Marked::Duplicate { expires_in: kept.left(now), attempt: kept.attempt() }, Change::None)
        }
        Some(kept) => (Marked::InProgress { lease_left: kept.left(now) }, Change::None),
        None => {
            let state = State::Completed { attempt: Some(mark.attempt), result: None };
            let token = kept.map_or(0, |kept| kept.token);
            (Marked::Fresh, Change::Put(Kept { state, token, fingerprint: None, until: now + mark.retention }))
        }
    }
}

pub fn unmark(kept: Option<&Kept>, unmark: &Unmark, now: Timestamp) -> (Unmarked, Change) {
    match live(kept, now) {
        Some(kept) if kept.attempt() == Some(unmark.attempt) => (Unmarked::Done, Change::Put(kept.ended(now))),
        _ => (Unmarked::NotThere, Change::None),
    }
}

pub fn claim(kept: Option<&Kept>, claim: &ClaimRequest, now: Timestamp) -> (Claimed, Change) {
    let granted = |token| {
        let state = State::InProgress { attempt: claim.attempt };
        let claimed = Kept { state, token, fingerprint: claim.fingerprint, until: now + claim.lease };
        (Claimed::Claimed { token }, Change::Put(claimed))
    };
    let Some(live) = live(kept, now) else {
        return granted(next_token(kept, now));
    };
    if Fingerprint::differ(claim.fingerprint, live.fingerprint) {
        return (Claimed::Mismatch, Change::None);
    }
    match &live.state {
        State::InProgress { attempt } if *attempt == claim.attempt => granted(live.token),
        State::InProgress { .. } | State::Failed => (Claimed::InProgress { lease_left: live.left(now) }, Change::None),
        State::Completed { result, .. } => (Claimed::Duplicate(live.completed(result, now)), Change::None),
    }
}

/// Returns the record if this claim holds it.
fn held<'k>(kept: Option<&'k Kept>, hold: &Hold, now: Timestamp) -> Option<&'k Kept> {
    live(kept, now).filter(|kept| matches!(kept.state, State::InProgress { .. }) && kept.token == hold.token)
}

pub fn complete(kept: Option<&Kept>, completion: &Completion, now: Timestamp) -> (Held, Change) {
    if let Some(held) = held(kept, &completion.hold, now) {
        let state = State::Completed { attempt: None, result: completion.result.clone() };
        return (Held::Done, Change::Put(Kept { state, until: now + completion.retention, ..held.clone() }));
    }
    let again = live(kept, now).is_some_and(|kept| {
        matches!(kept.state, State::Completed { attempt: None, .. }) && kept.token == completion.hold.token
    });
    (if again { Held::Done } else { Held::Lost }, Change::None)
}

pub fn release(kept: Option<&Kept>, hold: &Hold, now: Timestamp) -> (Held, Change) {
    match held(kept, hold, now) {
        Some(held) => (Held::Done, Change::Put(held.ended(now))),
        None => (Held::Lost, Change::None),
    }
}

pub fn fail(kept: Option<&Kept>, failure: &Failure, now: Timestamp) -> (Held, Change) {
    match held(kept, &failure.hold, now) {
        Some(held) => {
            (Held::Done, Change::Put(Kept { state: State::Failed, until: now + failure.retry_after, ..held.clone() }))
        }
        None => (Held::Lost, Change::None),
    }
}

pub fn renew(kept: Option<&Kept>, renewal: &Renewal, now: Timestamp) -> (Held, Change) {
    match held(kept, &renewal.hold, now) {
        Some(held) => (Held::Done, Change::Put(Kept { until: now + renewal.lease, ..held.clone() })),
        None => (Held::Lost, Change::None),
    }
}

pub fn forget(kept: Option<&Kept>, now: Timestamp) -> (bool, Change) {
    match live(kept, now) {
        Some(kept) => (true, Change::Put(kept.ended(now))),
        None => (false, Change::None),
    }
}

pub fn look_up(kept: Option<&Kept>, now: Timestamp) -> Known {
    match live(kept, now) {
        None => Known::Unknown,
        Some(kept) => match &kept.state {
            State::Completed { result, .. } => Known::Completed(kept.completed(result, now)),
            _ => Known::InProgress { lease_left: kept.left(now), fingerprint: kept.fingerprint },
        },
    }
}
