//! Attempts of versions that are not answered yet: whoever asks about the same version, at the same
//! time or after an answer was lost, goes on with the same attempt, and one of them is told that it
//! is newer.

use crate::versions::Advanced;
use hapax::tier::random;
use std::collections::BTreeMap;

/// The most versions whose attempts are kept when nobody is asking any more.
const LEFT_MAX: usize = 1_024;

/// An id's key, as it is stored, and a version.
pub(super) type Versioned = (Vec<u8>, u64);

/// The attempts whose answers did not come, by key and version.
#[derive(Default)]
pub(super) struct InDoubt {
    attempts: BTreeMap<Versioned, Doubt>,
    /// Those that nobody is asking about, by when they were left.
    left: BTreeMap<u64, Versioned>,
    next: u64,
    given_up: u64,
}

struct Doubt {
    attempt: u64,
    /// The number of callers that are asking with this attempt.
    asking: usize,
    /// True if the store may have carried out a try that was not answered.
    may_be_done: bool,
    /// True if one of them was told that the version is newer: no other one may be.
    is_told: bool,
    /// Its place in `left`.
    left: Option<u64>,
}

impl InDoubt {
    pub(super) fn len(&self) -> usize {
        self.attempts.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.attempts.is_empty()
    }

    pub(super) fn given_up(&self) -> u64 {
        self.given_up
    }

    /// Returns true if an attempt of this version was left without an answer.
    pub(super) fn is_left(&self, version: &Versioned) -> bool {
        self.attempts.get(version).is_some_and(|doubt| doubt.left.is_some())
    }

    /// Returns the attempt for a version: the one that is under way, or was left, or a new one.
    /// Whoever gets it settles, leaves or fails it.
    pub(super) fn begin(&mut self, version: Versioned) -> u64 {
        let doubt = self.attempts.entry(version).or_insert_with(Doubt::new);
        doubt.asking += 1;
        if let Some(left) = doubt.left.take() {
            self.left.remove(&left);
        }
        doubt.attempt
    }

    /// Notes what the store has answered to one who asked. Returns what that one is told.
    pub(super) fn settle(&mut self, version: &Versioned, answer: Advanced) -> Advanced {
        let Some(doubt) = self.attempts.get_mut(version) else { return answer };
        let is_newer = answer == Advanced::Newer;
        let told = if is_newer && doubt.is_told { Advanced::Duplicate } else { answer };
        doubt.is_told |= is_newer;
        self.end(version, true);
        told
    }

    /// Notes that one who asked does not any more, and that the store may have carried that out.
    pub(super) fn leave(&mut self, version: &Versioned) {
        if let Some(doubt) = self.attempts.get_mut(version) {
            doubt.may_be_done = true;
        }
        self.end(version, false);
    }

    /// Notes that one who asked does not any more, and that the store has done nothing for it.
    pub(super) fn fail(&mut self, version: &Versioned) {
        self.end(version, false);
    }

    /// Keeps the attempt after the last one who asked, if the next one may have to go on with it.
    fn end(&mut self, version: &Versioned, is_answered: bool) {
        let Some(doubt) = self.attempts.get_mut(version) else { return };
        doubt.asking -= 1;
        if doubt.asking > 0 {
            return;
        }
        if is_answered || doubt.is_told || !doubt.may_be_done {
            self.attempts.remove(version);
            return;
        }
        doubt.left = Some(self.next);
        self.left.insert(self.next, version.clone());
        self.next += 1;
        if self.left.len() > LEFT_MAX
            && let Some((_, oldest)) = self.left.pop_first()
        {
            self.attempts.remove(&oldest);
            self.given_up += 1;
        }
    }
}

impl Doubt {
    fn new() -> Self {
        // An attempt has 63 bits.
        Doubt { attempt: random::any() >> 1, asking: 0, may_be_done: false, is_told: false, left: None }
    }
}
