//! Counts of messages' failures in this run, for brokers that count no deliveries, and for messages
//! without a claim under which the store could count.

use hapax_store::StoredId;
use std::collections::{HashMap, VecDeque};

/// Failures of ids that the broker does not count. If there are too many ids, the first ones are
/// forgotten: these are tried more often, and none is lost.
pub(crate) struct Attempts {
    failures: HashMap<StoredId, u32>,
    oldest: VecDeque<StoredId>,
    max: usize,
}

impl Attempts {
    pub(crate) fn new(max: usize) -> Self {
        Attempts { failures: HashMap::new(), oldest: VecDeque::new(), max }
    }

    pub(crate) fn failures(&self, id: &StoredId) -> u32 {
        self.failures.get(id).copied().unwrap_or(0)
    }

    pub(crate) fn failed(&mut self, id: StoredId) {
        if let Some(failures) = self.failures.get_mut(&id) {
            *failures = failures.saturating_add(1);
            return;
        }
        while self.failures.len() >= self.max
            && let Some(oldest) = self.oldest.pop_front()
        {
            self.failures.remove(&oldest);
        }
        self.failures.insert(id, 1);
        self.oldest.push_back(id);
    }

    /// Forgets an id that is done. (Its place in the order is found to be empty later.)
    pub(crate) fn forget(&mut self, id: &StoredId) {
        if self.failures.remove(id).is_some() && self.oldest.len() > 2 * self.max.min(self.failures.len() + 8) {
            let failures = &self.failures;
            self.oldest.retain(|id| failures.contains_key(id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_for_a_bounded_number_of_ids() {
        let id = |n: u32| StoredId::new(&n.to_le_bytes());
        let mut attempts = Attempts::new(3);
        for n in [1, 1, 2, 3] {
            attempts.failed(id(n));
        }
        assert_eq!([1, 2, 3, 4].map(|n| attempts.failures(&id(n))), [2, 1, 1, 0]);
        attempts.failed(id(4));
        assert_eq!([1, 2, 3, 4].map(|n| attempts.failures(&id(n))), [0, 1, 1, 1], "the oldest is forgotten");
        for n in 0..10_000 {
            attempts.failed(id(n));
            attempts.forget(&id(n));
        }
        assert!(attempts.failures.len() <= 3 && attempts.oldest.len() <= 32, "{}", attempts.oldest.len());
    }
}
