//! Attempts whose answer was lost, so that the next try of the same version can go on with them.

use hapax::tier::random;
use std::collections::BTreeMap;

/// The most versions whose attempts are kept.
const IN_DOUBT_MAX: usize = 1_024;

/// An id's key, as it is stored, and a version.
pub(super) type Versioned = (Vec<u8>, u64);

/// The attempts whose answers did not come, by key and version.
#[derive(Default)]
pub(super) struct InDoubt {
    attempts: BTreeMap<Versioned, Doubt>,
    /// Numbers the entries, so that the oldest one goes first.
    next: u64,
    given_up: u64,
}

struct Doubt {
    attempt: u64,
    /// True while a call with this attempt is under way: no other one may have it, or both would
    /// be told that they are newer.
    is_asking: bool,
    number: u64,
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
        self.attempts.get(version).is_some_and(|doubt| !doubt.is_asking)
    }

    /// Notes that a version was answered.
    pub(super) fn settle(&mut self, version: &Versioned) {
        self.attempts.remove(version);
    }

    /// Notes that nobody asks for a version any more, although there was no answer.
    pub(super) fn leave(&mut self, version: &Versioned) {
        if let Some(doubt) = self.attempts.get_mut(version) {
            doubt.is_asking = false;
        }
    }

    /// Returns the attempt for a version, and whether it is the one that is kept for it.
    pub(super) fn begin(&mut self, version: Versioned) -> (u64, bool) {
        if let Some(doubt) = self.attempts.get_mut(&version) {
            let is_free = !std::mem::replace(&mut doubt.is_asking, true);
            return if is_free { (doubt.attempt, true) } else { (new_attempt(), false) };
        }
        if self.attempts.len() >= IN_DOUBT_MAX && !self.give_up_oldest() {
            // All are under way: what is lost of this one is not kept.
            return (new_attempt(), false);
        }
        self.next += 1;
        let doubt = Doubt { attempt: new_attempt(), is_asking: true, number: self.next };
        let attempt = doubt.attempt;
        self.attempts.insert(version, doubt);
        (attempt, true)
    }

    /// Gives up the oldest attempt that is not under way; returns false if all are.
    fn give_up_oldest(&mut self) -> bool {
        let idle = self.attempts.iter().filter(|(_, doubt)| !doubt.is_asking);
        let Some(oldest) = idle.min_by_key(|(_, doubt)| doubt.number).map(|(version, _)| version.clone()) else {
            return false;
        };
        self.attempts.remove(&oldest);
        self.given_up += 1;
        true
    }
}

/// Returns an attempt of 63 random bits.
fn new_attempt() -> u64 {
    random::any() >> 1
}
