//! Sets of tags, roughly. Pure.

use crate::window::Tag;

/// A set of tags, roughly: it may contain others, with a probability of one in a hundred at most.
#[derive(Default)]
pub(super) struct TagSet([u64; 8]);

impl TagSet {
    #[inline(always)]
    pub(super) fn insert(&mut self, tag: Tag) {
        let (word, bit) = Self::position(tag);
        self.0[word] |= bit;
    }

    #[inline(always)]
    pub(super) fn may_contain(&self, tag: Tag) -> bool {
        let (word, bit) = Self::position(tag);
        self.0[word] & bit != 0
    }

    fn position(tag: Tag) -> (usize, u64) {
        let hash = tag.top_bits(9);
        (hash >> 6, 1 << (hash & 63))
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_tags_contains_its_members_and_few_others() {
        let tag = |i: u64| Tag::of(i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut set = TagSet::default();
        (0..5).for_each(|i| set.insert(tag(i)));
        assert!((0..5).all(|i| set.may_contain(tag(i))));
        // Five of 512 bits are set.
        let others = (5..100_005).filter(|i| set.may_contain(tag(*i))).count();
        assert!((900..1_060).contains(&others), "{others} of 100,000");
    }
}
