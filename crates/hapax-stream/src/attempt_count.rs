//! The number of attempts at a message that have begun: by all consumers, as the store keeps it.

use hapax_store::Note;

/// Attempts at an id. They are counted when they begin, so that one that kills its process is
/// counted, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AttemptCount {
    /// The number of attempts that have begun.
    pub(super) began: u32,
    /// The number of attempts that have reported a failure.
    failed: u32,
}

impl AttemptCount {
    /// Reads a stored count; zero, if there is none, or it is from a version with another encoding.
    pub(super) fn decode(kept: Option<Vec<u8>>) -> Self {
        let Some(Ok(kept)) = kept.map(<[u8; 8]>::try_from) else { return AttemptCount::default() };
        let [a, b, c, d, e, f, g, h] = kept;
        AttemptCount { began: u32::from_le_bytes([a, b, c, d]), failed: u32::from_le_bytes([e, f, g, h]) }
    }

    /// Returns the stored form: both numbers, little-endian.
    pub(super) fn encode(self) -> Vec<u8> {
        [self.began.to_le_bytes(), self.failed.to_le_bytes()].concat()
    }

    pub(super) fn with_one_begun(self) -> Self {
        AttemptCount { began: self.began.saturating_add(1), ..self }
    }

    pub(super) fn with_one_failed(self) -> Self {
        AttemptCount { failed: self.failed.saturating_add(1), ..self }
    }

    /// Returns the count without the last attempt that has begun, which was stopped.
    pub(super) fn with_one_taken_back(self) -> Self {
        AttemptCount { began: self.began.saturating_sub(1), ..self }
    }

    /// Returns true if an attempt has begun that never reported its end, so that it may have killed
    /// its process.
    pub(super) fn is_suspect(self) -> bool {
        self.began > self.failed
    }
}

/// The place where the attempts at a message are counted.
pub(super) enum Counting {
    /// Here: this many have failed before. The broker does not count deliveries, or there is no
    /// claim under which the store could be told.
    Here(u32),
    /// In the store, if this one fails: this is the broker's first delivery of the message.
    WhenFailed(Note),
    /// In the store, before it begins: an earlier delivery may have been tried.
    Before(Note),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_counted_and_kept() {
        let mut tally = AttemptCount::default();
        assert!(!tally.is_suspect());
        for n in 1..=3 {
            tally = tally.with_one_begun();
            assert!(tally.is_suspect() && tally.began == n);
            tally = tally.with_one_failed();
            assert!(!tally.is_suspect());
        }
        assert_eq!(AttemptCount::decode(Some(tally.encode())), tally);
        let died = tally.with_one_begun();
        assert_eq!((died.is_suspect(), died.with_one_taken_back()), (true, tally));
        for other in [None, Some(vec![]), Some(vec![1; 7]), Some(vec![1; 9])] {
            assert_eq!(AttemptCount::decode(other), AttemptCount::default());
        }
        let most = AttemptCount { began: u32::MAX, failed: 0 };
        assert_eq!(most.with_one_begun(), most);
    }
}
