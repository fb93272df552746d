//! The end of a process, and the beginning of another.

use super::belief::Belief;
use super::config::Kind;
use super::journaling::{checkpoint_of, last};
use super::op::IDS;
use super::times::Stream;
use super::world::{World, Wrong, rules};
use crate::{Dedup, Error, JournalError};
use std::time::Duration;

/// The state in which the previous engine has left its journal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Left {
    Stopped,
    Crashed,
    Damaged,
    /// Cut off, in a way that cannot be detected.
    Cut,
}

impl World {
    pub(super) fn kill(&mut self) {
        self.machine.kill();
        self.held.clear();
        self.deferred.clear();
        self.dedup = None;
    }

    /// Opens an engine, as an operator would. Returns it, and whether something was damaged.
    fn open(&mut self, length: Duration, may_be_damaged: bool) -> Result<(Dedup, bool), Wrong> {
        let mut damaged = false;
        for _ in 0..3 {
            match self.machine.open(&self.config, length, damaged) {
                Ok(dedup) => return Ok((dedup, damaged)),
                Err(Error::Journal(JournalError::Damaged { .. })) if may_be_damaged && !damaged => {}
                // It has lost what segments say that they have.
                Err(Error::Segments(crate::SegmentError::NotOurs { .. })) if may_be_damaged => {
                    self.machine.remove_segments();
                    self.met.not_ours += 1;
                }
                Err(other) => return Err(format!("cannot be opened, damaged {damaged}: {other}")),
            }
            damaged = true;
        }
        Err("cannot be opened, whatever is done".to_string())
    }

    pub(super) fn start(&mut self, window: u64, left: Left) -> Result<(), Wrong> {
        self.in_flight = Default::default();
        let length = Duration::from_nanos(window);
        self.machine.full(false);
        let was_gone = self.journal.gone;
        let may_be_damaged = matches!(left, Left::Damaged | Left::Cut) || was_gone;
        let (dedup, damaged) = self.open(length, may_be_damaged)?;
        let reports = self.machine.reports_loss(&dedup);
        self.note(format_args!("start {damaged} {reports}"));
        let unknown = damaged || was_gone || (left == Left::Damaged && reports) || left == Left::Cut;
        let before = self.journal.durable;
        let checkpoint = checkpoint_of(&dedup)?;
        let by_then =
            if self.config.checkpoints && !unknown { Some(self.journal.appended_by(checkpoint, left)?) } else { None };
        let rules = rules(&self.config, length, &dedup);
        for id in 0..IDS as usize {
            let log = &self.journal.logs[id];
            let belief = match (left, by_then) {
                _ if unknown => self.journal.ever[id].map(|state| {
                    if rules.retention.is_some() { state.scattered(self.config.kind != Kind::Manual) } else { state }
                }),
                (_, Some(by_then)) => {
                    let known = log.iter().rfind(|(at, _)| *at <= by_then);
                    known.map_or_else(|| self.journal.ever[id].clone(), |(_, belief)| belief.clone())
                }
                (Left::Stopped, None) => last(log).clone(),
                _ => {
                    let from = log.iter().rposition(|(at, _)| *at <= before).unwrap_or(0);
                    Belief::of(log[from..].iter().flat_map(|(_, belief)| belief.states().iter().copied()))
                }
            };
            // The headers also say which boot it was: without them the wall clock counts, wherever
            // that was set.
            self.is_adrift |= damaged && self.config.kind == Kind::System;
            let is_adrift = self.is_adrift;
            let now = self.look();
            let belief = belief.map(|state| {
                let state = state.restarted(&rules, &self.rules);
                if is_adrift { state.adrift(now) } else { state }
            });
            // In a shorter window an id that slid was accepted twice, and the fingerprint belongs
            // to the first time.
            let belief = if self.config.refresh && window < self.rules.window {
                Belief::of(belief.states().iter().flat_map(|state| [*state, state.without_fingerprint()]))
            } else {
                belief
            };
            // In a longer one an id that was accepted again looks as if it had slid, with its
            // fingerprint.
            let belief = if self.config.refresh && window > self.rules.window {
                Belief::of(belief.states().iter().flat_map(|state| {
                    [*state].into_iter().chain((0..3).map(|fingerprint| state.with_fingerprint(fingerprint)))
                }))
            } else {
                belief
            };
            self.journal.logs[id] = vec![(0, belief.clone())];
            self.journal.ever[id] =
                Belief::of(self.journal.ever[id].states().iter().map(|state| state.restarted(&rules, &self.rules)));
            self.beliefs[id] = belief;
        }
        if self.config.kind == Kind::Events && self.stream.began {
            // Time goes on from the latest one that the journal has, whichever that is.
            self.stream = Stream { earliest: 0, rests: true, rests_since: self.machine.clock_nanos(), ..self.stream };
            self.stream.is_lost = unknown;
        }
        (self.journal.appended, self.journal.durable) = (0, 0);
        self.journal.checkpoints = vec![(checkpoint, 0)];
        (self.journal.failed, self.journal.gone) = (false, false);
        (self.journal.full, self.journal.sync_fails) = (false, false);
        self.held_since = None;
        self.met.restarts += 1;
        self.rules = rules;
        self.dedup = Some(dedup);
        self.history_refilled();
        Ok(())
    }
}
