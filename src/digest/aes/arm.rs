//! AES by the instructions that nearly all 64-bit ARM processors have.

use super::{Aes, Block};
use std::arch::aarch64::{uint8x16_t, vaeseq_u8, vaesmcq_u8, vdupq_n_u8};
use std::arch::is_aarch64_feature_detected;
use std::mem::transmute;

/// A proof that this processor has them.
#[derive(Clone, Copy)]
pub(in crate::digest) struct Hardware(());

impl Hardware {
    pub(in crate::digest) fn detect() -> Option<Self> {
        is_aarch64_feature_detected!("aes").then_some(Hardware(()))
    }
}

impl Aes for Hardware {
    #[inline(always)]
    fn encrypt(self, block: u128, first: &Block, rounds: &[Block; 10]) -> u128 {
        // SAFETY: there is a Hardware, so the instructions are there.
        unsafe { encrypt(block, first, rounds) }
    }

    #[inline(always)]
    fn four_rounds(self, block: u128, keys: &[Block; 5]) -> u128 {
        // SAFETY: there is a Hardware, so the instructions are there.
        unsafe { four_rounds(block, keys) }
    }
}

/// Encrypts a block. The instruction adds a key first, where the standard's rounds end with it.
#[target_feature(enable = "aes")]
#[inline]
fn encrypt(block: u128, first: &Block, rounds: &[Block; 10]) -> u128 {
    let [middle @ .., before, last] = rounds;
    let mut state = vaesmcq_u8(vaeseq_u8(vector(block), vector(first.0)));
    for key in middle {
        state = vaesmcq_u8(vaeseq_u8(state, vector(key.0)));
    }
    bits(vaeseq_u8(state, vector(before.0))) ^ last.0
}

#[target_feature(enable = "aes")]
#[inline]
fn four_rounds(block: u128, [first, rounds @ ..]: &[Block; 5]) -> u128 {
    let (mut state, zero) = (block ^ first.0, vdupq_n_u8(0));
    for key in rounds {
        state = bits(vaesmcq_u8(vaeseq_u8(vector(state), zero))) ^ key.0;
    }
    state
}

#[inline(always)]
fn vector(block: u128) -> uint8x16_t {
    // SAFETY: any bits are a vector. The lowest byte is the first one: it is little-endian.
    unsafe { transmute(block) }
}

#[inline(always)]
fn bits(vector: uint8x16_t) -> u128 {
    // SAFETY: any bits are an integer.
    unsafe { transmute(vector) }
}
