//! Pairs of ids of more than 240 bytes that collide under XXH3-128 for one seed in
//! fifty.
//!
//! Of each stripe of eight words d it adds `lo32(d ^ k) * hi32(d ^ k)` to one of eight sums, and d
//! to its neighbour. The keys k are known words plus the seed (those at even places) or minus it.
//! Flip one high bit in two words of one sum, in opposite directions: the neighbour's sum does not
//! change, and this one does not if both words' low halves are equal after the keys are added and
//! both high bits of the keys are. That takes `lo32(d1 ^ d2) == lo32(k1 ^ k2)`, which has a most
//! frequent value.

use super::Random;
use xxhash_rust::const_xxh3::const_custom_default_secret;

/// Bytes in a stripe.
const STRIPE: usize = 64;

/// Two words of an id that go into one sum.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    stripes: [usize; 2],
    lane: usize,
}

impl Words {
    /// Chooses two words of an id of this many bytes to whose keys the seed is added with the same
    /// sign.
    pub fn any(len: usize, random: &mut Random) -> Self {
        // Neither the last stripe, whose key is another, nor what comes after the first block.
        let stripes = ((len - 1) / STRIPE).min(16);
        let (first, lane) = (random.below(stripes - 2), random.below(8));
        let other = first + 2 * (1 + random.below((stripes - 1 - first) / 2));
        Words { stripes: [first, other], lane }
    }

    /// Returns the offsets of the words in the id.
    fn offsets(self) -> [usize; 2] {
        self.stripes.map(|stripe| STRIPE * stripe + 8 * self.lane)
    }

    /// Returns the bits in which their keys differ, under a seed.
    pub fn key_difference(self, seed: u64) -> u64 {
        let [one, other] = self.stripes.map(|stripe| key(stripe + self.lane, seed));
        one ^ other
    }

    /// Makes a pair of an id and room for the other one: they collide if the keys' low halves
    /// differ by this, and their bits `32 + bit` do not.
    pub fn pair(self, id: &mut [u8], other: &mut [u8], difference: u32, bit: u32) {
        let [one, two] = self.offsets();
        let mask = 1 << (32 + bit);
        let first = word(id, one) & !mask;
        let second = (word(id, two) & !u64::from(u32::MAX)) | u64::from(first as u32 ^ difference) | mask;
        put(id, one, first);
        put(id, two, second);
        other.copy_from_slice(id);
        put(other, one, first | mask);
        put(other, two, second & !mask);
    }
}

/// The parts that a pair is made of.
#[derive(Clone, Copy)]
pub struct Likely {
    words: Words,
    difference: u32,
    bit: u32,
}

impl Likely {
    /// Chooses, for an id of `len` bytes, the words whose keys have few differences, and the
    /// difference that a random seed makes, so that frequent ones come often.
    pub fn of(len: usize, is_text: bool, random: &mut Random) -> Self {
        let words = Words { stripes: [0, if len > 13 * STRIPE { 12 } else { 2 }], lane: 0 };
        // What is left of text has no highest bits.
        let leaves = |difference: &u32| !is_text || difference & 0x8080_8080 == 0;
        let mut drawn = (0..1_000).map(|_| words.key_difference(random.next()) as u32);
        let difference = drawn.find(leaves).unwrap_or(0);
        // The known words agree there, and nothing is carried into one of them only, mostly.
        let [one, two] = words.stripes.map(|stripe| key(stripe, 0));
        let agree = (0..31).filter(|bit| (one ^ two) >> (32 + bit) & 1 == 0 && (!is_text || bit % 8 != 7));
        let agree: Vec<u32> = agree.collect();
        Likely { words, difference, bit: agree[random.below(agree.len())] }
    }

    /// Makes a pair of ids, of bytes or of text.
    pub fn pair(self, id: &mut [u8], other: &mut [u8], is_text: bool, random: &mut Random) {
        let Likely { words, difference, bit } = self;
        let [one, two] = words.offsets();
        if is_text {
            id.iter_mut().for_each(|byte| *byte = b' ' + *byte % 95);
        }
        for _ in 0..1_000 {
            words.pair(id, other, difference, bit);
            let is_printable = |id: &[u8]| {
                let mut chosen = id[one..one + 8].iter().chain(&id[two..two + 8]);
                chosen.all(|byte| (b' '..=b'~').contains(byte))
            };
            if !is_text || (is_printable(id) && is_printable(other)) {
                return;
            }
            [one, two].into_iter().flat_map(|at| at..at + 8).for_each(|at| id[at] = b' ' + random.below(95) as u8);
        }
    }
}

/// Returns a word of the key.
fn key(place: usize, seed: u64) -> u64 {
    const WITHOUT_SEED: [u8; 192] = const_custom_default_secret(0);
    let known = word(&WITHOUT_SEED, 8 * place);
    if place.is_multiple_of(2) { known.wrapping_add(seed) } else { known.wrapping_sub(seed) }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn put(bytes: &mut [u8], at: usize, word: u64) {
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
}
