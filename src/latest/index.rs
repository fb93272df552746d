//! The index of a shard: from an id's digest to the place of its entry. Open addressing with linear
//! probing; removal closes the gap, so that nothing is left behind.

use crate::digest::Digest;
use crate::sync::{Ordering, StdAtomicU64};
use crate::window::scale;

/// A word is an entry's place, plus 1, below 32 bits of its digest; 0 if it is free.
///
/// Everything but [`prefetch`](Index::prefetch) is called under the shard's lock, which orders the
/// accesses. The words are atomic so that prefetching needs no lock, and no part of a protocol.
pub(super) struct Index {
    words: Box<[StdAtomicU64]>,
}

/// The place of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position(usize);

impl Index {
    /// Returns the number of words for this many entries: a third more, so that a look
    /// for an id that is not there takes 8.5 words on average, a line or two.
    pub(super) const fn words_for(entries: usize) -> usize {
        entries + entries.div_ceil(3) + 1
    }

    /// Returns an index for this many entries, all of whose words were given by the system.
    pub(super) fn new(entries: usize) -> Result<Self, std::collections::TryReserveError> {
        let len = Self::words_for(entries);
        let mut words = Vec::new();
        words.try_reserve_exact(len)?;
        words.resize_with(len, StdAtomicU64::default);
        Ok(Index { words: words.into_boxed_slice() })
    }

    /// Asks for the words where a digest is looked for first.
    #[inline(always)]
    pub(super) fn prefetch(&self, id: Digest) {
        crate::memory::prefetch(&self.words[self.home(hash_of(id))]);
    }

    /// Returns the entry of a digest, of those with its hash the one that `is_it`.
    #[inline(always)]
    pub(super) fn find(&self, id: Digest, is_it: impl Fn(u32) -> bool) -> Option<(Position, u32)> {
        let hash = hash_of(id);
        let mut at = self.home(hash);
        // Ends: there are more words than entries.
        loop {
            let word = self.load(at);
            if word == 0 {
                return None;
            }
            if word >> 32 == hash && is_it(entry_of(word)) {
                return Some((Position(at), entry_of(word)));
            }
            at = self.next(at);
        }
    }

    /// Adds an entry of a digest that is not here. There must be fewer entries than the index is
    /// for.
    pub(super) fn insert(&self, id: Digest, entry: u32) {
        let hash = hash_of(id);
        let mut at = self.home(hash);
        while self.load(at) != 0 {
            at = self.next(at);
        }
        self.store(at, hash << 32 | (u64::from(entry) + 1));
    }

    /// Removes what is at a position. Later words of the same run move up, if the gap lies between
    /// their home and them.
    pub(super) fn remove(&self, Position(mut gap): Position) {
        let mut at = gap;
        loop {
            at = self.next(at);
            let word = self.load(at);
            if word == 0 {
                return self.store(gap, 0);
            }
            let home = self.home(word >> 32);
            if self.distance(home, at) >= self.distance(gap, at) {
                self.store(gap, word);
                gap = at;
            }
        }
    }

    /// Returns the memory that it has beside itself.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        scale(hash << 32, self.words.len())
    }

    #[inline(always)]
    fn next(&self, at: usize) -> usize {
        if at + 1 == self.words.len() { 0 } else { at + 1 }
    }

    /// Returns the number of steps from one word to another.
    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from { to - from } else { to + self.words.len() - from }
    }

    #[inline(always)]
    fn load(&self, at: usize) -> u64 {
        self.words[at].load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn store(&self, at: usize, word: u64) {
        self.words[at].store(word, Ordering::Relaxed);
    }
}

#[inline(always)]
fn hash_of(id: Digest) -> u64 {
    id.place >> 32
}

#[inline(always)]
fn entry_of(word: u64) -> u32 {
    // Never 0 below: the place is one less.
    #[expect(clippy::cast_possible_truncation, reason = "the lower half of a word")]
    let place = word as u32;
    place - 1
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use crate::long::long;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn digest(number: u64) -> Digest {
        Digest { place: number, mark: number }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(long(500, 2_000)))]
        /// Few homes, at both ends and in the middle, so that runs are long and wrap around.
        #[test]
        fn it_is_a_map(operations in proptest::collection::vec((any::<bool>(), 0..12_u64, 0..3_u64), 0..200)) {
            const ENTRIES: usize = 24;
            let index = Index::new(ENTRIES).unwrap();
            let homes = [0, u64::MAX / 2, u64::MAX - 11];
            let mut model: HashMap<u64, u32> = HashMap::new();
            let mut next = 0;
            for (inserts, number, home) in operations {
                // The same hash for two of three, so that entries must be told apart.
                let id = digest(homes[home as usize].wrapping_add(((number / 3) << 32) | number));
                let found = index.find(id, |entry| model.get(&id.place) == Some(&entry));
                prop_assert_eq!(found.map(|(_, entry)| entry), model.get(&id.place).copied());
                match found {
                    None if inserts && model.len() < ENTRIES => {
                        index.insert(id, next);
                        model.insert(id.place, next);
                        next += 1;
                    }
                    Some((at, _)) if !inserts => {
                        index.remove(at);
                        model.remove(&id.place);
                    }
                    _ => {}
                }
                for (&place, &entry) in &model {
                    prop_assert!(index.find(digest(place), |other| other == entry).is_some());
                }
                let used = index.words.iter().filter(|word| word.load(Ordering::Relaxed) != 0).count();
                prop_assert_eq!(used, model.len());
            }
        }
    }
}
