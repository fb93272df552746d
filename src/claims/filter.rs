//! A bit for each id of a shard: as much as checks see of them without its lock.

use crate::digest::Digest;
use crate::mutation::{Rule, obeys};
use crate::sync::{AtomicU64, Ordering, StdAtomicU64};

/// The number of words: 2,048 bits, so that of a thousand ids in flight, in 32 shards, one in
/// twenty others meets the bit.
const WORDS: usize = if cfg!(modelled) { 1 } else { 32 };

/// Returns the most bits of ids that have gone, given the number of ids that there are: a model
/// sees them go at once.
#[inline(always)]
fn stale_max(ids: u64) -> u64 {
    if cfg!(modelled) { 0 } else { ids.max(16) }
}

/// A bit for each id of a shard's map, and for some that have gone. Written under the shard's lock.
pub(super) struct Filter {
    words: [AtomicU64; WORDS],
    /// The number of ids that were added since the bits were last made anew. (No model needs to
    /// know: it is read and written under the lock.)
    added: StdAtomicU64,
}

impl Filter {
    pub(super) fn new() -> Self {
        Filter { words: std::array::from_fn(|_| AtomicU64::new(0)), added: StdAtomicU64::new(0) }
    }

    /// Returns the word and the bit of an id.
    #[inline(always)]
    fn position(id: Digest) -> (usize, u64) {
        // Above the bits that choose the shard; see `Claims::shard_of`.
        let bits = id.place >> 37;
        ((bits >> 6) as usize % WORDS, 1 << (bits % 64))
    }

    /// Returns false if an id is not in the map.
    #[inline(always)]
    pub(super) fn may_have(&self, id: Digest) -> bool {
        let (word, bit) = Self::position(id);
        // Sequentially consistent: partner of the fence in `Shard::after_announcing`, for a check
        // that has inserted. This load sees a claim that has looked too early to see our insertion.
        // It also sees a claim for which another check is about to take back the insertion that we
        // found.
        self.words[word].load(Ordering::SeqCst) & bit != 0
    }

    /// Adds an id that is about to come into the map.
    #[inline(always)]
    pub(super) fn add(&self, id: Digest) {
        let (word, bit) = Self::position(id);
        let word = &self.words[word];
        // Relaxed: under the lock, and before the fence that orders it.
        word.store(word.load(Ordering::Relaxed) | bit, Ordering::Relaxed);
        self.added.store(self.added.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Returns true if so many ids of a map of `len` have gone that the bits are to be made anew.
    #[inline(always)]
    pub(super) fn is_stale(&self, len: usize) -> bool {
        let len = len as u64;
        self.added.load(Ordering::Relaxed) > len + stale_max(len)
    }

    /// Makes the bits anew, given the ids of the map.
    #[cold]
    pub(super) fn renew(&self, ids: impl Iterator<Item = Digest>) {
        let (mut words, mut added) = ([0; WORDS], 0);
        for id in ids.filter(|_| obeys(Rule::FilterKeeps)) {
            let (word, bit) = Self::position(id);
            words[word] |= bit;
            added += 1;
        }
        // Release: partner of the load in `may_have`. A thread that sees that an id is gone also
        // sees what became of it.
        self.words.iter().zip(words).for_each(|(word, bits)| word.store(bits, Ordering::Release));
        self.added.store(added, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use crate::digest::Digester;
    use std::sync::LazyLock;

    fn id(n: u64) -> Digest {
        static DIGESTER: LazyLock<Digester> = LazyLock::new(|| Digester::with_seed(3));
        DIGESTER.digest(n.to_le_bytes())
    }

    #[test]
    fn a_filter_has_the_ids_of_the_map_and_few_others() {
        let filter = Filter::new();
        (0..31).for_each(|n| filter.add(id(n)));
        assert!((0..31).all(|n| filter.may_have(id(n))));
        let others = (1_000..101_000).filter(|n| filter.may_have(id(*n))).count();
        assert!((1_200..=1_700).contains(&others), "{others} of 100,000, with 31 bits of 2,048");
    }

    #[test]
    fn bits_of_ids_that_have_gone_are_dropped_when_there_are_more_of_them_than_ids() {
        let filter = Filter::new();
        (0..100).for_each(|n| filter.add(id(n)));
        assert_eq!([50, 49, 0].map(|len| filter.is_stale(len)), [false, true, true]);
        filter.renew((90..100).map(id));
        assert!((90..100).all(|n| filter.may_have(id(n))));
        assert!((0..90).filter(|n| filter.may_have(id(*n))).count() < 5);
        assert!(!filter.is_stale(10));
        filter.renew(std::iter::empty());
        assert!(!(0..100).any(|n| filter.may_have(id(n))));
    }

    #[test]
    fn with_many_ids_half_of_the_bits_may_be_of_those_that_have_gone() {
        let filter = Filter::new();
        (0..400).for_each(|n| filter.add(id(n)));
        assert_eq!([200, 199].map(|len| filter.is_stale(len)), [false, true]);
    }
}
