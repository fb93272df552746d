//! The division of a window's time into ticks. Pure.

#![allow(clippy::cast_possible_truncation, reason = "quotients of numbers below 2^63 are, too")]

use super::tick::Tick;
use crate::Timestamp;
use crate::clock::{HUNDRED_YEARS, Reading, nanos_of};
use crate::error::{InvalidOption, check};
use std::time::Duration;

/// The lengths of ticks, in nanoseconds. Neighbours differ by at most a factor of 2.5, so the
/// largest one that is at most a hundredth of the window divides the window into 100 to 250 ticks.
const ROUND_TICKS: [u64; 54] = {
    const S: u64 = 1_000_000_000;
    const MIN: u64 = 60 * S;
    const H: u64 = 60 * MIN;
    const D: u64 = 24 * H;
    let long = [
        S,
        2 * S,
        5 * S,
        10 * S,
        20 * S,
        30 * S,
        MIN,
        2 * MIN,
        5 * MIN,
        10 * MIN,
        20 * MIN,
        30 * MIN,
        H,
        2 * H,
        5 * H,
        10 * H,
        D,
        2 * D,
        5 * D,
        10 * D,
        20 * D,
        50 * D,
        100 * D,
        200 * D,
        365 * D,
        730 * D,
        1825 * D,
    ];
    let mut ticks = [0; 54];
    let mut i = 0;
    let mut unit = 1;
    while i < 27 {
        ticks[i] = unit;
        ticks[i + 1] = 2 * unit;
        ticks[i + 2] = 5 * unit;
        unit *= 10;
        i += 3;
    }
    while i < 54 {
        ticks[i] = long[i - 27];
        i += 1;
    }
    ticks
};

/// The division of a window's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticks {
    /// Nanoseconds per tick.
    pub nanos: u64,
    /// Ticks per window.
    pub window: u64,
    /// The reciprocal that divides by `nanos`.
    reciprocal: Reciprocal,
}

/// A divisor that is known long before: division by it is a multiplication, where a division would
/// cost as much as reading the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reciprocal {
    factor: u64,
    shift: u32,
}

impl Reciprocal {
    /// Returns the reciprocal for dividing numbers below 2^63 by `divisor` (Granlund and
    /// Montgomery, Division by Invariant Integers, 1994): the factor is 2^(63 + bits) / divisor,
    /// rounded up, for the fewest bits with 2^bits >= divisor.
    fn of(divisor: u64) -> Self {
        let bits = divisor.next_power_of_two().trailing_zeros();
        let factor = (1_u128 << (63 + bits)).div_ceil(u128::from(divisor));
        // At most 2^64 - 1, except for a divisor of 2^bits, where it is 2^63.
        Reciprocal { factor: factor as u64, shift: 63 + bits }
    }

    #[inline(always)]
    fn divide(self, number: u64) -> u64 {
        ((u128::from(number) * u128::from(self.factor)) >> self.shift) as u64
    }
}

impl Ticks {
    pub(crate) const WINDOW_MIN: Duration = Duration::from_nanos(100);
    pub(crate) const WINDOW_MAX: Duration = HUNDRED_YEARS;

    /// Returns the division of a window.
    pub fn of_window(window: Duration) -> Result<Self, InvalidOption> {
        let is_valid = (Self::WINDOW_MIN..=Self::WINDOW_MAX).contains(&window);
        check(is_valid, "window", window, "a duration from 100ns to 100 years")?;
        let window = nanos_of(window);
        let longer = ROUND_TICKS.partition_point(|&tick| tick <= window / 100);
        let nanos = ROUND_TICKS[longer - 1];
        Ok(Ticks { nanos, window: window.div_ceil(nanos), reciprocal: Reciprocal::of(nanos) })
    }

    /// Returns a time in ticks. An entry of time t is live at t' if
    /// `at(t').now < at(t).stamp + window`: whenever t' - t < W + lag, and never once t' - t >= W +
    /// lag + 2 ticks. (These are readings; in truth both may be later by up to the lag.)
    #[inline(always)]
    pub(crate) fn at(&self, reading: Reading) -> Tick {
        let now = self.reciprocal.divide(reading.time.as_nanos());
        let rest = reading.time.as_nanos() - now * self.nanos + reading.lag_nanos;
        Tick { now, stamp: now + u64::from(rest > 0) + u64::from(rest > self.nanos) }
    }

    /// Returns true if a window still remembers at one time what it accepted at an earlier one.
    pub fn remembers(&self, accepted: Timestamp, now: Timestamp) -> bool {
        self.at(now.into()).now < self.at(accepted.into()).stamp + self.window
    }

    /// Returns the earliest reading that is this tick.
    #[inline(always)]
    pub(crate) fn reading_of(&self, tick: Tick) -> Reading {
        let time = self.start_of(tick.now);
        Reading { time, lag_nanos: tick.stamp.saturating_sub(tick.now).saturating_mul(self.nanos) }
    }

    /// Returns the nanosecond up to which no reading, with its lag, is a later tick than this.
    pub(crate) fn settled_by(&self, tick: Tick) -> u64 {
        if tick.stamp > tick.now { self.end_of(tick.now).as_nanos() } else { self.start_of(tick.now).as_nanos() }
    }

    /// Returns the first moment of a tick.
    #[inline(always)]
    pub(crate) fn start_of(&self, tick: u64) -> Timestamp {
        Timestamp::from_nanos(tick.saturating_mul(self.nanos))
    }

    /// Returns the last moment of a tick.
    pub(crate) fn end_of(&self, tick: u64) -> Timestamp {
        Timestamp::from_nanos((tick.saturating_add(1)).saturating_mul(self.nanos) - 1)
    }

    /// Returns the first moment at which an entry of this tick is not live any more.
    pub(crate) fn expiry_of(&self, tick: Tick) -> Timestamp {
        self.start_of(tick.stamp.saturating_add(self.window))
    }

    /// Returns the length of a tick.
    pub fn tick(&self) -> Duration {
        Duration::from_nanos(self.nanos)
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::super::tick::WINDOW_TICKS_MAX;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn stamps_are_rounded_up_for_the_lag_too() {
        let ticks = Ticks::of_window(Duration::from_secs(100)).unwrap();
        let at = |nanos: u64, lag_nanos: u64| {
            let Tick { now, stamp } = ticks.at(Reading { time: Timestamp::from_nanos(nanos), lag_nanos });
            (now, stamp)
        };
        const S: u64 = 1_000_000_000;
        assert_eq!([at(0, 0), at(1, 0), at(S - 1, 0), at(S, 0)], [(0, 0), (0, 1), (0, 1), (1, 1)]);
        assert_eq!([at(5 * S, 1), at(5 * S, S), at(5 * S + 1, S), at(6 * S - 1, S)], [(5, 6), (5, 6), (5, 7), (5, 7)]);
        assert_eq!(ticks.end_of(0), Timestamp::from_nanos(S - 1));
        assert_eq!(ticks.end_of(7), Timestamp::from_nanos(8 * S - 1));
    }

    #[test]
    fn ticks_are_round_and_100_to_250_a_window() {
        let tick = |window: Duration| Ticks::of_window(window).map(|t| (t.tick(), t.window));
        let ms = Duration::from_millis;
        let s = Duration::from_secs;
        assert_eq!(tick(ms(1)).unwrap(), (Duration::from_micros(10), 100));
        assert_eq!(tick(s(1)).unwrap(), (ms(10), 100));
        assert_eq!(tick(s(60)).unwrap(), (ms(500), 120));
        assert_eq!(tick(s(600)).unwrap(), (s(5), 120));
        assert_eq!(tick(s(86_400)).unwrap(), (s(600), 144));
        for i in 1..1_000_000_u64 {
            let ticks = Ticks::of_window(Duration::from_nanos(i * i * 3_000_017 + 100)).unwrap();
            assert!((100..=WINDOW_TICKS_MAX).contains(&ticks.window), "{ticks:?}");
        }
        assert_eq!(tick(Ticks::WINDOW_MIN).unwrap().1, 100);
        assert!(tick(Ticks::WINDOW_MAX).is_ok());
        for refused in [s(0), Duration::from_nanos(99), Ticks::WINDOW_MAX + ms(1), Duration::MAX] {
            assert!(tick(refused).is_err());
        }
    }

    proptest! {
        #[test]
        fn a_reciprocal_divides(number in 0..1_u64 << 63, divisor in 1..1_u64 << 62, shift in 0..62_u32) {
            let divisor: u64 = (divisor >> shift).max(1);
            let quotient = Reciprocal::of(divisor).divide(number);
            prop_assert_eq!(quotient, number / divisor);
            // Rounding shows at the edges.
            for number in [number - number % divisor, (number - number % divisor).saturating_sub(1), (1 << 63) - 1] {
                prop_assert_eq!(Reciprocal::of(divisor).divide(number), number / divisor);
            }
        }

        #[test]
        fn a_reading_that_is_settled_is_no_later_tick(
            window in 100..1_u64 << 55, time in 0..1_u64 << 60, lag in 0..1_u64 << 50, late in 0..1_u64 << 50, own: u64,
        ) {
            let ticks = Ticks::of_window(Duration::from_nanos(window)).unwrap();
            let at = |nanos, lag: u64| {
                ticks.at(Reading { time: Timestamp::from_nanos(nanos), lag_nanos: lag % (ticks.nanos + 1) })
            };
            let latest = at(time, lag);
            let settled = ticks.settled_by(latest);
            // The latest reading that is settled, with any lag, and one somewhat before.
            let own = own % (ticks.nanos + 1).min(settled + 1);
            prop_assert!(at(settled - own, own).pack() <= latest.pack());
            let earlier = settled.saturating_sub(late);
            let own = own.min(earlier);
            prop_assert!(at(earlier - own, own).pack() <= latest.pack());
            // Nor is so little settled that it would be of no use.
            prop_assert!(settled >= ticks.start_of(latest.now).as_nanos());
        }

        #[test]
        fn nothing_is_forgotten_before_w_nor_remembered_after_w_and_two_ticks(
            window in 100..1_u64 << 55, lag in 0..1_000_000_u64, accepted in 0..1_u64 << 60, elapsed in 0..1_u64 << 56,
        ) {
            let ticks = Ticks::of_window(Duration::from_nanos(window)).unwrap();
            let lag = lag.min(ticks.nanos);
            let at = |nanos| ticks.at(Reading { time: Timestamp::from_nanos(nanos), lag_nanos: lag });
            let (stamp, now) = (at(accepted).stamp, at(accepted + elapsed).now);
            let live = now < stamp + ticks.window;
            if elapsed < window + lag {
                prop_assert!(live);
            }
            if elapsed >= window + 2 * ticks.nanos + lag {
                prop_assert!(!live);
            }
        }
    }
}
