//! The expected contents of the journal.

use super::belief::{Belief, Moment, Rules, State};
use super::op::{IDS, Id};
use super::restarts::Left;
use super::world::{World, Wrong};
use crate::{Dedup, JournalError};

/// The source of all positions.
const SOURCE: &[u8] = b"source";

/// The expected contents of the journal.
pub(super) struct JournalModel {
    /// The state of each id after each of its events, by their positions.
    pub(super) logs: [Vec<(u64, Belief)>; IDS as usize],
    /// Every state that an id ever had.
    pub(super) ever: [Belief; IDS as usize],
    pub(super) appended: u64,
    pub(super) durable: u64,
    /// The checkpoints, each with its number, which is its position, and what was appended by then:
    /// first the one that is durable.
    pub(super) checkpoints: Vec<(u64, u64)>,
    last_checkpoint: u64,
    pub(super) failed: bool,
    /// The reasons for which it may fail.
    pub(super) full: bool,
    pub(super) sync_fails: bool,
    pub(super) gone: bool,
}

impl World {
    /// Notes that an event of an id was appended.
    pub(super) fn journaled(&mut self, id: Id) {
        let earliest = self.look().earliest;
        self.waits_since(earliest);
        let journal = &mut self.journal;
        journal.appended += 1;
        let belief = &self.beliefs[id as usize];
        journal.logs[id as usize].push((journal.appended, belief.clone()));
        let ever = &mut journal.ever[id as usize];
        *ever = Belief::of(ever.states().iter().chain(belief.states()).copied());
    }

    /// Notes that something of this time waits for a checkpoint. (By events' times it may be an
    /// earlier one than what the clock has shown before.)
    fn waits_since(&mut self, time: u64) {
        self.held_since = Some(self.held_since.map_or(time, |before| before.min(time)));
    }

    pub(super) fn append(&mut self) -> Result<(), Wrong> {
        let now = self.moment(false);
        let deferred = std::mem::take(&mut self.deferred);
        let checked = deferred.iter().map(|(_, id, verdict)| (*id, *verdict));
        let appended = self.dedup().journal().unwrap().append_batch(checked);
        self.note(format_args!("append {}", appended.is_ok()));
        if appended.is_err() && !self.journal.may_fail() {
            return Err(format!("append: {appended:?}"));
        }
        let rules = self.rules;
        self.waits_since(now.earliest);
        self.appended_late(deferred.iter().filter(|(id, ..)| id.is_none()).count(), now);
        for id in deferred.into_iter().filter_map(|(id, ..)| id) {
            let accepted = self.beliefs[id as usize].map(|state| state.accepted(now, &rules, None));
            if rules.retention.is_some() {
                self.appended(id, now, appended.is_ok());
            }
            let journal = &mut self.journal;
            journal.appended += 1;
            // The state as it was, if the journal had failed.
            let all = Belief::of(if appended.is_ok() {
                accepted.states().to_vec()
            } else {
                [accepted.states(), last(&journal.logs[id as usize]).states()].concat()
            });
            journal.logs[id as usize].push((journal.appended, all.clone()));
            let ever = &mut journal.ever[id as usize];
            *ever = Belief::of(ever.states().iter().chain(all.states()).copied());
        }
        Ok(())
    }

    /// Notes that a long memory will have an id from now on.
    fn appended(&mut self, id: Id, now: Moment, is_certain: bool) {
        let rules = self.rules;
        let belief = &mut self.beliefs[id as usize];
        let states = belief.states().iter().flat_map(|state| match (state.done, is_certain) {
            (Some(_), true) => [state.retained(now, &rules); 2],
            (Some(_), false) => [*state, state.retained(now, &rules)],
            // It was forgotten since it was checked: as if it was accepted by a check now, or not.
            (None, _) => [*state, state.accepted(now, &Rules { window: 0, ..rules }, None).not_retained()],
        });
        *belief = Belief::of(states.collect::<Vec<_>>());
    }

    pub(super) fn checkpoint(&mut self) -> Result<(), Wrong> {
        let number = self.journal.last_checkpoint + 1;
        let taken = self.dedup().journal().unwrap().checkpoint([(SOURCE, number.to_le_bytes())]);
        self.note(format_args!("checkpoint {}", taken.is_ok()));
        match taken {
            Ok(_) if !self.config.checkpoints => Err("a journal without checkpoints has taken one".to_string()),
            Ok(_) => {
                self.journal.last_checkpoint = number;
                self.held_since = None;
                self.journal.checkpoints.push((number, self.journal.appended));
                self.stream.is_appended = self.stream.began;
                Ok(())
            }
            Err(JournalError::NoCheckpoints { .. }) if !self.config.checkpoints => Ok(()),
            Err(_) if self.journal.may_fail() => Ok(()),
            Err(error) => Err(format!("no checkpoint, without cause: {error}")),
        }
    }

    pub(super) fn flush(&mut self) -> Result<(), Wrong> {
        let flushed = self.dedup().journal().unwrap().flush();
        self.flushed(flushed)
    }

    /// Judges the result of a flush.
    pub(super) fn flushed(&mut self, flushed: Result<(), JournalError>) -> Result<(), Wrong> {
        self.note(format_args!("flush {}", flushed.is_ok()));
        let journal = &mut self.journal;
        match &flushed {
            Ok(()) if journal.gone => Err("flushed into a directory that is gone".to_string()),
            Ok(()) if journal.failed => Err("flushed, although the journal had failed".to_string()),
            Ok(()) if self.config.checkpoints => {
                journal.checkpoints.drain(..journal.checkpoints.len() - 1);
                self.stream.is_durable = self.stream.is_appended;
                Ok(())
            }
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

    /// Flushes, if nothing prevents it.
    pub(super) fn flush_if_it_can(&mut self) -> Result<(), Wrong> {
        if self.journal.may_fail() {
            Err("the journal has failed, or may".to_string())
        } else {
            self.checkpoint()?;
            self.flush()
        }
    }

    pub(super) fn reopen(&mut self) -> Result<(), Wrong> {
        self.machine.heal();
        self.journal.sync_fails = false;
        let reopened = self.dedup().journal().unwrap().reopen();
        self.note(format_args!("reopen {}", reopened.is_ok()));
        match reopened {
            Ok(reopened) => {
                let was_gone = std::mem::take(&mut self.journal.gone);
                if was_gone {
                    self.journal.forget_disk();
                    // What it had was not sealed, perhaps.
                    if self.rules.retention.is_some() {
                        self.journal.map(|state| state.scattered(false));
                    }
                    self.beliefs.iter_mut().for_each(|belief| *belief = belief.map(State::not_retained));
                }
                if reopened.failed_at.is_some() {
                    self.journal.all_is_written(was_gone && reopened.written_late == 0);
                }
                self.journal.failed = false;
                Ok(())
            }
            Err(_) if self.journal.may_fail() => Ok(()),
            Err(error) => Err(format!("the journal cannot be reopened: {error}")),
        }
    }
}

impl JournalModel {
    pub(super) fn new() -> Self {
        let begin = || vec![(0, Belief::default())];
        JournalModel {
            logs: std::array::from_fn(|_| begin()),
            ever: Default::default(),
            appended: 0,
            durable: 0,
            checkpoints: vec![(0, 0)],
            last_checkpoint: 0,
            failed: false,
            full: false,
            sync_fails: false,
            gone: false,
        }
    }

    /// Notes that the times before the first event are known now.
    pub(super) fn moved(&mut self, by: (u64, u64)) {
        self.map(|state| state.moved(by));
    }

    pub(super) fn map(&mut self, change: impl Fn(State) -> State) {
        let logs = self.logs.iter_mut().flatten().map(|(_, belief)| belief);
        logs.chain(&mut self.ever).for_each(|belief| *belief = belief.map(&change));
    }

    pub(super) fn may_fail(&self) -> bool {
        self.failed || self.full || self.sync_fails || self.gone
    }

    /// Notes that the directory is a new one: the old contents may be gone.
    pub(super) fn forget_disk(&mut self) {
        for (log, ever) in self.logs.iter_mut().zip(&self.ever) {
            *log = vec![(0, ever.clone())];
        }
        self.durable = 0;
        // The durable one is gone; those that wait are not.
        self.checkpoints[0] = (0, 0);
    }

    /// Notes that everything that waited was written when the journal was reopened; or that nothing
    /// has waited, since all of it was written before (a long memory makes files of what waits) and
    /// is gone with the directory.
    fn all_is_written(&mut self, and_gone: bool) {
        self.durable = self.appended;
        if and_gone { self.checkpoints.truncate(1) } else { drop(self.checkpoints.drain(..self.checkpoints.len() - 1)) }
    }

    /// Returns what was appended by the checkpoint that an engine has come back to.
    pub(super) fn appended_by(&self, checkpoint: u64, left: Left) -> Result<u64, Wrong> {
        let possible = match left {
            Left::Stopped => &self.checkpoints[self.checkpoints.len() - 1..],
            _ => &self.checkpoints[..],
        };
        let found = possible.iter().find(|(number, _)| *number == checkpoint);
        found
            .map(|(_, appended)| *appended)
            .ok_or_else(|| format!("it is back at checkpoint {checkpoint}, expected one of {possible:?}"))
    }
}

/// Returns the number of the checkpoint that an engine has come back to.
pub(super) fn checkpoint_of(dedup: &Dedup) -> Result<u64, Wrong> {
    let positions = dedup.journal().unwrap().positions().map_err(|error| format!("no positions: {error}"))?;
    match &positions[..] {
        [] => Ok(0),
        [(source, position)] if source == SOURCE && position.len() == 8 => {
            Ok(position.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
        }
        other => Err(format!("positions {other:?}")),
    }
}

pub(super) fn last(log: &[(u64, Belief)]) -> &Belief {
    &log.last().expect("it begins with a belief").1
}
