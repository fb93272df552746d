//! Claims of many ids at once: one lock serves all ids of a shard, and the window is asked for as
//! many at once as in any batch.
//!
//! Of the 717 instructions of `claimed and completed, batches` in docs/instructions.txt, 135 go
//! through the shard's map, where an id is missed, inserted, found and removed; 170 decide around
//! it what becomes of the id. 190 look at the window twice, and insert; 90 take the digests, and
//! hand claims out and in; 75 sort and lock, and renew the shards' bits; 40 ask for memory ahead.

use super::Engine;
use super::claims::{At, Tried};
use crate::claims::{DoneIds, Ended, Insertion, Locked, Request, sort_by_shard};
use crate::digest::Digest;
use crate::history::Unconfirmed;
use crate::id_set::{CHUNK, IdSet};
use crate::window::{Chunk, FEW};
use std::time::Duration;

/// The most ids that are sorted at once: 32 for each shard.
pub(crate) const BLOCK: usize = 1_024;

/// Buffers that a batch reuses from one block to the next.
#[derive(Default)]
pub(crate) struct Buffers {
    /// The places of the ids in their block, sorted by shard; of equal ids the first comes first.
    order: Vec<u16>,
    /// The ids to be completed, and the tokens of their claims.
    pub(crate) claims: Vec<(Digest, u64)>,
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
        let request = |id: Digest| Request { id, with_fingerprint: None, now, until };
        tried.clear();
        tried.resize(ids.len(), Tried::TooMany);
        order.clear();
        sort_by_shard(ids.iter().copied(), order);
        if let Some(history) = &self.history
            && self.unconfirmed == Unconfirmed::Duplicate
        {
            ids.iter().for_each(|id| history.prefetch(*id));
            order.retain(|&i| {
                let id = ids[usize::from(i)];
                let is_known = history.contains(id);
                if is_known {
                    tried[usize::from(i)] = self.claim_known(history, &request(id), at);
                }
                !is_known
            });
        }
        let before = self.window.latest_tick();
        if self.long.is_some() {
            order.retain(|&i| {
                let known = self.claim_beyond(&request(ids[usize::from(i)]), at);
                known.inspect(|known| tried[usize::from(i)] = *known).is_none()
            });
        }
        self.claims.note_use();
        let (done, id) = (&At(self, at), |i: usize| ids[i]);
        self.in_chunks(id, order, |locked, chunk, part, ahead| {
            locked.announce(chunk.digests());
            let seen = self.window.seen_chunk(chunk, at);
            locked.each(part, |k, i, map| {
                // The memory is asked for here rather than while looking at the window, since this
                // code has other work to do while the memory is on its way.
                if k % FEW == 0 {
                    ahead();
                }
                let request = request(chunk.digest(k));
                let is_done = || seen.contains(k) || self.has_left_for_segments(request.id, at, before);
                let begun = map.attempt(&request, || done.now(), is_done);
                map.settle(&request, begun, done);
                map.count(begun);
                tried[i] = begun.into();
            });
        });
        tried
    }

    /// Completes up to [`BLOCK`] claims, which are in the buffers: their ids are done.
    pub(crate) fn complete_block(&self, buffers: &mut Buffers) {
        let Buffers { order, claims, ended, .. } = buffers;
        let at = self.now();
        ended.clear();
        ended.resize(claims.len(), Ended::Lost);
        order.clear();
        sort_by_shard(claims.iter().map(|(id, _)| *id), order);
        let done = &At(self, at);
        let is_told = self.history.is_some() || self.journal.is_some();
        let mut fingerprinted = [None; CHUNK];
        let id = |i: usize| claims[i].0;
        self.in_chunks(id, order, |locked, chunk, part, ahead| {
            let (mut held, mut concerned) = (IdSet::EMPTY, IdSet::EMPTY);
            locked.each(part, |k, i, map| {
                let (id, token) = claims[i];
                if let Some(with_fingerprint) = map.complete(id, token) {
                    held.insert(k);
                    concerned.insert_if(k, is_told || with_fingerprint.is_some() || map.keeps_more());
                    if with_fingerprint.is_some() {
                        fingerprinted[k] = with_fingerprint;
                    }
                    ended[i] = Ended::Held;
                }
            });
            let until = done.until();
            let news = self.window.check_chunk(chunk, held, at, ahead).fresh;
            // That the window was told is all that most completions need.
            concerned = concerned.union(held.difference(news));
            if concerned.is_empty() {
                return;
            }
            locked.each(part, |k, _, map| {
                if concerned.contains(k) {
                    let insertion = Insertion { is_news: news.contains(k), until };
                    map.done(chunk.digest(k), fingerprinted[k].take(), insertion, done);
                }
            });
        });
    }

    /// Takes sorted ids, of which `id` returns one by its place, through the window in chunks, with
    /// the shards of each chunk locked. `each` gets a function to call for each id of a chunk, so
    /// that the memory of the next chunk is asked for meanwhile.
    #[inline(always)]
    fn in_chunks(
        &self,
        id: impl Fn(usize) -> Digest,
        order: &[u16],
        mut each: impl FnMut(&mut Locked<'_>, &mut Chunk, &[u16], &mut dyn FnMut()),
    ) {
        let mut locked = Locked::new(&self.claims);
        let (mut chunk, mut next) = (&mut Chunk::new(), &mut Chunk::new());
        let mut ids = order.iter().map(|&i| id(usize::from(i)));
        let newest = self.window.newest(chunk);
        chunk.stage(&newest, ids.by_ref().take(CHUNK));
        chunk.ask(&newest);
        for part in order.chunks(CHUNK) {
            let newest = self.window.newest(next);
            locked.lock(chunk.digests());
            each(&mut locked, chunk, part, &mut || next.stage(&newest, ids.by_ref().take(FEW)));
            locked.unlock();
            next.ask(&newest);
            std::mem::swap(&mut chunk, &mut next);
        }
    }
}
