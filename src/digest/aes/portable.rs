//! AES in plain Rust, by tables: for processors without the instructions, and for round keys.
//!
//! The places in a table that are read depend on the key and on the id. A program that shares the
//! processor's cache may see them in the timing.

#![allow(clippy::cast_possible_truncation, reason = "columns of a block are taken")]

use super::{Aes, Block};

/// The implementation in plain Rust.
#[derive(Clone, Copy)]
pub(in crate::digest) struct Portable;

/// The substitution box: the inverse in GF(2^8), and an affine map. Computed by walking through all
/// powers of a generator and of its inverse.
const SUBSTITUTES: [u8; 256] = {
    let mut substitutes = [0x63; 256];
    let (mut power, mut inverse) = (1_u8, 1_u8);
    loop {
        power ^= double(power);
        inverse ^= inverse << 1;
        inverse ^= inverse << 2;
        inverse ^= inverse << 4;
        if inverse & 0x80 != 0 {
            inverse ^= 0x09;
        }
        let i = inverse;
        let affine = i ^ i.rotate_left(1) ^ i.rotate_left(2) ^ i.rotate_left(3) ^ i.rotate_left(4);
        substitutes[power as usize] = affine ^ 0x63;
        if power == 1 {
            break substitutes;
        }
    }
};

/// The substitute of each byte, mixed into its column, for the first row; the other rows' are
/// rotations.
const MIXED: [u32; 256] = {
    let (mut mixed, mut i) = ([0; 256], 0);
    while i < 256 {
        let s = SUBSTITUTES[i];
        mixed[i] = u32::from_le_bytes([double(s), s, s, double(s) ^ s]);
        i += 1;
    }
    mixed
};

/// Returns twice a byte, in AES's field.
const fn double(byte: u8) -> u8 {
    byte << 1 ^ if byte & 0x80 == 0 { 0 } else { 0x1b }
}

/// Returns the round keys of AES-128.
pub(in crate::digest) fn expand(key: u128) -> [Block; 11] {
    let mut keys = [Block(key); 11];
    let (mut words, mut constant) = (columns(key), 1);
    for key in &mut keys[1..] {
        let mixed = u32::from_le_bytes(words[3].rotate_right(8).to_le_bytes().map(substitute));
        words[0] ^= mixed ^ u32::from(constant);
        (1..4).for_each(|i| words[i] ^= words[i - 1]);
        constant = double(constant);
        *key = Block(joined(words));
    }
    keys
}

impl Aes for Portable {
    fn encrypt(self, block: u128, first: &Block, rounds: &[Block; 10]) -> u128 {
        let [mixing @ .., last] = rounds;
        let block = mixing.iter().fold(block ^ first.0, round);
        last_round(block, last)
    }

    fn four_rounds(self, block: u128, [first, rounds @ ..]: &[Block; 5]) -> u128 {
        rounds.iter().fold(block ^ first.0, round)
    }
}

fn round(block: u128, key: &Block) -> u128 {
    let rows = columns(block).map(u32::to_le_bytes);
    // Row r of column c comes from column c + r.
    let column = |c: usize| {
        (0..4).fold(0, |mixed, r| mixed ^ MIXED[usize::from(rows[(c + r) % 4][r])].rotate_left(8 * r as u32))
    };
    joined(std::array::from_fn(column)) ^ key.0
}

/// Computes a round that does not mix columns.
fn last_round(block: u128, key: &Block) -> u128 {
    let rows = columns(block).map(u32::to_le_bytes);
    let column = |c: usize| u32::from_le_bytes(std::array::from_fn(|r| substitute(rows[(c + r) % 4][r])));
    joined(std::array::from_fn(column)) ^ key.0
}

fn substitute(byte: u8) -> u8 {
    SUBSTITUTES[usize::from(byte)]
}

fn columns(block: u128) -> [u32; 4] {
    std::array::from_fn(|c| (block >> (32 * c)) as u32)
}

fn joined(columns: [u32; 4]) -> u128 {
    columns.iter().rev().fold(0, |block, &column| block << 32 | u128::from(column))
}

/// Computes the end of an encryption.
#[cfg(test)]
pub(super) fn last_two(block: u128, ninth: Block, tenth: Block) -> u128 {
    last_round(round(block, &ninth), &tenth)
}
