//! The secret key of the digests, and how it is chosen.

#![allow(clippy::cast_possible_truncation, reason = "halves of words are taken")]

use super::Digester;
use crate::{Error, random};
use std::fmt;

/// The kind of digest function, as files record it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DigestKind {
    /// The keyed function, for ids that anybody may choose.
    #[default]
    Keyed,
    /// The fast function, for ids from sources that have no interest in collisions.
    Trusted,
}

/// The secret that two engines must share to have the same digests. It is never printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DigestKey {
    /// The kind of function that it is for.
    pub kind: DigestKind,
    /// The secret.
    pub bits: u128,
}

/// The key as the options give it.
#[derive(Clone, Copy, Default)]
pub struct WantedKey {
    /// The kind of function that it is for.
    pub kind: DigestKind,
    /// The secret, if it is given.
    pub bits: Option<u128>,
}

impl DigestKey {
    /// Decodes a key from three words; `None` if there is no such kind.
    pub(crate) fn from_words([kind, low, high]: [u64; 3]) -> Option<Self> {
        let kind = match kind {
            1 => DigestKind::Keyed,
            2 => DigestKind::Trusted,
            _ => return None,
        };
        Some(DigestKey { kind, bits: u128::from(high) << 64 | u128::from(low) })
    }

    pub(crate) fn words(self) -> [u64; 3] {
        let kind = match self.kind {
            DigestKind::Keyed => 1,
            DigestKind::Trusted => 2,
        };
        [kind, self.bits as u64, (self.bits >> 64) as u64]
    }
}

impl From<DigestKey> for Digester {
    fn from(key: DigestKey) -> Self {
        Digester::new(key)
    }
}

impl WantedKey {
    /// Returns the key that is wanted; a random one, if any would do.
    pub fn or_random(self) -> Result<DigestKey, Error> {
        let bits = self.bits.map_or_else(random_bits, Ok)?;
        Ok(DigestKey { kind: self.kind, bits })
    }

    /// Compares with a key that is there already. Returns what is wrong with that: what it is, and
    /// what is wanted.
    pub(crate) fn differs(self, theirs: DigestKey) -> Option<[&'static str; 3]> {
        let name = |kind| match kind {
            DigestKind::Keyed => "keyed digests",
            DigestKind::Trusted => "those of `trusted_ids`",
        };
        if self.kind != theirs.kind {
            return Some(["kind of digests", name(theirs.kind), name(self.kind)]);
        }
        // Secret values, so neither is shown.
        let differs = self.bits.is_some_and(|bits| bits != theirs.bits);
        differs.then_some(["key", "another one", "that of the engine, and of the other files"])
    }
}

fn random_bits() -> Result<u128, Error> {
    random::system().map(u128::from_le_bytes).map_err(|source| Error::NoRandomness { source })
}

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DigestKey").field("kind", &self.kind).finish_non_exhaustive()
    }
}
