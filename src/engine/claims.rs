//! The decisions that claims and the tiers make together.

use super::{DUPLICATE, Engine, Noting};
use crate::claims::{Begun, DoneIds, Ended, Fingerprint, Request};
use crate::clock::Reading;
use crate::digest::Digest;
use crate::history::{HistoryTier, Unconfirmed};
use crate::id_set::IdSet;
use crate::window::Chunk;
use crate::{Outcome, Timestamp, Verdict};
use std::time::Duration;

/// The window at one time.
pub(crate) struct At<'e>(pub(crate) &'e Engine, pub(crate) Reading);

impl DoneIds for At<'_> {
    fn contains(&self, id: Digest) -> bool {
        self.0.window.advance(self.1);
        self.0.window.contains(id, self.1.time)
    }

    fn insert(&self, id: Digest) -> bool {
        self.0.window.check_at(id, self.1) == Outcome::Fresh
    }

    fn forget(&self, id: Digest) {
        self.0.window.forget_at_rest(id);
    }

    fn now(&self) -> Timestamp {
        // The caller's time, unless others are ahead of it.
        self.0.window.latest().max(self.1.time)
    }

    fn asked_at(&self) -> Timestamp {
        self.1.time
    }

    fn until(&self) -> Timestamp {
        self.0.window.forgets_at(self.1)
    }

    fn refresh(&self, id: Digest) {
        if self.0.refresh_on_duplicate {
            let noting = self.0.journal.as_deref().map(Noting::begin);
            self.0.window.check_at(id, self.1);
            if let Some(noting) = noting {
                self.0.note(noting, self.1, [(id, DUPLICATE)].into_iter());
            }
        }
    }

    fn slides(&self) -> bool {
        self.0.refresh_on_duplicate
    }

    fn forgets_early(&self) -> bool {
        self.0.window.evicted_live() != 0
    }

    fn keep(&self, id: Digest, with_fingerprint: Option<Digest>) {
        if let Some(history) = &self.0.history {
            history.insert(id, self.0.window.no_earlier(self.1.time));
        }
        if let Some(journal) = &self.0.journal {
            let at = self.0.stamp(self.1);
            match with_fingerprint {
                Some(digest) => journal.fingerprinted(at, id, digest),
                None => journal.accepted(at, [id]),
            }
        }
    }

    fn stays(&self, id: Digest) {
        if let Some(history) = &self.0.history {
            history.insert(id, self.0.window.no_earlier(self.1.time));
        }
        if let Some(journal) = self.0.journal.as_deref() {
            // Not in the window, perhaps, but not forgotten under this lock.
            let Noting { journal, forgotten } = Noting::begin(journal);
            journal.checked(self.0.stamp(self.1), forgotten, [(id, true)].into_iter(), |_| true);
        }
    }

    fn slid(&self, id: Digest, with_fingerprint: Digest, by_claim: bool) {
        if let Some(journal) = &self.0.journal
            && (by_claim || journal.notes_checks())
        {
            journal.slid(self.0.stamp(self.1), id, with_fingerprint);
        }
    }

    fn forgets(&self, id: Digest) {
        if let Some(journal) = &self.0.journal {
            self.0.forget_beyond(id, || journal.forgotten(self.0.stamp(self.1), id));
        }
    }
}

/// The result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tried {
    /// The id is the caller's, under this token.
    Claimed(u64),
    /// Another caller's, for so long at most if nobody renews its lease.
    InProgress(Duration),
    /// Done.
    Duplicate(Verdict),
    /// Known with another fingerprint.
    Mismatch,
    /// One claim too many.
    TooMany,
}

impl From<Begun> for Tried {
    fn from(begun: Begun) -> Self {
        match begun {
            Begun::Claimed(token) => Tried::Claimed(token),
            Begun::InProgress(lease_left) => Tried::InProgress(lease_left),
            Begun::Done => Tried::Duplicate(DUPLICATE),
            Begun::Mismatch => Tried::Mismatch,
            Begun::TooMany => Tried::TooMany,
        }
    }
}

/// The window at one time, for a caller that sets no time.
pub(crate) struct AtRest<'e>(At<'e>);

impl DoneIds for AtRest<'_> {
    fn contains(&self, id: Digest) -> bool {
        let At(engine, at) = self.0;
        engine.window.contains(id, at.time)
    }

    fn insert(&self, id: Digest) -> bool {
        self.0.insert(id)
    }

    fn forget(&self, id: Digest) {
        self.0.forget(id);
    }

    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn until(&self) -> Timestamp {
        self.0.until()
    }

    fn forget_for_good(&self, id: Digest) {
        let At(engine, _) = self.0;
        match &engine.journal {
            // Not the clock's time: the journal's files expire by the times in it, and this call
            // sets none.
            Some(journal) => {
                let forget = || journal.forget(engine.window.stamp_at_rest(), id, || self.forget(id));
                engine.forget_beyond(id, forget);
            }
            None => self.forget(id),
        }
    }
}

impl Engine {
    /// Returns the request of a caller that claims an id now.
    pub(crate) fn request(&self, id: Digest, lease: Duration, with_fingerprint: Option<Digest>) -> Request {
        let (now, until) = self.lease(lease);
        Request { id, with_fingerprint, now, until }
    }

    /// Returns the beginning of a lease that starts now, and its earliest end.
    pub(crate) fn lease(&self, lease: Duration) -> (Timestamp, Timestamp) {
        let Reading { time, lag_nanos } = self.clock.now();
        (time, time + lease + Duration::from_nanos(lag_nanos))
    }

    /// Tries to claim an id.
    pub(crate) fn claim(&self, request: &Request) -> Tried {
        self.window.prefetch(request.id);
        self.claim_at(request, self.now())
    }

    /// Tries to claim an id at a time.
    pub(crate) fn claim_at(&self, request: &Request, at: Reading) -> Tried {
        self.window.advance(at);
        if let Some(history) = &self.history
            && self.unconfirmed == Unconfirmed::Duplicate
            && history.contains(request.id)
        {
            return self.claim_known(history, request, at);
        }
        let before = self.window.latest_tick();
        if let Some(tried) = self.claim_beyond(request, at) {
            return tried;
        }
        let done = At(self, at);
        let is_done = || done.contains(request.id) || self.has_left_for_segments(request.id, at, before);
        self.claims.claim(request, &done, is_done).into()
    }

    /// Tries to claim an id of which nothing but the window can know that it is done.
    pub(crate) fn claim_in_memory(&self, request: &Request, at: Reading) -> Begun {
        let done = At(self, at);
        self.claims.claim(request, &done, || done.contains(request.id))
    }

    /// Tries to claim an id that the history may have seen, which counts as done.
    pub(crate) fn claim_known(&self, history: &HistoryTier, request: &Request, at: Reading) -> Tried {
        if let Some(begun) = self.claims.look(request, &At(self, at)) {
            return begun.into();
        }
        match () {
            _ if self.refresh_on_duplicate => self.refresh_known(history, request, at),
            _ if self.window.contains(request.id, at.time) => Tried::Duplicate(DUPLICATE),
            _ => Tried::Duplicate(self.unconfirmed()),
        }
    }

    /// Answers like a check of the id, so that the window slides.
    fn refresh_known(&self, history: &HistoryTier, request: &Request, at: Reading) -> Tried {
        let noting = self.journal.as_deref().map(Noting::begin);
        let verdict = self.check_known(history, request.id, at);
        if let Some(noting) = noting {
            self.note(noting, at, [(request.id, verdict)].into_iter());
        }
        match verdict.outcome() {
            // Another caller has claimed it just now.
            Outcome::InProgress => Tried::InProgress(Duration::ZERO),
            _ => Tried::Duplicate(verdict),
        }
    }

    /// Completes a claim: its id is done.
    pub(crate) fn complete(&self, id: Digest, token: u64) -> Ended {
        self.claims.complete(id, token, &At(self, self.now()))
    }

    pub(crate) fn extend(&self, id: Digest, token: u64, lease: Duration, fails: bool) -> Ended {
        self.claims.extend(id, token, self.lease(lease).1, fails)
    }

    /// Returns true if an id is claimed, before the window is asked.
    #[inline(always)]
    pub(crate) fn is_claimed(&self, id: Digest) -> bool {
        self.claims.are_used() && self.claims.has(id, || self.clock.now().time)
    }

    /// Returns the set of a chunk's ids that are claimed, before the window is asked.
    #[inline(always)]
    pub(crate) fn claimed_of(&self, chunk: &Chunk) -> IdSet {
        if self.claims.are_used() { self.look_for_claims(chunk) } else { IdSet::EMPTY }
    }

    #[inline(never)]
    fn look_for_claims(&self, chunk: &Chunk) -> IdSet {
        let may_be_claimed = self.claims.may_be_claimed(chunk.digests());
        let mut claimed = IdSet::EMPTY;
        for i in may_be_claimed.iter() {
            let id = chunk.digest(i);
            // If an equal id earlier in the chunk was not claimed when we looked, that one is
            // answered later, and so must this one be.
            let are_equals_claimed = |claimed: IdSet| (0..i).all(|j| claimed.contains(j) || chunk.digest(j) != id);
            if self.claims.has(id, || self.clock.now().time) && are_equals_claimed(claimed) {
                claimed.insert(i);
            }
        }
        claimed
    }

    /// Returns whether the id is fresh, a duplicate or claimed, once the window was asked.
    #[inline(always)]
    pub(crate) fn respect_claims(&self, id: Digest, answer: Outcome, at: Reading) -> Outcome {
        if self.claims.are_used() {
            self.claims.confirm(id, answer, &At(self, at), || self.clock.now().time)
        } else {
            answer
        }
    }

    /// Returns the same for a chunk, of which the window was `asked` about some ids, and found some
    /// of those fresh; some others are claimed.
    #[inline(always)]
    pub(crate) fn respect_claims_of(&self, chunk: &Chunk, asked: IdSet, found: Respected, at: Reading) -> Respected {
        debug_assert!(found.fresh.difference(asked).is_empty() && found.in_progress.intersection(asked).is_empty());
        if self.claims.are_used() { self.confirm_chunk(chunk, asked, found, at) } else { found }
    }

    #[inline(never)]
    fn confirm_chunk(&self, chunk: &Chunk, asked: IdSet, found: Respected, at: Reading) -> Respected {
        let unconfirmed = self.claims.to_be_confirmed(chunk.digests(), asked, found.fresh, &At(self, at));
        let mut respected = Respected { fresh: found.fresh.difference(unconfirmed), ..found };
        for i in unconfirmed.iter() {
            let answer = if found.fresh.contains(i) { Outcome::Fresh } else { Outcome::Duplicate };
            match self.claims.confirm(chunk.digest(i), answer, &At(self, at), || self.clock.now().time) {
                Outcome::Fresh => respected.fresh.insert(i),
                Outcome::InProgress => respected.in_progress.insert(i),
                Outcome::Duplicate | Outcome::Refused(_) => {}
            }
        }
        debug_assert!(respected.fresh.intersection(respected.in_progress).is_empty());
        respected
    }

    /// Forgets an id that is not claimed; returns true if it was not claimed. Sets no time.
    pub(crate) fn forget(&self, id: Digest) -> bool {
        let at = self.now_at_rest();
        self.claims.forget(id, &AtRest(At(self, at)), self.clock.now().time)
    }

    /// Notes that an id was accepted with a fingerprint, at a time in the past. (The id itself is
    /// restored after that.)
    pub(crate) fn restore_fingerprint(&self, id: Digest, digest: Digest, at: Reading) {
        let done = At(self, at);
        self.claims.restore_fingerprint(Fingerprint { id, digest, until: done.until() }, done.now());
    }

    /// Notes that an id was forgotten, at a time in the past.
    pub(crate) fn forget_fingerprint(&self, id: Digest) {
        self.claims.forget_fingerprint(id);
    }

    /// Waits until an id is not in flight any more, but no longer than `longest`.
    pub(crate) fn wait(&self, id: Digest, longest: Duration) {
        self.claims.wait(id, self.clock.now().time, longest);
    }
}

/// The answers of window and claims for a chunk.
pub(crate) struct Respected {
    pub(crate) fresh: IdSet,
    pub(crate) in_progress: IdSet,
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use crate::Dedup;
    use crate::clock::ManualClock;
    use crate::digest::Digester;

    /// Inserts an id by a check; the id's claim completes before that check looks for claims.
    #[test]
    fn what_is_kept_beside_the_window_is_remembered_as_long_as_in_it() {
        const WINDOW: Duration = Duration::from_secs(100);
        const NANO: Duration = Duration::from_nanos(1);
        let second = Duration::from_secs(1);
        for completed in [second * 7, second * 7 + NANO, second * 15 / 2, second * 8 - NANO] {
            let clock = ManualClock::new();
            clock.advance(second * 13 / 2);
            let dedup = Dedup::builder().window(WINDOW).seed(5).clock(clock.clone()).build().unwrap();
            let (engine, id) = (&dedup.engine, Digester::with_seed(5).digest("id"));
            let Tried::Claimed(token) = engine.claim(&engine.request(id, WINDOW, None)) else {
                panic!("nobody else has it");
            };
            let inserted = engine.now();
            assert_eq!(engine.window.check_at(id, inserted), Outcome::Fresh);
            clock.advance(completed - second * 13 / 2);
            assert_eq!(engine.complete(id, token), Ended::Held);
            assert_eq!(engine.respect_claims(id, Outcome::Fresh, inserted), Outcome::Duplicate);

            // The window alone would have forgotten it by now.
            clock.advance(WINDOW - NANO);
            assert!(dedup.check("id").is_duplicate(), "completed at {completed:?}, forgotten early");
            clock.advance(second * 2);
            assert!(dedup.check("id").is_fresh(), "completed at {completed:?}, forgotten late");
        }
    }

    #[test]
    fn a_claim_of_what_is_kept_slides_the_window() {
        const WINDOW: Duration = Duration::from_secs(100);
        let clock = ManualClock::new();
        clock.advance(WINDOW);
        let builder = Dedup::builder().window(WINDOW).refresh_on_duplicate(true).seed(5).clock(clock.clone());
        let dedup = builder.build().unwrap();
        let (engine, id) = (&dedup.engine, Digester::with_seed(5).digest("id"));
        let Tried::Claimed(token) = engine.claim(&engine.request(id, WINDOW, None)) else {
            panic!("nobody else has it");
        };
        let inserted = engine.now();
        assert_eq!(engine.window.check_at(id, inserted), Outcome::Fresh);
        assert_eq!(engine.complete(id, token), Ended::Held);
        assert_eq!(engine.respect_claims(id, Outcome::Fresh, inserted), Outcome::Duplicate);
        for round in 0..3 {
            clock.advance(WINDOW * 6 / 10);
            assert!(dedup.claim("id").is_duplicate(), "round {round}");
        }
    }
}
