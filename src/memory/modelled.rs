//! Lines of a model, whose atomics are not zero bytes.

use super::Zeroed;
use crate::Error;

/// A fixed number of `T`s, all zero at first.
pub struct Lines<T> {
    items: Vec<T>,
}

impl<T: Zeroed> Lines<T> {
    pub fn new(len: usize, _tier: &'static str) -> Result<Self, Error> {
        Ok(Lines { items: (0..len).map(|_| T::default()).collect() })
    }

    pub(crate) fn reserve(len: usize, tier: &'static str) -> Result<Self, Error> {
        Self::new(len, tier)
    }

    pub(crate) fn parts(&self) -> usize {
        1
    }

    pub(crate) fn part(&self, _part: usize) -> std::ops::Range<usize> {
        0..self.items.len()
    }

    pub(crate) fn populate(&self, _part: usize, _tier: &'static str) -> Result<(), Error> {
        Ok(())
    }

    pub(super) fn as_slice(&self) -> &[T] {
        &self.items
    }

    pub(crate) fn bytes(&self) -> usize {
        self.items.len() * size_of::<T>()
    }

    pub(crate) fn is_available(&self, _tier: &'static str) -> Result<(), Error> {
        Ok(())
    }

    /// Does nothing: models overwrite the contents by themselves.
    pub(crate) fn release(&self) {}
}
