//! The bits of a block that stand for an id. Pure.
//!
//! A block is one cache line: two generations of four words. An id has the same pattern in both: a
//! few bits in each of two or four words.

#![allow(clippy::cast_possible_truncation, reason = "bits are cut out of words, and there are four of them")]

use crate::digest::Digest;

/// Words that a generation has in a block.
pub(crate) const WORDS: usize = 4;

/// The number of bits that stand for an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The number of words that have bits of the id: 2 or 4. Each is one atomic operation when the
    /// id is inserted.
    pub(crate) words: usize,
    /// The number of bits in each of these words, drawn with replacement: 1 to 8.
    pub(crate) bits: u32,
}

/// The bits of an id, in some words of a generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// The bits in each word that has some. The first `len` of them count.
    bits: [u64; WORDS],
    /// The numbers of these words.
    words: [u8; WORDS],
    len: u8,
}

impl Pattern {
    /// Returns the pattern of a digest.
    #[inline(always)]
    pub(crate) fn of(digest: Digest, shape: Shape) -> Self {
        // Block numbers are made of the high bits of `place`; its low bits, and all of `mark`, are
        // free. Each word gets a mix of both; the best bits of the mix are the high bits of the
        // product.
        let base = (digest.mark ^ digest.place.rotate_left(32)).wrapping_add(digest.place);
        let random = |i: usize| base.wrapping_mul(ODD[i]) ^ digest.mark.rotate_left(23 * i as u32);
        if shape.words == WORDS {
            let bits = std::array::from_fn(|i| bits(random(i), shape.bits));
            Pattern { bits, words: [0, 1, 2, 3], len: WORDS as u8 }
        } else {
            let (first, second) = pair(digest.mark);
            let [one, other] = two(random(0), random(1), shape.bits);
            Pattern { bits: [one, other, 0, 0], words: [first, second, 0, 0], len: 2 }
        }
    }

    /// Shows the words that have bits of the pattern, with these bits.
    #[inline(always)]
    pub(crate) fn each(&self, mut show: impl FnMut(usize, u64)) {
        let mut word = |i: usize| show(usize::from(self.words[i]) % WORDS, self.bits[i]);
        word(0);
        word(1);
        if usize::from(self.len) == WORDS {
            word(2);
            word(3);
        }
    }

    /// Returns true if a generation, given its words, has all bits of the pattern.
    #[inline(always)]
    pub(crate) fn is_in(&self, generation: impl Fn(usize) -> u64) -> bool {
        let mut missing = 0;
        self.each(|word, bits| missing |= bits & !generation(word));
        missing == 0
    }
}

/// Odd constants without pattern: the fractional parts of the golden ratio and of square roots.
const ODD: [u64; WORDS] = [0x9e37_79b9_7f4a_7c15, 0xbb67_ae85_84ca_a73b, 0x3c6e_f372_fe94_f82b, 0xa54f_f53a_5f1d_36f1];

/// Returns one of the six pairs of words, by the low bits (the patterns are made of high ones).
#[inline(always)]
fn pair(mark: u64) -> (u8, u8) {
    const PAIRS: [(u8, u8); 6] = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];
    PAIRS[(((mark & 0xffff_ffff) * 6) >> 32) as usize]
}

/// Returns `n` bits of a word, 1 to 8, drawn with replacement.
#[inline(always)]
fn bits(random: u64, n: u32) -> u64 {
    let [bits, _] = two(random, 0, n);
    bits
}

/// Returns `n` bits of each of two words.
#[inline(always)]
fn two(one: u64, other: u64, n: u32) -> [u64; 2] {
    #[inline(always)]
    fn unrolled<const N: u32>(random: u64) -> u64 {
        (0..N).fold(0, |word, i| word | 1 << (random << (6 * i) >> 58))
    }
    #[inline(always)]
    fn both<const N: u32>(one: u64, other: u64) -> [u64; 2] {
        [unrolled::<N>(one), unrolled::<N>(other)]
    }
    match n {
        1 => both::<1>(one, other),
        2 => both::<2>(one, other),
        3 => both::<3>(one, other),
        4 => both::<4>(one, other),
        5 => both::<5>(one, other),
        6 => both::<6>(one, other),
        7 => both::<7>(one, other),
        _ => both::<8>(one, other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Digester;

    #[test]
    fn patterns_have_their_shape_and_use_all_words_and_bits_evenly() {
        let digester = Digester::with_seed(11);
        for (words, n) in [(2, 1), (2, 5), (4, 4)] {
            let shape = Shape { words, bits: n };
            let mut uses = [[0_u32; 64]; WORDS];
            for id in 0_u64..40_000 {
                let pattern = Pattern::of(digester.digest(id.to_le_bytes()), shape);
                let mut count = 0;
                pattern.each(|word, bits| {
                    count += 1;
                    assert!((1..=n).contains(&bits.count_ones()));
                    uses[word].iter_mut().enumerate().for_each(|(i, uses)| *uses += (bits >> i & 1) as u32);
                });
                assert_eq!(count, words);
            }
            // The probability of a bit, and six deviations around it.
            let p = (1.0 - (1.0 - 1.0 / 64.0_f64).powi(n as i32)) * words as f64 / WORDS as f64;
            let (mean, margin) = (40_000.0 * p, 6.0 * (40_000.0 * p * (1.0 - p)).sqrt());
            for count in uses.as_flattened() {
                assert!((f64::from(*count) - mean).abs() < margin, "{shape:?}: {count} of {mean}");
            }
        }
    }

    #[test]
    fn as_many_bits_are_drawn_as_are_asked_for() {
        let random = 0x0123_4567_89ab_cdef_u64;
        for n in 1..=8 {
            let drawn =
                (0..n).map(|i| 1 << (random.rotate_left(6 * i) >> 58)).fold(0, |word: u64, bit: u64| word | bit);
            assert_eq!(bits(random, n), drawn, "{n}");
        }
    }

    #[test]
    fn a_pattern_is_found_among_others_and_only_whole() {
        let shape = Shape { words: 2, bits: 4 };
        let pattern = Pattern::of(Digest::from(0x1234_5678_9abc_def0_u128 << 40), shape);
        let mut words = [0x00ff_0000_ff00_00ff; WORDS];
        pattern.each(|i, bits| words[i] |= bits);
        assert!(pattern.is_in(|i| words[i]));
        pattern.each(|i, bits| {
            for bit in (0..64).filter(|bit| bits >> bit & 1 != 0) {
                assert!(!pattern.is_in(|j| if i == j { words[j] & !(1 << bit) } else { words[j] }));
            }
        });
    }
}
