//! The bits of a block with AVX2: all words are computed and compared at once. Same results as
//! [`Pattern`]'s.
//!
//! The unsafe part of the history.

use super::block::{BYTES, FACTORS, PAIRS, Pattern, ROTATIONS, Shape, WORDS, pair};
use crate::digest::Digest;
use crate::sync::AtomicU64;
use crate::window::Avx2;
use std::arch::x86_64::*;
use std::array::from_fn;

/// The draws of a shape's bits, four at a time.
pub(super) struct Draws {
    /// A bit for each lane that draws any: of two words with a bit each, the first two do.
    one: [u64; WORDS],
    /// For each draw the place of its byte in each lane, and seven bytes that are 0.
    bytes: [[u64; WORDS]; 8],
}

impl Draws {
    /// Returns those of a shape. After the last draw, bits are drawn that there are already.
    pub(super) fn of(shape: Shape) -> Self {
        let turns = WORDS / shape.words;
        // (Two words have two lanes each, the second of which has a bit less if they are odd.)
        let bits = |lane: usize| (shape.bits as usize + turns - 1 - lane / shape.words) / turns;
        let byte = |draw: usize, lane: usize| {
            let byte = BYTES[if draw < bits(lane) { draw } else { 0 }];
            0x8080_8080_8080_8000 | (u64::from(byte) + 8 * (lane as u64 % 2))
        };
        Draws {
            one: from_fn(|lane| u64::from(bits(lane) > 0)),
            bytes: from_fn(|draw| from_fn(|lane| byte(draw, lane))),
        }
    }
}

/// Sets a pattern to that of a digest; returns true if a generation of its block has it. `draws`
/// are those of a shape of `W` words and up to `B` bits.
///
/// The words are read as if by relaxed loads in some order. (Without an attribute, since a function
/// that has one cannot be inlined always.)
#[inline(always)]
pub(super) fn look<const W: usize, const B: u32>(
    _: Avx2,
    draws: &Draws,
    block: &[[AtomicU64; WORDS]; 2],
    digest: &Digest,
    pattern: &mut Pattern,
) -> bool {
    // SAFETY: the proof exists only if the processor has AVX2. There is room for what is written:
    // two of four words, or all.
    unsafe {
        let lanes = lanes(digest);
        let one = vector(&draws.one);
        let mut bits = _mm256_setzero_si256();
        for draw in &draws.bytes[..(B as usize * W).div_ceil(WORDS)] {
            let drawn = _mm256_shuffle_epi8(lanes, vector(draw));
            bits = _mm256_or_si256(bits, _mm256_sllv_epi64(one, drawn));
        }
        let to = pattern.bits.as_mut_ptr();
        let bits = if W == WORDS {
            _mm256_storeu_si256(to.cast(), bits);
            bits
        } else {
            let bits = _mm_or_si128(_mm256_castsi256_si128(bits), _mm256_extracti128_si256::<1>(bits));
            _mm_storeu_si128(to.cast(), bits);
            let pair = pair(*digest);
            pattern.pair = PAIRS[pair];
            spread(bits, pair)
        };
        is_in(block, bits)
    }
}

/// Returns the random bytes that bits are drawn by; of each, only the six bits that count.
#[inline]
#[target_feature(enable = "avx2")]
fn lanes(digest: &Digest) -> __m256i {
    // SAFETY: a digest has 16 bytes: `mark`, then `place`.
    let halves = unsafe { _mm_loadu_si128(std::ptr::from_ref(digest).cast()) };
    let halves = _mm256_broadcastsi128_si256(halves);
    let product = _mm256_mul_epu32(halves, vector(const { &FACTORS_64 }));
    let rotated = _mm256_shuffle_epi8(halves, vector(const { &rotations() }));
    _mm256_and_si256(_mm256_xor_si256(product, rotated), _mm256_set1_epi8(0x3f))
}

/// The factors, in the lanes.
const FACTORS_64: [u64; WORDS] = [FACTORS[0] as u64, FACTORS[1] as u64, FACTORS[2] as u64, FACTORS[3] as u64];

/// Returns where each byte of the rotated halves is among the sixteen of a digest.
const fn rotations() -> [u64; WORDS] {
    let mut lanes = [0; WORDS];
    let mut i = 0;
    while i < 8 * WORDS {
        let (lane, byte) = (i / 8, i % 8);
        // The second half begins in the middle of `mark`.
        let at = (byte + ROTATIONS[lane] as usize) % 8 + 4 * (lane % 2);
        lanes[lane] |= (at as u64) << (8 * byte);
        i += 1;
    }
    lanes
}

/// The places that the halves of a generation's words come from, by the pair that has bits: two
/// words, and two that are 0.
// (A constant, which is copied to where it is used: nothing must be loaded to find it.)
const SPREAD: &[[u32; 2 * WORDS]; PAIRS.len()] = &{
    let mut spread = [[4; 2 * WORDS]; PAIRS.len()];
    let mut pair = 0;
    while pair < PAIRS.len() {
        let [first, second] = PAIRS[pair];
        let [first, second] = [2 * first as usize, 2 * second as usize];
        [spread[pair][first], spread[pair][first + 1]] = [0, 1];
        [spread[pair][second], spread[pair][second + 1]] = [2, 3];
        pair += 1;
    }
    spread
};

/// Returns words spread over a generation.
#[inline]
#[target_feature(enable = "avx2")]
fn spread(words: __m128i, pair: usize) -> __m256i {
    let from = &SPREAD[pair];
    // SAFETY: there are 32 bytes.
    let from = unsafe { _mm256_loadu_si256(from.as_ptr().cast()) };
    _mm256_permutevar8x32_epi32(_mm256_zextsi128_si256(words), from)
}

/// Returns true if one of the generations has all of these bits.
#[inline]
#[target_feature(enable = "avx2")]
fn is_in(block: &[[AtomicU64; WORDS]; 2], bits: __m256i) -> bool {
    let (first, second): (u8, u8);
    // SAFETY: the reference makes the 64 bytes readable. Other threads may write during the read,
    // so it must not be a plain load; inside `asm!` it may be what the hardware does: every aligned
    // 8-byte lane of a vector load is read in one piece on all processors with AVX2 (it stays
    // within a cache line), which is what eight relaxed loads promise. (`vptest` sets the carry if
    // no bit is missing.)
    unsafe {
        std::arch::asm!(
            "vmovdqu {words}, [{block}]",
            "vptest {words}, {bits}",
            "setc {first}",
            "vmovdqu {words}, [{block} + 32]",
            "vptest {words}, {bits}",
            "setc {second}",
            block = in(reg) block,
            bits = in(ymm_reg) bits,
            words = out(ymm_reg) _,
            first = out(reg_byte) first,
            second = out(reg_byte) second,
            options(readonly, nostack),
        );
    }
    first | second != 0
}

#[inline]
#[target_feature(enable = "avx2")]
fn vector(lanes: &[u64; WORDS]) -> __m256i {
    // SAFETY: there are 32 bytes.
    unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) }
}

#[cfg(test)]
mod tests {
    use super::super::block::for_shape;
    use super::*;
    use proptest::prelude::*;

    #[repr(align(64))]
    struct Block([[AtomicU64; WORDS]; 2]);

    /// Compares both ways, in a block that lacks some of the pattern's bits in each generation.
    fn agree<const W: usize, const B: u32>(avx2: Avx2, digest: Digest, others: [[u64; WORDS]; 2], lacking: [u64; 2]) {
        let mut expected = Pattern::NONE;
        expected.set::<W, B>(digest);
        let mut words = others;
        for (generation, lacking) in words.iter_mut().zip(lacking) {
            expected.words::<W>().for_each(|(word, bits)| generation[word] |= bits & !lacking);
        }
        let block = Block(words.map(|generation| generation.map(AtomicU64::new)));
        let mut pattern = Pattern::NONE;
        let draws = &Draws::of(Shape { words: W, bits: B });
        let seen = look::<W, B>(avx2, draws, &block.0, &digest, &mut pattern);
        assert_eq!(pattern, expected, "{W} words, {B} bits");
        // More draws change nothing.
        let again = look::<W, 8>(avx2, draws, &block.0, &digest, &mut pattern);
        assert_eq!((pattern, again), (expected, seen), "{W} words, {B} bits");
        assert_eq!(seen, words.iter().any(|words| expected.is_in::<W>(|word| words[word])), "{words:x?}");
    }

    proptest! {
        #[test]
        fn vectors_agree_with_plain_code(
            digest: u128,
            others: [[u64; WORDS]; 2],
            lacking in prop::array::uniform2(prop_oneof![Just(0), Just(u64::MAX), (0..64).prop_map(|bit| 1_u64 << bit)]),
        ) {
            let Some(avx2) = Avx2::detect() else { return Ok(()) };
            // Few bits by chance: those of the pattern decide.
            let others = from_fn(|i| from_fn(|word| others[i][word] & others[i][(word + 1) % WORDS]));
            for (words, bits) in [2, WORDS].into_iter().flat_map(|words| (1..=8).map(move |bits| (words, bits))) {
                for_shape!(Shape { words, bits }, agree(avx2, digest.into(), others, lacking));
            }
        }
    }
}
