//! The delays after failures, and the limit after which a message is given up.

use crate::store::options::within;
use hapax_store::StoreError;
use hapax_store::back_off::BackOff;
use std::time::Duration;

/// The times at which a message that failed is tried again.
///
/// ```
/// use hapax_postgres::Retry;
/// use std::time::Duration;
///
/// let retry = Retry::new(Duration::from_millis(200), Duration::from_secs(60))?.attempts_max(Some(10))?;
/// assert_eq!(retry.delay(1), Duration::from_millis(200));
/// assert_eq!(retry.delay(3), Duration::from_millis(800));
/// assert_eq!(retry.delay(50), Duration::from_secs(60));
/// # Ok::<(), hapax_store::StoreError>(())
/// ```
///
/// Each delay is twice the one before. The server takes a random part of it between half and all,
/// so that messages which failed together do not come back together (Brooker, "Exponential backoff
/// and jitter", 2015).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(try_from = "Read"))]
pub struct Retry {
    first: Duration,
    longest: Duration,
    attempts_max: Option<u32>,
}

/// The longest delay that can be chosen.
const LONGEST: Duration = Duration::from_secs(7 * 86_400);

impl Retry {
    /// The default: after 200 ms at first, a minute at last, until it succeeds.
    pub(crate) const DEFAULT: Retry =
        Retry { first: Duration::from_millis(200), longest: Duration::from_secs(60), attempts_max: None };

    /// Creates a retry that waits `first` after the first failure, and never longer than `longest`.
    /// A message is tried until it succeeds.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](hapax_store::ErrorKind::Misconfigured) unless 1 ms ≤ `first` ≤
    /// `longest` ≤ 7 days.
    pub fn new(first: Duration, longest: Duration) -> Result<Self, StoreError> {
        within("longest", longest, Duration::from_millis(1)..=LONGEST)?;
        within("first", first, Duration::from_millis(1)..=longest)?;
        Ok(Retry { first, longest, attempts_max: None })
    }

    /// Sets the number of attempts after which the message is a dead letter, and others of its key
    /// go on. `None`: it is tried until it succeeds, and others of its key wait.
    ///
    /// # Errors
    ///
    /// [`Misconfigured`](hapax_store::ErrorKind::Misconfigured) for zero, or more than a million.
    pub fn attempts_max(mut self, attempts: Option<u32>) -> Result<Self, StoreError> {
        self.attempts_max = attempts.map(|attempts| within("attempts_max", attempts, 1..=1_000_000)).transpose()?;
        Ok(self)
    }

    /// Returns the longest time to wait after that many failures.
    pub fn delay(&self, failures: u32) -> Duration {
        // The server takes a random part of it.
        BackOff { first: self.first, max: self.longest }.longest(failures)
    }

    /// Returns true if there is no attempt after that many.
    pub fn is_last(&self, attempts: u32) -> bool {
        self.attempts_max.is_some_and(|max| attempts >= max)
    }
}

#[cfg(feature = "serde")]
crate::config::read!(Retry { first: Duration, longest: Duration, attempts_max: Option<u32> } => Retry::new(first, longest)?.attempts_max(attempts_max));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_attempt_is_the_one_that_was_chosen() {
        let retry = Retry::new(Duration::from_secs(1), Duration::from_secs(1)).unwrap();
        assert!(!retry.is_last(u32::MAX));
        let three = retry.attempts_max(Some(3)).unwrap();
        assert_eq!([2, 3, 4].map(|attempts| three.is_last(attempts)), [false, true, true]);
        assert!(retry.attempts_max(Some(0)).is_err());
        let ms = Duration::from_millis;
        for (first, longest) in [(ms(0), ms(1)), (ms(2), ms(1)), (ms(1), LONGEST + ms(1))] {
            assert!(Retry::new(first, longest).is_err());
        }
    }
}
