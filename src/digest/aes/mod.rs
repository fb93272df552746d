//! AES, as far as the digest needs it: by the processor's instructions where it has them, in plain
//! Rust elsewhere. Both give the same bits, so that one machine can read what another has written.
//!
//! Blocks are integers whose lowest byte is the standard's first byte (FIPS 197).

#[cfg(all(target_arch = "aarch64", target_endian = "little", not(miri)))]
#[path = "arm.rs"]
mod hardware;
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[path = "x86.rs"]
mod hardware;
mod portable;
#[cfg(any(miri, not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))))]
mod hardware {
    //! Hardware AES on other processors: none that we know how to detect.

    #[derive(Clone, Copy)]
    pub(in crate::digest) enum Hardware {}

    impl Hardware {
        pub(in crate::digest) fn detect() -> Option<Self> {
            None
        }
    }

    impl super::Aes for Hardware {
        fn encrypt(self, _: u128, _: &super::Block, _: &[super::Block; 10]) -> u128 {
            match self {}
        }

        fn four_rounds(self, _: u128, _: &[super::Block; 5]) -> u128 {
            match self {}
        }
    }
}

pub(super) use hardware::Hardware;
pub(super) use portable::{Portable, expand};

/// A round key. The processor wants it aligned.
#[derive(Clone, Copy, Default)]
#[repr(C, align(16))]
pub(super) struct Block(pub(super) u128);

/// An implementation of AES.
pub(super) trait Aes: Copy {
    /// Encrypts with AES-128, given the first round key and the other ten.
    fn encrypt(self, block: u128, first: &Block, rounds: &[Block; 10]) -> u128;

    /// Adds a key, then does four full rounds.
    fn four_rounds(self, block: u128, keys: &[Block; 5]) -> u128;
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// FIPS 197, appendix B and C.1.
    const VECTORS: [(u128, u128, u128); 2] = [
        (
            0x2b7e1516_28aed2a6_abf71588_09cf4f3c,
            0x3243f6a8_885a308d_313198a2_e0370734,
            0x3925841d_02dc09fb_dc118597_196a0b32,
        ),
        (
            0x00010203_04050607_08090a0b_0c0d0e0f,
            0x00112233_44556677_8899aabb_ccddeeff,
            0x69c4e0d8_6a7b0430_d8cdb780_70b4c55a,
        ),
    ];

    fn encrypted(aes: impl Aes, key: u128, block: u128) -> u128 {
        let [first, rounds @ ..] = expand(key);
        aes.encrypt(block, &first, &rounds)
    }

    #[test]
    fn it_is_aes_128() {
        for (key, plain, cipher) in VECTORS {
            let (key, plain, cipher) = (key.swap_bytes(), plain.swap_bytes(), cipher.swap_bytes());
            assert_eq!(encrypted(Portable, key, plain), cipher);
            if let Some(aes) = Hardware::detect() {
                assert_eq!(encrypted(aes, key, plain), cipher);
            }
        }
    }

    #[test]
    fn four_rounds_are_the_middle_of_it() {
        // Ten rounds are four, four, one, and one without mixing: of these the first two are by our
        // function.
        let [first, rounds @ ..] = expand(7);
        let four = |block, keys: [Block; 5]| Portable.four_rounds(block, &keys);
        let [k1, k2, k3, k4, k5, k6, k7, k8, ..] = rounds;
        let eight = four(four(9, [first, k1, k2, k3, k4]), [Block(0), k5, k6, k7, k8]);
        let undone = portable::last_two(eight, rounds[8], rounds[9]);
        assert_eq!(undone, Portable.encrypt(9, &first, &rounds));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 2_000 }))]

        #[test]
        fn the_processor_and_plain_rust_agree(keys: [u128; 5], block: u128) {
            if let Some(aes) = Hardware::detect() {
                prop_assert_eq!(encrypted(aes, keys[0], block), encrypted(Portable, keys[0], block));
                let keys = keys.map(Block);
                prop_assert_eq!(aes.four_rounds(block, &keys), Portable.four_rounds(block, &keys));
            }
        }
    }
}
