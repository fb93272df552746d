//! An engine, what it runs on, and the reference beside it: does each operation to both, and compares.

use super::belief::{Answer, Belief, Moment, Rules, State};
use super::config::{BURST, Config, HistoryConfig, Kind};
use super::machine::{Machine, Opened};
use super::op::{Damage, IDS, Id, Op};
use crate::{Attempt, Certainty, Claim, ClaimOptions, Dedup, Forgotten, Outcome, Prepared, Tier, Timestamp, Verdict};
use std::time::Duration;

/// What went wrong.
pub(super) type Wrong = String;

pub(super) struct World {
    pub(super) config: Config,
    machine: Machine,
    rules: Rules,
    /// Claims that are open: dropped before the engine.
    held: Vec<Held>,
    deferred: Vec<(Option<Id>, Prepared, Verdict)>,
    dedup: Option<Dedup>,
    beliefs: [Belief; IDS as usize],
    in_flight: [Option<InFlight>; IDS as usize],
    journal: JournalModel,
    stream: Stream,
    /// Ids that bursts have used, and when the last of them was.
    burst_ids: u64,
    last_burst: Option<u64>,
    /// The journal does not know any more which boot it is of.
    is_adrift: bool,
    /// What was seen, so that a seed can be shown to repeat itself.
    pub(super) trace: u64,
}

struct Held {
    claim: Claim<'static>,
    id: Id,
    number: u64,
}

/// A claim as the reference knows it.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    number: u64,
    until: u64,
    fingerprint: Option<u8>,
    failed: bool,
}

/// What the journal must have.
struct JournalModel {
    /// For each id, what it was after each of its events, by their positions.
    logs: [Vec<(u64, Belief)>; IDS as usize],
    /// Everything that it ever was.
    ever: [Belief; IDS as usize],
    appended: u64,
    durable: u64,
    failed: bool,
    /// Why it may fail.
    full: bool,
    sync_fails: bool,
    gone: bool,
}

/// Stream time: between these.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    began: bool,
    earliest: u64,
    latest: u64,
    /// What is added to the times of events, at least and at most.
    offset: (u64, u64),
    /// The latest time of a call that carried none.
    clock: u64,
    /// The journal certainly knows how it is counted.
    is_durable: bool,
    /// The engine was started again, and has not got an event yet: when by the clock.
    rests: bool,
    rests_since: u64,
    /// Damage has taken it away.
    is_lost: bool,
}

impl World {
    pub(super) fn new(config: &Config) -> Result<Self, Wrong> {
        let window = config.window();
        let mut machine = Machine::new(config);
        let dedup = match machine.open(config, window, false) {
            Opened::Engine(dedup) => dedup,
            other => return Err(format!("a new engine: {other:?}")),
        };
        let rules = rules(config, window, &dedup);
        Ok(World {
            config: config.clone(),
            machine,
            rules,
            held: Vec::new(),
            deferred: Vec::new(),
            dedup: Some(dedup),
            beliefs: Default::default(),
            in_flight: Default::default(),
            journal: JournalModel::new(),
            stream: Stream::default(),
            burst_ids: 0,
            last_burst: None,
            is_adrift: false,
            trace: 0,
        })
    }

    fn dedup(&self) -> &Dedup {
        self.dedup.as_ref().expect("an engine, but between a stop and a start")
    }

    /// Does an operation; what is wrong with its answer.
    pub(super) fn run(&mut self, op: Op) -> Result<(), Wrong> {
        if self.stream.is_lost || (self.stream.rests && !op.is_timed_or_reads()) {
            return Ok(());
        }
        let waits_for_events = self.config.kind == Kind::Events && self.config.lateness.is_some() && !self.stream.began;
        if op.ends_the_process() && waits_for_events {
            // When its ids were accepted, by the events' time, is not known to the journal either.
            return Ok(());
        }
        if op.ends_the_process() && self.stream.began && !self.stream.is_durable && self.flush_if_it_can().is_err() {
            // Whether the journal knows how its events' time is counted nobody can say.
            return Ok(());
        }
        let window = self.config.window().as_nanos() as u64;
        let part = |milliwindows: u32| Duration::from_nanos(window / 1_000 * u64::from(milliwindows));
        match op {
            Op::Advance { milliwindows } => self.machine.advance(part(milliwindows)),
            Op::AdvanceHorizon => {
                if let Some(horizon) = self.rules.horizon {
                    self.machine.advance(Duration::from_nanos(horizon + horizon / 3_000 + 1));
                }
            }
            Op::Suspend { milliwindows } => self.machine.suspend(part(milliwindows)),
            Op::WallStep { milliwindows } => self.machine.wall_step(window as i64 / 1_000 * i64::from(milliwindows)),
            Op::Check { id } => self.check(&[id], None)?,
            Op::CheckBatch { first, ids } => {
                let ids: Vec<_> = (0..ids).map(|i| (first + i) % IDS).collect();
                self.check(&ids, Some(()))?;
            }
            Op::Event { id, milliwindows } => self.event(id, window as i64 / 1_000 * i64::from(milliwindows))?,
            Op::EventFromTheFuture { id } => self.event_from_the_future(id)?,
            Op::Contains { id } => self.contains(id)?,
            Op::Stats => self.stats()?,
            Op::Claim { id, fingerprint } => self.claim(id, fingerprint)?,
            Op::ClaimBatch { first, ids } => self.claim_batch(first, ids)?,
            Op::Complete { claim } => self.end(claim, How::Complete)?,
            Op::Release { claim } => self.end(claim, How::Release)?,
            Op::Fail { claim, milliwindows } => self.end(claim, How::Fail(part(milliwindows)))?,
            Op::Renew { claim } => self.end(claim, How::Renew)?,
            Op::CompleteBatch { claims, panics_after } => self.complete_batch(claims, panics_after)?,
            Op::Forget { id } => self.forget(id)?,
            Op::Clear => self.clear()?,
            Op::Flush => self.flush()?,
            Op::Append => self.append()?,
            Op::Burst => self.burst()?,
            Op::Full { full } => {
                self.machine.full(full);
                self.journal.full = full;
            }
            Op::SyncFails { after } => {
                self.machine.sync_fails(after);
                self.journal.sync_fails = true;
            }
            Op::ReopenJournal => self.reopen()?,
            Op::RemoveDirectory => {
                self.machine.remove_directory();
                self.journal.gone = true;
            }
            Op::Crash { seed } => {
                self.kill();
                self.machine.crash(seed.into());
                self.start(self.rules.window, Left::Crashed)?;
            }
            Op::Damage { how, which } => {
                self.kill();
                self.machine.crash(which.into());
                self.machine.damage(how, which);
                // A file that was cut off where a block ends looks as after a crash, which the next sync would have avoided.
                let is_cut = how == Damage::Truncate;
                self.start(self.rules.window, if is_cut { Left::Cut } else { Left::Damaged })?;
            }
            Op::Restart { milliwindows } => {
                self.held.clear();
                self.deferred.clear();
                self.dedup = None;
                let other = (milliwindows > 0).then(|| window / 1_000 * u64::from(milliwindows));
                let other = other.unwrap_or(self.rules.window).min(horizon_of(&self.config));
                let healthy = !self.journal.failed && !self.journal.full && !self.journal.sync_fails;
                let left = if healthy && !self.journal.gone { Left::Stopped } else { Left::Crashed };
                self.machine.stop();
                self.start(other, left)?;
            }
        }
        Ok(())
    }

    // Time

    fn moment(&mut self, timed: bool) -> Moment {
        let moment = self.look();
        if !timed && !self.stream.began && self.config.lateness.is_none() {
            self.stream.clock = self.stream.clock.max(moment.latest);
        }
        moment
    }

    /// The time of a call that moves none.
    fn look(&self) -> Moment {
        match self.config.kind {
            Kind::Manual => Moment::of(self.machine.clock_nanos()),
            Kind::System => {
                let (real, engine) = self.machine.system_nanos();
                Moment { real, engine, earliest: real, latest: engine }
            }
            // An engine that was told that times come with events waits for the first of them.
            Kind::Events if !self.stream.began && self.config.lateness.is_none() => {
                let clock = self.machine.clock_nanos();
                let (earliest, latest) = (self.stream.earliest.max(clock), self.stream.latest.max(clock));
                Moment { real: latest, engine: earliest, earliest, latest }
            }
            Kind::Events if self.stream.rests => {
                let passed = self.machine.clock_nanos() - self.stream.rests_since;
                let (earliest, latest) = (self.stream.earliest, self.stream.latest + self.rules.tick + passed);
                Moment { real: latest, engine: earliest, earliest, latest }
            }
            Kind::Events => {
                let (earliest, latest) = (self.stream.earliest, self.stream.latest + self.rules.tick);
                Moment { real: latest, engine: earliest, earliest, latest }
            }
        }
    }

    // Checks

    fn check(&mut self, ids: &[Id], batch: Option<()>) -> Result<(), Wrong> {
        let now = self.moment(false);
        let mut verdicts = Vec::new();
        match batch {
            None => verdicts.extend(ids.iter().map(|id| self.dedup().check(name(*id)))),
            Some(()) => self.dedup().check_batch(ids.iter().map(|id| name(*id)), &mut verdicts),
        }
        if verdicts.len() != ids.len() {
            return Err(format!("{} verdicts for {} ids", verdicts.len(), ids.len()));
        }
        ids.iter().zip(verdicts).try_for_each(|(&id, verdict)| self.judge_check(id, verdict, now))
    }

    fn judge_check(&mut self, id: Id, verdict: Verdict, now: Moment) -> Result<(), Wrong> {
        self.note(format_args!("check {id} {verdict:?}"));
        let clock = self.machine.clock_nanos();
        let at = id as usize;
        let answer = match (verdict.outcome(), verdict.certainty()) {
            (Outcome::InProgress, _) => {
                return match self.in_flight[at] {
                    Some(claim) if clock <= claim.until + self.machine.lag_nanos() => Ok(()),
                    other => Err(format!("id {id} is in progress, but its claim is {other:?} at {clock}")),
                };
            }
            (Outcome::Fresh, Certainty::Exact) => Answer::Fresh,
            (Outcome::Fresh, _) => Answer::FreshGuess,
            (Outcome::Duplicate, Certainty::Exact) => Answer::Duplicate,
            (Outcome::Duplicate, _) => Answer::DuplicateGuess,
            (other, _) => return Err(format!("id {id}: {other:?} at a time that nothing is wrong with")),
        };
        if let Some(claim) = self.in_flight[at]
            && clock < claim.until
            && answer != Answer::DuplicateGuess
        {
            return Err(format!("id {id} is {answer:?}, although it is claimed: {claim:?} at {clock}"));
        }
        if answer != Answer::DuplicateGuess {
            // A check takes over what has expired.
            self.in_flight[at] = None;
        }
        let rules = self.rules;
        self.learn(id, answer, now, |state| state.checks(now, &rules))?;
        if answer == Answer::Fresh || answer == Answer::FreshGuess || rules.refresh {
            match self.config.deferred {
                false => self.journaled(id),
                true => self.deferred.push((Some(id), self.dedup().digest(name(id)), verdict)),
            }
        }
        Ok(())
    }

    fn learn(
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

    fn event(&mut self, id: Id, ahead: i64) -> Result<(), Wrong> {
        if self.config.kind != Kind::Events {
            return self.check(&[id], None);
        }
        // Events count from 2020; the wall clock is of 2026.
        let base = match self.stream.began {
            true => self.stream.latest - self.stream.offset.0,
            false => Machine::FIRST_EVENT,
        };
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
        let now = Moment { real: latest, engine: earliest, earliest, latest };
        self.judge_check(id, verdict, now)
    }

    /// An event has come.
    fn stream_goes_on(&mut self, at: u64) {
        let tick = self.rules.tick;
        self.stream.rests = false;
        if !self.stream.began {
            self.stream.began = true;
            // An engine that went by its clock until now goes on from there.
            let by_clock = if self.stream.clock > 0 { self.machine.clock_nanos() } else { 0 };
            let clock = by_clock.max(self.stream.latest);
            if self.config.lateness.is_some() {
                // What came before counts as of the first event.
                let by = (at.saturating_sub(tick), at);
                self.beliefs = std::mem::take(&mut self.beliefs).map(|belief| belief.map(|state| state.moved(by)));
                self.journal.moved(by);
            } else if clock > at {
                // What came before counts as it did; where in its tick the clock was nobody knows any more.
                self.stream.offset = (clock.saturating_sub(tick) - at, clock + tick - at);
                self.beliefs = std::mem::take(&mut self.beliefs).map(|belief| belief.map(|state| state.blurred(tick)));
            }
        }
        let Stream { earliest, latest, offset, .. } = &mut self.stream;
        *earliest = (*earliest).max(at + offset.0);
        *latest = (*latest).max(at + offset.1);
    }

    fn event_from_the_future(&mut self, id: Id) -> Result<(), Wrong> {
        if self.config.kind != Kind::Events {
            return Ok(());
        }
        let verdict = self.dedup().check_at(name(id), Timestamp::from_secs(180 * 365 * 24 * 3600));
        self.note(format_args!("future {id} {verdict:?}"));
        match verdict.outcome() {
            Outcome::Refused(crate::Refusal::Ahead) => Ok(()),
            other => Err(format!("an event of another century is {other:?}")),
        }
    }

    fn contains(&mut self, id: Id) -> Result<(), Wrong> {
        let (now, rules) = (self.look(), self.rules);
        let answer = self.dedup().contains(name(id)).map(|tier| tier == Tier::Window);
        self.note(format_args!("contains {id} {answer:?}"));
        let belief = &mut self.beliefs[id as usize];
        let states = belief.states().iter().filter(|state| state.contains(now, &rules).contains(&answer)).copied();
        let left = Belief::of(states.collect::<Vec<_>>());
        match left.states().is_empty() {
            true => Err(format!("contains({id}) is {answer:?} at {now:?}: {belief:?}")),
            false => {
                *belief = left;
                Ok(())
            }
        }
    }

    fn stats(&mut self) -> Result<(), Wrong> {
        let stats = self.dedup().stats();
        match stats.window.evicted_live {
            0 => Ok(()),
            evicted => Err(format!("{evicted} ids were forgotten early, though there is room")),
        }
    }

    fn burst(&mut self) -> Result<(), Wrong> {
        let (Some(horizon), Some(history)) = (self.rules.horizon, self.config.history) else { return Ok(()) };
        let now = self.moment(false);
        if self.last_burst.is_some_and(|last| now.engine <= last + horizon) || self.config.kind == Kind::Events {
            return Ok(());
        }
        self.last_burst = Some(now.real);
        let first = self.burst_ids;
        self.burst_ids += BURST as u64;
        let mut verdicts = Vec::new();
        self.dedup().check_batch((first..self.burst_ids).map(u64::to_be_bytes), &mut verdicts);
        let wrong = verdicts.iter().filter(|verdict| verdict.certainty() == Certainty::Guess).count();
        self.note(format_args!("burst {wrong}"));
        if self.config.deferred {
            let ids = (first..self.burst_ids).map(|id| self.dedup().digest(id.to_be_bytes()));
            let checked: Vec<_> = ids.zip(&verdicts).map(|(id, verdict)| (None, id, *verdict)).collect();
            self.deferred.extend(checked);
        } else {
            self.journal.appended += 1;
        }
        // Twelve deviations: once in more sequences than will ever be run.
        let expected = history.rate() * BURST as f64;
        let most = expected + 12.0 * expected.sqrt() + 12.0;
        match wrong as f64 > most {
            true => Err(format!("of {BURST} new ids {wrong} were known to the history, at most {most} are its rate")),
            false => Ok(()),
        }
    }

    // Claims

    fn claim(&mut self, id: Id, fingerprint: Option<u8>) -> Result<(), Wrong> {
        let now = self.moment(false);
        let text = fingerprint.map(|fingerprint| [fingerprint]);
        let mut options = ClaimOptions::new().lease(self.lease());
        if let Some(text) = &text {
            options = options.fingerprint(text);
        }
        let dedup = self.dedup().clone();
        let attempt = dedup.claim_with(name(id), options);
        self.judge_claim(id, fingerprint, attempt, now)
    }

    fn claim_batch(&mut self, first: Id, ids: u8) -> Result<(), Wrong> {
        let now = self.moment(false);
        let ids: Vec<_> = (0..ids).map(|i| (first + i) % IDS).collect();
        let dedup = self.dedup().clone();
        let mut attempts = Vec::new();
        dedup.claim_batch(ids.iter().map(|id| name(*id)), &mut attempts);
        ids.into_iter().zip(attempts).try_for_each(|(id, attempt)| self.judge_claim(id, None, attempt, now))
    }

    fn judge_claim(&mut self, id: Id, fingerprint: Option<u8>, attempt: Attempt<'_>, now: Moment) -> Result<(), Wrong> {
        let (clock, lag, at) = (self.machine.clock_nanos(), self.machine.lag_nanos(), id as usize);
        let (mut must, mut may) = (false, false);
        if let Some(claim) = self.in_flight[at] {
            (must, may) = (clock < claim.until, clock <= claim.until + lag);
        }
        let said = match &attempt {
            Attempt::Claimed(_) => Answer::Claimed,
            Attempt::Duplicate(verdict) if verdict.certainty() == Certainty::Exact => Answer::Duplicate,
            Attempt::Duplicate(_) => Answer::DuplicateGuess,
            Attempt::Mismatch => Answer::Mismatch,
            Attempt::InProgress { .. } => {
                self.note(format_args!("claim {id} in progress"));
                let same = self.in_flight[at].is_some_and(|claim| !differ(claim.fingerprint, fingerprint));
                return match may && same {
                    true => Ok(()),
                    false => Err(format!("id {id} is in progress: {:?} at {clock}", self.in_flight[at])),
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
        let rules = self.rules;
        self.learn(id, said, now, |state| state.claims(now, &rules, fingerprint))?;
        match attempt {
            Attempt::Claimed(claim) => {
                let number = claim.token().as_u64();
                let until = self.until(self.lease());
                self.in_flight[at] = Some(InFlight { number, until, fingerprint, failed: false });
                self.held.push(Held { claim: claim.into_owned(), id, number });
            }
            _ => {
                if said == Answer::Duplicate && self.rules.horizon.is_none() {
                    self.in_flight[at] = None;
                }
                if rules.refresh && said != Answer::Mismatch {
                    self.journaled(id);
                }
            }
        }
        Ok(())
    }

    fn lease(&self) -> Duration {
        self.config.window() / 5
    }

    fn until(&self, lease: Duration) -> u64 {
        self.machine.clock_nanos() + lease.as_nanos() as u64
    }

    fn end(&mut self, which: u8, how: How) -> Result<(), Wrong> {
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
            return self.ended(id, number, renewed, now, |claim| Some(InFlight { until, ..claim }));
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
                self.ended(id, number, held, now, |claim| Some(InFlight { until, failed: true, ..claim }))
            }
            How::Renew => unreachable!("above"),
        }
    }

    fn complete_batch(&mut self, claims: u8, panics_after: Option<u8>) -> Result<(), Wrong> {
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

    fn let_go(&mut self, id: Id, number: u64) {
        let place = &mut self.in_flight[id as usize];
        if place.is_some_and(|claim| claim.number == number) {
            *place = None;
        }
    }

    fn completed(&mut self, id: Id, number: u64, held: bool, now: Moment) -> Result<(), Wrong> {
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

    /// A claim was ended or extended; whether it was its holder's must be true.
    fn ended(
        &mut self,
        id: Id,
        number: u64,
        held: bool,
        now: Moment,
        after: impl Fn(InFlight) -> Option<InFlight>,
    ) -> Result<(), Wrong> {
        self.note(format_args!("ended {id} {held}"));
        let place = &mut self.in_flight[id as usize];
        match place.filter(|claim| claim.number == number && !claim.failed) {
            Some(claim) if held => {
                *place = after(claim);
                Ok(())
            }
            // It had expired, and a guess may have taken it over.
            Some(claim) if self.rules.horizon.is_some() && self.machine.clock_nanos() >= claim.until => {
                *place = None;
                Ok(())
            }
            None if !held => Ok(()),
            other => Err(format!("claim {number} of id {id} held: {held}, but {other:?} at {now:?}")),
        }
    }

    // Forgetting

    fn forget(&mut self, id: Id) -> Result<(), Wrong> {
        let forgotten = self.dedup().forget(name(id));
        let clock = self.machine.clock_nanos();
        self.note(format_args!("forget {id} {forgotten:?}"));
        let claim = self.in_flight[id as usize];
        match forgotten {
            Forgotten::InProgress => match claim {
                Some(claim) if clock <= claim.until + self.machine.lag_nanos() => return Ok(()),
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

    fn clear(&mut self) -> Result<(), Wrong> {
        self.dedup().clear();
        self.note(format_args!("clear"));
        for id in 0..IDS {
            self.beliefs[id as usize] = Belief::default();
            self.journaled(id);
            let place = &mut self.in_flight[id as usize];
            *place = place.filter(|claim| !claim.failed);
        }
        Ok(())
    }

    // The journal

    /// An event of an id was appended.
    fn journaled(&mut self, id: Id) {
        let journal = &mut self.journal;
        journal.appended += 1;
        let belief = &self.beliefs[id as usize];
        journal.logs[id as usize].push((journal.appended, belief.clone()));
        let ever = &mut journal.ever[id as usize];
        *ever = Belief::of(ever.states().iter().chain(belief.states()).copied());
    }

    fn append(&mut self) -> Result<(), Wrong> {
        let now = self.moment(false);
        let deferred = std::mem::take(&mut self.deferred);
        let checked = deferred.iter().map(|(_, id, verdict)| (*id, *verdict));
        let appended = self.dedup().append_batch_prepared(checked);
        self.note(format_args!("append {}", appended.is_ok()));
        if appended.is_err() && !self.journal.may_fail() {
            return Err(format!("append: {appended:?}"));
        }
        let rules = self.rules;
        for id in deferred.into_iter().filter_map(|(id, ..)| id) {
            let accepted = self.beliefs[id as usize]
                .map(|state| state.accepted(Moment { earliest: 0.max(now.earliest), ..now }, &rules, None));
            let journal = &mut self.journal;
            journal.appended += 1;
            // As it was, if the journal had failed.
            let all = Belief::of(match appended.is_ok() {
                true => accepted.states().to_vec(),
                false => [accepted.states(), last(&journal.logs[id as usize]).states()].concat(),
            });
            journal.logs[id as usize].push((journal.appended, all.clone()));
            let ever = &mut journal.ever[id as usize];
            *ever = Belief::of(ever.states().iter().chain(all.states()).copied());
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Wrong> {
        let flushed = self.dedup().flush();
        self.note(format_args!("flush {}", flushed.is_ok()));
        let journal = &mut self.journal;
        match &flushed {
            Ok(()) if journal.gone => Err("flushed into a directory that is gone".to_string()),
            Ok(()) if journal.failed => Err("flushed, although the journal had failed".to_string()),
            Ok(()) => {
                journal.durable = journal.appended;
                self.stream.is_durable = self.stream.began;
                Ok(())
            }
            Err(_) if journal.may_fail() => {
                journal.failed = true;
                Ok(())
            }
            Err(error) => Err(format!("flush failed without cause: {error}")),
        }
    }

    /// Flushes, if nothing keeps it from that.
    fn flush_if_it_can(&mut self) -> Result<(), Wrong> {
        match self.journal.may_fail() {
            true => Err("the journal has failed, or may".to_string()),
            false => self.flush(),
        }
    }

    fn reopen(&mut self) -> Result<(), Wrong> {
        self.machine.heal();
        self.journal.sync_fails = false;
        let dedup = self.dedup().clone();
        let reopened = self.machine.reopen(&dedup);
        drop(dedup);
        self.note(format_args!("reopen {}", reopened.is_ok()));
        match reopened {
            Ok(()) => {
                if std::mem::take(&mut self.journal.gone) {
                    self.journal.forget_disk();
                }
                self.journal.failed = false;
                Ok(())
            }
            Err(_) if self.journal.may_fail() => Ok(()),
            Err(error) => Err(format!("the journal cannot be reopened: {error}")),
        }
    }

    // Ends and beginnings

    fn kill(&mut self) {
        self.machine.kill();
        self.held.clear();
        self.deferred.clear();
        self.dedup = None;
    }

    fn start(&mut self, window: u64, left: Left) -> Result<(), Wrong> {
        self.in_flight = Default::default();
        let length = Duration::from_nanos(window);
        self.machine.full(false);
        let was_gone = self.journal.gone;
        let (dedup, damaged) = match self.machine.open(&self.config, length, false) {
            Opened::Engine(dedup) => (dedup, false),
            Opened::Damaged(error) if matches!(left, Left::Damaged | Left::Cut) || was_gone => {
                match self.machine.open(&self.config, length, true) {
                    Opened::Engine(dedup) => (dedup, true),
                    other => return Err(format!("damaged ({error}), and cannot be kept: {other:?}")),
                }
            }
            other => return Err(format!("cannot be opened: {other:?}")),
        };
        let reports = self.machine.reports_loss(&dedup);
        self.note(format_args!("start {damaged} {reports}"));
        let unknown = damaged || was_gone || (left == Left::Damaged && reports) || left == Left::Cut;
        let before = self.journal.durable;
        let rules = rules(&self.config, length, &dedup);
        for id in 0..IDS as usize {
            let log = &self.journal.logs[id];
            let belief = match left {
                _ if unknown => self.journal.ever[id].clone(),
                Left::Stopped => last(log).clone(),
                _ => {
                    let from = log.iter().rposition(|(at, _)| *at <= before).unwrap_or(0);
                    Belief::of(log[from..].iter().flat_map(|(_, belief)| belief.states().iter().copied()))
                }
            };
            // Which boot it was of is in the headers, too: without it, the wall clock counts, wherever that was set.
            self.is_adrift |= damaged && self.config.kind == Kind::System;
            let is_adrift = self.is_adrift;
            let now = self.look();
            let belief = belief.map(|state| {
                let state = state.restarted(&rules);
                if is_adrift { state.adrift(now) } else { state }
            });
            self.journal.logs[id] = vec![(0, belief.clone())];
            self.journal.ever[id] =
                Belief::of(self.journal.ever[id].states().iter().map(|state| state.restarted(&rules)));
            self.beliefs[id] = belief;
        }
        if self.config.kind == Kind::Events && self.stream.began {
            // It goes on from the latest time that the journal has, whichever that is.
            self.stream = Stream { earliest: 0, rests: true, rests_since: self.machine.clock_nanos(), ..self.stream };
            self.stream.is_lost = unknown;
        }
        (self.journal.appended, self.journal.durable) = (0, 0);
        (self.journal.failed, self.journal.gone) = (false, false);
        (self.journal.full, self.journal.sync_fails) = (false, false);
        self.rules = rules;
        self.dedup = Some(dedup);
        // What bursts have left is as uncertain as all else.
        self.last_burst = None.or(self.last_burst);
        Ok(())
    }

    fn note(&mut self, what: std::fmt::Arguments<'_>) {
        for byte in what.to_string().bytes() {
            self.trace = crate::random::mix(self.trace ^ u64::from(byte));
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Complete,
    Release,
    Fail(Duration),
    Renew,
}

/// How the engine before has left its journal.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Left {
    Stopped,
    Crashed,
    Damaged,
    /// Cut off, where nobody can tell.
    Cut,
}

impl JournalModel {
    fn new() -> Self {
        let begin = || vec![(0, Belief::default())];
        JournalModel {
            logs: std::array::from_fn(|_| begin()),
            ever: Default::default(),
            appended: 0,
            durable: 0,
            failed: false,
            full: false,
            sync_fails: false,
            gone: false,
        }
    }

    /// The times before the first event are known now.
    fn moved(&mut self, by: (u64, u64)) {
        let logs = self.logs.iter_mut().flatten().map(|(_, belief)| belief);
        logs.chain(&mut self.ever).for_each(|belief| *belief = belief.map(|state| state.moved(by)));
    }

    fn may_fail(&self) -> bool {
        self.failed || self.full || self.sync_fails || self.gone
    }

    /// The directory is a new one: what was in it may be gone.
    fn forget_disk(&mut self) {
        for (log, ever) in self.logs.iter_mut().zip(&self.ever) {
            *log = vec![(0, ever.clone())];
        }
        self.durable = 0;
    }
}

fn last(log: &[(u64, Belief)]) -> &Belief {
    &log.last().expect("it begins with a belief").1
}

fn differ(one: Option<u8>, other: Option<u8>) -> bool {
    matches!((one, other), (Some(one), Some(other)) if one != other)
}

fn horizon_of(config: &Config) -> u64 {
    config.history.map_or(u64::MAX, |history| history.horizon(config.window()).as_nanos() as u64)
}

fn rules(config: &Config, window: Duration, dedup: &Dedup) -> Rules {
    Rules {
        window: window.as_nanos() as u64,
        tick: dedup.tick().as_nanos() as u64,
        refresh: config.refresh,
        horizon: config.history.map(|history| history.horizon(config.window()).as_nanos() as u64),
        unconfirmed_fresh: config.history.is_some_and(|history| history.unconfirmed_fresh),
    }
}

pub(super) const HISTORY_IDS: usize = HistoryConfig::IDS;

fn name(id: Id) -> [u8; 1] {
    [b'a' + id]
}
