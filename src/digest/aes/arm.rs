//! AES by the instructions that nearly all 64-bit ARM processors have.

use super::{Aes, Block};
use std::arch::aarch64::uint8x16_t;
use std::arch::{asm, is_aarch64_feature_detected};
use std::mem::transmute;

/// A proof that this processor has them.
#[derive(Clone, Copy)]
pub(in crate::digest) struct Hardware(());

impl Hardware {
    pub(in crate::digest) fn detect() -> Option<Self> {
        is_aarch64_feature_detected!("aes").then_some(Hardware(()))
    }
}

// Assembly, as on x86. The instruction adds a key first, where the standard's rounds end with it;
// processors do it and the mixing of columns behind it as one.
impl Aes for Hardware {
    #[inline(always)]
    fn encrypt(self, block: u128, first: &Block, rounds: &[Block; 10]) -> u128 {
        let [k1, k2, k3, k4, k5, k6, k7, k8, k9, last] = rounds;
        let mut state = vector(block);
        // SAFETY: there is a Hardware, so the instructions are there. They write nothing but
        // `state`.
        unsafe {
            asm!(
                ".arch_extension aes",
                "aese {state:v}.16b, {k0:v}.16b",
                "aesmc {state:v}.16b, {state:v}.16b",
                "aese {state:v}.16b, {k1:v}.16b",
                "aesmc {state:v}.16b, {state:v}.16b",
                "aese {state:v}.16b, {k2:v}.16b",
                "aesmc {state:v}.16b, {state:v}.16b",
                "aese {state:v}.16b, {k3:v}.16b",
                "aesmc {state:v}.16b, {state:v}.16b",
                "aese {state:v}.16b, {k4:v}.16b",
                "aesmc {state:v}.16b, {state:v}.16b",
                "aese {state:v}.16b, {k5:v}.16b",
                "aesmc {state:v}.16b, {state:v}.16b",
                "aese {state:v}.16b, {k6:v}.16b",
                "aesmc {state:v}.16b, {state:v}.16b",
                "aese {state:v}.16b, {k7:v}.16b",
                "aesmc {state:v}.16b, {state:v}.16b",
                "aese {state:v}.16b, {k8:v}.16b",
                "aesmc {state:v}.16b, {state:v}.16b",
                "aese {state:v}.16b, {k9:v}.16b",
                "eor {state:v}.16b, {state:v}.16b, {last:v}.16b",
                state = inout(vreg) state,
                k0 = in(vreg) vector(first.0),
                k1 = in(vreg) vector(k1.0),
                k2 = in(vreg) vector(k2.0),
                k3 = in(vreg) vector(k3.0),
                k4 = in(vreg) vector(k4.0),
                k5 = in(vreg) vector(k5.0),
                k6 = in(vreg) vector(k6.0),
                k7 = in(vreg) vector(k7.0),
                k8 = in(vreg) vector(k8.0),
                k9 = in(vreg) vector(k9.0),
                last = in(vreg) vector(last.0),
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        bits(state)
    }

    #[inline(always)]
    fn four_rounds(self, block: u128, [k0, k1, k2, k3, last]: &[Block; 5]) -> u128 {
        let mut state = vector(block);
        // SAFETY: there is a Hardware, so the instructions are there. They write nothing but
        // `state`.
        unsafe {
            asm!(
                ".arch_extension aes",
                "aese {state:v}.16b, {k0:v}.16b",
                "aesmc {state:v}.16b, {state:v}.16b",
                "aese {state:v}.16b, {k1:v}.16b",
                "aesmc {state:v}.16b, {state:v}.16b",
                "aese {state:v}.16b, {k2:v}.16b",
                "aesmc {state:v}.16b, {state:v}.16b",
                "aese {state:v}.16b, {k3:v}.16b",
                "aesmc {state:v}.16b, {state:v}.16b",
                "eor {state:v}.16b, {state:v}.16b, {last:v}.16b",
                state = inout(vreg) state,
                k0 = in(vreg) vector(k0.0),
                k1 = in(vreg) vector(k1.0),
                k2 = in(vreg) vector(k2.0),
                k3 = in(vreg) vector(k3.0),
                last = in(vreg) vector(last.0),
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        bits(state)
    }
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
