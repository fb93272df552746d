//! Attempts with an unknown outcome: the store may have carried out the request, and the answer was
//! lost.

use hapax::seam::Digest;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Attempts by id, so that the next attempt at an id uses the same number, and gets the lost
/// answer. Nearly always an id has one: several only if several callers asked about it at a time,
/// of a store that answers at once.
///
/// Bounded: the oldest half is forgotten when it is full; such an id may then be taken for a
/// duplicate of its own lost attempt.
#[derive(Debug, Default)]
pub(crate) struct Unresolved {
    young: Numbers,
    old: Numbers,
}

#[derive(Debug, Default)]
struct Numbers {
    by_id: HashMap<Digest, Vec<u64>>,
    len: usize,
}

impl Numbers {
    fn take(&mut self, id: Digest) -> Option<u64> {
        let Entry::Occupied(mut numbers) = self.by_id.entry(id) else { return None };
        let number = numbers.get_mut().pop();
        if numbers.get().is_empty() {
            numbers.remove();
        }
        self.len -= usize::from(number.is_some());
        number
    }
}

impl Unresolved {
    const HALF: usize = 32_768;
    /// The number of callers that may ask about one id at a time and lose all answers: more are not
    /// worth the calls.
    const OF_ONE_ID: usize = 16;

    pub(crate) fn insert(&mut self, id: Digest, attempt: u64) {
        if self.young.len == Self::HALF {
            self.old = std::mem::take(&mut self.young);
        }
        let numbers = self.young.by_id.entry(id).or_default();
        if numbers.len() < Self::OF_ONE_ID {
            numbers.push(attempt);
            self.young.len += 1;
        }
    }

    pub(crate) fn take(&mut self, id: Digest) -> Option<u64> {
        if self.len() == 0 {
            return None;
        }
        self.young.take(id).or_else(|| self.old.take(id))
    }

    pub(crate) fn contains(&self, id: Digest) -> bool {
        self.young.by_id.contains_key(&id) || self.old.by_id.contains_key(&id)
    }

    pub(crate) fn len(&self) -> usize {
        self.young.len + self.old.len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_attempt_is_taken_once() {
        let id = |i: u64| Digest::from(u128::from(i) << 64);
        let mut unresolved = Unresolved::default();
        assert_eq!(unresolved.take(id(1)), None);
        unresolved.insert(id(1), 10);
        unresolved.insert(id(1), 11);
        assert!(unresolved.len() == 2 && unresolved.contains(id(1)) && !unresolved.contains(id(2)));
        assert_eq!(unresolved.take(id(1)), Some(11));
        assert_eq!(unresolved.take(id(1)), Some(10));
        assert_eq!((unresolved.take(id(1)), unresolved.len()), (None, 0));
        (0..100).for_each(|attempt| unresolved.insert(id(1), attempt));
        assert_eq!(unresolved.len(), Unresolved::OF_ONE_ID);

        for i in 0..200_000 {
            unresolved.insert(id(i), i);
            assert!(unresolved.len() <= 2 * Unresolved::HALF);
        }
        assert_eq!(unresolved.take(id(199_999)), Some(199_999));
        assert_eq!(unresolved.take(id(199_999 - Unresolved::HALF as u64)), Some(199_999 - Unresolved::HALF as u64));
        assert_eq!(unresolved.take(id(0)), None);
    }
}
