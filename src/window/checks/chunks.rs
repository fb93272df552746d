//! Checks of many digests at once, a chunk at a time.

use super::batch::FEW;
use crate::clock::Reading;
use crate::digest::Digest;
use crate::id_set::{CHUNK, IdSet};
use crate::window::table_set::tables::OwnInsertion;
use crate::window::{Chunk, TableMemory, Window};
use crate::{Outcome, Timestamp};

/// The result of a check of a chunk's digests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checked {
    /// Those that were to be checked, and are fresh.
    pub(crate) fresh: IdSet,
    /// Those that a look has shown to be in the window, whether they were to be checked or not.
    /// Others may be, too.
    pub(crate) seen: IdSet,
}

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
            |_| IdSet::EMPTY,
            |chunk, _, fresh| {
                outcomes.extend(
                    (0..chunk.len()).map(|i| if fresh.contains(i) { Outcome::Fresh } else { Outcome::Duplicate }),
                );
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
        skip: impl Fn(&Chunk) -> IdSet,
        mut decided: impl FnMut(&Chunk, IdSet, IdSet),
    ) {
        let mut digests = digests.fuse();
        let (mut chunk, mut next) = (&mut Chunk::new(), &mut Chunk::new());
        let newest = self.newest(chunk);
        chunk.stage(&newest, digests.by_ref().take(CHUNK));
        chunk.ask(&newest);
        while chunk.len() > 0 {
            let newest = self.newest(next);
            let skipped = skip(chunk);
            let mut stage_next = || next.stage(&newest, digests.by_ref().take(FEW));
            let checked = self.check_chunk(chunk, chunk.all().difference(skipped), at, &mut stage_next);
            next.ask(&newest);
            decided(chunk, skipped, checked.fresh);
            std::mem::swap(&mut chunk, &mut next);
        }
    }

    /// Returns, for each digest in order, whether it was seen within the window. Changes nothing.
    pub(crate) fn contains_chunks(&self, digests: impl Iterator<Item = Digest>, at: Reading) -> Vec<bool> {
        let (mut digests, mut seen, chunk) = (digests.fuse(), Vec::new(), &mut Chunk::new());
        loop {
            let newest = self.newest(chunk);
            chunk.stage(&newest, digests.by_ref().take(CHUNK));
            chunk.ask(&newest);
            if chunk.len() == 0 {
                return seen;
            }
            let found = self.seen_chunk(chunk, at);
            seen.extend((0..chunk.len()).map(|i| found.contains(i)));
        }
    }

    /// Empties a chunk. Returns the table for which its ids are to be staged.
    #[inline(always)]
    pub(crate) fn newest(&self, chunk: &mut Chunk) -> TableMemory<'_> {
        let roster = self.tables().roster();
        chunk.clear(roster);
        self.tables().memory(roster.newest())
    }

    /// Checks the digests of a chunk that are in `todo`; returns which of those are fresh, and some
    /// of all that are in the window.
    /// `meanwhile` is called once for every [`FEW`] digests of the chunk.
    pub(crate) fn check_chunk(
        &self,
        chunk: &mut Chunk,
        todo: IdSet,
        at: Reading,
        meanwhile: &mut dyn FnMut(),
    ) -> Checked {
        debug_assert!(todo.difference(chunk.all()).is_empty());
        let tables = self.to_write();
        let tick = self.tick_at(at);
        let roster = tables.roster();
        if !roster.is_single() || roster != chunk.roster() {
            (0..chunk.len().div_ceil(FEW)).for_each(|_| meanwhile());
            return Checked { fresh: self.check_chunk_across(chunk, todo, at), seen: IdSet::EMPTY };
        }
        let newest = tables.memory(roster.newest());
        let decided = self.kernel.check_chunk(newest, chunk, todo, tick, self.refresh_on_duplicate, meanwhile);
        if decided.overtaken.is_empty() && tables.is_current(roster) {
            return Checked { fresh: decided.fresh, seen: decided.seen };
        }
        let fresh = self.confirm(chunk, decided.fresh, at, OwnInsertion { roster, tick });
        let fresh = fresh.union(self.check_chunk_across(chunk, decided.overtaken, at));
        Checked { fresh, seen: IdSet::EMPTY }
    }

    /// Does the same when there are several tables, or the time or the tables have just changed.
    #[cold]
    fn check_chunk_across(&self, chunk: &mut Chunk, mut todo: IdSet, at: Reading) -> IdSet {
        let tables = self.tables();
        let mut fresh = IdSet::EMPTY;
        while !todo.is_empty() {
            let tick = self.tick_at(at);
            let roster = tables.roster();
            let newest = tables.memory(roster.newest());
            if roster != chunk.roster() {
                chunk.move_to(roster, &newest);
            }
            if self.refresh_on_duplicate && !roster.is_single() {
                let is_fresh = |i: usize| self.check_across(chunk.digest(i), at, None) == Outcome::Fresh;
                return fresh.union(todo.filter(is_fresh));
            }
            let mut unseen = todo;
            if !roster.is_single() {
                tables.order_looks();
                let mut older = roster.indices().skip(1).map(|index| tables.memory(index)).peekable();
                older.peek().into_iter().for_each(|first| chunk.ask_in(first, unseen));
                while let Some(table) = older.next() {
                    // The next table's buckets come while this one's are looked at.
                    let next = older.peek().copied();
                    unseen = unseen.difference(self.kernel.seen_in(table, chunk, unseen, tick, next));
                }
            }
            let refresh = self.refresh_on_duplicate;
            let decided = self.kernel.check_chunk(newest, chunk, unseen, tick, refresh, &mut || ());
            fresh = fresh.union(self.confirm(chunk, decided.fresh, at, OwnInsertion { roster, tick }));
            todo = decided.overtaken;
        }
        fresh
    }

    /// Returns the set of a chunk's digests that were seen within the window. Changes nothing.
    pub(crate) fn seen_chunk(&self, chunk: &Chunk, at: Reading) -> IdSet {
        let tables = self.tables();
        let mut staged = false;
        loop {
            let tick = self.tick_at(at);
            let mut unseen = chunk.all();
            for index in tables.roster().indices() {
                let memory = tables.memory(index);
                if std::mem::replace(&mut staged, true) {
                    chunk.ask_in(&memory, unseen);
                }
                unseen = unseen.difference(self.kernel.seen_in(memory, chunk, unseen, tick, None));
            }
            if !tables.shared.overtaken(&tables.shared.moment(tick)) {
                return chunk.all().difference(unseen);
            }
        }
    }

    /// Confirms the digests of a chunk that were inserted. Returns the set of those that are fresh.
    #[inline(always)]
    fn confirm(&self, chunk: &Chunk, inserted: IdSet, at: Reading, own: OwnInsertion) -> IdSet {
        if self.tables().is_current(own.roster) {
            return inserted;
        }
        inserted.filter(|i| self.check_across(chunk.digest(i), at, Some(own)) == Outcome::Fresh)
    }
}
