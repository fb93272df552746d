//! From an id's bytes to the 128 bits that the tiers work with.

use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

/// The keyed 128-bit digest of an id: all that the tiers ever see of it.
///
/// ```
/// use hapax::Digester;
///
/// let digester = Digester::with_seed(7);
/// assert_eq!(digester.digest("a"), digester.digest(b"a"));
/// assert_ne!(digester.digest("a"), Digester::with_seed(8).digest("a"));
/// ```
///
/// One half says where an id lives (which line of the window, which block of the history), the other tells it from its
/// neighbours there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest {
    /// Spread over the whole range: scaled to a number of lines or blocks.
    pub(crate) place: u64,
    /// Independent of `place`: the tag in the window, the bits in the history.
    pub(crate) mark: u64,
}

impl From<u128> for Digest {
    /// A digest that was computed elsewhere. Its bits must be uniform, as those of a good hash function are.
    fn from(bits: u128) -> Self {
        Digest { place: (bits >> 64) as u64, mark: bits as u64 }
    }
}

/// Turns ids into digests: XXH3-128 under a secret seed.
///
/// The seed is random unless it is chosen, so that nobody who chooses ids can choose ids that collide. Choose it only where
/// two processes must agree, or a run must be repeatable.
///
/// Cost: about 1.5 ns for ids of 8 or 16 bytes whose length is known at compile time (integers, UUIDs), 5 ns for 36 bytes.
/// Idea: keyed hashing against hash flooding, Aumasson and Bernstein, SipHash, 2012; XXH3 by Yann Collet.
#[derive(Clone, Debug)]
pub struct Digester {
    seed: u64,
}

impl Digester {
    /// A digester with a random seed from the system.
    pub fn random() -> Self {
        Self::with_seed(Self::random_seed())
    }

    #[cfg(feature = "journal")]
    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// A seed from the system.
    pub(crate) fn random_seed() -> u64 {
        crate::random::from_system()
    }

    /// A digester with this seed. Whoever knows the seed can construct ids that collide.
    pub fn with_seed(seed: u64) -> Self {
        Digester { seed }
    }

    /// A digester for the same ids in another namespace: one id in two scopes has two unrelated digests.
    pub fn scoped(&self, scope: &str) -> Self {
        // The scope is hashed under the seed, so that an outsider who chooses scopes learns nothing either. Odd multiples
        // keep the result apart from the seed itself for the empty scope, too.
        Self::with_seed(xxh3_64_with_seed(scope.as_bytes(), self.seed).wrapping_mul(3) ^ self.seed)
    }

    /// The digest of an id.
    #[inline(always)]
    pub fn digest(&self, id: impl AsRef<[u8]>) -> Digest {
        // Inlined down to XXH3's switch on the length: where the type fixes the length ([u8; 8], [u8; 16]), that is the
        // fast path for integers and UUIDs.
        xxh3_128_with_seed(id.as_ref(), self.seed).into()
    }

    /// A digest of an id, given its own, together with what else there is to it.
    pub(crate) fn digest_with(&self, id: Digest, fingerprint: &[u8]) -> Digest {
        let fingerprint = self.digest(fingerprint);
        let words = [id.place, id.mark, fingerprint.place, fingerprint.mark];
        let mut bytes = [0; 32];
        bytes.chunks_exact_mut(8).zip(words).for_each(|(chunk, word)| chunk.copy_from_slice(&word.to_le_bytes()));
        self.digest(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_seeds_differ() {
        assert_ne!(Digester::random().seed, Digester::random().seed);
    }

    #[test]
    fn it_is_xxh3_128() {
        // Published test vector: XXH3-128 of the empty input, seed 0.
        let empty = Digest::from(0x99aa06d3014798d86001c324468d497f_u128);
        assert_eq!(Digester::with_seed(0).digest([]), empty);
    }

    #[test]
    fn scopes_are_namespaces() {
        let digester = Digester::with_seed(1);
        let of = |scope| digester.scoped(scope).digest("id");
        assert_eq!(of("a"), of("a"));
        assert_ne!(of("a"), of("b"));
        assert_ne!(of(""), digester.digest("id"));
        // A scope is no prefix of the id.
        assert_ne!(of("a"), digester.digest("aid"));
    }

    #[test]
    fn the_halves_are_uniform_and_independent() {
        // 2^16 consecutive integers in 16 x 16 cells by the top bits of both halves: chi-square with 255 degrees of
        // freedom has mean 255 and deviation 22.6; 400 is 6.4 deviations away.
        let digester = Digester::with_seed(3);
        let mut cells = [0_u32; 256];
        for i in 0_u64..1 << 16 {
            let digest = digester.digest(i.to_le_bytes());
            cells[(digest.place >> 60 << 4 | digest.mark >> 60) as usize] += 1;
        }
        let expected = 256.0;
        let chi: f64 = cells.iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
        assert!(chi < 400.0, "chi-square {chi}");
    }
}
