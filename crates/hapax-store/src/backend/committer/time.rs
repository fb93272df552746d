//! The time of a store that outlives its process. It never goes back.

use hapax::{Clock, Timestamp};
use std::time::Duration;

/// A clock behind which the stored times never are.
pub struct Time {
    clock: Box<dyn Clock>,
    /// The time by which the clock is behind the stored times.
    behind: Duration,
    last: Timestamp,
}

impl Time {
    /// Creates a time that goes on from `seen`, at the speed of the clock.
    pub fn new(clock: Box<dyn Clock>, seen: Timestamp) -> Self {
        let mut time = Time { clock, behind: Duration::ZERO, last: seen };
        time.goes_on_from(seen);
        time
    }

    /// Ensures that no time before `seen` is returned from now on.
    pub fn goes_on_from(&mut self, seen: Timestamp) {
        self.behind = self.behind.max(seen.since(self.clock.now()));
    }

    /// Returns the current time, which is not before any returned earlier.
    #[expect(clippy::should_implement_trait, reason = "time has no end, and is no iterator")]
    pub fn next(&mut self) -> Timestamp {
        self.last = (self.clock.now() + self.behind).max(self.last);
        self.last
    }

    /// Returns the time that was returned last.
    pub fn last(&self) -> Timestamp {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax::ManualClock;

    #[test]
    fn it_goes_on_where_it_was_and_never_back() {
        let clock = ManualClock::new();
        clock.set(Timestamp::from_secs(10));
        let mut ahead = Time::new(Box::new(clock.clone()), Timestamp::from_secs(5));
        assert_eq!(ahead.next(), Timestamp::from_secs(10));
        let mut behind = Time::new(Box::new(clock.clone()), Timestamp::from_secs(3_600));
        assert_eq!(behind.next(), Timestamp::from_secs(3_600));
        clock.advance(Duration::from_secs(1));
        assert_eq!(behind.next(), Timestamp::from_secs(3_601));
        ahead.goes_on_from(Timestamp::from_secs(5));
        assert_eq!(ahead.next(), Timestamp::from_secs(11));
        ahead.goes_on_from(Timestamp::from_secs(20));
        assert_eq!(ahead.next(), Timestamp::from_secs(20));
        clock.set(Timestamp::from_secs(2));
        assert_eq!(ahead.next(), Timestamp::from_secs(20));
        assert_eq!(ahead.last(), Timestamp::from_secs(20));
    }
}
