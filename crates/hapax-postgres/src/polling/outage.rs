//! Decides how long to go on without a server.

use hapax::seam::random;
use hapax_store::back_off::BackOff;
use hapax_store::{ErrorKind, StoreError};
use std::time::Duration;
use tokio::time::Instant;

const DELAYS: BackOff = BackOff { first: Duration::from_millis(50), max: Duration::from_secs(5) };

/// The failures since something last worked.
#[derive(Debug)]
pub(crate) struct Outage {
    longest: Duration,
    began: Option<Instant>,
    failures: u32,
}

impl Outage {
    pub(crate) fn new(longest: Duration) -> Self {
        Outage { longest, began: None, failures: 0 }
    }

    /// Ends the outage: something worked.
    pub(crate) fn end(&mut self) {
        (self.began, self.failures) = (None, 0);
    }

    /// Returns the time to wait before the next try; or the error, if another try cannot help or it
    /// has lasted too long.
    pub(crate) fn failed(&mut self, error: StoreError, now: Instant) -> Result<Duration, StoreError> {
        // No other transaction holds a lock on these tables for more than a moment.
        let may_pass = error.kind().is_transient() || error.kind() == ErrorKind::Conflict;
        let began = *self.began.get_or_insert(now);
        if !may_pass || now.duration_since(began) >= self.longest {
            return Err(error);
        }
        self.failures = self.failures.saturating_add(1);
        Ok(DELAYS.after(self.failures, random::any()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(kind: ErrorKind) -> StoreError {
        StoreError::new(kind, "postgres", "test")
    }

    #[test]
    fn delays_grow_until_it_works_and_end_with_the_outage() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut outage = Outage::new(10 * second);
        for longest in [50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000].map(Duration::from_millis) {
            let delay = outage.failed(error(ErrorKind::Unavailable), start).unwrap();
            assert!((longest / 2..=longest).contains(&delay), "{delay:?} is up to {longest:?}");
        }
        assert!(outage.failed(error(ErrorKind::Timeout), start + 10 * second).is_err());
        outage.end();
        assert!(outage.failed(error(ErrorKind::Conflict), start + 10 * second).unwrap() <= DELAYS.first);
        assert!(outage.failed(error(ErrorKind::Misconfigured), start + 10 * second).is_err());
    }
}
