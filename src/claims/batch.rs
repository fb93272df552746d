//! Claims of many ids at once. The ids are sorted by shard, so that one lock serves all ids of a
//! shard, and the window is asked for as many at once as in any batch.

use super::engine::{At, Tried};
use super::map::{Ended, Map, Request};
use super::marks::Marks;
use super::shards::{Claims, SHARDS, Shard};
use crate::config::Unconfirmed;
use crate::digest::Digest;
use crate::engine::Engine;
use crate::sync::MutexGuard;
use crate::window::{CHUNK, Chunk, TableMemory};
use std::ops::Range;
use std::time::Duration;

/// The most ids that are sorted at once: 32 for each shard.
pub(super) const BLOCK: usize = 1_024;

/// Buffers that a batch reuses from one block to the next.
#[derive(Default)]
pub(super) struct Buffers {
    /// The places of the ids in their block, sorted by shard; of equal ids the first comes first.
    order: Vec<u16>,
    /// The ids to be completed.
    pub(super) ids: Vec<Digest>,
    pub(super) tokens: Vec<u64>,
    tried: Vec<Tried>,
    /// The result for each of them.
    pub(super) ended: Vec<Ended>,
}

impl Engine {
    /// Tries to claim up to [`BLOCK`] ids, in order.
    pub(super) fn claim_block<'b>(&self, ids: &[Digest], lease: Duration, buffers: &'b mut Buffers) -> &'b [Tried] {
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
        self.claims.note_use();
        self.in_chunks(ids, order, |locked, chunk, part, ahead| {
            locked.shards().for_each(|(shard, n)| shard.announce(n));
            Shard::after_announcing();
            let seen = self.window.seen_chunk(chunk, at, || ());
            locked.each(part, |k, i, map| {
                // The memory is asked for here rather than while looking at the window, since this
                // code has other work to do while the memory is on its way.
                ahead.ask();
                let (request, marks) = (request(i), At(self, at));
                let begun = map.attempt(&request, || marks.now(), || seen >> k & 1 != 0);
                map.settle(&request, begun, &marks);
                map.count(begun);
                tried[i] = begun.into();
            });
        });
        tried
    }

    /// Completes up to [`BLOCK`] claims, which are in the buffers: their ids are done.
    pub(super) fn complete_block(&self, buffers: &mut Buffers) {
        let Buffers { order, ids, tokens, ended, .. } = buffers;
        let at = self.now();
        ended.clear();
        ended.resize(ids.len(), Ended::Lost);
        order.clear();
        sort_by_shard(ids, order);
        let mut fingerprinted = [None; CHUNK];
        self.in_chunks(ids, order, |locked, chunk, part, ahead| {
            let mut held = 0;
            locked.each(part, |k, i, map| {
                if let Some(with_fingerprint) = map.end(ids[i], tokens[i]) {
                    held |= 1_u64 << k;
                    fingerprinted[k] = with_fingerprint;
                    ended[i] = Ended::Held;
                }
            });
            let until = At(self, at).until();
            let news = self.window.check_chunk(chunk, held, at, || ahead.ask());
            locked.each(part, |k, i, map| {
                if held >> k & 1 != 0 {
                    map.done(ids[i], fingerprinted[k], (news >> k & 1 != 0, until), &At(self, at));
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
        let mut locked = Locked { claims: &self.claims, maps: Vec::with_capacity(CHUNK.min(SHARDS)) };
        let (mut chunk, mut next) = (&mut Chunk::new(), &mut Chunk::new());
        let mut order_ahead = order.iter();
        let newest = self.window.newest(chunk);
        order_ahead.by_ref().take(CHUNK).for_each(|&i| chunk.stage(&newest, ids[usize::from(i)]));
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
    /// Asks for the memory of the next id among them.
    #[inline(always)]
    fn ask(&mut self) {
        if let Some(&i) = self.order.next() {
            self.chunk.stage(self.newest, self.ids[usize::from(i)]);
        }
    }
}

/// The shards of a chunk of ids, locked in the order in which every batch locks them.
struct Locked<'c> {
    claims: &'c Claims,
    /// Each shard with its lock, and the range of the chunk's ids that are in it.
    maps: Vec<(&'c Shard, MutexGuard<'c, Map>, Range<usize>)>,
}

impl<'c> Locked<'c> {
    fn lock(&mut self, ids: &[Digest], part: &[u16]) {
        let mut start = 0;
        for run in
            part.chunk_by(|&a, &b| Claims::shard_of(ids[usize::from(a)]) == Claims::shard_of(ids[usize::from(b)]))
        {
            let shard = self.claims.shard(ids[usize::from(run[0])]);
            self.maps.push((shard, shard.lock(), start..start + run.len()));
            start += run.len();
        }
    }

    /// Returns each shard and the number of ids that are in it.
    fn shards(&self) -> impl Iterator<Item = (&Shard, u64)> {
        self.maps.iter().map(|(shard, _, ids)| (*shard, ids.len() as u64))
    }

    /// Calls `call` for each id, with its place in the chunk, its place in the block, and its map.
    #[inline(always)]
    fn each(&mut self, part: &[u16], mut call: impl FnMut(usize, usize, &mut Map)) {
        for (_, map, range) in &mut self.maps {
            for k in range.clone() {
                call(k, usize::from(part[k]), map);
            }
        }
    }

    fn unlock(&mut self) {
        self.maps.drain(..).for_each(|(shard, map, _)| shard.unlock(map));
    }
}

/// Sorts the places of ids by shard; equal ids stay in order.
fn sort_by_shard(ids: &[Digest], order: &mut Vec<u16>) {
    let mut next = [0_u16; SHARDS];
    ids.iter().for_each(|id| next[Claims::shard_of(*id)] += 1);
    let mut sum = 0;
    for place in &mut next {
        sum += std::mem::replace(place, sum);
    }
    order.resize(ids.len(), 0);
    for (i, id) in ids.iter().enumerate() {
        let place = &mut next[Claims::shard_of(*id)];
        order[usize::from(*place)] = i as u16;
        *place += 1;
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    #[test]
    fn ids_are_sorted_by_shard_and_stay_in_order_within() {
        let ids: Vec<_> = (0..1_000).map(|i| crate::Digester::with_seed(5).digest([(i % 250) as u8])).collect();
        let mut order = Vec::new();
        sort_by_shard(&ids, &mut order);
        let mut expected: Vec<u16> = (0..1_000).collect();
        expected.sort_by_key(|&i| Claims::shard_of(ids[usize::from(i)]));
        assert_eq!(order, expected);
    }
}
