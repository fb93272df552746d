//! Checks of many digests at once, a chunk at a time.

use super::tables::Mine;
use super::{CHUNK, Chunk, TableMemory, Window, bits};
use crate::clock::Reading;
use crate::digest::Digest;
use crate::{Outcome, Timestamp};

impl Window {
    /// Checks many digests at one time, which is faster than one by one: `outcomes` is cleared and
    /// then holds one outcome for each digest, in order. Of equal digests the first is checked
    /// first.
    pub fn check_batch(&self, digests: &[Digest], at: Timestamp, outcomes: &mut Vec<Outcome>) {
        outcomes.clear();
        outcomes.reserve(digests.len());
        self.check_chunks(
            digests.iter().copied(),
            at.into(),
            |_| 0,
            |chunk, _, fresh| {
                outcomes.extend((0..chunk.len()).map(|i| match fresh >> i & 1 {
                    0 => Outcome::Duplicate,
                    _ => Outcome::Fresh,
                }));
            },
        );
    }

    /// Checks digests in order; `skip` returns the set of a chunk's digests that are not to be
    /// checked; `decided` gets the chunk, this set, and the set of digests that are fresh.
    #[inline(always)]
    pub(crate) fn check_chunks(
        &self,
        digests: impl Iterator<Item = Digest>,
        at: Reading,
        skip: impl Fn(&Chunk) -> u64,
        mut decided: impl FnMut(&Chunk, u64, u64),
    ) {
        let mut digests = digests.fuse();
        let (mut chunk, mut next) = (&mut Chunk::new(), &mut Chunk::new());
        let newest = self.newest(chunk);
        digests.by_ref().take(CHUNK).for_each(|digest| chunk.stage(&newest, digest));
        chunk.ask(&newest);
        while chunk.len() > 0 {
            let newest = self.newest(next);
            let skipped = skip(chunk);
            let fresh = self.check_chunk(chunk, !skipped, at, || {
                if let Some(digest) = digests.next() {
                    next.stage(&newest, digest);
                }
            });
            next.ask(&newest);
            decided(chunk, skipped, fresh);
            std::mem::swap(&mut chunk, &mut next);
        }
    }

    /// Returns, for each digest in order, whether it was seen within the window. Changes nothing.
    pub(crate) fn contains_chunks(&self, digests: impl Iterator<Item = Digest>, at: Reading) -> Vec<bool> {
        let (mut digests, mut seen, chunk) = (digests.fuse(), Vec::new(), &mut Chunk::new());
        loop {
            let newest = self.newest(chunk);
            digests.by_ref().take(CHUNK).for_each(|digest| chunk.stage(&newest, digest));
            chunk.ask(&newest);
            if chunk.len() == 0 {
                return seen;
            }
            let found = self.seen_chunk(chunk, at, || ());
            seen.extend((0..chunk.len()).map(|i| found >> i & 1 == 1));
        }
    }

    /// Empties a chunk. Returns the table for which its ids are to be staged.
    #[inline(always)]
    pub(crate) fn newest(&self, chunk: &mut Chunk) -> TableMemory<'_> {
        let roster = self.tables().roster();
        chunk.clear(roster);
        self.tables().memory(roster.newest())
    }

    /// Checks the digests of a chunk that are in `todo`; returns the set of those that are fresh.
    /// `meanwhile` is called once for each digest of the chunk.
    #[inline(always)]
    pub(crate) fn check_chunk(&self, chunk: &mut Chunk, todo: u64, at: Reading, mut meanwhile: impl FnMut()) -> u64 {
        let tables = self.tables();
        let tick = self.tick_at(at);
        let roster = tables.roster();
        if !roster.is_single() || roster != chunk.home() {
            (0..chunk.len()).for_each(|_| meanwhile());
            return self.check_chunk_across(chunk, todo, at);
        }
        let newest = tables.memory(roster.newest());
        let decided = self.kernel.check_chunk(newest, chunk, todo, (tick, self.refresh_on_duplicate), meanwhile);
        if decided.overtaken == 0 && tables.is_current(roster) {
            return decided.fresh;
        }
        self.confirm(chunk, decided.fresh, at, Mine { roster, tick })
            | self.check_chunk_across(chunk, decided.overtaken, at)
    }

    /// Does the same when there are several tables, or the time or the tables have just changed.
    #[cold]
    fn check_chunk_across(&self, chunk: &mut Chunk, todo: u64, at: Reading) -> u64 {
        let tables = self.tables();
        let (mut fresh, mut todo) = (0, todo & !0 >> (CHUNK - chunk.len().max(1)));
        while todo != 0 {
            let tick = self.tick_at(at);
            let roster = tables.roster();
            let newest = tables.memory(roster.newest());
            if roster != chunk.home() {
                chunk.move_to(roster, &newest);
            }
            if self.refresh_on_duplicate && !roster.is_single() {
                let is_fresh = |i: usize| self.check_across(chunk.digest(i), at, None) == Outcome::Fresh;
                return fresh | bits(todo).fold(0, |fresh, i| fresh | u64::from(is_fresh(i)) << i);
            }
            let mut seen = 0;
            if !roster.is_single() {
                tables.looks();
                for older in roster.berths().skip(1) {
                    let older = tables.memory(older);
                    chunk.ask_in(&older, todo & !seen);
                    seen |= self.kernel.seen_in(older, chunk, todo & !seen, tick, || ());
                }
            }
            let refresh = self.refresh_on_duplicate;
            let decided = self.kernel.check_chunk(newest, chunk, todo & !seen, (tick, refresh), || ());
            fresh |= self.confirm(chunk, decided.fresh, at, Mine { roster, tick });
            todo = decided.overtaken;
        }
        fresh
    }

    /// Returns the set of a chunk's digests that were seen within the window. Changes nothing.
    /// `meanwhile` is called once for each digest.
    #[inline(always)]
    pub(crate) fn seen_chunk(&self, chunk: &Chunk, at: Reading, mut meanwhile: impl FnMut()) -> u64 {
        let tables = self.tables();
        let all = !0 >> (CHUNK - chunk.len().max(1));
        let mut staged = false;
        loop {
            let tick = self.tick_at(at);
            let mut seen = 0;
            for berth in tables.roster().berths() {
                let memory = tables.memory(berth);
                if std::mem::replace(&mut staged, true) {
                    chunk.ask_in(&memory, all & !seen);
                    seen |= self.kernel.seen_in(memory, chunk, all & !seen, tick, || ());
                } else {
                    seen |= self.kernel.seen_in(memory, chunk, all, tick, &mut meanwhile);
                }
            }
            if !tables.common.overtaken(&tables.common.moment(tick)) {
                return seen;
            }
        }
    }

    /// Confirms the digests of a chunk that were inserted. Returns the set of those that are fresh.
    #[inline(always)]
    fn confirm(&self, chunk: &Chunk, inserted: u64, at: Reading, mine: Mine) -> u64 {
        if self.tables().is_current(mine.roster) {
            return inserted;
        }
        let is_fresh = |i: usize| self.check_across(chunk.digest(i), at, Some(mine)) == Outcome::Fresh;
        bits(inserted).fold(0, |fresh, i| fresh | u64::from(is_fresh(i)) << i)
    }
}
