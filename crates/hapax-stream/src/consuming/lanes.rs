//! The order of messages of a key: one after the other, as they were received.

use crate::order::Ticket;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// The messages of each key that are not done.
#[derive(Default)]
pub(crate) struct Lanes {
    by_key: HashMap<Arc<[u8]>, BTreeSet<Ticket>>,
}

impl Lanes {
    /// Adds a message behind all others of its key: tickets grow.
    pub(crate) fn enter(&mut self, key: &Arc<[u8]>, ticket: Ticket) {
        self.by_key.entry(Arc::clone(key)).or_default().insert(ticket);
    }

    /// Returns true if no message of its key is before it.
    pub(crate) fn is_first(&self, key: &Arc<[u8]>, ticket: Ticket) -> bool {
        self.by_key.get(key).is_none_or(|lane| lane.first() == Some(&ticket))
    }

    /// Removes a message, which need not be the first one. Returns the one that is first now, if it
    /// was not before.
    pub(crate) fn leave(&mut self, key: &Arc<[u8]>, ticket: Ticket) -> Option<Ticket> {
        let lane = self.by_key.get_mut(key)?;
        let was_first = lane.first() == Some(&ticket);
        lane.remove(&ticket);
        let first = lane.first().copied();
        if first.is_none() {
            self.by_key.remove(key);
        }
        first.filter(|_| was_first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_next_one_begins_when_the_first_one_leaves() {
        let (mut lanes, [a, b]) = (Lanes::default(), [&b"a"[..], b"b"].map(Arc::<[u8]>::from));
        for (key, ticket) in [(&a, 1), (&b, 2), (&a, 3), (&a, 4)] {
            lanes.enter(key, ticket);
        }
        assert!(lanes.is_first(&a, 1) && lanes.is_first(&b, 2) && !lanes.is_first(&a, 3));
        assert_eq!(lanes.leave(&a, 3), None, "4 still waits for 1");
        assert_eq!(lanes.leave(&a, 1), Some(4));
        assert_eq!(lanes.leave(&a, 1), None, "it has left before");
        assert_eq!((lanes.leave(&a, 4), lanes.leave(&b, 2)), (None, None));
        assert!(lanes.by_key.is_empty());
    }

    proptest! {
        /// Checks that, whatever leaves in whatever order, one message of each key is first, each
        /// becomes so once, and nothing stays behind.
        #[test]
        fn each_is_first_once(keys in proptest::collection::vec(0_u8..4, 1..40), order in any::<u64>()) {
            let mut lanes = Lanes::default();
            let lane_of = |key: u8| Arc::<[u8]>::from([key]);
            let mut held: Vec<(Ticket, u8)> = Vec::new();
            let mut firsts = Vec::new();
            for (ticket, &key) in (1..).zip(&keys) {
                lanes.enter(&lane_of(key), ticket);
                if lanes.is_first(&lane_of(key), ticket) {
                    firsts.push(ticket);
                }
                held.push((ticket, key));
            }
            let mut random = testkit::random::Random(order);
            while !held.is_empty() {
                let (ticket, key) = held.remove(random.below(held.len() as u64) as usize);
                let first = lanes.leave(&lane_of(key), ticket);
                let expected = held.iter().find(|(_, of)| *of == key).map(|(ticket, _)| *ticket);
                match first {
                    Some(first) => {
                        prop_assert_eq!(Some(first), expected);
                        prop_assert!(!firsts.contains(&first));
                        firsts.push(first);
                    }
                    None => prop_assert!(expected.is_none_or(|expected| firsts.contains(&expected))),
                }
            }
            prop_assert!(lanes.by_key.is_empty());
        }
    }
}
