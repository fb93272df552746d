//! One record and the effect of requests on it: pure, for the backends that decide in this process.

use super::inspect::{Inspected, RecordState};
use super::request::*;
use hapax::Timestamp;
use std::time::Duration;

/// The record of an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
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
    Put(StoredRecord),
}

/// The moment of a decision, in the store's own terms.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    pub now: Timestamp,
    /// The largest token that the store has given to any claim, as far as it keeps that apart from
    /// the records: a claim gets a larger one although its clock stands and nothing is left of
    /// those before.
    pub spent: u64,
}

impl Moment {
    /// Returns the moment of a store whose tokens are drawn from its records and from a clock that
    /// never stands: a server's.
    pub fn of_server(now: Timestamp) -> Self {
        Moment { now, spent: 0 }
    }
}

impl StoredRecord {
    /// Returns the state, for people.
    pub fn state(&self) -> RecordState {
        match self.state {
            State::InProgress { .. } => RecordState::Claimed,
            State::Failed => RecordState::Failed,
            State::Completed { attempt: Some(_), .. } => RecordState::Marked,
            State::Completed { attempt: None, .. } => RecordState::Completed,
        }
    }

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
    /// even if the clock was set back.
    fn ended(&self, now: Timestamp) -> StoredRecord {
        StoredRecord { state: State::Failed, token: self.token, fingerprint: None, until: now }
    }

    /// Returns the record of an id that is done. If the earlier record is known, its token is gone
    /// by: the claim under it is lost, and later ones get larger tokens.
    pub fn recorded(stored: Option<&StoredRecord>, record: &Record, at: Moment) -> StoredRecord {
        StoredRecord {
            state: State::Completed { attempt: None, result: record.result.clone() },
            token: match stored {
                Some(stored) if stored.token != 0 => stored.token + 1,
                _ => 0,
            },
            fingerprint: record.fingerprint,
            until: at.now + record.retention,
        }
    }
}

/// Returns the record unless it has expired.
pub fn live(stored: Option<&StoredRecord>, now: Timestamp) -> Option<&StoredRecord> {
    stored.filter(|stored| now < stored.until)
}

/// Returns a token larger than any before.
pub fn next_token(stored: Option<&StoredRecord>, at: Moment) -> u64 {
    let last = stored.map_or(0, |stored| stored.token).max(at.spent);
    (at.now.as_nanos() / 1_000).max(last.saturating_add(1))
}

pub fn mark(stored: Option<&StoredRecord>, mark: &Mark, at: Moment) -> (Marked, Change) {
    let now = at.now;
    match live(stored, now) {
        Some(StoredRecord { state: State::Completed { attempt: Some(attempt), .. }, .. })
            if *attempt == mark.attempt =>
        {
            (Marked::Fresh, Change::None)
        }
        Some(stored @ StoredRecord { state: State::Completed { .. }, .. }) => {
            (Marked::Duplicate { expires_in: stored.left(now), attempt: stored.attempt() }, Change::None)
        }
        Some(stored) => (Marked::InProgress { lease_left: stored.left(now) }, Change::None),
        None => {
            let state = State::Completed { attempt: Some(mark.attempt), result: None };
            let token = stored.map_or(0, |stored| stored.token);
            (Marked::Fresh, Change::Put(StoredRecord { state, token, fingerprint: None, until: now + mark.retention }))
        }
    }
}

pub fn unmark(stored: Option<&StoredRecord>, unmark: &Unmark, at: Moment) -> (Unmarked, Change) {
    let now = at.now;
    match live(stored, now) {
        Some(stored) if stored.attempt() == Some(unmark.attempt) => (Unmarked::Done, Change::Put(stored.ended(now))),
        _ => (Unmarked::NotThere, Change::None),
    }
}

pub fn claim(stored: Option<&StoredRecord>, claim: &ClaimRequest, at: Moment) -> (Claimed, Change) {
    let now = at.now;
    let granted = |token, fingerprint| {
        let state = State::InProgress { attempt: claim.attempt };
        let claimed = StoredRecord { state, token, fingerprint, until: now + claim.lease };
        (Claimed::Claimed { token }, Change::Put(claimed))
    };
    let Some(live) = live(stored, now) else {
        return granted(next_token(stored, at), claim.fingerprint);
    };
    if Fingerprint::differ(claim.fingerprint, live.fingerprint) {
        return (Claimed::Mismatch, Change::None);
    }
    match &live.state {
        State::InProgress { attempt } if *attempt == claim.attempt => granted(live.token, live.fingerprint),
        State::InProgress { .. } | State::Failed => (Claimed::InProgress { lease_left: live.left(now) }, Change::None),
        State::Completed { result, .. } => (Claimed::Duplicate(live.completed(result, now)), Change::None),
    }
}

/// Returns the record if this claim holds it.
fn held<'k>(stored: Option<&'k StoredRecord>, hold: &Hold, now: Timestamp) -> Option<&'k StoredRecord> {
    live(stored, now).filter(|stored| matches!(stored.state, State::InProgress { .. }) && stored.token == hold.token)
}

pub fn complete(stored: Option<&StoredRecord>, completion: &Completion, at: Moment) -> (Held, Change) {
    let now = at.now;
    if let Some(held) = held(stored, &completion.hold, now) {
        let state = State::Completed { attempt: None, result: completion.result.clone() };
        return (Held::Done, Change::Put(StoredRecord { state, until: now + completion.retention, ..held.clone() }));
    }
    let again = live(stored, now).is_some_and(|stored| {
        matches!(stored.state, State::Completed { attempt: None, .. }) && stored.token == completion.hold.token
    });
    (if again { Held::Done } else { Held::Lost }, Change::None)
}

pub fn release(stored: Option<&StoredRecord>, hold: &Hold, at: Moment) -> (Held, Change) {
    let now = at.now;
    match held(stored, hold, now) {
        Some(held) => (Held::Done, Change::Put(held.ended(now))),
        None => (Held::Lost, Change::None),
    }
}

pub fn fail(stored: Option<&StoredRecord>, failure: &ClaimFailure, at: Moment) -> (Held, Change) {
    let now = at.now;
    match held(stored, &failure.hold, now) {
        Some(held) => (
            Held::Done,
            Change::Put(StoredRecord { state: State::Failed, until: now + failure.retry_after, ..held.clone() }),
        ),
        None => (Held::Lost, Change::None),
    }
}

pub fn renew(stored: Option<&StoredRecord>, renewal: &Renewal, at: Moment) -> (Held, Change) {
    let now = at.now;
    match held(stored, &renewal.hold, now) {
        Some(held) => (Held::Done, Change::Put(StoredRecord { until: now + renewal.lease, ..held.clone() })),
        None => (Held::Lost, Change::None),
    }
}

pub fn forget(stored: Option<&StoredRecord>, at: Moment) -> (bool, Change) {
    let now = at.now;
    match live(stored, now) {
        Some(stored) => (true, Change::Put(stored.ended(now))),
        None => (false, Change::None),
    }
}

pub fn look_up(stored: Option<&StoredRecord>, at: Moment) -> Known {
    let now = at.now;
    match live(stored, now) {
        None => Known::Unknown,
        Some(stored) => match &stored.state {
            State::Completed { result, .. } => Known::Completed(stored.completed(result, now)),
            _ => Known::InProgress { lease_left: stored.left(now), fingerprint: stored.fingerprint },
        },
    }
}

pub fn inspect(stored: Option<&StoredRecord>, at: Moment) -> Option<Inspected> {
    let stored = live(stored, at.now)?;
    let result = match &stored.state {
        State::Completed { result, .. } => result.clone(),
        State::InProgress { .. } | State::Failed => None,
    };
    let token = (stored.token != 0).then_some(stored.token);
    Some(Inspected::new(stored.state(), stored.left(at.now), token, stored.fingerprint, result))
}
