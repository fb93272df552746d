//! The time for which a completion is tried. Pure: time is an argument.

use crate::tiered::breaker::back_off;
use std::time::Duration;
use tokio::time::Instant;

/// Returns the pause before a store is asked again to end or to renew a claim: it grows to a
/// second, is short compared with the lease, and is jittered.
pub(super) fn retry_pause(tries: u32, lease: Duration, random: u64) -> Duration {
    back_off(tries, random).min((lease / 8).max(Duration::from_millis(1)))
}

/// The time for which a completion is tried: one lease, from the first try on. If the store is
/// unavailable for longer, the lease is over when it is back.
pub(super) struct Patience {
    /// The end; `None` if it is beyond the range of the clock.
    until: Option<Instant>,
    lease: Duration,
    tries: u32,
}

impl Patience {
    pub(super) fn new(now: Instant, lease: Duration) -> Self {
        Patience { until: now.checked_add(lease), lease, tries: 0 }
    }

    /// Returns the [pause](retry_pause) before the next try; `None` after the last one.
    pub(super) fn pause(&mut self, now: Instant, random: u64) -> Option<Duration> {
        let left = self.until.map_or(Duration::MAX, |until| until.saturating_duration_since(now));
        if left.is_zero() {
            return None;
        }
        let pause = retry_pause(self.tries, self.lease, random);
        self.tries = self.tries.saturating_add(1);
        Some(pause.min(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_is_tried_for_as_long_as_a_lease_is() {
        for (lease, random) in [(Duration::from_secs(5), 1), (Duration::from_millis(100), u64::MAX)] {
            let start = Instant::now();
            let (mut patience, mut now, mut tries) = (Patience::new(start, lease), start, 0);
            while let Some(pause) = patience.pause(now, random) {
                assert!(!pause.is_zero() && pause <= lease / 8, "{pause:?}");
                now += pause;
                tries += 1;
            }
            assert_eq!(now - start, lease, "the last try is when it is over");
            assert!((8..40).contains(&tries), "{tries}");
        }
        let never = &mut Patience::new(Instant::now(), Duration::MAX);
        assert!((0..100).all(|_| never.pause(Instant::now(), 7).is_some_and(|pause| pause <= Duration::from_secs(1))));
        assert!(Patience::new(Instant::now(), Duration::ZERO).pause(Instant::now(), 0).is_none());
    }
}
