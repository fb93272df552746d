//! Checks of many ids at once: how the tiers decide a chunk together.

use super::claims::Respected;
use super::{DUPLICATE, Engine, FRESH_BY_HISTORY, FRESH_BY_WINDOW, IN_PROGRESS, Noting};
use crate::clock::Reading;
use crate::digest::Digest;
use crate::history::{HistoryTier, Look, LookForFew};
use crate::id_set::{CHUNK, IdSet};
use crate::journal::Journal;
use crate::stats::Counts;
use crate::window::{Checked, Chunk, FEW};
use crate::{Timestamp, Verdict, size_hint};

/// The most ids of a chunk that the window may lack, if those that it has are to be found first.
const REST_MAX: usize = CHUNK / 4;

impl Engine {
    /// Checks ids in order at the time of their event, if that time can be right. Without ids, it
    /// only sets the least time from now on.
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

    /// Checks ids whose events' time has to be looked at.
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
                size_hint::extend(verdicts, digests.map(|_| Verdict::refused(refusal)));
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
        verdicts.reserve(size_hint::room_for(&digests));
        // Even if there is nothing to check, the caller has told the time.
        self.window.advance(at);
        let mut counts = Counts::default();
        match (self.in_parts_for(), &self.history) {
            (Some(journal), _) => self.check_batch_noting(journal, digests, at, verdicts, &mut counts),
            (None, None) => self.check_batch_without(digests, at, verdicts, &mut counts),
            (None, Some(history)) => self.check_batch_with(history, digests, at, verdicts, &mut counts),
        }
        self.counters.add(counts);
    }

    /// Checks ids in order, without a history.
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
                let found = Respected { fresh, in_progress: claimed };
                let asked = chunk.all().difference(claimed);
                let Respected { fresh, in_progress } = self.respect_claims_of(chunk, asked, found, at);
                extend(verdicts, chunk.len(), fresh, FRESH_BY_WINDOW);
                counts.add(FRESH_BY_WINDOW, fresh.len() as u64);
                counts.add(DUPLICATE, (chunk.len() - fresh.union(in_progress).len()) as u64);
                mark_in_progress(verdicts, chunk.len(), in_progress, counts);
            },
        );
    }

    /// Checks ids in order, with a history. While one chunk is decided, the memory that the next
    /// one will need is asked for: first the window's buckets, then the history's blocks.
    #[inline]
    fn check_batch_with(
        &self,
        history: &HistoryTier,
        digests: impl Iterator<Item = Digest>,
        at: Reading,
        verdicts: &mut Vec<Verdict>,
        counts: &mut Counts,
    ) {
        let mut digests = digests.fuse();
        let (mut chunk, mut next) = (&mut Chunk::new(), &mut Chunk::new());
        let looks = &mut [Look::NONE; CHUNK];
        let newest = self.window.newest(chunk);
        chunk.stage(&newest, digests.by_ref().take(CHUNK));
        chunk.digests().iter().for_each(|&digest| history.prefetch(digest));
        chunk.ask(&newest);
        // True if the window had most of the chunk before.
        let mut are_repeated = false;
        while chunk.len() > 0 {
            let newest = self.window.newest(next);
            let mut known = IdSet::EMPTY;
            for (few, (now, looks)) in chunk.digests().chunks(FEW).zip(looks.chunks_mut(FEW)).enumerate() {
                next.stage(&newest, digests.by_ref().take(FEW));
                if !are_repeated {
                    known.insert_eight(few, self.look_for_few(history, now, looks));
                }
            }
            next.ask(&newest);
            if are_repeated {
                are_repeated = self.check_repeated(history, chunk, at, Answers { verdicts, counts });
                if !are_repeated {
                    next.digests().iter().for_each(|&digest| history.prefetch(digest));
                }
                std::mem::swap(&mut chunk, &mut next);
                continue;
            }
            let mut ahead = next.digests().iter();
            let meanwhile = || {
                if let Some(&digest) = ahead.next() {
                    history.prefetch(digest);
                }
            };
            let looked = Looked { looks, known };
            let seen = self.check_looked(history, chunk, looked, at, Answers { verdicts, counts }, meanwhile);
            are_repeated = seen.len() + REST_MAX >= chunk.len() && self.is_look_enough();
            std::mem::swap(&mut chunk, &mut next);
        }
    }

    /// Looks for up to eight digests in the history; returns those that it may have seen.
    #[inline(never)]
    fn look_for_few(&self, history: &HistoryTier, digests: &[Digest], looks: &mut [Look]) -> u8 {
        self.window.kernel().work(LookForFew { history, digests, looks })
    }

    /// Returns true if a look at the window that finds an id there is all that a check does.
    #[inline(always)]
    pub(super) fn is_look_enough(&self) -> bool {
        !self.refresh_on_duplicate && !self.claims.are_used()
    }

    /// Decides a chunk most of whose ids the window may have, as it had of the one before: only the
    /// others are looked up in the history, one by one. Returns true if it had most of them. (If it
    /// had not, all of the chunk took that way: half as much again, once.)
    #[inline(never)]
    fn check_repeated(
        &self,
        history: &HistoryTier,
        chunk: &mut Chunk,
        at: Reading,
        Answers { verdicts, counts }: Answers<'_>,
    ) -> bool {
        let seen = self.window.check_chunk(chunk, IdSet::EMPTY, at, &mut || ()).seen;
        // After the look: what it has found may be an insertion that a claim takes back.
        let seen = if self.is_look_enough() { seen } else { IdSet::EMPTY };
        let rest = chunk.all().difference(seen);
        rest.iter().for_each(|i| history.prefetch(chunk.digest(i)));
        let start = verdicts.len();
        extend(verdicts, chunk.len(), IdSet::EMPTY, DUPLICATE);
        counts.add(DUPLICATE, seen.len() as u64);
        for i in rest.iter() {
            let verdict = self.check_with(history, chunk.digest(i), at);
            verdicts[start + i] = verdict;
            counts.add(verdict, 1);
        }
        rest.len() <= REST_MAX
    }

    /// Decides a chunk that the history has looked at; returns some of the ids that the window had.
    /// `meanwhile` is called once for each id.
    #[inline(always)]
    fn check_looked(
        &self,
        history: &HistoryTier,
        chunk: &mut Chunk,
        Looked { looks, known }: Looked<'_>,
        at: Reading,
        Answers { verdicts, counts }: Answers<'_>,
        meanwhile: impl FnMut(),
    ) -> IdSet {
        let claimed = self.claimed_of(chunk).difference(known);
        let asked = chunk.all().difference(known).difference(claimed);
        let Checked { fresh, seen } = self.window.check_chunk(chunk, asked, at, &mut || ());
        let found = Respected { fresh, in_progress: claimed };
        let Respected { fresh, in_progress } = self.respect_claims_of(chunk, asked, found, at);
        let now = history.tick(self.window.no_earlier(at.time));
        history.insert_chunk(&looks[..chunk.len()], fresh, now, meanwhile);

        // Each id gets one answer.
        debug_assert!(known.intersection(fresh.union(in_progress)).is_empty());
        let start = verdicts.len();
        extend(verdicts, chunk.len(), fresh, FRESH_BY_HISTORY);
        counts.add(FRESH_BY_HISTORY, fresh.len() as u64);
        counts.add(DUPLICATE, (chunk.len() - known.union(fresh).union(in_progress).len()) as u64);
        mark_in_progress(verdicts, chunk.len(), in_progress, counts);
        // A look was enough for most of the known ids that the window has, too.
        let duplicates = if self.is_look_enough() { known.intersection(seen) } else { IdSet::EMPTY };
        counts.add(DUPLICATE, duplicates.len() as u64);
        // Equal ids are known or not known together, so none of them overtakes another.
        for i in known.difference(duplicates).iter() {
            let verdict = self.check_known(history, chunk.digest(i), at);
            verdicts[start + i] = verdict;
            counts.add(verdict, 1);
        }
        seen
    }

    /// Checks ids in order, asks a long memory, and tells the journal: a part at a time, so that
    /// the digests that are asked for again are still in the cache.
    #[inline(never)]
    fn check_batch_noting(
        &self,
        journal: &Journal,
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
            let (noting, asking) = (Noting::begin(journal), self.asking(&part));
            match &self.history {
                None => self.check_batch_without(part.iter().copied(), at, verdicts, counts),
                Some(history) => self.check_batch_with(history, part.iter().copied(), at, verdicts, counts),
            }
            self.beyond_of(asking, &part, at, &mut verdicts[start..], counts);
            if journal.notes_checks() {
                self.note(noting, at, part.iter().copied().zip(verdicts[start..].iter().copied()));
            }
        }
    }
}

/// The answers to a batch, so far.
struct Answers<'b> {
    verdicts: &'b mut Vec<Verdict>,
    counts: &'b mut Counts,
}

/// The looks at the history for a chunk, and the set of ids that it knows.
struct Looked<'l> {
    looks: &'l [Look; CHUNK],
    known: IdSet,
}

/// Appends `len` verdicts: `fresh` for those in the set, duplicates by the window for the others.
#[inline(always)]
fn extend(verdicts: &mut Vec<Verdict>, len: usize, set: IdSet, fresh: Verdict) {
    let end = verdicts.len() + len;
    verdicts.reserve(len.next_multiple_of(8));
    for few in 0..len.div_ceil(8) {
        verdicts.extend_from_slice(&Verdict::eight(set.bytes(few), fresh, DUPLICATE));
    }
    verdicts.truncate(end);
}

/// Marks those of the last `len` verdicts whose ids are claimed.
#[inline(always)]
fn mark_in_progress(verdicts: &mut [Verdict], len: usize, set: IdSet, counts: &mut Counts) {
    let start = verdicts.len() - len;
    set.iter().for_each(|i| verdicts[start + i] = IN_PROGRESS);
    counts.add(IN_PROGRESS, set.len() as u64);
}
