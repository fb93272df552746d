//! AES by the instructions that x86-64 processors have since 2010.

use super::{Aes, Block};
use std::arch::asm;
use std::arch::x86_64::__m128i;
use std::mem::transmute;

/// A proof that this processor has them.
#[derive(Clone, Copy)]
pub(in crate::digest) struct Hardware(());

impl Hardware {
    pub(in crate::digest) fn detect() -> Option<Self> {
        is_x86_feature_detected!("aes").then_some(Hardware(()))
    }
}

// Assembly, since a function that may use these instructions can be inlined only into functions
// that may use them, too, and callers are compiled for any processor.
impl Aes for Hardware {
    #[inline(always)]
    fn encrypt(self, block: u128, first: &Block, rounds: &[Block; 10]) -> u128 {
        // SAFETY: any bits are a vector, and the other way round.
        let mut state: __m128i = unsafe { transmute(block) };
        // SAFETY: there is a Hardware, so the instructions are there. They read 16 bytes of `first`
        // and 160 of `rounds`, both aligned by the type, and write nothing but `state`.
        unsafe {
            asm!(
                "pxor {state}, [{first}]",
                "aesenc {state}, [{rounds}]",
                "aesenc {state}, [{rounds} + 16]",
                "aesenc {state}, [{rounds} + 32]",
                "aesenc {state}, [{rounds} + 48]",
                "aesenc {state}, [{rounds} + 64]",
                "aesenc {state}, [{rounds} + 80]",
                "aesenc {state}, [{rounds} + 96]",
                "aesenc {state}, [{rounds} + 112]",
                "aesenc {state}, [{rounds} + 128]",
                "aesenclast {state}, [{rounds} + 144]",
                state = inout(xmm_reg) state,
                first = in(reg) first,
                rounds = in(reg) rounds.as_ptr(),
                options(pure, readonly, nostack, preserves_flags),
            );
            transmute(state)
        }
    }

    #[inline(always)]
    fn four_rounds(self, block: u128, keys: &[Block; 5]) -> u128 {
        // SAFETY: any bits are a vector, and the other way round.
        let mut state: __m128i = unsafe { transmute(block) };
        // SAFETY: there is a Hardware, so the instructions are there. They read 80 bytes of `keys`,
        // aligned by the type, and write nothing but `state`.
        unsafe {
            asm!(
                "pxor {state}, [{keys}]",
                "aesenc {state}, [{keys} + 16]",
                "aesenc {state}, [{keys} + 32]",
                "aesenc {state}, [{keys} + 48]",
                "aesenc {state}, [{keys} + 64]",
                state = inout(xmm_reg) state,
                keys = in(reg) keys.as_ptr(),
                options(pure, readonly, nostack, preserves_flags),
            );
            transmute(state)
        }
    }
}
