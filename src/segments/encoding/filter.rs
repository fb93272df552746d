//! The filter of a segment's ids: a Bloom filter of cache lines. "No" is certain.
//!
//! An id has one line, by its place, and a bit in each of the line's eight words, by its mark. So
//! the line's number is all that differs from segment to segment; ids that are sorted come to lines
//! in order; and a merge finds both in what a segment keeps of a digest.

#![allow(clippy::cast_possible_truncation, reason = "lines that are in memory")]

use super::format::LINE_BYTES;
use super::key::Key;
use crate::SegmentError;
use crate::memory::{Line, Lines, PART_BYTES};
use crate::random::scale;
use crate::sync::{Ordering, StdAtomicU64};
use std::sync::Arc;

/// The bits of a filter for each id. Fourteen let 0.2 % of other ids pass (twelve 0.42 %: a read of
/// 4 KiB for each, which took a fifth of a caller's time with a billion ids).
pub const BITS_PER_ID: u64 = 14;

const WORDS: usize = LINE_BYTES / 8;

/// The lines of a part of memory that is made present at once.
const LINES_PER_PART: usize = PART_BYTES / LINE_BYTES;

const TIER: &str = "segments";

fn out_of_memory(error: crate::Error) -> SegmentError {
    match error {
        crate::Error::OutOfMemory { bytes, source, .. } => {
            SegmentError::OutOfMemory { bytes: bytes as u64, source: Arc::new(source) }
        }
        other => SegmentError::OutOfMemory { bytes: 0, source: Arc::new(std::io::Error::other(other)) },
    }
}

/// Returns the number of lines for so many ids.
pub(in crate::segments) fn lines_for(ids: u64) -> u64 {
    ids.saturating_mul(BITS_PER_ID).div_ceil(8 * LINE_BYTES as u64).max(1)
}

/// The bits of an id, which are the same in all filters.
#[derive(Clone, Copy)]
pub(in crate::segments) struct Pattern {
    spread: u64,
    words: [u64; WORDS],
}

impl Pattern {
    #[inline(always)]
    pub(in crate::segments) fn of(key: Key) -> Self {
        // Six bits for each of eight words: 48 of the mark's 56.
        let mark = key.mark();
        Pattern { spread: key.spread(), words: std::array::from_fn(|i| 1 << (mark >> (6 * i) & 63)) }
    }
}

/// Returns true if a line has all bits of a pattern.
#[inline(always)]
fn may_have(line: &Line, pattern: &Pattern) -> bool {
    // Half of the bits are set. Four words are looked at together, in which all bits are set one in
    // 16 times, so that the branch is foreseen.
    let missing = |words: std::ops::Range<usize>| {
        words.fold(0, |missing, i| missing | pattern.words[i] & !line.0[i].load(Ordering::Relaxed))
    };
    missing(0..WORDS / 2) == 0 && missing(WORDS / 2..WORDS) == 0
}

/// The filter of a segment. Its memory is made present as it is filled, which is in order: clearing
/// hundreds of megabytes at once would hold up whoever shares the processors.
pub(in crate::segments) struct Filter {
    lines: Lines<Line>,
    /// The number of parts of the memory that are present.
    present: StdAtomicU64,
}

impl Filter {
    /// Returns an empty filter.
    pub(in crate::segments) fn new(lines: u64) -> Result<Self, SegmentError> {
        let lines = usize::try_from(lines).unwrap_or(usize::MAX);
        let lines = Lines::reserve(lines, TIER).map_err(out_of_memory)?;
        Ok(Filter { lines, present: StdAtomicU64::new(0) })
    }

    /// Makes the memory present up to a line.
    #[inline]
    fn be_present(&self, line: usize) -> Result<(), SegmentError> {
        let part = (line / LINES_PER_PART) as u64;
        // Relaxed: one thread fills a filter.
        if self.present.load(Ordering::Relaxed) > part { Ok(()) } else { self.populate(part) }
    }

    #[cold]
    fn populate(&self, part: u64) -> Result<(), SegmentError> {
        while self.present.load(Ordering::Relaxed) <= part {
            let next = self.present.fetch_add(1, Ordering::Relaxed);
            self.lines.populate(next as usize, TIER).map_err(out_of_memory)?;
        }
        Ok(())
    }

    pub(in crate::segments) fn bytes(&self) -> usize {
        self.lines.bytes()
    }

    #[inline(always)]
    fn line(&self, pattern: &Pattern) -> usize {
        scale(pattern.spread, self.lines.len() as u64) as usize
    }

    /// Adds an id. (One thread does that, before others see the filter.)
    #[inline]
    pub(in crate::segments) fn insert(&self, pattern: &Pattern) -> Result<(), SegmentError> {
        let line = self.line(pattern);
        self.be_present(line)?;
        let line = &self.lines[line];
        for (word, bit) in line.0.iter().zip(pattern.words) {
            // Relaxed: the filter is published with its segment.
            word.store(word.load(Ordering::Relaxed) | bit, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Asks for the lines of ids to be brought into the cache.
    pub(in crate::segments) fn prefetch_all(&self, patterns: &[Pattern]) {
        let (prefetch, lines) = (self.lines.prefetcher(), self.lines.len() as u64);
        patterns.iter().for_each(|pattern| prefetch(scale(pattern.spread, lines) as usize));
    }

    /// Calls a function with the place of each id that is not certainly missing.
    pub(in crate::segments) fn each_that_may_be(&self, patterns: &[Pattern], mut each: impl FnMut(usize)) {
        let lines = &self.lines[..];
        for (i, pattern) in patterns.iter().enumerate() {
            if may_have(&lines[scale(pattern.spread, lines.len() as u64) as usize], pattern) {
                each(i);
            }
        }
    }
    /// Appends the bytes of some lines.
    pub(in crate::segments) fn encode(&self, lines: std::ops::Range<usize>, bytes: &mut Vec<u8>) {
        let words = self.lines[lines].iter().flat_map(|line| &line.0);
        bytes.extend(words.flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()));
    }

    /// Takes over the bytes of lines, from a line on.
    pub(in crate::segments) fn decode(&self, first: usize, bytes: &[u8]) -> Result<(), SegmentError> {
        self.be_present(first + (bytes.len() / LINE_BYTES).saturating_sub(1))?;
        let words = self.lines[first..].iter().flat_map(|line| &line.0);
        for (word, bytes) in words.zip(bytes.as_chunks::<8>().0) {
            word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
        Ok(())
    }

    pub(in crate::segments) fn len(&self) -> usize {
        self.lines.len()
    }
}

#[cfg(all(test, not(any(modelled, alone))))]
mod tests {
    use super::*;
    use crate::digest::Digest;
    use crate::random::Random;

    #[test]
    fn what_is_there_is_found_and_little_else() {
        const IDS: u64 = 50_000;
        let has = |filter: &Filter, pattern: &Pattern| {
            let mut has = false;
            filter.each_that_may_be(&[*pattern], |_| has = true);
            has
        };
        let mut random = Random::new(3);
        let mut pattern = || Pattern::of(Key::of(Digest { place: random.next(), mark: random.next() }));
        let filter = Filter::new(lines_for(IDS)).unwrap();
        let there: Vec<_> = (0..IDS).map(|_| pattern()).collect();
        there.iter().for_each(|pattern| filter.insert(pattern).unwrap());
        assert!(there.iter().all(|pattern| has(&filter, pattern)));
        let wrong = (0..10 * IDS).filter(|_| has(&filter, &pattern())).count();
        println!("{wrong} of {} others", 10 * IDS);
        assert!((500..2_000).contains(&wrong), "{wrong} of {}", 10 * IDS);

        let mut bytes = Vec::new();
        filter.encode(0..filter.len(), &mut bytes);
        let again = Filter::new(filter.len() as u64).unwrap();
        let half = filter.len() / 2;
        again.decode(0, &bytes[..half * LINE_BYTES]).unwrap();
        again.decode(half, &bytes[half * LINE_BYTES..]).unwrap();
        assert!(there.iter().all(|pattern| has(&again, pattern)));
    }
}
