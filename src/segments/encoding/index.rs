//! The table of a segment's pages, in memory: the first key of each, 12 bytes.

#![allow(clippy::cast_possible_truncation, reason = "pages whose keys are in memory")]

use super::format::{INDEX_BYTES, index_entry};
use super::key::Key;
use crate::random::scale;

/// The first keys of the pages, in order. The upper halves are apart, since they nearly always
/// decide.
#[derive(Default)]
pub(in crate::segments) struct Index {
    uppers: Vec<u64>,
    lowers: Vec<u32>,
}

impl Index {
    pub(in crate::segments) fn push(&mut self, (upper, lower): (u64, u32)) {
        self.uppers.push(upper);
        self.lowers.push(lower);
    }

    pub(in crate::segments) fn len(&self) -> usize {
        self.uppers.len()
    }

    /// Returns the number of bytes that it takes.
    pub(in crate::segments) fn bytes(&self) -> usize {
        self.len() * INDEX_BYTES
    }

    fn entry(&self, page: usize) -> (u64, u32) {
        (self.uppers[page], self.lowers[page])
    }

    /// Returns the only page that can have a key: the last one that begins with it or before it.
    pub(in crate::segments) fn page_of(&self, key: Key) -> Option<usize> {
        let (wanted, pages) = (key.halves(), self.len());
        let is_beyond = |page: usize| self.entry(page) > wanted;
        // Keys are uniform: the page is near its share of all of them. From there in doubled steps.
        let guess = scale(key.spread(), pages as u64) as usize;
        if pages == 0 {
            return None;
        }
        let (mut low, mut high) = (guess, guess + 1);
        let mut step = 1;
        while low > 0 && is_beyond(low) {
            high = low;
            low = low.saturating_sub(step);
            step *= 2;
        }
        while high < pages && !is_beyond(high) {
            low = high;
            high = (high + step).min(pages);
            step *= 2;
        }
        while high - low > 1 {
            let middle = low.midpoint(high);
            if is_beyond(middle) { high = middle } else { low = middle }
        }
        (!is_beyond(low)).then_some(low)
    }

    /// Appends the bytes of some entries.
    pub(in crate::segments) fn encode(&self, pages: std::ops::Range<usize>, bytes: &mut Vec<u8>) {
        bytes.extend(pages.flat_map(|page| index_entry(self.entry(page))));
    }

    /// Takes over the bytes of entries. Returns false if they are not in order.
    pub(in crate::segments) fn decode(&mut self, bytes: &[u8]) -> bool {
        let first = self.len().saturating_sub(1);
        for entry in bytes.as_chunks::<INDEX_BYTES>().0 {
            let (upper, lower) = entry.split_at(8);
            let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            self.push((word(upper), word(lower) as u32));
        }
        (first..self.len()).map(|page| self.entry(page)).is_sorted_by(|one, next| one < next)
    }
}

#[cfg(all(test, not(any(modelled, alone))))]
mod tests {
    use super::*;
    use crate::digest::Digest;
    use crate::random::Random;

    #[test]
    fn the_page_is_the_last_that_does_not_begin_beyond_the_key() {
        let mut random = Random::new(2);
        for pages in [0, 1, 2, 3, 50, 1_000] {
            for mask in [u64::MAX, 0xff, u64::MAX >> 20] {
                let mut key = || Key::of(Digest { place: random.next() & mask.rotate_left(20), mark: random.next() });
                let mut firsts: Vec<_> = (0..pages).map(|_| key()).collect();
                firsts.sort();
                firsts.dedup();
                let mut index = Index::default();
                firsts.iter().for_each(|first| index.push(first.halves()));
                let asked: Vec<_> = (0..200).map(|_| key()).chain(firsts.iter().copied()).collect();
                for key in asked {
                    let expected = firsts.partition_point(|first| *first <= key).checked_sub(1);
                    assert_eq!(index.page_of(key), expected, "of {pages}");
                }
                let (mut bytes, mut again) = (Vec::new(), Index::default());
                index.encode(0..index.len(), &mut bytes);
                assert!(again.decode(&bytes) && again.uppers == index.uppers && again.lowers == index.lowers);
                assert!(bytes.is_empty() || !again.decode(&bytes), "twice the same is not in order");
            }
        }
    }
}
