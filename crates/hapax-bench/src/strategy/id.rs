//! The kinds of id that strategies are compared on: integers, and bytes of any length.

use hapax::Int;
use std::hash::Hash;

/// A kind of id: the type that a check borrows, and the type that a map has to own to keep one.
pub trait Id: Hash + Eq + Send + Sync + ToOwned<Owned: Hash + Eq + Clone + Send + Sync> + 'static {
    /// The smallest owned form, for maps that take it by value. Maps that copy an id themselves,
    /// and only when they must, keep [`ToOwned::Owned`].
    type Key: Hash + Ord + Clone + Send + Sync + 'static;

    /// True if ids are bytes of any length.
    const ANY_LENGTH: bool = false;

    /// Returns a copy to keep.
    fn key(&self) -> Self::Key;

    /// Returns the bytes that a digest is made of.
    fn bytes(&self) -> impl AsRef<[u8]>;

    /// Returns an id to try things with: another one for each number.
    fn numbered(number: u64) -> Self::Owned;
}

impl Id for u64 {
    type Key = u64;

    #[inline(always)]
    fn key(&self) -> u64 {
        *self
    }

    #[inline(always)]
    fn bytes(&self) -> impl AsRef<[u8]> {
        Int::from(*self)
    }

    fn numbered(number: u64) -> u64 {
        number
    }
}

/// For the digests that maps keep.
impl Id for [u8; 16] {
    type Key = [u8; 16];

    #[inline(always)]
    fn key(&self) -> [u8; 16] {
        *self
    }

    #[inline(always)]
    fn bytes(&self) -> impl AsRef<[u8]> {
        self
    }

    fn numbered(number: u64) -> [u8; 16] {
        u128::from(number).to_be_bytes()
    }
}

impl Id for [u8] {
    type Key = Box<[u8]>;
    const ANY_LENGTH: bool = true;

    #[inline(always)]
    fn key(&self) -> Box<[u8]> {
        self.into()
    }

    #[inline(always)]
    fn bytes(&self) -> impl AsRef<[u8]> {
        self
    }

    /// The id is as long as the text of a UUID.
    fn numbered(number: u64) -> Vec<u8> {
        format!("{number:036}").into_bytes()
    }
}
