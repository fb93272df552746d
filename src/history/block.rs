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

/// Calls the function that is compiled for a shape, so that nothing is decided for each bit, and in
/// a batch for no id.
macro_rules! for_shape {
    ($shape:expr, $($function:ident).+($($argument:expr),*)) => {
        match ($shape.words == $crate::history::block::WORDS, $shape.bits) {
            (false, 1) => $($function).+::<2, 1>($($argument),*),
            (false, 2) => $($function).+::<2, 2>($($argument),*),
            (false, 3) => $($function).+::<2, 3>($($argument),*),
            (false, 4) => $($function).+::<2, 4>($($argument),*),
            (false, 5) => $($function).+::<2, 5>($($argument),*),
            (false, 6) => $($function).+::<2, 6>($($argument),*),
            (false, 7) => $($function).+::<2, 7>($($argument),*),
            (false, _) => $($function).+::<2, 8>($($argument),*),
            (true, 1) => $($function).+::<4, 1>($($argument),*),
            (true, 2) => $($function).+::<4, 2>($($argument),*),
            (true, 3) => $($function).+::<4, 3>($($argument),*),
            (true, 4) => $($function).+::<4, 4>($($argument),*),
            (true, 5) => $($function).+::<4, 5>($($argument),*),
            (true, 6) => $($function).+::<4, 6>($($argument),*),
            (true, 7) => $($function).+::<4, 7>($($argument),*),
            (true, _) => $($function).+::<4, 8>($($argument),*),
        }
    };
}
pub(super) use for_shape;

/// The bits of an id, in some words of a generation.
///
/// Functions that are generic over `W` and `B` are compiled for a [`Shape`] of so many words, and
/// bits in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// The bits in each word that has some: in the first `W` of these.
    bits: [u64; WORDS],
    /// The numbers of these words, if there are two.
    pair: [u8; 2],
}

impl Pattern {
    pub(crate) const NONE: Self = Pattern { bits: [0; WORDS], pair: [0; 2] };

    /// Sets this to the pattern of a digest. (Set, so that two words are not written as four.)
    #[inline(always)]
    pub(crate) fn set<const W: usize, const B: u32>(&mut self, digest: Digest) {
        // Block numbers are made of the high bits of `place`; its low bits, and all of `mark`, are
        // free. Each word gets a mix of both; the best bits of the mix are the high bits of the
        // product.
        let base = (digest.mark ^ digest.place.rotate_left(32)).wrapping_add(digest.place);
        let random = |i: usize| base.wrapping_mul(ODD[i]) ^ digest.mark.rotate_left(23 * i as u32);
        // (A loop, which is inlined wherever this is, as calls of closures are not.)
        for (i, bits) in self.bits.iter_mut().enumerate().take(W) {
            *bits = self::bits::<B>(random(i));
        }
        if W < WORDS {
            self.pair = pair(digest.mark);
        }
    }

    /// Returns the words that have bits of the pattern, with these bits.
    #[inline(always)]
    pub(crate) fn words<const W: usize>(&self) -> impl Iterator<Item = (usize, u64)> {
        const { assert!(W == 2 || W == WORDS) };
        (0..W).map(|i| (if W == WORDS { i } else { usize::from(self.pair[i]) % WORDS }, self.bits[i]))
    }

    /// Returns true if a generation, given its words, has all bits of the pattern.
    #[inline(always)]
    pub(crate) fn is_in<const W: usize>(&self, generation: impl Fn(usize) -> u64) -> bool {
        self.words::<W>().fold(0, |missing, (word, bits)| missing | bits & !generation(word)) == 0
    }
}

/// Odd constants without pattern: the fractional parts of the golden ratio and of square roots.
const ODD: [u64; WORDS] = [0x9e37_79b9_7f4a_7c15, 0xbb67_ae85_84ca_a73b, 0x3c6e_f372_fe94_f82b, 0xa54f_f53a_5f1d_36f1];

/// Returns one of the six pairs of words, by the low bits (the patterns are made of high ones).
#[inline(always)]
fn pair(mark: u64) -> [u8; 2] {
    const PAIRS: [[u8; 2]; 6] = [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]];
    PAIRS[(((mark & 0xffff_ffff) * 6) >> 32) as usize]
}

/// Returns `B` bits of a word, drawn with replacement.
#[inline(always)]
fn bits<const B: u32>(random: u64) -> u64 {
    let mut word = 0;
    for i in 1..=B {
        // (The highest bits that are left. A shift by a word takes its low six bits as they are.)
        word |= 1_u64.wrapping_shl(random.rotate_left(6 * i) as u32);
    }
    word
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use crate::digest::Digester;

    fn pattern<const W: usize, const B: u32>(digest: Digest) -> Pattern {
        let mut pattern = Pattern::NONE;
        pattern.set::<W, B>(digest);
        pattern
    }

    fn are_even<const W: usize, const B: u32>() {
        let digester = Digester::with_seed(11);
        let mut uses = [[0_u32; 64]; WORDS];
        for id in 0_u64..40_000 {
            let mut count = 0;
            pattern::<W, B>(digester.digest(id.to_le_bytes())).words::<W>().for_each(|(word, bits)| {
                count += 1;
                assert!((1..=B).contains(&bits.count_ones()));
                uses[word].iter_mut().enumerate().for_each(|(i, uses)| *uses += (bits >> i & 1) as u32);
            });
            assert_eq!(count, W);
        }
        // The probability of a bit, and six deviations around it.
        let p = (1.0 - (1.0 - 1.0 / 64.0_f64).powi(B as i32)) * W as f64 / WORDS as f64;
        let (mean, margin) = (40_000.0 * p, 6.0 * (40_000.0 * p * (1.0 - p)).sqrt());
        for count in uses.as_flattened() {
            assert!((f64::from(*count) - mean).abs() < margin, "{B} bits in each of {W} words: {count} of {mean}");
        }
    }

    #[test]
    fn patterns_have_their_shape_and_use_all_words_and_bits_evenly() {
        are_even::<2, 1>();
        are_even::<2, 5>();
        are_even::<4, 4>();
    }

    #[test]
    fn a_shape_calls_what_is_compiled_for_it() {
        fn called<const W: usize, const B: u32>() -> (usize, u32) {
            (W, B)
        }
        for (words, bits) in [2, WORDS].into_iter().flat_map(|words| (1..=8).map(move |bits| (words, bits))) {
            assert_eq!(for_shape!(Shape { words, bits }, called()), (words, bits));
        }
    }

    fn are_drawn<const B: u32>() {
        let random = 0x0123_4567_89ab_cdef_u64;
        let drawn = (0..B).map(|i| 1 << (random.rotate_left(6 * i) >> 58)).fold(0, |word: u64, bit: u64| word | bit);
        assert_eq!(bits::<B>(random), drawn, "{B}");
    }

    #[test]
    fn as_many_bits_are_drawn_as_are_asked_for() {
        are_drawn::<1>();
        are_drawn::<2>();
        are_drawn::<7>();
        are_drawn::<8>();
    }

    #[test]
    fn a_pattern_is_found_among_others_and_only_whole() {
        let pattern = pattern::<2, 4>(Digest::from(0x1234_5678_9abc_def0_u128 << 40));
        let mut words = [0x00ff_0000_ff00_00ff; WORDS];
        pattern.words::<2>().for_each(|(i, bits)| words[i] |= bits);
        assert!(pattern.is_in::<2>(|i| words[i]));
        pattern.words::<2>().for_each(|(i, bits)| {
            for bit in (0..64).filter(|bit| bits >> bit & 1 != 0) {
                assert!(!pattern.is_in::<2>(|j| if i == j { words[j] & !(1 << bit) } else { words[j] }));
            }
        });
    }
}
