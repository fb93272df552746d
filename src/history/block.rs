//! Which bits of a block stand for an id. Pure.
//!
//! A block is one cache line: two generations of four words. An id has the same pattern in both: a few bits in each of two or
//! four words.

use crate::digest::Digest;

/// Words that a generation has in a block.
pub(crate) const WORDS: usize = 4;

/// How many bits stand for an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Words that have bits of the id: 2 or 4. Each is one atomic operation when the id is inserted.
    pub(crate) words: usize,
    /// Bits in each of these words, drawn with replacement: 1 to 8.
    pub(crate) bits: u32,
}

/// The bits of an id, in the words of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pattern(pub(crate) [u64; WORDS]);

impl Pattern {
    /// The pattern of a digest.
    #[inline(always)]
    pub(crate) fn of(digest: Digest, shape: Shape) -> Self {
        // Block numbers are made of the high bits of `place`; its low bits, and all of `mark`, are free. Each word gets a mix
        // of both, the best of which is in the high bits of the product.
        let mix = |odd: u64| (digest.mark ^ digest.place.rotate_left(32)).wrapping_add(digest.place).wrapping_mul(odd);
        let mut words = [0; WORDS];
        if shape.words == WORDS {
            for (word, odd) in words.iter_mut().zip(ODD) {
                *word = bits(mix(odd) ^ digest.mark.rotate_left(23), shape.bits);
            }
        } else {
            let (first, second) = pair(digest.mark);
            words[first] = bits(mix(ODD[0]), shape.bits);
            words[second] = bits(mix(ODD[1]) ^ digest.mark.rotate_left(23), shape.bits);
        }
        Pattern(words)
    }

    /// Whether a generation's words have all bits of the pattern.
    #[inline(always)]
    pub(crate) fn is_in(&self, words: [u64; WORDS]) -> bool {
        let missing = |i: usize| self.0[i] & !words[i];
        missing(0) | missing(1) | missing(2) | missing(3) == 0
    }
}

/// Odd constants without pattern: the fractional parts of the golden ratio and of square roots.
const ODD: [u64; WORDS] = [0x9e37_79b9_7f4a_7c15, 0xbb67_ae85_84ca_a73b, 0x3c6e_f372_fe94_f82b, 0xa54f_f53a_5f1d_36f1];

/// One of the six pairs of words, by the low bits (the high ones are in the patterns).
#[inline(always)]
fn pair(mark: u64) -> (usize, usize) {
    const PAIRS: [(usize, usize); 6] = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];
    PAIRS[((mark & 0xffff_ffff) * 6 >> 32) as usize]
}

/// `n` bits of a word, drawn with replacement.
#[inline(always)]
fn bits(mut random: u64, n: u32) -> u64 {
    let mut word = 0;
    for _ in 0..n {
        word |= 1 << (random >> 58);
        random <<= 6;
    }
    word
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
                assert_eq!(pattern.0.iter().filter(|word| **word != 0).count(), words);
                assert!(pattern.0.iter().all(|word| word.count_ones() <= n));
                for (word, uses) in pattern.0.iter().zip(&mut uses) {
                    uses.iter_mut().enumerate().for_each(|(i, use_)| *use_ += (word >> i & 1) as u32);
                }
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
    fn a_pattern_is_found_among_others_and_only_whole() {
        let shape = Shape { words: 2, bits: 4 };
        let pattern = Pattern::of(Digest::from(0x1234_5678_9abc_def0_u128 << 40), shape);
        assert!(pattern.is_in(pattern.0.map(|word| word | 0xff)));
        let (word, bits) = pattern.0.iter().enumerate().find(|(_, bits)| **bits != 0).unwrap();
        let mut without_one = pattern.0;
        without_one[word] = bits & (bits - 1);
        assert!(!pattern.is_in(without_one));
    }
}
