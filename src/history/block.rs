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
    pub(super) bits: [u64; WORDS],
    /// The numbers of these words, if there are two.
    pub(super) pair: [u8; 2],
}

impl Pattern {
    pub(crate) const NONE: Self = Pattern { bits: [0; WORDS], pair: [0; 2] };

    /// Sets this to the pattern of a digest. (Set, so that two words are not written as four.)
    #[inline(always)]
    pub(crate) fn set<const W: usize, const B: u32>(&mut self, digest: Digest) {
        let lanes = lanes(digest);
        for (i, bits) in self.bits.iter_mut().enumerate().take(W) {
            *bits = bits_of::<W, B>(&lanes, i);
        }
        if W < WORDS {
            self.pair = PAIRS[pair(digest)];
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

/// The factors of the four lanes: the fractional parts of the golden ratio and of the square roots
/// of 3, 2 and 7, which are odd numbers without pattern.
pub(super) const FACTORS: [u32; WORDS] = [0x9e37_79b9, 0xbb67_ae85, 0x6a09_e667, 0xa54f_f53b];

/// The bytes by which the halves of a digest are rotated to the right, in each of the lanes.
pub(super) const ROTATIONS: [u32; WORDS] = [2, 2, 5, 5];

/// The bytes of a lane, the best first: the middle of a product has something of all its factors'
/// bits.
pub(super) const BYTES: [u32; 8] = [4, 3, 5, 2, 6, 1, 0, 7];

/// The pairs of words.
pub(super) const PAIRS: [[u8; 2]; 6] = [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]];

/// Returns the random bytes that bits are drawn by: six bits of each.
///
/// Block numbers are made of the high bits of `place`; its low half, and all of `mark`, are free.
/// Each byte is one of those twelve, combined with one of a product, so that those that have the
/// same of the twelve differ. (By vectors, all of this is four instructions.)
#[inline(always)]
fn lanes(Digest { mark, place }: Digest) -> [u64; WORDS] {
    let free = [mark, place << 32 | mark >> 32];
    std::array::from_fn(|lane| {
        let product = u64::from([mark, place][lane % 2] as u32) * u64::from(FACTORS[lane]);
        product ^ free[lane % 2].rotate_right(8 * ROTATIONS[lane])
    })
}

/// Returns the number of one of the six pairs of words, by the high bits of a byte that no pattern
/// of two words has.
#[inline(always)]
pub(super) fn pair(digest: Digest) -> usize {
    (((digest.mark & 0xffff_ffff) * PAIRS.len() as u64) >> 32) as usize
}

/// Returns the bits of a pattern's word: `B` of them, drawn with replacement. If the pattern has
/// two words, each has two lanes, in turn.
#[inline(always)]
fn bits_of<const W: usize, const B: u32>(lanes: &[u64; WORDS], i: usize) -> u64 {
    let turns = WORDS / W;
    let mut word = 0;
    for draw in 0..B as usize {
        let byte = lanes[i + W * (draw % turns)] >> (8 * BYTES[draw / turns]);
        // (A shift by a word takes its low six bits as they are.)
        word |= 1_u64.wrapping_shl(byte as u32);
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
