//! The note that the store keeps of the attempts at a message beside its id: the number of those
//! that have begun, by all consumers, or that it was put aside.

use super::request::Fingerprint;

/// Attempts at an id. They are counted when they begin, so that one that kills its process is
/// counted, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttemptCount {
    /// The number of attempts that have begun.
    pub began: u32,
    /// The number of attempts that have reported a failure.
    failed: u32,
    /// The delivery after which the message was put aside, if it was.
    aside: Option<SentAs>,
}

/// The name of a delivery, shortened; all zeros if the broker gives none.
pub type SentAs = [u8; 16];

/// A message as its broker delivers it.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// The number of deliveries, if the broker counts them.
    pub deliveries: Option<u32>,
    /// The name of the delivery: the same until the message is sent once more.
    pub name: Option<SentAs>,
}

impl Sent {
    pub fn new(deliveries: Option<u32>, name: Option<&[u8]>) -> Self {
        Sent { deliveries, name: name.map(|name| Fingerprint::of(name).0) }
    }
}

impl AttemptCount {
    /// Reads a stored count; zero, if there is none, or it is from a version with another encoding.
    pub fn decode(kept: Option<Vec<u8>>) -> Self {
        let kept = kept.unwrap_or_default();
        let (count, aside) = kept.split_at(kept.len().min(8));
        let (Ok([a, b, c, d, e, f, g, h]), true) = (<[u8; 8]>::try_from(count), matches!(aside.len(), 0 | 16)) else {
            return AttemptCount::default();
        };
        AttemptCount {
            began: u32::from_le_bytes([a, b, c, d]),
            failed: u32::from_le_bytes([e, f, g, h]),
            aside: aside.try_into().ok(),
        }
    }

    /// Returns the stored form: both numbers, little-endian, and the delivery after which the
    /// message was put aside.
    pub fn encode(self) -> Vec<u8> {
        let mut kept = [self.began.to_le_bytes(), self.failed.to_le_bytes()].concat();
        kept.extend(self.aside.into_iter().flatten());
        kept
    }

    /// Returns the count of attempts that have all failed.
    pub fn failures(attempts: u32) -> Self {
        AttemptCount { began: attempts, failed: attempts, aside: None }
    }

    pub fn with_one_begun(self) -> Self {
        AttemptCount { began: self.began.saturating_add(1), ..self }
    }

    pub fn with_one_failed(self) -> Self {
        AttemptCount { failed: self.failed.saturating_add(1), ..self }
    }

    /// Returns the count without the last attempt that has begun, which was stopped.
    pub fn with_one_taken_back(self) -> Self {
        AttemptCount { began: self.began.saturating_sub(1), ..self }
    }

    /// Returns what is kept of a message that is put aside.
    pub fn put_aside(self, sent: Sent) -> Self {
        AttemptCount { aside: Some(sent.name.unwrap_or_default()), ..self }
    }

    /// Returns true if the message was put aside, and not sent anew since.
    pub fn waits_aside(self) -> bool {
        self.aside.is_some()
    }

    /// Returns true if an attempt has begun that never reported its end, so that it may have killed
    /// its process.
    pub fn is_suspect(self) -> bool {
        self.began > self.failed
    }

    /// Returns true if the message was put aside, and this is the same delivery of it once more:
    /// the broker has missed that. What is sent anew has a first delivery, or another name; where
    /// neither can be told, it is rather tried again than taken for a repetition.
    pub fn is_put_aside(self, sent: Sent) -> bool {
        match (self.aside, sent) {
            (None, _) | (_, Sent { deliveries: Some(..=1), .. }) => false,
            (Some(aside), Sent { name: Some(name), .. }) if aside != SentAs::default() => aside == name,
            (Some(_), Sent { deliveries, .. }) => deliveries.is_some(),
        }
    }

    /// Returns the count for a delivery: what was put aside, and was sent anew, begins anew.
    pub fn of(self, sent: Sent) -> Self {
        if self.aside.is_some() && !self.is_put_aside(sent) { AttemptCount::default() } else { self }
    }
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
        for other in [None, Some(vec![]), Some(vec![1; 7]), Some(vec![1; 9]), Some(vec![1; 25])] {
            assert_eq!(AttemptCount::decode(other), AttemptCount::default());
        }
        let most = AttemptCount { began: u32::MAX, ..AttemptCount::default() };
        assert_eq!(most.with_one_begun(), most);
    }

    #[test]
    fn what_was_put_aside_begins_anew_when_it_is_sent_anew() {
        let tried = AttemptCount::default().with_one_begun().with_one_failed();
        let sent = |deliveries, name: Option<&str>| Sent::new(deliveries, name.map(str::as_bytes));
        for (put_aside, comes, is_the_same) in [
            // The broker counts, and names what it delivers.
            (sent(Some(3), Some("7")), sent(Some(4), Some("7")), true),
            (sent(Some(3), Some("7")), sent(Some(1), Some("7")), false),
            (sent(Some(3), Some("7")), sent(Some(2), Some("8")), false),
            // It counts only.
            (sent(Some(2), None), sent(Some(2), None), true),
            (sent(Some(2), None), sent(Some(1), None), false),
            // It names only.
            (sent(None, Some("7")), sent(None, Some("7")), true),
            (sent(None, Some("7")), sent(None, Some("8")), false),
            // It does neither.
            (sent(None, None), sent(None, None), false),
        ] {
            let kept = AttemptCount::decode(Some(tried.put_aside(put_aside).encode()));
            assert_eq!(kept.is_put_aside(comes), is_the_same, "{put_aside:?}, then {comes:?}");
            assert_eq!(kept.of(comes).began, if is_the_same { 1 } else { 0 });
        }
        assert!(!tried.is_put_aside(sent(Some(2), None)), "it was only tried");
        assert_eq!(tried.of(sent(Some(2), None)), tried);
    }
}
