//! The tiers in memory, as this engine uses them: they learn from the store's answers, and in an
//! exclusive engine they decide.
//!
//! Here a duplicate is an id that the window *and* its witness know: the window alone takes one id
//! for another once in 2 x 10^13 checks, and an id that the store does not have must not be dropped
//! because of that.

use super::witness::Witness;
use crate::claims::{Begun, Ended, Request};
use crate::clock::Reading;
use crate::digest::{Digest, Digester};
use crate::engine::{Engine, Tried};
use crate::{Dedup, Error, Outcome, Stats, Tier, Verdict};
use std::sync::Arc;
use std::time::Duration;

/// The memory of the scopes that share a window.
pub struct Memory {
    engine: Arc<Engine>,
    witness: Witness,
    window: Duration,
}

/// The answer of an exclusive engine's memory for an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guess {
    /// The window or the claims know it, or the history knows that it is new.
    Certain(Verdict),
    /// The store may know it. Nothing was changed.
    Maybe,
}

impl Memory {
    /// The memory of an engine, with a witness that has room for as many ids to begin with, and may
    /// grow as far.
    pub fn new(dedup: &Dedup, capacity: Option<usize>, max_memory_bytes: Option<usize>) -> Result<Self, Error> {
        let (engine, window) = (Arc::clone(&dedup.engine), dedup.engine.window.duration());
        let witness = Witness::new(window, capacity, max_memory_bytes)?;
        Ok(Memory { engine, witness, window })
    }

    pub fn digester(&self, scope: &str) -> Digester {
        self.engine.unscoped.scoped(scope)
    }

    pub fn has_history(&self) -> bool {
        self.engine.history.is_some()
    }

    /// Returns true if the window and its witness know that the id is done.
    #[inline]
    pub fn is_done(&self, id: Digest) -> bool {
        let at = self.engine.now();
        self.engine.window.advance(at);
        self.engine.window.contains(id, at.time) && self.witness.knows(id, at)
    }

    /// Returns the same for many ids, in order.
    pub fn are_done(&self, ids: &[Digest]) -> Vec<bool> {
        let at = self.engine.now();
        let mut done = self.engine.window.contains_chunks(ids.iter().copied(), at);
        let known: Vec<Digest> = ids.iter().zip(&done).filter(|(_, done)| **done).map(|(id, _)| *id).collect();
        let mut known = self.witness.knows_all(&known, at).into_iter();
        done.iter_mut().filter(|done| **done).for_each(|done| *done = known.next().unwrap_or(false));
        done
    }

    /// Returns the answer for the engine's verdict, once the witness was asked or taught.
    #[inline]
    fn confirmed(&self, id: Digest, verdict: Verdict, at: Reading) -> Guess {
        match (verdict.is_certain(), verdict.outcome()) {
            (true, Outcome::Duplicate) if !self.witness.knows(id, at) => Guess::Maybe,
            (true, outcome) => {
                if outcome == Outcome::Fresh {
                    self.witness.learn(id, at);
                }
                Guess::Certain(verdict)
            }
            _ => Guess::Maybe,
        }
    }

    /// Returns true if an id that the store forgets this soon may be remembered here: never longer
    /// than there.
    pub fn may_learn(&self, expires_in: Duration) -> bool {
        expires_in >= self.window
    }

    /// Learns that these ids are done, as the store knows.
    pub fn learn(&self, ids: &[Digest]) {
        if !ids.is_empty() {
            let at = self.engine.now();
            self.engine.restore(ids, at);
            self.witness.learn_all(ids, at);
        }
    }

    /// Notes that the store has these ids, so that the history does not take them for new. (The
    /// window learns of those that come again.)
    pub fn warm(&self, ids: &[Digest]) {
        match &self.engine.history {
            Some(history) => {
                let now = self.engine.now().time;
                ids.iter().for_each(|id| history.insert(*id, now));
            }
            None => self.learn(ids),
        }
    }

    /// Checks an id that belongs to this engine alone: if the history is complete, an id that it
    /// does not know is new.
    #[inline]
    pub fn check(&self, id: Digest, history_is_complete: bool) -> Guess {
        if history_is_complete && self.has_history() {
            // The engine was told to take the history's "maybe" for a duplicate, and leaves no
            // trace of it.
            let at = self.engine.now();
            return self.confirmed(id, self.engine.check(id, at), at);
        }
        match () {
            _ if self.engine.is_claimed(id) => Guess::Certain(Verdict::exact(Outcome::InProgress, Tier::Claims)),
            _ if self.is_done(id) => Guess::Certain(Verdict::exact(Outcome::Duplicate, Tier::Window)),
            _ => Guess::Maybe,
        }
    }

    /// Checks many ids, in order.
    pub fn check_batch(&self, ids: &[Digest], history_is_complete: bool) -> Vec<Guess> {
        if !(history_is_complete && self.has_history()) {
            return ids.iter().map(|id| self.check(*id, false)).collect();
        }
        let (mut guesses, mut verdicts) = (Vec::with_capacity(ids.len()), Vec::new());
        // Not all at a time: an id that is in the window and not yet in the witness is in progress
        // for other callers.
        for part in ids.chunks(1_024) {
            let at = self.engine.now();
            self.engine.check_batch(part.iter().copied(), at, &mut verdicts);
            let is_fresh = |verdict: Verdict| verdict.is_fresh() && verdict.is_certain();
            let fresh = part.iter().zip(&verdicts).filter(|(_, verdict)| is_fresh(**verdict));
            self.witness.learn_all(&fresh.map(|(id, _)| *id).collect::<Vec<_>>(), at);
            let known = self.witness.knows_all(part, at);
            guesses.extend(verdicts.drain(..).zip(known).map(|(verdict, known)| {
                if verdict.is_certain() && (known || !verdict.is_duplicate()) {
                    Guess::Certain(verdict)
                } else {
                    Guess::Maybe
                }
            }));
        }
        guesses
    }

    /// Checks an id that the store does not know. Others may have asked as well: one of them finds
    /// it fresh.
    ///
    /// It is in progress if the window takes it for another one, or another caller is about to be
    /// told that it is fresh. Neither can be known for certain, so it must come again.
    pub fn check_unknown(&self, id: Digest) -> Verdict {
        let at = self.engine.now();
        match self.confirmed(id, self.engine.check_ignoring_history(id, at), at) {
            Guess::Certain(verdict) => verdict,
            Guess::Maybe => Verdict::exact(Outcome::InProgress, Tier::Claims),
        }
    }

    /// Returns true if the history knows that the id is new.
    pub fn is_new(&self, id: Digest) -> bool {
        self.engine.history.as_ref().is_some_and(|history| !history.contains(id))
    }

    /// Claims an id that the store does not know.
    pub fn claim(&self, id: Digest, lease: Duration, fingerprint: Option<&[u8]>) -> Tried {
        let with_fingerprint = fingerprint.map(|fingerprint| self.engine.unscoped.digest_with(id, fingerprint));
        let request: Request = self.engine.request(id, lease, with_fingerprint);
        let begun: Begun = self.engine.claim_in_memory(&request, self.engine.now());
        match begun.into() {
            // The window takes it for another one: see `check_unknown`.
            Tried::Duplicate(_) if !self.witness.knows(id, self.engine.now()) => Tried::InProgress(lease),
            tried => tried,
        }
    }

    /// Ends a claim: its id is done.
    pub fn complete(&self, id: Digest, token: u64) -> bool {
        let held = self.engine.complete(id, token) == Ended::Held;
        if held {
            self.witness.learn(id, self.engine.now());
        }
        held
    }

    /// Extends a claim, or marks it as failed for a while.
    pub fn extend(&self, id: Digest, token: u64, lease: Duration, fails: bool) -> bool {
        self.engine.extend(id, token, lease, fails) == Ended::Held
    }

    pub fn release(&self, id: Digest, token: u64) -> bool {
        self.engine.claims.release(id, token) == Ended::Held
    }

    /// Forgets an id. Returns true if it is not claimed here.
    pub fn forget(&self, id: Digest) -> bool {
        self.witness.forget(id);
        self.engine.forget(id)
    }

    /// Returns the size of its window in bytes.
    pub fn bytes(&self) -> usize {
        self.engine.window.bytes()
    }

    pub fn stats(&self) -> Stats {
        let stats = self.engine.stats();
        Stats { bytes: stats.bytes + self.witness.bytes(), ..stats }
    }
}
