//! The time of the engine, as far as the reference knows it.

use super::belief::{Moment, Rules};
use super::config::Kind;
use super::machine::Machine;
use super::op::Id;
use super::world::{World, Wrong, name};
use crate::{Outcome, Timestamp};

/// The bounds of stream time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stream {
    pub(super) began: bool,
    pub(super) earliest: u64,
    pub(super) latest: u64,
    /// The offset that is added to the times of events, at least and at most.
    pub(super) offset: (u64, u64),
    /// The latest time of a call that carried none.
    pub(super) clock: u64,
    /// True if the journal certainly knows how it is counted; or will, at the next flush.
    pub(super) is_durable: bool,
    pub(super) is_appended: bool,
    /// True if the engine was started again, and has not got an event yet; `rests_since` is when,
    /// by the clock.
    pub(super) rests: bool,
    pub(super) rests_since: u64,
    /// True if damage has taken it away.
    pub(super) is_lost: bool,
}

impl World {
    pub(super) fn moment(&mut self, timed: bool) -> Moment {
        let moment = self.look();
        if !timed && !self.stream.began && self.config.lateness.is_none() {
            self.stream.clock = self.stream.clock.max(moment.latest);
        }
        moment
    }

    /// Returns what holds at this time.
    pub(super) fn rules_at(&self, now: Moment) -> Rules {
        // What waits for a checkpoint is in no file, so it cannot be sealed. (What is appended
        // later than it was checked is up to half a window older than the journal knows.)
        let held = self.held_since.filter(|_| self.config.checkpoints);
        let behind = if self.config.deferred { self.rules.window / 2 } else { self.rules.window / 4 * 3 };
        let is_held = held.is_some_and(|since| now.real - since.min(now.real) + 2 * self.rules.tick >= behind);
        // (Nothing is sealed in the midst of a call.)
        let is_behind = is_held || self.took_too_long();
        let may_doubt = self.rules.retention.is_some() && (self.journal.may_fail() || is_behind);
        Rules { may_doubt, ..self.rules }
    }

    /// Returns the time of a call that moves none.
    pub(super) fn look(&self) -> Moment {
        match self.config.kind {
            Kind::Manual => Moment::of(self.machine.clock_nanos()),
            Kind::System => {
                let (real, engine) = self.machine.system_nanos();
                Moment { real, engine, asked: engine, earliest: real, latest: engine }
            }
            // An engine that was told that times come with events waits for the first of them.
            Kind::Events if !self.stream.began && self.config.lateness.is_none() => {
                let clock = self.machine.clock_nanos();
                let (earliest, latest) = (self.stream.earliest.max(clock), self.stream.latest.max(clock));
                Moment { real: latest, engine: earliest, asked: earliest, earliest, latest }
            }
            Kind::Events if self.stream.rests => {
                let passed = self.machine.clock_nanos() - self.stream.rests_since;
                let (earliest, latest) = (self.stream.earliest, self.stream.latest + self.rules.tick + passed);
                Moment { real: latest, engine: earliest, asked: earliest, earliest, latest }
            }
            Kind::Events => {
                let (earliest, latest) = (self.stream.earliest, self.stream.latest + self.rules.tick);
                Moment { real: latest, engine: earliest, asked: earliest, earliest, latest }
            }
        }
    }

    pub(super) fn event(&mut self, id: Id, ahead: i64) -> Result<(), Wrong> {
        if self.config.kind != Kind::Events {
            return self.check(&[id], None);
        }
        // Events count from 2020; the wall clock is of 2026.
        let base = if self.stream.began { self.stream.latest - self.stream.offset.0 } else { Machine::FIRST_EVENT };
        let at = base.saturating_add_signed(ahead);
        let late = self.stream.began.then(|| {
            let internal = (at + self.stream.offset.0, at + self.stream.offset.1);
            let window = self.config.window().as_nanos() as u64;
            let lateness = self.config.lateness.map(|l| window / 1_000 * u64::from(l));
            lateness.map_or((false, true), |lateness| {
                let tick = self.rules.tick;
                let may = internal.0 + lateness < self.stream.latest + tick;
                let must = internal.1 + lateness + tick < self.stream.earliest;
                (may, !must)
            })
        });
        let verdict = self.dedup().check_at(name(id), Timestamp::from_nanos(at));
        let (may_be_late, may_be_in_time) = late.unwrap_or((false, true));
        if let Outcome::Refused(refusal) = verdict.outcome() {
            self.note(format_args!("event {id} {refusal:?}"));
            return match refusal {
                crate::Refusal::Late if may_be_late => Ok(()),
                other => Err(format!("id {id} at {at} is refused as {other:?} ({:?})", self.stream)),
            };
        }
        if !may_be_in_time {
            return Err(format!("id {id} at {at} is not refused, late as it is ({:?})", self.stream));
        }
        self.stream_goes_on(at);
        let Stream { earliest, latest, .. } = self.stream;
        let asked = earliest.min(at + self.stream.offset.0);
        self.met.late += u64::from(asked < earliest);
        let now = Moment { real: latest, engine: earliest, asked, earliest, latest };
        self.judge_check(id, verdict, now)
    }

    /// Notes that an event has come.
    pub(super) fn stream_goes_on(&mut self, at: u64) {
        let tick = self.rules.tick;
        self.stream.rests = false;
        if !self.stream.began {
            self.stream.began = true;
            // An engine that went by its clock until now goes on from there.
            let by_clock = if self.stream.clock > 0 { self.machine.clock_nanos() } else { 0 };
            let clock = by_clock.max(self.stream.latest);
            if self.config.lateness.is_some() {
                // Earlier calls count as of the first event.
                let by = (at.saturating_sub(tick), at);
                self.beliefs = std::mem::take(&mut self.beliefs).map(|belief| belief.map(|state| state.moved(by)));
                self.journal.moved(by);
            } else if clock > at {
                // Earlier calls count as they did; the clock's place in its tick is unknown by now.
                self.stream.offset = (clock.saturating_sub(tick) - at, clock + tick - at);
                self.beliefs = std::mem::take(&mut self.beliefs).map(|belief| belief.map(|state| state.blurred(tick)));
            }
        }
        let Stream { earliest, latest, offset, .. } = &mut self.stream;
        *earliest = (*earliest).max(at + offset.0);
        *latest = (*latest).max(at + offset.1);
    }

    pub(super) fn event_from_the_future(&mut self, id: Id) -> Result<(), Wrong> {
        if self.config.kind != Kind::Events {
            return Ok(());
        }
        let verdict = self.dedup().check_at(name(id), Timestamp::from_secs(130 * 365 * 24 * 3600));
        self.note(format_args!("future {id} {verdict:?}"));
        match verdict.outcome() {
            Outcome::Refused(crate::Refusal::Ahead) => Ok(()),
            other => Err(format!("an event of the year 2100 is {other:?}")),
        }
    }
}
