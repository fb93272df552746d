//! Maps that keep a digest of each id in place of the id.

use super::expiring::{Map, Moment};
use super::{Allowance, Failure, Id, Plan};
use std::cell::RefCell;
use std::hash::{BuildHasher, RandomState};
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// A digest as a map keeps it.
pub(super) type Digest = [u8; 16];

// The buffer that a caller of batches keeps from one to the next.
thread_local! {
    static DIGESTS: RefCell<Vec<Digest>> = const { RefCell::new(Vec::new()) };
}

/// A map from 128-bit digests (XXH3, seeded at random), which needs no copy of an id and follows no
/// pointer to it.
///
/// It is a choice only for ids of any length: integers and UUIDs are no longer than their digests.
/// What it gives up is what a window of this crate gives up, too: two ids with one digest are the
/// same to it, which by chance never happens (2^-128 for each pair), and which somebody who knows
/// the seed can bring about.
pub(super) struct ByDigest<M> {
    map: M,
    seed: u64,
}

impl<M> ByDigest<M> {
    #[inline(always)]
    fn digest<I: Id + ?Sized>(&self, id: &I) -> Digest {
        xxh3_128_with_seed(id.bytes().as_ref(), self.seed).to_le_bytes()
    }
}

impl<I: Id + ?Sized, M: Map<Digest>> Map<I> for ByDigest<M> {
    const NAMES: [&'static str; 2] = M::NAMES_OF_DIGESTS;
    const ANY_LENGTH_ONLY: bool = true;

    fn new(ids: usize, plan: &Plan) -> Result<Self, Failure> {
        Ok(ByDigest { map: M::new(ids, plan)?, seed: RandomState::new().hash_one(0) })
    }

    #[inline(always)]
    fn accept(&self, id: &I, now: Moment) -> bool {
        self.map.accept(&self.digest(id), now)
    }

    /// Makes all digests first, so that a lock is held for as short as it can be.
    #[inline(always)]
    fn accept_batch<'a>(&self, ids: impl Iterator<Item = &'a I>, now: Moment, fresh: &mut Vec<bool>) {
        DIGESTS.with_borrow_mut(|digests| {
            digests.clear();
            digests.extend(ids.map(|id| self.digest(id)));
            self.map.accept_batch(digests.iter(), now, fresh);
        });
    }

    fn purge(&self, now: Moment) {
        self.map.purge(now);
    }

    fn allowance(plan: &Plan) -> Allowance {
        M::allowance(plan)
    }
}
