//! The circuit breaker, which stops calls to a store that does not answer. Pure: time is an
//! argument.

use crate::back_off::BackOff;
use std::time::{Duration, Instant};

/// The state of a circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BreakerState {
    /// Calls are made.
    Closed,
    /// The store has failed too often: no calls are made for a while.
    Open,
    /// The wait is over, and one call tests whether the store answers again.
    HalfOpen,
}

/// A circuit breaker: after a number of failures in a row it opens, for a while; then it lets one
/// call through, whose success closes it.
///
/// Idea: Nygard, Release It!, 2007.
#[derive(Debug)]
pub(crate) struct Breaker {
    options: BreakerOptions,
    state: State,
}

/// The parameters of a circuit breaker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BreakerOptions {
    /// The number of failures in a row after which it opens.
    pub(crate) failures: u32,
    /// The time for which it is open.
    pub(crate) rest: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed {
        failures: u32,
    },
    Open {
        until: Instant,
    },
    /// One call has been let through, and should be back by then.
    Probing {
        until: Instant,
    },
}

impl BreakerState {
    /// Returns a rank of the states: a breaker that lets fewer calls through has a larger one.
    pub(crate) fn severity(self) -> u8 {
        match self {
            BreakerState::Closed => 0,
            BreakerState::HalfOpen => 1,
            BreakerState::Open => 2,
        }
    }
}

impl Breaker {
    pub(crate) fn new(options: BreakerOptions) -> Self {
        Breaker { options, state: State::Closed { failures: 0 } }
    }

    /// Returns true if a call may be made now.
    pub(crate) fn admits(&mut self, now: Instant) -> bool {
        match self.state {
            State::Closed { .. } => true,
            // A probe that does not come back (its caller was dropped) must not keep all calls off
            // for ever.
            State::Open { until } | State::Probing { until } if now >= until => {
                self.state = State::Probing { until: now + self.options.rest };
                true
            }
            _ => false,
        }
    }

    /// Notes a success. Returns true if it closed the breaker.
    pub(crate) fn succeeded(&mut self) -> bool {
        let before = std::mem::replace(&mut self.state, State::Closed { failures: 0 });
        !matches!(before, State::Closed { .. })
    }

    /// Notes a failure. Returns true if it opened the breaker.
    pub(crate) fn failed(&mut self, now: Instant) -> bool {
        let failures = match self.state {
            State::Closed { failures } => failures + 1,
            State::Open { .. } => return false,
            State::Probing { .. } => self.options.failures,
        };
        let opens = failures >= self.options.failures;
        self.state = if opens { State::Open { until: now + self.options.rest } } else { State::Closed { failures } };
        opens
    }

    pub(crate) fn state(&self) -> BreakerState {
        match self.state {
            State::Closed { .. } => BreakerState::Closed,
            State::Open { .. } => BreakerState::Open,
            State::Probing { .. } => BreakerState::HalfOpen,
        }
    }
}

/// Returns the wait before the next try at a store: up to 10 ms, twice that, and so on up to a
/// second.
pub(crate) fn back_off(tries: u32, random: u64) -> Duration {
    const WAITS: BackOff = BackOff { first: Duration::from_millis(10), max: Duration::from_secs(1) };
    WAITS.after(tries.saturating_add(1), random)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_after_failures_in_a_row_and_closes_after_one_success() {
        let (start, rest) = (Instant::now(), Duration::from_secs(1));
        let mut breaker = Breaker::new(BreakerOptions { failures: 3, rest });
        for _ in 0..2 {
            assert!(!breaker.failed(start) && !breaker.failed(start));
            assert!(!breaker.succeeded());
        }
        assert!(!breaker.failed(start) && !breaker.failed(start) && breaker.failed(start));
        assert_eq!(breaker.state(), BreakerState::Open);
        assert!(!breaker.admits(start + rest / 2));
        // Calls that were under way when it opened change nothing.
        assert!(!breaker.failed(start + rest / 2));

        assert!(breaker.admits(start + rest), "one may try");
        assert_eq!(breaker.state(), BreakerState::HalfOpen);
        assert!(!breaker.admits(start + rest), "and no other");
        assert!(breaker.failed(start + rest));
        assert!(!breaker.admits(start + rest));
        assert!(breaker.admits(start + 2 * rest));
        assert!(breaker.succeeded());
        assert_eq!(breaker.state(), BreakerState::Closed);
        assert!(breaker.admits(start + 2 * rest));
    }

    #[test]
    fn a_probe_that_does_not_come_back_is_followed_by_another() {
        let (start, rest) = (Instant::now(), Duration::from_secs(1));
        let mut breaker = Breaker::new(BreakerOptions { failures: 1, rest });
        assert!(breaker.failed(start));
        assert!(breaker.admits(start + rest));
        assert!(!breaker.admits(start + rest * 3 / 2));
        assert!(breaker.admits(start + 2 * rest));
    }

    #[test]
    fn waits_grow_to_a_second_and_differ() {
        for tries in 0..40 {
            for random in [0, 1, 12_345, u64::MAX] {
                let wait = back_off(tries, random);
                let longest = Duration::from_millis(10 * (1 << tries.min(7))).min(Duration::from_secs(1));
                assert!(wait >= longest / 2 && wait <= longest, "{tries}: {wait:?}");
            }
        }
        assert_ne!(back_off(3, 1 << 40), back_off(3, 1 << 60));
    }
}
