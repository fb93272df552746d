//! Claims of many ids at once: one lock serves all ids of a shard, and the window is asked for as
//! many at once as in any batch.

use super::Engine;
use super::claims::{At, Tried};
use crate::claims::{DoneIds, Ended, Insertion, Locked, Request, sort_by_shard};
use crate::digest::Digest;
use crate::history::Unconfirmed;
use crate::id_set::{CHUNK, IdSet};
use crate::window::{Chunk, FEW, TableMemory};
use std::time::Duration;

/// The most ids that are sorted at once: 32 for each shard.
pub(crate) const BLOCK: usize = 1_024;

/// Buffers that a batch reuses from one block to the next.
#[derive(Default)]
pub(crate) struct Buffers {
    /// The places of the ids in their block, sorted by shard; of equal ids the first comes first.
    order: Vec<u16>,
    /// The ids to be completed.
    pub(crate) ids: Vec<Digest>,
    pub(crate) tokens: Vec<u64>,
    tried: Vec<Tried>,
    /// The result for each of them.
    pub(crate) ended: Vec<Ended>,
}

impl Engine {
    /// Tries to claim up to [`BLOCK`] ids, in order.
    pub(crate) fn claim_block<'b>(&self, ids: &[Digest], lease: Duration, buffers: &'b mut Buffers) -> &'b [Tried] {
        let Buffers { order, tried, .. } = buffers;
        let at = self.now();
        self.window.advance(at);
        let (now, until) = self.lease(lease);
        let request = |i: usize| Request { id: ids[i], with_fingerprint: None, now, until };
        tried.clear();
        tried.resize(ids.len(), Tried::TooMany);
        order.clear();
        sort_by_shard(ids, order);
        if let Some(history) = &self.history
            && self.unconfirmed == Unconfirmed::Duplicate
        {
            ids.iter().for_each(|id| history.prefetch(*id));
            order.retain(|&i| {
                let is_known = history.look(ids[usize::from(i)]).seen;
                if is_known {
                    tried[usize::from(i)] = self.claim_known(history, &request(usize::from(i)), at);
                }
                !is_known
            });
        }
        let before = self.window.latest_tick();
        if self.long.is_some() {
            order.retain(|&i| {
                let known = self.claim_beyond(&request(usize::from(i)), at);
                known.inspect(|known| tried[usize::from(i)] = *known).is_none()
            });
        }
        self.claims.note_use();
        self.in_chunks(ids, order, |locked, chunk, part, ahead| {
            locked.announce(ids, part);
            let seen = self.window.seen_chunk(chunk, at);
            locked.each(part, |k, i, map| {
                // The memory is asked for here rather than while looking at the window, since this
                // code has other work to do while the memory is on its way.
                if k % FEW == 0 {
                    ahead.ask();
                }
                let (request, done) = (request(i), At(self, at));
                let is_done = || seen.contains(k) || self.has_left_for_segments(ids[i], at, before);
                let begun = map.attempt(&request, || done.now(), is_done);
                map.settle(&request, begun, &done);
                map.count(begun);
                tried[i] = begun.into();
            });
        });
        tried
    }

    /// Completes up to [`BLOCK`] claims, which are in the buffers: their ids are done.
    pub(crate) fn complete_block(&self, buffers: &mut Buffers) {
        let Buffers { order, ids, tokens, ended, .. } = buffers;
        let at = self.now();
        ended.clear();
        ended.resize(ids.len(), Ended::Lost);
        order.clear();
        sort_by_shard(ids, order);
        let mut fingerprinted = [None; CHUNK];
        self.in_chunks(ids, order, |locked, chunk, part, ahead| {
            let mut held = IdSet::EMPTY;
            locked.each(part, |k, i, map| {
                if let Some(with_fingerprint) = map.end(ids[i], tokens[i]) {
                    held.insert(k);
                    fingerprinted[k] = with_fingerprint;
                    ended[i] = Ended::Held;
                }
            });
            let until = At(self, at).until();
            let news = self.window.check_chunk(chunk, held, at, &mut || ahead.ask()).fresh;
            locked.each(part, |k, i, map| {
                if held.contains(k) {
                    let insertion = Insertion { is_news: news.contains(k), until };
                    map.done(ids[i], fingerprinted[k], insertion, &At(self, at));
                }
            });
        });
    }

    /// Takes sorted ids through the window in chunks, with the shards of each chunk locked. `each`
    /// gets a function to call for each id of a chunk, so that the memory of the next chunk is
    /// asked for meanwhile.
    #[inline(always)]
    fn in_chunks(
        &self,
        ids: &[Digest],
        order: &[u16],
        mut each: impl FnMut(&mut Locked<'_>, &mut Chunk, &[u16], &mut Ahead<'_, '_>),
    ) {
        let mut locked = Locked::new(&self.claims);
        let (mut chunk, mut next) = (&mut Chunk::new(), &mut Chunk::new());
        let mut order_ahead = order.iter();
        let newest = self.window.newest(chunk);
        chunk.stage(&newest, order_ahead.by_ref().take(CHUNK).map(|&i| ids[usize::from(i)]));
        chunk.ask(&newest);
        for part in order.chunks(CHUNK) {
            let newest = self.window.newest(next);
            locked.lock(ids, part);
            let ahead = &mut Ahead { ids, order: &mut order_ahead, chunk: next, newest: &newest };
            each(&mut locked, chunk, part, ahead);
            locked.unlock();
            next.ask(&newest);
            std::mem::swap(&mut chunk, &mut next);
        }
    }
}

/// The ids of the next chunk.
struct Ahead<'a, 'o> {
    ids: &'a [Digest],
    order: &'a mut std::slice::Iter<'o, u16>,
    chunk: &'a mut Chunk,
    newest: &'a TableMemory<'o>,
}

impl Ahead<'_, '_> {
    /// Asks for the memory of the next few ids.
    #[inline(always)]
    fn ask(&mut self) {
        let few = self.order.by_ref().take(FEW).map(|&i| self.ids[usize::from(i)]);
        self.chunk.stage(self.newest, few);
    }
}
