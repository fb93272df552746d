//! The way from an id's bytes to the 128 bits that the tiers work with.

#![allow(clippy::cast_possible_truncation, reason = "halves of words are taken")]

mod aes;
mod key;
mod keyed;
#[cfg(all(test, not(modelled)))]
mod tests;

use crate::Error;
use std::fmt;
use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

pub use key::{DigestKey, DigestKind, WantedKey};

/// The keyed 128-bit digest of an id: all that the tiers ever see of it.
///
/// ```
/// use hapax::seam::Digester;
///
/// let digester = Digester::with_seed(7);
/// assert_eq!(digester.digest("a"), digester.digest(b"a"));
/// assert_ne!(digester.digest("a"), Digester::with_seed(8).digest("a"));
/// ```
///
/// One half says where an id lives (which line of the window, which block of the history), the
/// other tells it from its neighbours there.
// (In the order of a u128's bytes, so that one is stored as it is.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Digest {
    /// The half that is independent of `place`: the tag in the window, the bits in the history.
    pub(crate) mark: u64,
    /// The half that is spread over the whole range: scaled to a number of lines or blocks.
    pub(crate) place: u64,
}

impl From<u128> for Digest {
    /// Takes a digest that was computed elsewhere. Its bits must be uniform, as those of a good
    /// hash function are.
    fn from(bits: u128) -> Self {
        Digest { place: (bits >> 64) as u64, mark: bits as u64 }
    }
}

impl From<Digest> for u128 {
    fn from(digest: Digest) -> Self {
        u128::from(digest.place) << 64 | u128::from(digest.mark)
    }
}

/// Turns ids into digests, under a secret key.
///
/// ```
/// use hapax::seam::Digester;
///
/// let digester = Digester::random()?;
/// assert_ne!(digester.digest("order-17"), digester.digest("order-18"));
/// // The key is not shown.
/// assert_eq!(format!("{digester:?}"), "Digester { kind: Keyed, .. }");
/// # Ok::<(), hapax::Error>(())
/// ```
///
/// [`Builder::key`](crate::Builder::key) says what to rely on, and what it costs.
///
/// Ideas: keyed hashing against hash flooding, Aumasson and Bernstein, SipHash, 2012; hash, then
/// encrypt, Carter and Wegman, 1981; LightMAC, Luykx and others, FSE 2016.
#[derive(Clone)]
pub struct Digester {
    key: DigestKey,
    keys: keyed::Keys,
    /// The same for all digesters with this key, and for hardly any other.
    pub(crate) tag: u32,
    /// The processor's AES, if it has it and ids are to be digested with it.
    hardware: Option<aes::Hardware>,
}

impl Digester {
    /// Returns a digester with a random key from the operating system.
    ///
    /// # Errors
    ///
    /// [`Error::NoRandomness`], if the system has none.
    pub fn random() -> Result<Self, Error> {
        Ok(Self::new(WantedKey::default().or_random()?))
    }

    /// Returns a digester with this key. Anyone who knows it can construct ids that collide.
    pub fn with_key(key: [u8; 16]) -> Self {
        Self::new(DigestKey { kind: DigestKind::Keyed, bits: u128::from_le_bytes(key) })
    }

    /// Returns a digester with a key of 64 bits, for runs that are to be repeatable.
    pub fn with_seed(seed: u64) -> Self {
        Self::new(DigestKey { kind: DigestKind::Keyed, bits: seed.into() })
    }

    /// Returns a digester for ids from sources that have no interest in collisions: XXH3-128 with a
    /// seed. See [`Builder::trusted_ids`](crate::Builder::trusted_ids).
    pub fn trusted(seed: u64) -> Self {
        Self::new(DigestKey { kind: DigestKind::Trusted, bits: seed.into() })
    }

    pub(crate) fn new(key: DigestKey) -> Self {
        let keys = keyed::Keys::new(key.bits);
        let hardware = aes::Hardware::detect().filter(|_| key.kind == DigestKind::Keyed);
        let tag = keys.digest_portably(&[key.kind as u8]) as u32;
        Digester { key, keys, tag, hardware }
    }

    /// Returns a digester for the same ids in another namespace: one id in two scopes has two
    /// unrelated digests. It costs about a microsecond.
    pub fn scoped(&self, scope: &str) -> Self {
        // An outsider who chooses scopes learns nothing either: a scope's key is derived from a
        // value that is as random as a digest, and is encrypted once more, under the key itself.
        let bits = match self.key.kind {
            DigestKind::Keyed => keyed::Cipher::new(self.key.bits).encrypt(self.digest(scope).into()),
            DigestKind::Trusted => {
                let seed = self.key.bits as u64;
                (xxh3_64_with_seed(scope.as_bytes(), seed).wrapping_mul(3) ^ seed).into()
            }
        };
        Self::new(DigestKey { bits, ..self.key })
    }

    /// Returns the digest of an id.
    #[inline(always)]
    pub fn digest(&self, id: impl AsRef<[u8]>) -> Digest {
        match self.hardware {
            Some(aes) => self.keys.digest_by(aes, id.as_ref()).into(),
            None => self.digest_otherwise(id.as_ref()),
        }
    }

    /// Returns the digest of an id, not inlined: inlining makes it no faster for short ids.
    #[inline(never)]
    fn digest_otherwise(&self, id: &[u8]) -> Digest {
        match self.key.kind {
            DigestKind::Keyed => self.keys.digest_portably(id).into(),
            DigestKind::Trusted => xxh3_128_with_seed(id, self.key.bits as u64).into(),
        }
    }

    /// Returns the digest of an id together with a fingerprint, given the id's own digest.
    pub(crate) fn digest_with(&self, id: Digest, fingerprint: &[u8]) -> Digest {
        let fingerprint = self.digest(fingerprint);
        let words = [id.place, id.mark, fingerprint.place, fingerprint.mark];
        let mut bytes = [0; 32];
        bytes.chunks_exact_mut(8).zip(words).for_each(|(chunk, word)| chunk.copy_from_slice(&word.to_le_bytes()));
        self.digest(bytes)
    }
}

impl fmt::Debug for Digester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the key: it is a secret.
        f.debug_struct("Digester").field("kind", &self.key.kind).finish_non_exhaustive()
    }
}
