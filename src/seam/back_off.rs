//! Waits after failures: longer after each failure, and jittered, so that callers that failed
//! together do not return together.

use std::time::Duration;

/// A wait that doubles with each failure, up to a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackOff {
    pub first: Duration,
    pub max: Duration,
}

impl BackOff {
    /// Returns the wait after this many failures, at least one. It is shortened at random by up to
    /// a half, so that callers that failed together do not come back together (Brooker,
    /// "Exponential backoff and jitter", 2015).
    pub fn after(self, failures: u32, random: u64) -> Duration {
        jittered(self.longest(failures), random)
    }

    /// Returns the longest possible wait.
    pub fn longest(self, failures: u32) -> Duration {
        let doubled = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.first.checked_mul(doubled).map_or(self.max, |delay| delay.min(self.max))
    }
}

/// Returns a part of a wait: between half of it and all of it. It is all of it if the number is 0.
#[expect(clippy::cast_possible_truncation, reason = "a part of a duration is one")]
pub fn jittered(longest: Duration, random: u64) -> Duration {
    let half_nanos = longest.as_nanos() / 2;
    // A duration has less than 94 bits of nanoseconds: 32 bits of the number leave room.
    let less_nanos =
        (half_nanos >> 32) * u128::from(random >> 32) + (((half_nanos & 0xffff_ffff) * u128::from(random >> 32)) >> 32);
    longest - Duration::new((less_nanos / 1_000_000_000) as u64, (less_nanos % 1_000_000_000) as u32)
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use crate::seam::random;
    use std::collections::BTreeSet;

    #[test]
    fn each_wait_is_twice_the_one_before_up_to_a_limit() {
        let back_off = BackOff { first: Duration::from_millis(100), max: Duration::from_secs(1) };
        let waits = [0, 1, 2, 3, 4, 5, 31, 32, 33, 34, u32::MAX].map(|failures| back_off.longest(failures).as_millis());
        assert_eq!(waits, [100, 100, 200, 400, 800, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000]);
        let (week, always) = (Duration::from_secs(7 * 86_400), BackOff { first: Duration::MAX, max: Duration::MAX });
        assert_eq!(BackOff { first: week, max: week }.longest(u32::MAX), week);
        assert_eq!(always.longest(2), Duration::MAX);
    }

    #[test]
    fn waits_differ_and_stay_between_half_and_all() {
        let seed = random::any();
        for first in [Duration::from_millis(1), Duration::from_secs(30), Duration::from_secs(7 * 86_400)] {
            let back_off = BackOff { first, max: 100 * first };
            for failures in [1, 2, 5, 50] {
                let longest = back_off.longest(failures);
                let waits: BTreeSet<Duration> = (0..100)
                    .map(|i| back_off.after(failures, random::mix(seed ^ i)))
                    .inspect(|wait| assert!((longest / 2..=longest).contains(wait), "seed {seed}: {wait:?}"))
                    .collect();
                assert!(waits.len() >= 99, "seed {seed}: {} of 100 waits differ", waits.len());
                let (first, last) = (waits.first().unwrap(), waits.last().unwrap());
                assert!(*last - *first > longest / 3, "seed {seed}: all are between {first:?} and {last:?}");
            }
        }
        for (longest, random) in [(Duration::MAX, u64::MAX), (Duration::MAX, 0), (Duration::ZERO, u64::MAX)] {
            let wait = jittered(longest, random);
            assert!(longest / 2 <= wait && wait <= longest, "{wait:?}");
        }
        assert_eq!(jittered(Duration::from_secs(1), 0), Duration::from_secs(1));
    }
}
