//! The kinds of id that strategies are compared on: integers and text.

use crate::Int;
use std::hash::Hash;

/// A kind of id: what a check borrows, and what a map has to own to keep one.
pub trait Id: Hash + Eq + Send + Sync + ToOwned<Owned: Hash + Eq + Clone + Send + Sync> + 'static {
    /// The smallest owned form, for maps that take it by value. Those that copy an id themselves, and only when they must, keep
    /// [`ToOwned::Owned`].
    type Key: Hash + Eq + Send + Sync + 'static;

    /// A copy to keep.
    fn key(&self) -> Self::Key;

    /// What a digest is made of.
    fn bytes(&self) -> impl AsRef<[u8]>;

    /// An id to try things with: another one for each number.
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

impl Id for str {
    type Key = Box<str>;

    #[inline(always)]
    fn key(&self) -> Box<str> {
        self.into()
    }

    #[inline(always)]
    fn bytes(&self) -> impl AsRef<[u8]> {
        self
    }

    /// As long as the text of a UUID.
    fn numbered(number: u64) -> String {
        format!("{number:036}")
    }
}
