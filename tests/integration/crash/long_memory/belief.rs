//! The states that an id may be in.

use super::script::{RETENTION, WINDOW};
use std::collections::BTreeSet;

/// The ticks of the window and of segments, together, and more.
const SLACK: u64 = WINDOW / 8;

/// The states that an id may be in: unknown, or accepted at a time.
#[derive(Clone, Debug)]
pub struct Belief {
    states: BTreeSet<Option<u64>>,
    /// All that it may be after a crash.
    after_crash: BTreeSet<Option<u64>>,
    /// The last time that it was asked for: the window may have it for as long as that.
    asked: u64,
    /// True if everything was cleared since it was durable last.
    is_cleared: bool,
    /// True if a crash may have undone that: for as long as the window has it, since segments have
    /// not.
    is_undone: bool,
}

impl Belief {
    /// An id that nobody knows.
    pub fn new(at: u64) -> Self {
        let unknown = BTreeSet::from([None]);
        Belief { states: unknown.clone(), after_crash: unknown, asked: at, is_cleared: false, is_undone: false }
    }

    /// Notes that it was asked for, and accepted unless it was known.
    pub fn ask(&mut self, at: u64) {
        let mut states = BTreeSet::new();
        for &state in &self.states {
            if self.may_be(state, true, at) {
                states.insert(state);
            }
            if self.may_be(state, false, at) {
                states.insert(Some(at));
            }
        }
        (self.states, self.asked) = (states, at);
    }

    pub fn forget(&mut self) {
        self.states = BTreeSet::from([None]);
    }

    pub fn clear(&mut self) {
        self.forget();
        self.is_cleared = true;
    }

    /// Notes that a crash may leave it as it is now.
    pub fn may_stay(&mut self) {
        self.after_crash.extend(&self.states);
    }

    /// Notes that no crash takes back what it is now.
    pub fn is_durable(&mut self) {
        self.after_crash.clone_from(&self.states);
        self.is_cleared = false;
    }

    pub fn crash(&mut self) {
        self.states.clone_from(&self.after_crash);
        self.is_undone |= self.is_cleared;
    }

    /// Notes an answer, of an engine that keeps what it is now. Returns false if it cannot be.
    pub fn learn(&mut self, is_known: bool, at: u64) -> bool {
        let left: BTreeSet<_> = self.states.iter().copied().filter(|&state| self.may_be(state, is_known, at)).collect();
        if left.is_empty() {
            return false;
        }
        self.states = if is_known { left } else { BTreeSet::from([None]) };
        self.is_undone &= is_known;
        self.is_durable();
        true
    }

    /// Returns true if nobody knows it, nor has asked for it for a long time.
    pub fn is_over(&self, at: u64) -> bool {
        self.states.len() == 1 && self.states.contains(&None) && at > self.asked + RETENTION
    }

    /// Returns true if it is certainly known.
    pub fn is_known(&self, at: u64) -> bool {
        self.states.iter().all(|&state| !self.may_be(state, false, at))
    }

    fn may_be(&self, state: Option<u64>, known: bool, at: u64) -> bool {
        match state {
            None => !known,
            Some(accepted) if at - accepted < RETENTION => known || self.is_undone,
            Some(accepted) => !known || at <= (self.asked + WINDOW).max(accepted + RETENTION + WINDOW) + SLACK,
        }
    }
}
