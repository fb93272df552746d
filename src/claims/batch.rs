//! The shards of many ids at once. The ids are sorted by shard, so that one lock serves all ids of
//! a shard.

use super::map::Map;
use super::shard::Shard;
use super::shards::{Claims, SHARDS};
use crate::digest::Digest;
use crate::id_set::CHUNK;
use crate::sync::MutexGuard;
use std::ops::Range;

/// The shards of a chunk of ids, locked in the order in which every batch locks them.
pub(crate) struct Locked<'c> {
    claims: &'c Claims,
    shards: Vec<LockedShard<'c>>,
}

/// A shard with its lock.
struct LockedShard<'c> {
    shard: &'c Shard,
    map: MutexGuard<'c, Map>,
    /// The places of the chunk's ids that are in it.
    ids: Range<usize>,
}

impl<'c> Locked<'c> {
    /// Returns room for the shards of a chunk; none is locked yet.
    pub(crate) fn new(claims: &'c Claims) -> Self {
        Locked { claims, shards: Vec::with_capacity(CHUNK.min(SHARDS)) }
    }

    /// Locks the shards of sorted ids.
    pub(crate) fn lock(&mut self, ids: &[Digest]) {
        // In one order, so that two batches never wait for each other.
        debug_assert!(self.shards.is_empty());
        debug_assert!(ids.is_sorted_by_key(|id| Claims::shard_of(*id)));
        let mut start = 0;
        for run in ids.chunk_by(|a, b| Claims::shard_of(*a) == Claims::shard_of(*b)) {
            let shard = self.claims.shard(run[0]);
            self.shards.push(LockedShard { shard, map: shard.lock(), ids: start..start + run.len() });
            start += run.len();
        }
    }

    /// Announces attempts for all ids, which are about to look at the window.
    #[inline(always)]
    pub(crate) fn announce(&self, ids: &[Digest]) {
        for locked in &self.shards {
            ids[locked.ids.clone()].iter().for_each(|id| locked.shard.announce(*id));
        }
        Shard::after_announcing();
    }

    /// Calls `call` for each id, with its place in the chunk, its place in the block, and its map.
    #[inline(always)]
    pub(crate) fn each(&mut self, part: &[u16], mut call: impl FnMut(usize, usize, &mut Map)) {
        for LockedShard { map, ids, .. } in &mut self.shards {
            for (k, i) in ids.clone().zip(&part[ids.clone()]) {
                call(k, usize::from(*i), map);
            }
        }
    }

    pub(crate) fn unlock(&mut self) {
        self.shards.drain(..).for_each(|locked| locked.shard.unlock(locked.map));
    }
}

/// Sorts the places of ids by shard; equal ids stay in order.
#[expect(clippy::cast_possible_truncation, reason = "a block has 1,024 ids")]
pub(crate) fn sort_by_shard(ids: impl ExactSizeIterator<Item = Digest> + Clone, order: &mut Vec<u16>) {
    debug_assert!(ids.len() <= usize::from(u16::MAX));
    order.resize(ids.len(), 0);
    let mut next = [0_u16; SHARDS];
    ids.clone().for_each(|id| next[Claims::shard_of(id)] += 1);
    let mut sum = 0;
    for place in &mut next {
        sum += std::mem::replace(place, sum);
    }
    for (i, id) in ids.enumerate() {
        let place = &mut next[Claims::shard_of(id)];
        order[usize::from(*place)] = i as u16;
        *place += 1;
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    #[test]
    fn ids_are_sorted_by_shard_and_stay_in_order_within() {
        let digester = crate::digest::Digester::with_seed(5);
        let ids: Vec<_> = (0..1_000).map(|i| digester.digest([(i % 250) as u8])).collect();
        let mut order = Vec::new();
        sort_by_shard(ids.iter().copied(), &mut order);
        let mut expected: Vec<u16> = (0..1_000).collect();
        expected.sort_by_key(|&i| Claims::shard_of(ids[usize::from(i)]));
        assert_eq!(order, expected);
    }
}
