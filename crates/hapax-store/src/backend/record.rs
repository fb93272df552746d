//! One record and the effect of requests on it: pure, for the backends that decide in this process.

use crate::doubt::Before;
pub use crate::doubt::Trail;
use crate::inspect::{Inspected, Listed, RecordState};
use crate::key::RecordKey;
use crate::request::*;
use hapax::Timestamp;
use std::time::Duration;

/// The record of an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    /// The progress of the id.
    pub state: State,
    /// The token of the claim, or of the last one.
    pub token: u64,
    /// The content of the message, if it was given.
    pub fingerprint: Option<Fingerprint>,
    /// The end of the lease, the failure or the retention: from this time on, the record counts as
    /// nothing, but for a claim that is in doubt.
    pub until: Timestamp,
    /// The holder of a claim, and the one before it that is in doubt.
    pub trail: Option<Box<Trail>>,
}

/// The progress of an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It is claimed.
    InProgress {
        /// The number of the attempt that has it.
        attempt: u64,
    },
    /// A claim of it has failed, or its record has ended.
    Failed,
    /// It is done.
    Completed {
        /// The number of the attempt that has marked it; a completed claim and a record have none.
        attempt: Option<u64>,
        /// The result that was stored with it.
        result: Option<Vec<u8>>,
    },
}

/// The change of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It stays as it is.
    None,
    /// This one takes its place.
    Put(StoredRecord),
}

/// The moment of a decision, in the store's own terms.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// The store's time.
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
    pub fn state(&self, now: Timestamp) -> RecordState {
        match self.state {
            _ if self.until <= now => RecordState::InDoubt,
            State::InProgress { .. } => RecordState::Claimed,
            State::Failed => RecordState::Failed,
            State::Completed { attempt: Some(_), .. } => RecordState::Marked,
            State::Completed { attempt: None, .. } => RecordState::Completed,
        }
    }

    /// Returns the record for a list, unless it is over, and nothing of it is in doubt.
    pub fn listed(&self, key: RecordKey, now: Timestamp) -> Option<Listed> {
        let left = self.kept_until().since(now);
        let left = if now < self.until { self.left(now) } else { left };
        (!left.is_zero()).then(|| Listed::new(key, self.state(now), left).in_doubt(self.in_doubt(now)))
    }

    /// Returns the time from which on nothing of the record counts: stores keep it until then.
    pub fn kept_until(&self) -> Timestamp {
        self.until + self.trail.as_ref().map_or(Duration::ZERO, |trail| trail.doubt)
    }

    /// Returns the first claim of the id that is in doubt.
    pub fn in_doubt(&self, now: Timestamp) -> Option<Before> {
        let trail = self.trail.as_ref().filter(|_| now < self.kept_until())?;
        let is_over = self.until <= now;
        trail.before.clone().or_else(|| is_over.then(|| Before::new(self.token, trail.held_by.clone())))
    }

    fn left(&self, now: Timestamp) -> Duration {
        self.until.since(now)
    }

    fn completed(&self, result: &Option<Vec<u8>>, now: Timestamp) -> Completed {
        Completed { expires_in: self.left(now), fingerprint: self.fingerprint, result: result.clone() }
    }

    /// Returns the remainder of a record that has ended: its token, so that the next one is larger
    /// even if the clock was set back.
    fn ended(&self, now: Timestamp) -> StoredRecord {
        let trail = self.trail.as_ref().and_then(|trail| trail.unresolved());
        StoredRecord { state: State::Failed, token: self.token, fingerprint: None, until: now, trail }
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
            trail: None,
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

/// Decides a [`mark`](crate::Store::mark).
pub fn mark(stored: Option<&StoredRecord>, mark: &Mark, at: Moment) -> (Marked, Change) {
    let Some(live) = live(stored, at.now) else {
        let state = State::Completed { attempt: Some(mark.attempt), result: None };
        let (token, until) = (stored.map_or(0, |stored| stored.token), at.now + mark.retention);
        let marked = StoredRecord { state, token, fingerprint: None, until, trail: None };
        return (Marked::Fresh, Change::Put(marked));
    };
    let marked = match live.state {
        State::Completed { attempt: Some(attempt), .. } if attempt == mark.attempt => Marked::Fresh,
        State::Completed { attempt, .. } => Marked::Duplicate { expires_in: live.left(at.now), attempt },
        State::InProgress { .. } | State::Failed => Marked::InProgress { lease_left: live.left(at.now) },
    };
    (marked, Change::None)
}

/// Decides an [`unmark`](crate::Store::unmark).
pub fn unmark(stored: Option<&StoredRecord>, unmark: &Unmark, at: Moment) -> (Unmarked, Change) {
    match live(stored, at.now) {
        Some(live @ StoredRecord { state: State::Completed { attempt: Some(attempt), .. }, .. })
            if *attempt == unmark.attempt =>
        {
            (Unmarked::Done, Change::Put(live.ended(at.now)))
        }
        _ => (Unmarked::NotThere, Change::None),
    }
}

/// Decides a [`claim`](crate::Store::claim).
pub fn claim(stored: Option<&StoredRecord>, claim: &ClaimRequest, at: Moment) -> (Claimed, Change) {
    let now = at.now;
    let granted = |token, fingerprint, trail: Option<Box<Trail>>| {
        let before = trail.as_ref().and_then(|trail| trail.before.clone());
        let state = State::InProgress { attempt: claim.attempt };
        let claimed = StoredRecord { state, token, fingerprint, until: now + claim.lease, trail };
        (Claimed::Claimed { token, before }, Change::Put(claimed))
    };
    let Some(live) = live(stored, now) else {
        let before = stored.and_then(|stored| stored.in_doubt(now));
        return granted(
            next_token(stored, at),
            claim.fingerprint,
            Trail::of(claim.doubt, claim.held_by.clone(), before),
        );
    };
    if Fingerprint::differ(claim.fingerprint, live.fingerprint) {
        return (Claimed::Mismatch, Change::None);
    }
    match &live.state {
        State::InProgress { attempt } if *attempt == claim.attempt => {
            granted(live.token, live.fingerprint, live.trail.clone())
        }
        State::InProgress { .. } | State::Failed => {
            let held_by = live.trail.as_ref().and_then(|trail| trail.held_by.clone());
            (Claimed::InProgress { lease_left: live.left(now), held_by }, Change::None)
        }
        State::Completed { result, .. } => (Claimed::Duplicate(live.completed(result, now)), Change::None),
    }
}

/// Decides a request of a claim's holder, given what becomes of the record if it holds the claim.
fn held(
    stored: Option<&StoredRecord>,
    hold: &Hold,
    at: Moment,
    next: impl FnOnce(&StoredRecord) -> StoredRecord,
) -> (Held, Change) {
    match live(stored, at.now) {
        Some(live) if matches!(live.state, State::InProgress { .. }) && live.token == hold.token => {
            (Held::Done, Change::Put(next(live)))
        }
        _ => (Held::Lost, Change::None),
    }
}

/// Decides a [`complete`](crate::Store::complete).
pub fn complete(stored: Option<&StoredRecord>, completion: &Completion, at: Moment) -> (Held, Change) {
    let again = live(stored, at.now).is_some_and(|stored| {
        matches!(stored.state, State::Completed { attempt: None, .. }) && stored.token == completion.hold.token
    });
    if again {
        return (Held::Done, Change::None);
    }
    let state = State::Completed { attempt: None, result: completion.result.clone() };
    let until = at.now + completion.retention;
    held(stored, &completion.hold, at, |held| StoredRecord { state, until, trail: None, ..held.clone() })
}

/// Decides a [`release`](crate::Store::release).
pub fn release(stored: Option<&StoredRecord>, hold: &Hold, at: Moment) -> (Held, Change) {
    held(stored, hold, at, |held| held.ended(at.now))
}

/// Decides a [`fail`](crate::Store::fail).
pub fn fail(stored: Option<&StoredRecord>, failure: &ClaimFailure, at: Moment) -> (Held, Change) {
    let until = at.now + failure.retry_after;
    held(stored, &failure.hold, at, |held| StoredRecord { until, fingerprint: held.fingerprint, ..held.ended(at.now) })
}

/// Decides a [`renew`](crate::Store::renew).
pub fn renew(stored: Option<&StoredRecord>, renewal: &Renewal, at: Moment) -> (Held, Change) {
    held(stored, &renewal.hold, at, |held| StoredRecord { until: at.now + renewal.lease, ..held.clone() })
}

/// Decides a [`forget`](crate::Store::forget).
pub fn forget(stored: Option<&StoredRecord>, at: Moment) -> (bool, Change) {
    match stored.filter(|stored| at.now < stored.kept_until()) {
        Some(kept) => (true, Change::Put(StoredRecord { trail: None, ..kept.ended(at.now) })),
        None => (false, Change::None),
    }
}

/// Answers a [`look_up`](crate::Store::look_up).
pub fn look_up(stored: Option<&StoredRecord>, at: Moment) -> Known {
    match live(stored, at.now) {
        None => Known::Unknown,
        Some(live) => match &live.state {
            State::Completed { result, .. } => Known::Completed(live.completed(result, at.now)),
            _ => Known::InProgress { lease_left: live.left(at.now), fingerprint: live.fingerprint },
        },
    }
}

/// Answers an [`inspect`](crate::Inspect::inspect).
pub fn inspect(stored: Option<&StoredRecord>, at: Moment) -> Option<Inspected> {
    let kept = stored.filter(|stored| at.now < stored.kept_until())?;
    let until = if at.now < kept.until { kept.until } else { kept.kept_until() };
    let result = match &kept.state {
        State::Completed { result, .. } => result.clone(),
        State::InProgress { .. } | State::Failed => None,
    };
    let token = (kept.token != 0).then_some(kept.token);
    let held_by = kept.trail.as_ref().and_then(|trail| trail.held_by.clone());
    let inspected = Inspected::new(kept.state(at.now), until.since(at.now), token, kept.fingerprint, result);
    Some(inspected.held_by(held_by).in_doubt(kept.in_doubt(at.now)))
}
