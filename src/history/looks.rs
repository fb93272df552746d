//! Looks for digests, and insertions of those that were looked for.

use super::block::{Pattern, WORDS, for_shape};
use super::rotating::{HistoryTier, SHARD_BLOCKS};
use crate::digest::Digest;
use crate::id_set::IdSet;
use crate::sync::Ordering;
use crate::window::{Avx2, ByVectors, scale};

/// The place of a digest that was looked for, and its bits there.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    index: usize,
    pattern: Pattern,
}

impl Look {
    /// No look yet. (No block has this number, rather than the first.)
    pub(crate) const NONE: Self = Look { index: usize::MAX, pattern: Pattern::NONE };
}

/// A look for up to eight digests, which is faster than one by one. Returns the set of those that
/// may have been seen, a bit each.
pub(crate) struct LookForFew<'l> {
    pub(crate) history: &'l HistoryTier,
    pub(crate) digests: &'l [Digest],
    pub(crate) looks: &'l mut [Look],
}

impl ByVectors for LookForFew<'_> {
    type Answer = u8;

    #[inline(always)]
    fn by(self, avx2: Option<Avx2>) -> u8 {
        let LookForFew { history, digests, looks } = self;
        debug_assert!(digests.len() <= looks.len() && digests.len() <= 8);
        for_shape!(history.shape, history.look_for_each(avx2, digests, looks))
    }
}

impl HistoryTier {
    /// Looks for a digest; returns true, too, if it may have been seen.
    #[inline(always)]
    pub(crate) fn look(&self, digest: &Digest) -> (Look, bool) {
        let mut look = Look::NONE;
        let seen = for_shape!(self.shape, self.look_in_shape(None, digest, &mut look));
        (look, seen)
    }

    /// Does the same by the vectors that there are.
    #[inline(always)]
    pub(crate) fn look_by(&self, avx2: Option<Avx2>, digest: &Digest) -> (Look, bool) {
        if avx2.is_none() {
            return self.look(digest);
        }
        // (To choose among all shapes costs more than the draws that are too many.)
        let mut look = Look::NONE;
        let seen = if self.shape.words == WORDS {
            self.look_in_shape::<WORDS, 8>(avx2, digest, &mut look)
        } else {
            self.look_in_shape::<2, 8>(avx2, digest, &mut look)
        };
        (look, seen)
    }

    #[inline(always)]
    fn look_for_each<const W: usize, const B: u32>(
        &self,
        avx2: Option<Avx2>,
        digests: &[Digest],
        looks: &mut [Look],
    ) -> u8 {
        let mut seen = 0;
        for (i, (digest, look)) in digests.iter().zip(looks).enumerate() {
            seen |= u8::from(self.look_in_shape::<W, B>(avx2, digest, look)) << i;
        }
        seen
    }

    /// Looks for a digest in a shape of so many words and, by plain code, so many bits; by vectors,
    /// up to so many.
    #[inline(always)]
    fn look_in_shape<const W: usize, const B: u32>(
        &self,
        avx2: Option<Avx2>,
        digest: &Digest,
        look: &mut Look,
    ) -> bool {
        look.index = scale(digest.place, self.blocks.len());
        let block = &self.blocks[look.index].0;
        #[cfg(all(target_arch = "x86_64", not(modelled)))]
        if let Some(avx2) = avx2 {
            return super::avx2::look::<W, B>(avx2, &self.draws, block, digest, &mut look.pattern);
        }
        let _ = avx2;
        look.pattern.set::<W, B>(*digest);
        // Relaxed: bits are only compared with bits. A thread that learned of an insertion by other
        // means than these words has synchronized with it there. (Without branches, for many in
        // turn.)
        let is_in = |generation: usize| look.pattern.is_in::<W>(|word| block[generation][word].load(Ordering::Relaxed));
        is_in(0) | is_in(1)
    }

    /// Remembers a digest that was looked for; the time is given as a [`tick`](Self::tick).
    #[inline(always)]
    pub(crate) fn insert_looked(&self, look: &Look, now: u64) {
        if self.shape.words == WORDS { self.insert_by::<WORDS>(look, now) } else { self.insert_by::<2>(look, now) }
    }

    /// Remembers those of a chunk of digests that are in a set. `meanwhile` is called once for each
    /// look.
    #[inline(always)]
    pub(crate) fn insert_chunk(&self, looks: &[Look], set: IdSet, now: u64, meanwhile: impl FnMut()) {
        if self.shape.words == WORDS {
            self.insert_each::<WORDS>(looks, set, now, meanwhile);
        } else {
            self.insert_each::<2>(looks, set, now, meanwhile);
        }
    }

    #[inline(always)]
    fn insert_each<const W: usize>(&self, looks: &[Look], set: IdSet, now: u64, mut meanwhile: impl FnMut()) {
        for (i, look) in looks.iter().enumerate() {
            meanwhile();
            if set.contains(i) {
                self.insert_by::<W>(look, now);
            }
        }
    }

    #[inline(always)]
    fn insert_by<const W: usize>(&self, look: &Look, now: u64) {
        let current = self.current(look.index / SHARD_BLOCKS, now);
        let generation = &self.blocks[look.index].0[current];
        // Relaxed: as the loads of a look.
        for (word, bits) in look.pattern.words::<W>() {
            generation[word].fetch_or(bits, Ordering::Relaxed);
        }
    }
}
