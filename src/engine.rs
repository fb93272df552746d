//! The synchronous engine within: how the tiers decide together.

#[cfg(any(feature = "journal", feature = "store"))]
use crate::claims::At;
use crate::claims::{Claims, Respected};
use crate::clock::Reading;
use crate::config::Unconfirmed;
use crate::digest::{Digest, Digester};
use crate::engine_time::EngineClock;
use crate::history::Look;
use crate::journal::Journal;
use crate::stats::{Counters, Counts, Stats};
use crate::stream_time::StreamTime;
use crate::window::{CHUNK, Chunk, TableMemory, bits};
use crate::{History, Outcome, Refusal, Tier, Timestamp, Verdict, Window};
use std::time::Duration;

/// What handles share.
pub(crate) struct Engine {
    pub(crate) window: Window,
    pub(crate) history: Option<History>,
    pub(crate) unconfirmed: Unconfirmed,
    pub(crate) refresh_on_duplicate: bool,
    pub(crate) claims: Claims,
    /// Of claims that do not say otherwise.
    pub(crate) lease: Duration,
    pub(crate) clock: EngineClock,
    /// The time, if callers give it.
    pub(crate) stream_time: StreamTime,
    pub(crate) counters: Counters,
    /// Apart, as most engines have none.
    pub(crate) journal: Option<Box<Journal>>,
    pub(crate) unscoped: Digester,
}

/// Not in the history means: certainly not seen within its horizon.
const FRESH_BY_WINDOW: Verdict = Verdict::exact(Outcome::Fresh, Tier::Window);
const FRESH_BY_HISTORY: Verdict = Verdict::exact(Outcome::Fresh, Tier::History);
pub(crate) const DUPLICATE: Verdict = Verdict::exact(Outcome::Duplicate, Tier::Window);
const IN_PROGRESS: Verdict = Verdict::exact(Outcome::InProgress, Tier::Claims);

impl Engine {
    /// Checks one id.
    #[inline]
    pub(crate) fn check(&self, digest: Digest, at: Reading) -> Verdict {
        let verdict = match &self.history {
            None => verdict(self.decide(digest, at), FRESH_BY_WINDOW),
            Some(history) => self.check_with(history, digest, at),
        };
        self.counters.add_one(verdict);
        if let Some(journal) = &self.journal
            && journal.notes_checks()
            && self.extends(verdict)
        {
            journal.accepted(self.stamp(at), [digest]);
        }
        verdict
    }

    /// Checks one id at the time of its event, if that can be right.
    #[inline]
    pub(crate) fn check_event(&self, digest: Digest, at: Timestamp) -> Verdict {
        match self.stream_time.admit(at) {
            Some(at) => self.check_admitted(digest, at),
            None => self.check_doubtful(digest, at),
        }
    }

    #[inline(always)]
    fn check_admitted(&self, digest: Digest, at: Timestamp) -> Verdict {
        self.note_event(at);
        self.check(digest, at.into())
    }

    /// The same for an event that has to be looked at.
    #[inline(never)]
    fn check_doubtful(&self, digest: Digest, at: Timestamp) -> Verdict {
        match self.stream_time.decide(at, || Some(digest), self) {
            Ok(at) => self.check_admitted(digest, at),
            Err(refusal) => {
                let verdict = Verdict::refused(refusal);
                self.counters.add_one(verdict);
                verdict
            }
        }
    }

    /// Whether a check with this verdict has extended the time for which its id is remembered.
    #[inline(always)]
    pub(crate) fn extends(&self, verdict: Verdict) -> bool {
        verdict.is_fresh() || (verdict.is_duplicate() && self.refresh_on_duplicate)
    }

    /// What window and claims say.
    #[inline(always)]
    fn decide(&self, digest: Digest, at: Reading) -> Outcome {
        if self.is_claimed(digest) {
            // The caller has said what time it is, whatever the answer.
            self.window.advance(at);
            return Outcome::InProgress;
        }
        let outcome = self.window.check_at(digest, at);
        self.respect_claims(digest, outcome, at)
    }

    fn check_with(&self, history: &History, digest: Digest, at: Reading) -> Verdict {
        // Both tiers' memory at the same time.
        self.window.prefetch(digest);
        let look = history.look(digest);
        if look.seen {
            return self.check_known(history, digest, at);
        }
        let outcome = self.decide(digest, at);
        if outcome == Outcome::Fresh {
            history.insert_looked(&look, history.tick(self.window.no_earlier(at.time)));
        }
        verdict(outcome, FRESH_BY_HISTORY)
    }

    /// Checks an id that the history may have seen: a recent duplicate, which the window knows; or one from beyond the window, or a
    /// coincidence, which nobody here can tell apart.
    pub(crate) fn check_known(&self, history: &History, digest: Digest, at: Reading) -> Verdict {
        // A duplicate must leave no trace in the window, or it would extend its id's stay.
        if self.unconfirmed == Unconfirmed::Duplicate && !self.refresh_on_duplicate {
            self.window.advance(at);
            return match self.window.contains(digest, at.time) {
                true => verdict(self.respect_claims(digest, Outcome::Duplicate, at), self.unconfirmed()),
                false => self.unconfirmed(),
            };
        }
        match self.decide(digest, at) {
            Outcome::Duplicate => DUPLICATE,
            Outcome::InProgress => IN_PROGRESS,
            Outcome::Refused(refusal) => Verdict::refused(refusal),
            Outcome::Fresh => {
                history.insert(digest, self.window.no_earlier(at.time));
                self.unconfirmed()
            }
        }
    }

    /// What the history's "maybe" becomes.
    pub(crate) fn unconfirmed(&self) -> Verdict {
        Verdict::guess(match self.unconfirmed {
            Unconfirmed::Duplicate => Outcome::Duplicate,
            Unconfirmed::Fresh => Outcome::Fresh,
        })
    }

    /// Checks ids in order at the time of their event, if that can be right. Without ids, it is no
    /// earlier than that from now on.
    #[inline]
    pub(crate) fn check_events(
        &self,
        digests: impl Iterator<Item = Digest>,
        at: Timestamp,
        verdicts: &mut Vec<Verdict>,
    ) {
        match self.stream_time.admit(at) {
            Some(at) => {
                self.note_event(at);
                self.check_batch(digests, at.into(), verdicts);
            }
            None => self.check_doubtful_batch(digests, at, verdicts),
        }
    }

    /// The same for events that have to be looked at.
    #[inline(never)]
    fn check_doubtful_batch(
        &self,
        mut digests: impl Iterator<Item = Digest>,
        at: Timestamp,
        verdicts: &mut Vec<Verdict>,
    ) {
        let first = digests.next();
        let digests = first.into_iter().chain(digests);
        match self.stream_time.decide(at, || first, self) {
            Ok(at) => {
                self.note_event(at);
                self.check_batch(digests, at.into(), verdicts);
            }
            Err(refusal) => {
                verdicts.clear();
                verdicts.extend(digests.map(|_| Verdict::refused(refusal)));
                let mut counts = Counts::default();
                counts.add(Verdict::refused(refusal), verdicts.len() as u64);
                self.counters.add(counts);
            }
        }
    }

    /// Checks ids in order, a chunk at a time.
    #[inline]
    pub(crate) fn check_batch(&self, digests: impl Iterator<Item = Digest>, at: Reading, verdicts: &mut Vec<Verdict>) {
        verdicts.clear();
        verdicts.reserve(digests.size_hint().0);
        // Even if there is nothing to check, the caller has said what time it is.
        self.window.advance(at);
        let mut counts = Counts::default();
        match &self.history {
            _ if self.journal.as_ref().is_some_and(|journal| journal.notes_checks()) => {
                self.check_batch_noting(digests, at, verdicts, &mut counts)
            }
            None => self.check_batch_without(digests, at, verdicts, &mut counts),
            Some(history) => self.check_batch_with(history, digests, at, verdicts, &mut counts),
        }
        self.counters.add(counts);
    }

    /// The same without a history.
    #[inline(always)]
    fn check_batch_without(
        &self,
        digests: impl Iterator<Item = Digest>,
        at: Reading,
        verdicts: &mut Vec<Verdict>,
        counts: &mut Counts,
    ) {
        self.window.check_chunks(
            digests,
            at,
            |chunk| self.claimed_of(chunk),
            |chunk, claimed, fresh| {
                let Respected { fresh, in_progress } = self.respect_claims_of(chunk, (claimed, !claimed), fresh, at);
                extend(verdicts, chunk.len(), fresh, FRESH_BY_WINDOW);
                counts.add(FRESH_BY_WINDOW, fresh.count_ones().into());
                counts.add(DUPLICATE, chunk.len() as u64 - u64::from((fresh | in_progress).count_ones()));
                mark_in_progress(verdicts, chunk.len(), in_progress, counts);
            },
        );
    }

    /// The same with a history. While one chunk is decided, the memory that the next one will need is asked for: first the window's lines,
    /// then the history's blocks.
    #[inline]
    fn check_batch_with(
        &self,
        history: &History,
        digests: impl Iterator<Item = Digest>,
        at: Reading,
        verdicts: &mut Vec<Verdict>,
        counts: &mut Counts,
    ) {
        let mut digests = digests.fuse();
        let (mut staged, mut next) = (&mut Staged::new(), &mut Staged::new());
        let newest = self.window.newest(&mut staged.chunk);
        for digest in digests.by_ref().take(CHUNK) {
            staged.add(&newest, digest);
            history.prefetch(digest);
        }
        staged.chunk.ask(&newest);
        while staged.chunk.len() > 0 {
            let newest = self.window.newest(&mut next.chunk);
            let mut known = 0;
            for i in 0..staged.chunk.len() {
                if let Some(digest) = digests.next() {
                    next.add(&newest, digest);
                }
                staged.looks[i] = history.look(staged.digests[i]);
                known |= u64::from(staged.looks[i].seen) << i;
            }
            next.chunk.ask(&newest);
            let mut ahead = next.digests().iter();
            let meanwhile = || {
                if let Some(&digest) = ahead.next() {
                    history.prefetch(digest);
                }
            };
            self.check_staged(history, staged, known, at, (verdicts, counts), meanwhile);
            std::mem::swap(&mut staged, &mut next);
        }
    }

    /// Decides a chunk that the history has looked at, and knows the ids of `known` from. `meanwhile` is called once for each id.
    #[inline(always)]
    fn check_staged(
        &self,
        history: &History,
        Staged { chunk, digests, looks }: &mut Staged,
        known: u64,
        at: Reading,
        (verdicts, counts): (&mut Vec<Verdict>, &mut Counts),
        mut meanwhile: impl FnMut(),
    ) {
        let claimed = self.claimed_of(chunk) & !known;
        let fresh = self.window.check_chunk(chunk, !(known | claimed), at, || ());
        let Respected { fresh, in_progress } = self.respect_claims_of(chunk, (claimed, !(known | claimed)), fresh, at);
        let now = history.tick(self.window.no_earlier(at.time));
        for (i, look) in looks[..chunk.len()].iter().enumerate() {
            meanwhile();
            if fresh >> i & 1 != 0 {
                history.insert_looked(look, now);
            }
        }

        let start = verdicts.len();
        extend(verdicts, chunk.len(), fresh, FRESH_BY_HISTORY);
        counts.add(FRESH_BY_HISTORY, fresh.count_ones().into());
        counts.add(DUPLICATE, chunk.len() as u64 - u64::from((known | fresh | in_progress).count_ones()));
        mark_in_progress(verdicts, chunk.len(), in_progress, counts);
        // Equal ids are known or not known together, so these do not overtake others.
        for i in bits(known) {
            let verdict = self.check_known(history, digests[i], at);
            verdicts[start + i] = verdict;
            counts.add(verdict, 1);
        }
    }

    /// The same, and the journal learns of it: a part at a time, so that the digests that are asked for again are still in the cache.
    #[inline(never)]
    fn check_batch_noting(
        &self,
        digests: impl Iterator<Item = Digest>,
        at: Reading,
        verdicts: &mut Vec<Verdict>,
        counts: &mut Counts,
    ) {
        const PART: usize = 16 * CHUNK;
        let mut digests = digests.fuse();
        let mut part = Vec::with_capacity(digests.size_hint().0.min(PART));
        loop {
            part.clear();
            part.extend(digests.by_ref().take(PART));
            if part.is_empty() {
                return;
            }
            let start = verdicts.len();
            match &self.history {
                None => self.check_batch_without(part.iter().copied(), at, verdicts, counts),
                Some(history) => self.check_batch_with(history, part.iter().copied(), at, verdicts, counts),
            }
            let extended = part.iter().zip(&verdicts[start..]).filter(|(_, verdict)| self.extends(**verdict));
            if let Some(journal) = &self.journal {
                journal.accepted(self.stamp(at), extended.map(|(digest, _)| *digest));
            }
        }
    }

    /// Checks an id of which the history's "maybe" has turned out to be none.
    #[cfg(feature = "store")]
    pub(crate) fn check_ignoring_history(&self, digest: Digest, at: Reading) -> Verdict {
        let outcome = self.decide(digest, at);
        if let Some(history) = &self.history
            && outcome == Outcome::Fresh
        {
            history.insert(digest, self.window.no_earlier(at.time));
        }
        let verdict = verdict(outcome, FRESH_BY_WINDOW);
        self.counters.add_one(verdict);
        verdict
    }

    /// What was accepted at a time that has passed, or elsewhere.
    #[cfg(any(feature = "journal", feature = "store"))]
    pub(crate) fn restore(&self, digests: &[Digest], at: Reading) {
        self.claims.restored(digests, &At(self, at));
        self.window.check_chunks(digests.iter().copied(), at, |_| 0, |_, _, _| ());
        if let Some(history) = &self.history {
            let now = history.tick(self.window.no_earlier(at.time));
            for part in digests.chunks(CHUNK) {
                part.iter().for_each(|digest| history.prefetch(*digest));
                part.iter().for_each(|digest| history.insert_looked(&history.look(*digest), now));
            }
        }
    }

    /// Forgets everything in the tiers. Sets no time.
    pub(crate) fn clear_tiers(&self) {
        if let Some(history) = &self.history {
            history.clear();
        }
        self.window.clear_at_rest();
    }

    pub(crate) fn stats(&self) -> Stats {
        let at = self.now_at_rest();
        // Time goes on while nobody checks, so that memory goes back that nobody needs. (Stream
        // time is the events' alone, also if none has come yet.)
        if self.stream_time.is_by_clock() {
            self.window.advance(at);
        }
        let window = self.window.stats(at.time);
        let history = self.history.as_ref().map(History::stats);
        let counts = self.counters.sum();
        Stats {
            fresh: counts.fresh(),
            fresh_unconfirmed: counts.fresh_unconfirmed(),
            duplicates_by_window: counts.duplicates_by_window(),
            duplicates_by_history: counts.duplicates_by_history(),
            bytes: size_of_val(self)
                + Counters::BYTES
                + self.stream_time.bytes()
                + self.claims.bytes()
                + window.bytes
                + history.as_ref().map_or(0, |h| h.bytes),
            in_progress: counts.in_progress(),
            refused_ahead: counts.refused(Refusal::Ahead),
            refused_late: counts.refused(Refusal::Late),
            stream_time_resets: self.stream_time.resets(),
            claims: self.claims.stats(self.clock.now().time, self.window.latest().max(at.time)),
            #[cfg(feature = "journal")]
            journal: self.journal.as_ref().map(|journal| journal.stats()),
            window,
            history,
            at: self.stream_time.external(at.time),
        }
    }
}

/// A chunk on its way through both tiers.
struct Staged {
    chunk: Chunk,
    digests: [Digest; CHUNK],
    /// What the history has shown.
    looks: [Look; CHUNK],
}

impl Staged {
    fn new() -> Self {
        Staged { chunk: Chunk::new(), digests: [Digest::from(0); CHUNK], looks: [Look::default(); CHUNK] }
    }

    /// Adds a digest to a chunk that is not full, and asks for its line of the window.
    #[inline(always)]
    fn add(&mut self, newest: &TableMemory<'_>, digest: Digest) {
        self.digests[self.chunk.len()] = digest;
        self.chunk.stage(newest, digest);
    }

    #[inline(always)]
    fn digests(&self) -> &[Digest] {
        &self.digests[..self.chunk.len()]
    }
}

/// The window's answer as a verdict; `fresh` says who else was asked.
#[inline(always)]
fn verdict(outcome: Outcome, fresh: Verdict) -> Verdict {
    match outcome {
        Outcome::Fresh => fresh,
        Outcome::Duplicate => DUPLICATE,
        Outcome::InProgress => IN_PROGRESS,
        Outcome::Refused(refusal) => Verdict::refused(refusal),
    }
}

/// Appends `len` verdicts: `fresh` for those in the set, duplicates by the window for the others.
#[inline(always)]
fn extend(verdicts: &mut Vec<Verdict>, len: usize, set: u64, fresh: Verdict) {
    verdicts.extend((0..len).map(|i| if set >> i & 1 != 0 { fresh } else { DUPLICATE }));
}

/// Says of the last `len` verdicts which ids of them are claimed.
#[inline(always)]
fn mark_in_progress(verdicts: &mut [Verdict], len: usize, set: u64, counts: &mut Counts) {
    let start = verdicts.len() - len;
    bits(set).for_each(|i| verdicts[start + i] = IN_PROGRESS);
    counts.add(IN_PROGRESS, set.count_ones().into());
}
