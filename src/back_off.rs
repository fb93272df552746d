//! How long to wait after failures.

use std::time::Duration;

/// Twice as long each time, up to a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BackOff {
    pub(crate) first: Duration,
    pub(crate) max: Duration,
}

impl BackOff {
    /// After so many failures, at least one.
    pub(crate) fn after(self, failures: u32) -> Duration {
        let doubled = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        self.first.checked_mul(doubled).map_or(self.max, |delay| delay.min(self.max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wait_is_twice_the_one_before_up_to_a_limit() {
        let back_off = BackOff { first: Duration::from_millis(100), max: Duration::from_secs(1) };
        let waits = [0, 1, 2, 3, 4, 5, 31, 32, 33, 34, u32::MAX].map(|failures| back_off.after(failures).as_millis());
        assert_eq!(waits, [100, 100, 200, 400, 800, 1_000, 1_000, 1_000, 1_000, 1_000, 1_000]);
        let (week, always) = (Duration::from_secs(7 * 86_400), BackOff { first: Duration::MAX, max: Duration::MAX });
        assert_eq!(BackOff { first: week, max: week }.after(u32::MAX), week);
        assert_eq!(always.after(2), Duration::MAX);
    }
}
