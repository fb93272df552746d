//! An engine, its surroundings, and the reference: does each operation to both, and compares.

use super::belief::{Belief, Rules};
use super::bursts::Bursts;
use super::claiming::{Held, How, InFlight};
use super::config::{Config, HistoryConfig, Kind};
use super::journaling::JournalModel;
use super::machine::Machine;
use super::meanwhile::ToCome;
use super::met::Met;
use super::op::{Harm, IDS, Id, Op};
use super::restarts::Left;
use super::times::Stream;
use crate::{Dedup, Prepared, Verdict};
use std::time::Duration;

/// A description of what went wrong.
pub(super) type Wrong = String;

pub(super) struct World {
    pub(super) config: Config,
    pub(super) machine: Machine,
    pub(super) rules: Rules,
    /// The open claims: dropped before the engine.
    pub(super) held: Vec<Held>,
    pub(super) deferred: Vec<(Option<Id>, Prepared, Verdict)>,
    pub(super) dedup: Option<Dedup>,
    pub(super) beliefs: [Belief; IDS as usize],
    pub(super) in_flight: [Option<InFlight>; IDS as usize],
    pub(super) journal: JournalModel,
    pub(super) stream: Stream,
    pub(super) bursts: Bursts,
    /// True if the journal does not know any more which boot it is of.
    pub(super) is_adrift: bool,
    /// The time since when something waits for a checkpoint, at the earliest.
    pub(super) held_since: Option<u64>,
    /// The event in the midst of the next call, and the time that has passed in the last one.
    pub(super) to_come: Option<ToCome>,
    pub(super) lag_nanos: u64,
    /// The number of other callers' ids so far.
    pub(super) others: u64,
    pub(super) met: Met,
    /// A digest of all observations, to show that a seed repeats itself.
    pub(super) trace: u64,
}

impl World {
    pub(super) fn new(config: &Config) -> Result<Self, Wrong> {
        let window = config.window();
        let mut machine = Machine::new(config);
        let dedup = machine.open(config, window, false).map_err(|error| format!("a new engine: {error}"))?;
        let rules = rules(config, window, &dedup);
        Ok(World {
            config: *config,
            machine,
            rules,
            held: Vec::new(),
            deferred: Vec::new(),
            dedup: Some(dedup),
            beliefs: Default::default(),
            in_flight: Default::default(),
            journal: JournalModel::new(),
            stream: Stream::default(),
            bursts: Bursts::default(),
            is_adrift: false,
            held_since: None,
            to_come: None,
            lag_nanos: 0,
            others: 0,
            met: Met::default(),
            trace: 0,
        })
    }

    pub(super) fn dedup(&self) -> &Dedup {
        self.dedup.as_ref().expect("an engine, but between a stop and a start")
    }

    /// Does an operation. Fails with what is wrong with its answer.
    pub(super) fn run(&mut self, op: Op) -> Result<(), Wrong> {
        self.lag_nanos = 0;
        if self.stream.is_lost || (self.stream.rests && !op.is_timed_or_reads()) {
            return Ok(());
        }
        let waits_for_events = self.config.kind == Kind::Events && self.config.lateness.is_some() && !self.stream.began;
        if op.ends_the_process() && waits_for_events {
            // The journal does not know either when its ids were accepted, by the events' time.
            return Ok(());
        }
        if op.ends_the_process() && self.stream.began && !self.stream.is_durable && self.flush_if_it_can().is_err() {
            // It is unknown whether the journal knows how its events' time is counted.
            return Ok(());
        }
        let window = self.config.window().as_nanos() as u64;
        let part = |milliwindows: u32| Duration::from_nanos(window / 1_000 * u64::from(milliwindows));
        match op {
            Op::Advance { milliwindows } => self.machine.advance(part(milliwindows)),
            // As long as an id that is accepted now is known for certain.
            Op::AdvanceHorizon if self.rules.retention.is_some() => {
                self.machine.advance(Duration::from_nanos(self.rules.retention.unwrap_or(0) - 1));
            }
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
            Op::CheckPrepared { id } => self.check_prepared(id)?,
            Op::ForgottenMeanwhile { id } => self.check_forgotten(id)?,
            Op::Contains { id } => self.contains(id)?,
            Op::Meanwhile { looks, milliwindows, others } => {
                // (What time it is by events is decided by events.)
                let to_come = ToCome { looks, by: part(milliwindows), others };
                self.to_come = (self.config.kind != Kind::Events).then_some(to_come);
            }
            Op::Stats => self.stats()?,
            Op::Claim { id, fingerprint } => self.claim(id, fingerprint)?,
            Op::ClaimBatch { first, ids } => self.claim_batch(first, ids)?,
            Op::Complete { claim } => self.end_claim(claim, How::Complete)?,
            Op::Release { claim } => self.end_claim(claim, How::Release)?,
            Op::Fail { claim, milliwindows } => self.end_claim(claim, How::Fail(part(milliwindows)))?,
            Op::Renew { claim } => self.end_claim(claim, How::Renew)?,
            Op::CompleteBatch { claims, panics_after } => self.complete_batch(claims, panics_after)?,
            Op::Forget { id } => self.forget(id)?,
            Op::Clear => self.clear(None)?,
            Op::ClearBeside { id } => self.clear(Some(id))?,
            Op::Flush => self.flush()?,
            Op::Append => self.append()?,
            Op::Checkpoint => self.checkpoint()?,
            Op::Burst => self.burst()?,
            Op::Full { full } => {
                self.machine.full(full);
                // Sealing may have met it, and the journal has failed then.
                self.journal.sync_fails |= self.journal.full && self.rules.retention.is_some();
                self.journal.full = full;
            }
            Op::SyncFails { after } => {
                self.machine.sync_fails(after);
                self.journal.sync_fails = true;
            }
            Op::CallFails { after } => {
                self.machine.call_fails(after);
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
                // A file that was cut off where a block ends looks as after a crash, which the next
                // sync would have prevented.
                let is_cut = how == Harm::Truncate;
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

    pub(super) fn note(&mut self, what: std::fmt::Arguments<'_>) {
        for byte in what.to_string().bytes() {
            self.trace = crate::random::mix(self.trace ^ u64::from(byte));
        }
    }
}

pub(super) fn horizon_of(config: &Config) -> u64 {
    let longest = config.history.map(|history| history.horizon(config.window()).as_nanos() as u64);
    // A retention is longer than the window.
    longest.or_else(|| config.retention().map(|retention| retention.as_nanos() as u64 - 1)).unwrap_or(u64::MAX)
}

pub(super) fn rules(config: &Config, window: Duration, dedup: &Dedup) -> Rules {
    Rules {
        window: window.as_nanos() as u64,
        tick: dedup.tick().as_nanos() as u64,
        refresh: config.refresh,
        horizon: config.history.map(|history| history.horizon(config.window()).as_nanos() as u64),
        unconfirmed_fresh: config.history.is_some_and(|history| history.unconfirmed_fresh),
        retention: config.retention().map(|retention| retention.as_nanos() as u64),
        may_doubt: false,
    }
}

pub(super) const HISTORY_IDS: usize = HistoryConfig::IDS;

pub(super) fn name(id: Id) -> [u8; 1] {
    [b'a' + id]
}
