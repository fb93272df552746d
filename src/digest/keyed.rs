//! The keyed function: a universal hash of the id, closed by a permutation.
//!
//! ```text
//! up to 15 bytes   AES(the bytes, and their number)
//! 16 bytes         AES'(the bytes)
//! 17 to 79         AES(R0(bytes 0..16) ^ R1(bytes 16..32) ^ …
//!                      ^ (the number of bytes, and the last 15))
//! 80 and more      AES(AES''(bytes 0..12, 0) ^ AES''(bytes 12..24, 1) ^ …
//!                      ^ (the rest's number, and the last 15))
//! ```
//!
//! AES, AES' and AES'' are AES-128 under one key, with different secrets added to the block; R0 to
//! R3 are four of its rounds, each under five keys of its own. All follow from 128 secret bits, by
//! AES-128 in counter mode.
//!
//! # Resistance to chosen ids that collide
//!
//! Take the round keys and secrets to be random, which costs AES's own advantage as a block cipher,
//! once for the key that they follow from and once for theirs. Blocks that differ by a secret are
//! then as good as blocks of independent permutations (the construction XE; Rogaway, Asiacrypt
//! 2004). Two ids have one digest if what is given to the last permutation is equal:
//!
//! - Both have up to 15 bytes: never; it says what they are. Both have 16: never.
//! - Both have 17 to 79 bytes. If they are as long and differ in a part that a function Ri takes,
//!   then Ri's outputs differ by what is left with a probability of at most 2^-113: no difference
//!   of two inputs becomes a given one through four rounds with independent keys more often
//!   (Keliher and Sui, IET Information Security 2007). If one of them is longer by a part, that
//!   part's output is uniform: 2^-128. If all parts are equal, then the ends differ: never.
//! - One of them has 80 or more: some block of one is not among the other's, since blocks are
//!   counted, or only the ends differ. So a value of a random permutation is needed that was
//!   never asked for: at most 2^-127. (This is LightMAC: Luykx, Preneel, Tischhauser and Yasuda,
//!   FSE 2016. Its bound does not grow with the length of ids.)
//!
//! So the digests of q ids, of s blocks of 16 bytes altogether, cannot be told from random numbers
//! with an advantage above q² 2^-113 + 6 s² 2^-128, beside AES's own: below 2^-32 for 2^40 ids.
//! This holds for ids that are chosen one after another by an attacker that sees every digest. The
//! answers of an engine show less: which ids are fresh, and what the history guesses.
//!
//! It does not say how often digests collide in the bits that a tier keeps; the window's and the
//! history's documentation does. Nor does it hold against somebody who has the key.

use super::aes::{Aes, Block, Portable, expand};

/// The number of parts of 16 bytes that are hashed by four rounds each.
const PARTS: usize = 4;

/// The length from which on ids are hashed by counted blocks.
const LONG: usize = 16 * PARTS + 16;

/// The number of a counted block's bytes that are the id's.
const COUNTED: usize = 12;

/// The size of the last part: all but one of its bytes.
const LAST: usize = 15;

/// All round keys, which follow from the key.
#[derive(Clone)]
#[repr(align(64))]
pub(super) struct Keys {
    /// The ten last round keys of AES; the first one has a secret added, which depends on its
    /// purpose.
    rounds: [Block; 10],
    /// The key for the end of a digest, and for short ids.
    ending: Block,
    /// The key for ids of 16 bytes.
    whole: Block,
    /// The key for counted blocks.
    counted: Block,
    parts: [[Block; 5]; PARTS],
}

impl Keys {
    pub(super) fn new(key: u128) -> Self {
        let master = Cipher::new(key);
        let derived = |number: usize| master.encrypt(number as u128);
        let [first, rounds @ ..] = expand(derived(0));
        let [ending, whole, counted] = [1, 2, 3].map(|number| Block(first.0 ^ derived(number)));
        let part = |part: usize| std::array::from_fn(|key| Block(derived(4 + 5 * part + key)));
        Keys { rounds, ending, whole, counted, parts: std::array::from_fn(part) }
    }

    pub(super) fn digest_portably(&self, id: &[u8]) -> u128 {
        self.digest_by(Portable, id)
    }

    /// Returns the digest of an id. Inlined down to the switch on the length: where the type fixes
    /// it ([u8; 8], [u8; 16]), only AES is left.
    #[inline(always)]
    pub(super) fn digest_by(&self, aes: impl Aes, id: &[u8]) -> u128 {
        match id.len() {
            16 => aes.encrypt(u128_at(id, 0), &self.whole, &self.rounds),
            0..16 => aes.encrypt(padded(id), &self.ending, &self.rounds),
            17..LONG => self.digest_parts(aes, id),
            LONG.. => self.digest_long(aes, id),
        }
    }

    #[inline(never)]
    fn digest_parts(&self, aes: impl Aes, id: &[u8]) -> u128 {
        debug_assert!((17..LONG).contains(&id.len()));
        // As many parts as leave 15 bytes or fewer: bytes that are read twice do no harm.
        let parts = self.parts.iter().enumerate().take(id.len() / 16);
        let hashed = parts.fold(0, |sum, (i, keys)| sum ^ aes.four_rounds(u128_at(id, 16 * i), keys));
        aes.encrypt(hashed ^ ended(id, id.len()), &self.ending, &self.rounds)
    }

    #[inline(never)]
    fn digest_long(&self, aes: impl Aes, id: &[u8]) -> u128 {
        debug_assert!(id.len() >= LONG);
        // As many blocks as leave 15 bytes or fewer, and four or more.
        let blocks = (id.len() - LAST).div_ceil(COUNTED);
        // The counter has 32 bits: ids of more than 48 GiB are not covered; they do not occur.
        let counted = |i: usize| {
            let block = u128_at(id, COUNTED * i) & ((1 << (8 * COUNTED)) - 1) | (i as u128) << (8 * COUNTED);
            aes.encrypt(block, &self.counted, &self.rounds)
        };
        let hashed = (0..blocks).fold(0, |sum, i| sum ^ counted(i));
        aes.encrypt(hashed ^ ended(id, id.len() - COUNTED * blocks), &self.ending, &self.rounds)
    }
}

/// AES-128, whatever the processor is.
pub(super) struct Cipher([Block; 11]);

impl Cipher {
    pub(super) fn new(key: u128) -> Self {
        Cipher(expand(key))
    }

    pub(super) fn encrypt(&self, block: u128) -> u128 {
        let [first, rounds @ ..] = &self.0;
        Portable.encrypt(block, first, rounds)
    }
}

/// Returns up to 15 bytes and their number, as one block.
#[inline(always)]
fn padded(id: &[u8]) -> u128 {
    let len = id.len();
    debug_assert!(len <= LAST);
    let bytes = match len {
        8 => u128::from(u64_at(id, 0)),
        // Two numbers that overlap agree where they do.
        9.. => u128::from(u64_at(id, 0)) | u128::from(u64_at(id, len - 8)) << (8 * (len - 8)),
        4.. => u128::from(u64::from(u32_at(id, 0)) | u64::from(u32_at(id, len - 4)) << (8 * (len - 4))),
        1.. => {
            let byte = |at: usize| u64::from(id[at]) << (8 * at);
            u128::from(byte(0) | byte(len / 2) | byte(len - 1))
        }
        0 => 0,
    };
    bytes | (len as u128) << 120
}

/// Returns the last 15 bytes of 16 or more, and a number that says how they belong to the rest.
#[inline(always)]
fn ended(id: &[u8], number: usize) -> u128 {
    debug_assert!(number <= 0xff);
    u128_at(id, id.len() - 16) & !0xff | number as u128
}

#[inline(always)]
fn u128_at(id: &[u8], at: usize) -> u128 {
    u128::from_le_bytes(bytes_at(id, at))
}

#[inline(always)]
fn u64_at(id: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes_at(id, at))
}

#[inline(always)]
fn u32_at(id: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes_at(id, at))
}

#[inline(always)]
fn bytes_at<const N: usize>(id: &[u8], at: usize) -> [u8; N] {
    id[at..at + N].try_into().expect("a range of N bytes")
}
