//! Checks, and forgetting.

use super::belief::{Answer, Belief, Moment, State};
use super::op::{IDS, Id};
use super::world::{World, Wrong, name};
use crate::mutation::{Place, at};
use crate::{Forgotten, Outcome, Tier, Verdict};
use std::cell::RefCell;
use std::rc::Rc;

impl World {
    pub(super) fn check(&mut self, ids: &[Id], batch: Option<()>) -> Result<(), Wrong> {
        let now = self.begin();
        let mut verdicts = Vec::new();
        match batch {
            None => verdicts.extend(ids.iter().map(|id| self.dedup().check(name(*id)))),
            Some(()) => self.dedup().check_batch(ids.iter().map(|id| name(*id)), &mut verdicts),
        }
        let now = self.end(now);
        if verdicts.len() != ids.len() {
            return Err(format!("{} verdicts for {} ids", verdicts.len(), ids.len()));
        }
        ids.iter().zip(verdicts).try_for_each(|(&id, verdict)| self.judge_check(id, verdict, now))
    }

    pub(super) fn judge_check(&mut self, id: Id, verdict: Verdict, now: Moment) -> Result<(), Wrong> {
        self.note(format_args!("check {id} {verdict:?}"));
        let clock = self.machine.clock_nanos();
        let at = id as usize;
        let answer = match (verdict.outcome(), verdict.is_certain()) {
            (Outcome::InProgress, _) => {
                return match self.in_flight[at] {
                    Some(claim) if clock <= claim.until_at_most + self.lag_nanos => Ok(()),
                    other => Err(format!("id {id} is in progress, but its claim is {other:?} at {clock}")),
                };
            }
            (Outcome::Fresh, true) => Answer::Fresh,
            (Outcome::Fresh, _) => Answer::FreshGuess,
            (Outcome::Duplicate, true) => Answer::Duplicate,
            (Outcome::Duplicate, _) => Answer::DuplicateGuess,
            (other, _) => return Err(format!("id {id}: {other:?} at a time that nothing is wrong with")),
        };
        if let Some(claim) = self.in_flight[at]
            && clock < claim.until
            && answer != Answer::DuplicateGuess
        {
            return Err(format!("id {id} is {answer:?}, although it is claimed: {claim:?} at {clock}"));
        }
        let is_known_beyond = answer == Answer::Duplicate && self.rules.retention.is_some();
        if answer != Answer::DuplicateGuess && !is_known_beyond {
            // A check takes over an expired claim.
            self.in_flight[at] = None;
        }
        let rules = self.rules_at(now);
        self.met.verdict(verdict);
        self.learn(id, answer, now, |state| state.checks(now, &rules))?;
        if rules.retention.is_some() && self.took_too_long() {
            let belief = &mut self.beliefs[at];
            *belief = belief.map(State::not_retained);
        }
        if rules.retention.is_some() && self.config.deferred && (answer != Answer::Duplicate || rules.refresh) {
            // Nobody has told the journal yet.
            let belief = &mut self.beliefs[id as usize];
            *belief = belief.map(State::not_retained);
        }
        if answer == Answer::Fresh || answer == Answer::FreshGuess || rules.refresh {
            if self.config.deferred {
                self.deferred.push((Some(id), self.dedup().prepare(name(id)), verdict));
            } else {
                self.journaled(id);
            }
        }
        Ok(())
    }

    pub(super) fn check_prepared(&mut self, id: Id) -> Result<(), Wrong> {
        let now = self.begin();
        let prepared = self.dedup().prepare(name(id));
        let verdict = self.dedup().check(prepared);
        let now = self.end(now);
        self.judge_check(id, verdict, now)
    }

    /// Checks an id, which is forgotten while a long memory is asked for it.
    pub(super) fn check_forgotten(&mut self, id: Id) -> Result<(), Wrong> {
        let now = self.moment(false);
        let forgotten = Rc::new(RefCell::new(None));
        let (dedup, seen) = (self.dedup().clone(), Rc::clone(&forgotten));
        at(Place::Inserted, move || *seen.borrow_mut() = Some(dedup.forget(name(id))));
        let verdict = self.dedup().check(name(id));
        at(Place::Inserted, || ());
        match forgotten.take() {
            None => {}
            Some(Forgotten::Entirely) => {
                self.beliefs[id as usize] = self.beliefs[id as usize].map(State::forgotten);
                self.journaled(id);
                self.met.forgotten_meanwhile += 1;
            }
            Some(other) => return Err(format!("id {id} is {other:?}, though the window took it for new")),
        }
        self.judge_check(id, verdict, now)
    }

    pub(super) fn learn(
        &mut self,
        id: Id,
        answer: Answer,
        now: Moment,
        answers: impl Fn(State) -> Vec<(Answer, State)>,
    ) -> Result<(), Wrong> {
        let belief = &mut self.beliefs[id as usize];
        match belief.after(&answer, answers) {
            Some(after) => {
                *belief = after;
                Ok(())
            }
            None => Err(format!("id {id} is {answer:?} at {now:?}, which it cannot be: {belief:?}, {:?}", self.rules)),
        }
    }

    pub(super) fn contains(&mut self, id: Id) -> Result<(), Wrong> {
        let now = self.look();
        let rules = self.rules_at(now);
        let answer = self.dedup().contains(name(id)).map(|tier| tier == Tier::Window);
        self.note(format_args!("contains {id} {answer:?}"));
        let belief = &mut self.beliefs[id as usize];
        let states = belief.states().iter().filter(|state| state.contains(now, &rules).contains(&answer)).copied();
        let left = Belief::of(states.collect::<Vec<_>>());
        if left.states().is_empty() {
            Err(format!("contains({id}) is {answer:?} at {now:?}: {belief:?}"))
        } else {
            *belief = left;
            Ok(())
        }
    }

    pub(super) fn stats(&mut self) -> Result<(), Wrong> {
        let stats = self.dedup().stats();
        // (Those of a burst that comes when the one before has just expired may displace some of
        // that within their grace, for which callers behind may still ask: counted, too.)
        match stats.window.evicted_live {
            evicted if evicted <= self.others / 2_000 => Ok(()),
            evicted => Err(format!("{evicted} ids were forgotten early, though there is room")),
        }
    }

    pub(super) fn forget(&mut self, id: Id) -> Result<(), Wrong> {
        let forgotten = self.dedup().forget(name(id));
        let clock = self.machine.clock_nanos();
        self.note(format_args!("forget {id} {forgotten:?}"));
        let claim = self.in_flight[id as usize];
        match forgotten {
            Forgotten::InProgress => match claim {
                Some(claim) if clock <= claim.until_at_most + self.lag_nanos => return Ok(()),
                other => return Err(format!("id {id} cannot be forgotten, as if in progress: {other:?}")),
            },
            _ if claim.is_some_and(|claim| clock < claim.until) => {
                return Err(format!("id {id} was forgotten, although it is claimed: {claim:?}"));
            }
            _ => self.in_flight[id as usize] = None,
        }
        self.beliefs[id as usize] = self.beliefs[id as usize].map(State::forgotten);
        self.journaled(id);
        Ok(())
    }

    /// Forgets everything; meanwhile, another caller may check an id and flush.
    pub(super) fn clear(&mut self, beside: Option<Id>) -> Result<(), Wrong> {
        let now = self.moment(beside.is_none());
        let seen = Rc::new(RefCell::new(None));
        if let Some(id) = beside {
            let (dedup, seen) = (self.dedup().clone(), Rc::clone(&seen));
            at(Place::Clearing, move || {
                *seen.borrow_mut() = Some((dedup.check(name(id)), dedup.journal().unwrap().flush()));
            });
        }
        self.dedup().clear();
        self.note(format_args!("clear"));
        // Segments forget at once: if a crash takes the clearing back, the window alone has its
        // ids.
        self.journal.map(State::not_retained);
        for id in 0..IDS {
            self.beliefs[id as usize] = Belief::default();
            self.journaled(id);
        }
        let seen = seen.take();
        if let Some((id, (verdict, flushed))) = beside.zip(seen) {
            if verdict.is_duplicate() {
                // For its id, the check came before the clearing; it may have let the id slide, or
                // not.
                let rules = self.rules;
                let accepted = Belief::default().map(|state| state.accepted(now, &rules, None));
                let both = [Belief::default().states(), accepted.states()].concat();
                self.beliefs[id as usize] = Belief::of(both);
                self.journaled(id);
            } else {
                self.judge_check(id, verdict, now)?;
            }
            self.flushed(flushed)?;
        }
        for place in &mut self.in_flight {
            *place = place.filter(|claim| !claim.failed);
        }
        Ok(())
    }
}
