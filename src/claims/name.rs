//! Ids as the keys of hash maps.

use crate::digest::Digest;
use crate::window::Tag;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A hash map by ids.
pub(super) type ByName<T> = HashMap<Name, T, BuildHasherDefault<Uniform>>;

/// The part of an id by which the window tells it from others. (Not all callers know more of it.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Name {
    tag: u64,
    place: u64,
}

impl Name {
    pub(super) fn of(id: Digest) -> Self {
        Name { tag: Tag::of(id.mark).as_mark(), place: id.place }
    }

    /// Returns a digest with this name.
    pub(super) fn digest(self) -> Digest {
        Digest { place: self.place, mark: self.tag }
    }
}

/// A hasher that passes digests through: they are uniform, so any part of them is a hash.
#[derive(Default)]
pub(super) struct Uniform(u64);

impl Hasher for Uniform {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    /// Takes the last word as the hash.
    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
