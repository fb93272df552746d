//! Claims and the ways in which they end.

use super::belief::{Answer, Moment};
use super::op::{IDS, Id};
use super::world::{World, Wrong, name};
use crate::{Attempt, Claim, ClaimOptions};
use std::time::Duration;

pub(super) struct Held {
    pub(super) claim: Claim<'static>,
    pub(super) id: Id,
    pub(super) number: u64,
}

/// A claim as the reference knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct InFlight {
    pub(super) number: u64,
    /// The end of its lease, at the earliest and at the latest.
    pub(super) until: u64,
    pub(super) until_at_most: u64,
    pub(super) fingerprint: Option<u8>,
    pub(super) failed: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum How {
    Complete,
    Release,
    Fail(Duration),
    Renew,
}

impl World {
    pub(super) fn claim(&mut self, id: Id, fingerprint: Option<u8>) -> Result<(), Wrong> {
        let now = self.begin();
        let text = fingerprint.map(|fingerprint| [fingerprint]);
        let mut options = ClaimOptions::new().lease(self.lease());
        if let Some(text) = &text {
            options = options.fingerprint(text);
        }
        let dedup = self.dedup().clone();
        let attempt = dedup.claim_with(name(id), options);
        let now = self.end(now);
        self.judge_claim(id, fingerprint, attempt, now)
    }

    pub(super) fn claim_batch(&mut self, first: Id, ids: u8) -> Result<(), Wrong> {
        let now = self.begin();
        let ids: Vec<_> = (0..ids).map(|i| (first + i) % IDS).collect();
        let dedup = self.dedup().clone();
        let mut attempts = Vec::new();
        dedup.claim_batch(ids.iter().map(|id| name(*id)), &mut attempts);
        let now = self.end(now);
        ids.into_iter().zip(attempts).try_for_each(|(id, attempt)| self.judge_claim(id, None, attempt, now))
    }

    pub(super) fn judge_claim(
        &mut self,
        id: Id,
        fingerprint: Option<u8>,
        attempt: Attempt<'_>,
        now: Moment,
    ) -> Result<(), Wrong> {
        let (clock, lag, at) = (self.machine.clock_nanos(), self.lag_nanos, id as usize);
        let (mut must, mut may) = (false, false);
        if let Some(claim) = self.in_flight[at] {
            (must, may) = (clock < claim.until, clock <= claim.until_at_most + lag);
        }
        let said = match &attempt {
            Attempt::Claimed(_) => Answer::Claimed,
            Attempt::Duplicate(verdict) if verdict.is_certain() => Answer::Duplicate,
            Attempt::Duplicate(_) => Answer::DuplicateGuess,
            Attempt::Mismatch => Answer::Mismatch,
            Attempt::InProgress { .. } => {
                self.note(format_args!("claim {id} in progress"));
                let same = self.in_flight[at].is_some_and(|claim| !differ(claim.fingerprint, fingerprint));
                return if may && same {
                    Ok(())
                } else {
                    Err(format!("id {id} is in progress: {:?} at {clock}", self.in_flight[at]))
                };
            }
            Attempt::TooMany => return Err("too many claims".to_string()),
        };
        self.note(format_args!("claim {id} {said:?}"));
        let claimed_by = self.in_flight[at].filter(|_| may);
        if said == Answer::Mismatch && claimed_by.is_some_and(|claim| differ(claim.fingerprint, fingerprint)) {
            return Ok(());
        }
        if must && said != Answer::DuplicateGuess {
            return Err(format!("id {id} is {said:?}, although it is claimed: {:?} at {clock}", self.in_flight[at]));
        }
        let rules = self.rules_at(now);
        self.met.attempt(&attempt);
        self.learn(id, said, now, |state| state.claims(now, &rules, fingerprint))?;
        match attempt {
            Attempt::Claimed(claim) => {
                let number = claim.token().as_u64();
                let until_at_most = self.until(self.lease());
                let until = until_at_most - lag;
                self.in_flight[at] = Some(InFlight { number, until, until_at_most, fingerprint, failed: false });
                self.held.push(Held { claim: claim.into_owned(), id, number });
            }
            _ => {
                // (Segments may have learnt meanwhile that the id is done: the claim stays.)
                if said == Answer::Duplicate && self.rules.horizon.is_none() && self.rules.retention.is_none() {
                    self.in_flight[at] = None;
                }
                if rules.refresh && said != Answer::Mismatch {
                    self.journaled(id);
                }
            }
        }
        Ok(())
    }

    pub(super) fn lease(&self) -> Duration {
        self.config.window() / 5
    }

    pub(super) fn until(&self, lease: Duration) -> u64 {
        self.machine.clock_nanos() + lease.as_nanos() as u64
    }

    pub(super) fn end_claim(&mut self, which: u8, how: How) -> Result<(), Wrong> {
        if self.held.is_empty() {
            return Ok(());
        }
        let which = usize::from(which) % self.held.len();
        let now = self.moment(false);
        if how == How::Renew {
            let lease = self.lease();
            let renewed = self.held[which].claim.renew(lease).is_ok();
            let (id, number) = (self.held[which].id, self.held[which].number);
            let until = self.until(lease);
            return self
                .ended(id, number, renewed, now, |claim| Some(InFlight { until, until_at_most: until, ..claim }));
        }
        let Held { claim, id, number } = self.held.remove(which);
        match how {
            How::Complete => {
                let held = claim.complete().is_ok();
                self.completed(id, number, held, now)
            }
            How::Release => {
                let held = claim.release().is_ok();
                self.ended(id, number, held, now, |_| None)
            }
            How::Fail(rest) => {
                let until = self.until(rest);
                let held = claim.fail(rest).is_ok();
                self.ended(id, number, held, now, |claim| {
                    Some(InFlight { until, until_at_most: until, failed: true, ..claim })
                })
            }
            How::Renew => unreachable!("above"),
        }
    }

    pub(super) fn complete_batch(&mut self, claims: u8, panics_after: Option<u8>) -> Result<(), Wrong> {
        let now = self.moment(false);
        let count = usize::from(claims).min(self.held.len());
        let mut taken: Vec<_> = self.held.drain(..count).collect();
        let all: Vec<_> = taken.iter().map(|held| (held.id, held.number)).collect();
        let dedup = self.dedup().clone();
        let mut ended = Vec::new();
        let stop = panics_after.map(usize::from).filter(|&stop| stop < count);
        let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let claims = taken.drain(..).enumerate().map(|(i, held)| {
                assert!(Some(i) != stop, "expected: the caller's iterator panics");
                held.claim
            });
            dedup.complete_batch(claims, &mut ended);
        }));
        match stop {
            Some(_) if unwound.is_ok() => return Err("a panic was swallowed".to_string()),
            None if unwound.is_err() => return Err("complete_batch panicked".to_string()),
            _ => {}
        }
        let expected = stop.unwrap_or(count);
        if ended.len() != expected {
            return Err(format!("{} of {expected} claims that were handed over have ended", ended.len()));
        }
        for (i, &(id, number)) in all.iter().enumerate() {
            match ended.get(i) {
                Some(end) => self.completed(id, number, end.is_ok(), now)?,
                // Not handed over: dropped with the iterator, and so released.
                None => self.let_go(id, number),
            }
        }
        Ok(())
    }

    pub(super) fn let_go(&mut self, id: Id, number: u64) {
        let place = &mut self.in_flight[id as usize];
        if place.is_some_and(|claim| claim.number == number) {
            *place = None;
        }
    }

    pub(super) fn completed(&mut self, id: Id, number: u64, held: bool, now: Moment) -> Result<(), Wrong> {
        let fingerprint = self.in_flight[id as usize].and_then(|claim| claim.fingerprint);
        self.ended(id, number, held, now, |_| None)?;
        if held {
            let rules = self.rules;
            let belief = &mut self.beliefs[id as usize];
            *belief = belief.map(|state| state.accepted(now, &rules, fingerprint));
            self.journaled(id);
        }
        Ok(())
    }

    /// Judges the end or the extension of a claim: the answer whether it was still its holder's
    /// must be true.
    pub(super) fn ended(
        &mut self,
        id: Id,
        number: u64,
        held: bool,
        now: Moment,
        after: impl Fn(InFlight) -> Option<InFlight>,
    ) -> Result<(), Wrong> {
        self.note(format_args!("ended {id} {held}"));
        let may_be_taken_over = self.rules.horizon.is_some() || self.rules.retention.is_some();
        let place = &mut self.in_flight[id as usize];
        match place.filter(|claim| claim.number == number && !claim.failed) {
            Some(claim) if held => {
                *place = after(claim);
                Ok(())
            }
            // It had expired, and a guess may have taken it over, or who found that the id is done.
            Some(claim) if may_be_taken_over && self.machine.clock_nanos() >= claim.until => {
                *place = None;
                Ok(())
            }
            None if !held => Ok(()),
            other => Err(format!("claim {number} of id {id} held: {held}, but {other:?} at {now:?}")),
        }
    }
}

pub(super) fn differ(one: Option<u8>, other: Option<u8>) -> bool {
    matches!((one, other), (Some(one), Some(other)) if one != other)
}
