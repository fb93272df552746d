//! Reads a history as it is, while others insert, and restores it.
//!
//! Bits are only ever set, except those of a generation that has expired. So every insertion from
//! before the beginning of the read is read.

use super::History;
use crate::sync::Ordering;

impl History {
    /// Returns the dimensions that another history must have to take this one's words.
    pub(crate) fn geometry(&self) -> [u64; 4] {
        [self.blocks.len() as u64, self.horizon_ticks, self.shape.words as u64, u64::from(self.shape.bits)]
    }

    /// Returns all words: first those that say which generation is the current one.
    pub(crate) fn words(&self) -> impl Iterator<Item = u64> {
        // Relaxed: as everywhere in the history, bits are compared with bits only.
        let turns = self.turns.iter().map(|turn| self.settled(turn.load(Ordering::Relaxed)));
        let bits = self.blocks.iter().flat_map(|block| block.0.iter().flatten());
        turns.chain(bits.map(|word| word.load(Ordering::Relaxed)))
    }

    /// Returns the number of [`words`](Self::words).
    pub(crate) fn words_len(&self) -> usize {
        self.turns.len() + self.blocks.len() * 2 * super::block::WORDS
    }

    /// Takes over words; those beyond its own are ignored. No other thread may know the history
    /// yet.
    pub(crate) fn restore(&self, words: impl Iterator<Item = u64>) {
        let bits = self.blocks.iter().flat_map(|block| block.0.iter().flatten());
        self.turns.iter().chain(bits).zip(words).for_each(|(to, word)| to.store(word, Ordering::Relaxed));
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use crate::{Digester, History, Timestamp};
    use std::time::Duration;

    #[test]
    fn a_history_comes_back_as_it_was() {
        let new = || History::new(Duration::from_secs(100), 1e-4, 5_000).unwrap();
        let (history, restored) = (new(), new());
        let digester = Digester::with_seed(1);
        let digest = |n: u64| digester.digest(n.to_le_bytes());
        (0..5_000).for_each(|n| history.insert(digest(n), Timestamp::from_millis(n * 30)));
        assert_eq!(history.words().count(), history.words_len());
        restored.restore(history.words());
        for n in 0..10_000 {
            assert_eq!(restored.contains(digest(n)), history.contains(digest(n)));
        }
        assert_eq!(restored.geometry(), history.geometry());
        assert_ne!(new().geometry(), History::new(Duration::from_secs(100), 1e-3, 5_000).unwrap().geometry());
    }
}
