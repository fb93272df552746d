//! Attempts of which nobody knows what came: the store may have done what it was asked, and the answer was lost.

use crate::digest::Digest;
use std::collections::HashMap;

/// By id, so that the next attempt at an id goes by the same number, and gets what the lost answer said. Bounded: the oldest half is
/// forgotten when it is full; such an id may then be taken for a duplicate of its own lost attempt.
#[derive(Debug, Default)]
pub(super) struct Unresolved {
    young: HashMap<Digest, u64>,
    old: HashMap<Digest, u64>,
}

impl Unresolved {
    const HALF: usize = 32_768;

    pub(super) fn insert(&mut self, id: Digest, attempt: u64) {
        if self.young.len() == Self::HALF {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(id, attempt);
    }

    pub(super) fn take(&mut self, id: Digest) -> Option<u64> {
        if self.len() == 0 {
            return None;
        }
        let (young, old) = (self.young.remove(&id), self.old.remove(&id));
        young.or(old)
    }

    pub(super) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_attempt_is_taken_once() {
        let id = |i: u64| Digest::from(u128::from(i) << 64);
        let mut unresolved = Unresolved::default();
        assert_eq!(unresolved.take(id(1)), None);
        unresolved.insert(id(1), 10);
        unresolved.insert(id(1), 11);
        assert_eq!(unresolved.take(id(1)), Some(11));
        assert_eq!(unresolved.take(id(1)), None);

        for i in 0..200_000 {
            unresolved.insert(id(i), i);
            assert!(unresolved.len() <= 2 * Unresolved::HALF);
        }
        assert_eq!(unresolved.take(id(199_999)), Some(199_999));
        assert_eq!(unresolved.take(id(199_999 - Unresolved::HALF as u64)), Some(199_999 - Unresolved::HALF as u64));
        assert_eq!(unresolved.take(id(0)), None);
    }
}
