//! AES by the instructions that x86-64 processors have since 2010.

use super::{Aes, Block};
use std::arch::asm;
use std::arch::x86_64::{__m128i, _mm_xor_si128};
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
        let mut state = added(block, first);
        // SAFETY: there is a Hardware, so the instructions are there. They read 160 bytes of
        // `rounds`, aligned by the type, and write nothing but `state`.
        unsafe {
            asm!(
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
                rounds = in(reg) rounds.as_ptr(),
                options(pure, readonly, nostack, preserves_flags),
            );
            transmute(state)
        }
    }

    #[inline(always)]
    fn four_rounds(self, block: u128, keys: &[Block; 5]) -> u128 {
        let [first, rounds @ ..] = keys;
        let mut state = added(block, first);
        // SAFETY: there is a Hardware, so the instructions are there. They read 64 bytes of
        // `rounds`, aligned by the type, and write nothing but `state`.
        unsafe {
            asm!(
                "aesenc {state}, [{rounds}]",
                "aesenc {state}, [{rounds} + 16]",
                "aesenc {state}, [{rounds} + 32]",
                "aesenc {state}, [{rounds} + 48]",
                state = inout(xmm_reg) state,
                rounds = in(reg) rounds.as_ptr(),
                options(pure, readonly, nostack, preserves_flags),
            );
            transmute(state)
        }
    }
}

/// Adds a key to a block. (Not in the assembly: so it is found from the register that has the
/// address of those that follow.)
#[inline(always)]
fn added(block: u128, key: &Block) -> __m128i {
    let vector = |bits: u128| {
        // SAFETY: any bits are a vector.
        unsafe { transmute::<u128, __m128i>(bits) }
    };
    // SAFETY: every x86-64 processor has SSE2.
    unsafe { _mm_xor_si128(vector(block), vector(key.0)) }
}
