//! The name of what is wrong, by the operation at which no order was left and what came before it.

use super::problem::Problem;
use super::state::{Effective, State};
use crate::operation::{Event, Operation};
use crate::subject::Semantics;
use std::time::Duration;

/// An operation, and the time that counts for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) operation: Operation,
    pub(crate) effective: Effective,
}

/// A wrong history of one id, in the order of invocation.
pub(crate) struct Wrong<'a> {
    pub(crate) rows: &'a [Row],
    /// The index of the operation at which no order was left.
    pub(crate) stuck: usize,
    /// The states that were possible before.
    pub(crate) before: &'a [State],
    pub(crate) semantics: &'a Semantics,
}

/// The state that the stuck operation contradicts: what made it, and the times at which.
#[derive(Clone, Copy, Debug)]
enum Cause {
    Accepted(Effective),
    Claimed(Effective),
    Forgotten,
    Released,
    /// Nothing: the id was never known.
    None,
}

impl Wrong<'_> {
    /// Returns the name of what is wrong, and the operation that it contradicts, if there is one.
    pub(crate) fn name(&self) -> (Problem, Option<Operation>) {
        let cause = self.cause();
        (
            self.name_by(cause.map_or_else(|| self.cause_before(), |(_, cause)| cause)),
            cause.map(|(operation, _)| operation),
        )
    }

    fn name_by(&self, cause: Cause) -> Problem {
        let Row { operation, effective } = self.rows[self.stuck];
        match (operation.event, cause) {
            (Event::Fresh | Event::Claimed, cause) => self.taken(&operation, effective, cause),
            (Event::Duplicate, Cause::Accepted(then)) => self.remembered(then, effective),
            (Event::Duplicate, Cause::Claimed(_)) => Problem::DuplicateInProgress,
            (Event::Duplicate, Cause::Forgotten) => Problem::NotForgotten,
            (Event::Duplicate, Cause::Released) => Problem::NotReleased,
            (Event::Duplicate, Cause::None) => Problem::FreshToNobody,
            (Event::InProgress, Cause::Claimed(since)) => self.kept(since, effective),
            (Event::InProgress, _) => Problem::InProgressForNobody,
            (Event::Forget, _) => Problem::ForgottenWhileClaimed,
            (Event::Completed | Event::Released | Event::Renewed, Cause::Forgotten) => Problem::ForgottenWhileClaimed,
            (Event::Completed | Event::Released | Event::Renewed, _) if self.is_taken_over(&operation) => {
                Problem::LateHolder
            }
            (Event::Completed | Event::Released | Event::Renewed, _) => Problem::NoOrder,
            (Event::Lost, _) => Problem::HolderRefused,
            (Event::Mismatch, cause) => self.differs(&operation, effective, cause),
            (Event::Unanswered | Event::Evict, _) => Problem::NoOrder,
        }
    }

    /// Names an id that was given to a second caller.
    fn taken(&self, one: &Operation, at: Effective, cause: Cause) -> Problem {
        let takes = |other: &&Operation| matches!(other.event, Event::Fresh | Event::Claimed);
        let mut others = self.others().filter(takes);
        if others.clone().any(|other| one.batch != 0 && (one.thread, one.batch) == (other.thread, other.batch)) {
            return Problem::LostInBatch;
        }
        if others.clone().any(|other| overlap(one, other)) {
            return Problem::TwoFresh;
        }
        if self.others().any(|other| other.event == Event::Completed && overlap(one, other)) {
            return Problem::TakenWhileClaimed;
        }
        let forgetting = |forget: &Operation| overlap(forget, one) || others.any(|other| overlap(forget, other));
        if self.others().filter(|other| other.event == Event::Forget).any(forgetting) {
            return Problem::ForgottenMeanwhile;
        }
        let missing = |of: Duration, since: Effective| {
            let age = Duration::from_nanos(at.latest.saturating_sub(since.earliest));
            (of.checked_sub(age).filter(|by| !by.is_zero()), of)
        };
        match cause {
            Cause::Accepted(then) => match missing(self.semantics.window, then) {
                (Some(by), of) => Problem::ForgottenEarly { by, of },
                _ => Problem::NoOrder,
            },
            Cause::Claimed(since) => match self.semantics.lease.map(|lease| missing(lease, since)) {
                None => Problem::TakenWhileClaimed,
                Some((Some(by), of)) => Problem::TakenOverEarly { by, of },
                Some((None, _)) => Problem::NoOrder,
            },
            Cause::Forgotten | Cause::Released | Cause::None => Problem::NoOrder,
        }
    }

    fn remembered(&self, then: Effective, at: Effective) -> Problem {
        let Semantics { window: of, slack, .. } = *self.semantics;
        match late(of, slack, then, at) {
            Some(by) => Problem::RememberedTooLong { by, of },
            None => Problem::NoOrder,
        }
    }

    fn kept(&self, since: Effective, at: Effective) -> Problem {
        let Semantics { lease, slack, .. } = *self.semantics;
        match lease.and_then(|of| late(of, slack, since, at).map(|by| (by, of))) {
            Some((by, of)) => Problem::KeptTooLong { by, of },
            None => Problem::NoOrder,
        }
    }

    /// Names a mismatch: with a fingerprint that was known too long, or with none.
    fn differs(&self, one: &Operation, at: Effective, cause: Cause) -> Problem {
        let other = |other: &Operation| other.fingerprint != 0 && other.fingerprint != one.fingerprint;
        let late = match cause {
            _ if one.fingerprint == 0 || !self.others().any(other) => Problem::NoOrder,
            Cause::Claimed(since) => self.kept(since, at),
            Cause::Accepted(then) => self.remembered(then, at),
            Cause::Forgotten | Cause::Released | Cause::None => Problem::NoOrder,
        };
        if late == Problem::NoOrder { Problem::FalseMismatch } else { late }
    }

    fn others(&self) -> impl DoubleEndedIterator<Item = &Operation> + Clone {
        let is_other = |(i, _): &(usize, &Row)| *i != self.stuck;
        self.rows.iter().enumerate().filter(is_other).map(|(_, row)| &row.operation)
    }

    /// Returns true if a holder has claimed the id, and another caller got it.
    fn is_taken_over(&self, holder: &Operation) -> bool {
        let is_own = |other: &Operation| (other.thread, other.claim) == (holder.thread, holder.claim);
        let is_claim = |other: &&Operation| other.event == Event::Claimed;
        let mut claims = self.others().filter(is_claim);
        let is_held = claims.any(is_own);
        let mut takers = self.others().filter(|other| matches!(other.event, Event::Fresh | Event::Claimed));
        is_held && takers.any(|other| !is_own(other))
    }

    /// Returns the last operation that changed the id and may have come first, and what it made of
    /// the id.
    fn cause(&self) -> Option<(Operation, Cause)> {
        let one = &self.rows[self.stuck].operation;
        let cause = |(i, Row { operation, effective }): (usize, &Row)| {
            let is_later = (operation.thread == one.thread && i > self.stuck)
                || operation.interval.invoked > one.interval.returned;
            if is_later || i == self.stuck {
                return None;
            }
            let cause = match operation.event {
                Event::Fresh | Event::Completed => Cause::Accepted(*effective),
                Event::Duplicate if self.semantics.refresh_on_duplicate => Cause::Accepted(*effective),
                Event::Claimed | Event::Renewed => Cause::Claimed(*effective),
                Event::Forget => Cause::Forgotten,
                Event::Released => Cause::Released,
                _ => return None,
            };
            Some((*operation, cause))
        };
        self.rows.iter().enumerate().rev().find_map(cause)
    }

    /// Returns what the id was before.
    fn cause_before(&self) -> Cause {
        let of_state = |state: &State| match *state {
            State::Unknown => None,
            State::Accepted { earliest, latest, .. } => Some(Cause::Accepted(Effective { earliest, latest })),
            State::Claimed { earliest, latest, .. } => Some(Cause::Claimed(Effective { earliest, latest })),
        };
        self.before.iter().find_map(of_state).unwrap_or(Cause::None)
    }
}

/// Returns the time since the end of a stay, at least, if that is more than the slack.
fn late(length: Duration, slack: Duration, then: Effective, at: Effective) -> Option<Duration> {
    let age = Duration::from_nanos(at.earliest.saturating_sub(then.latest));
    age.checked_sub(length).filter(|by| *by >= slack)
}

/// Returns true if neither operation had returned when the other one was invoked. Those of one
/// thread follow each other, whatever their stamps are.
fn overlap(one: &Operation, other: &Operation) -> bool {
    let begins = |one: &Operation, other: &Operation| one.interval.invoked <= other.interval.returned;
    one.thread != other.thread && begins(one, other) && begins(other, one)
}
