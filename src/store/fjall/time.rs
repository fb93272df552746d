//! The time of a store that outlives its process: it never goes back.

use crate::{Clock, Timestamp};
use std::time::Duration;

/// By this much at least, the time of a call is later than that of the call before: tokens count microseconds.
const STEP: Duration = Duration::from_micros(1);

pub(super) struct Time {
    clock: Box<dyn Clock>,
    /// How much the clock was behind the largest time kept when it was opened.
    behind: Duration,
    last: Timestamp,
}

impl Time {
    /// A time that goes on from `seen`, at the speed of the clock.
    pub(super) fn new(clock: Box<dyn Clock>, seen: Timestamp) -> Self {
        let behind = seen.since(clock.now());
        Time { clock, behind, last: seen }
    }

    /// The time, later than any before.
    pub(super) fn next(&mut self) -> Timestamp {
        self.last = (self.clock.now() + self.behind).max(self.last + STEP);
        self.last
    }

    /// The time last given.
    pub(super) fn last(&self) -> Timestamp {
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ManualClock;

    #[test]
    fn it_goes_on_where_it_was_and_never_back() {
        let clock = ManualClock::new();
        clock.set(Timestamp::from_secs(10));
        let mut ahead = Time::new(Box::new(clock.clone()), Timestamp::from_secs(5));
        assert_eq!(ahead.next(), Timestamp::from_secs(10));
        let mut behind = Time::new(Box::new(clock.clone()), Timestamp::from_secs(3_600));
        assert_eq!(behind.next(), Timestamp::from_secs(3_600) + STEP);
        clock.advance(Duration::from_secs(1));
        assert_eq!(behind.next(), Timestamp::from_secs(3_601));
        clock.set(Timestamp::from_secs(2));
        assert_eq!(ahead.next(), Timestamp::from_secs(10) + STEP);
        assert_eq!(ahead.last(), Timestamp::from_secs(10) + STEP);
    }
}
