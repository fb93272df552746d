//! The default clock.

use super::{Clock, Timestamp};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The default clock: monotonic time since it was made, or, in an engine, [since the Unix
/// epoch](MonotonicClock::since_epoch).
///
/// On Linux it reads `CLOCK_MONOTONIC_COARSE` (about 5 ns; [`Instant::now`] takes about 24 ns),
/// which advances in steps of 1 to 10 ms. If the window's tick is so short that these steps would
/// matter, and on other systems, it reads [`Instant`].
#[derive(Clone, Debug)]
pub struct MonotonicClock {
    /// The time that the clock shows at its origin.
    start: Timestamp,
    origin: Instant,
    coarse: Option<coarse::Coarse>,
}

impl MonotonicClock {
    /// Returns a clock for a window whose tick is `tick`: the cheapest one that is precise enough
    /// for it.
    pub fn for_tick(tick: Duration) -> Self {
        MonotonicClock {
            start: Timestamp::default(),
            origin: Instant::now(),
            coarse: coarse::Coarse::new().filter(|coarse| coarse.step() * 4 <= tick),
        }
    }

    /// Returns such a clock that shows the time since the Unix epoch, as the system's clock has it
    /// now: for what outlives the process. When the system's clock is set later on, this one is
    /// not.
    pub fn since_epoch(tick: Duration) -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        MonotonicClock { start: Timestamp::default() + since_epoch, ..Self::for_tick(tick) }
    }

    /// Returns the same clock, set so that it shows this time now.
    pub(crate) fn set(&mut self, now: Timestamp) {
        self.origin = Instant::now();
        self.coarse = self.coarse.as_ref().and_then(|_| coarse::Coarse::new());
        self.start = now;
    }
}

impl Clock for MonotonicClock {
    #[inline]
    fn now(&self) -> Timestamp {
        let elapsed = match &self.coarse {
            Some(coarse) => coarse.elapsed(),
            None => self.origin.elapsed(),
        };
        self.start + elapsed
    }

    fn lag(&self) -> Duration {
        self.coarse.as_ref().map_or(Duration::ZERO, |c| c.step())
    }
}

// (Miri knows neither the clock's resolution nor the purpose of the coarse one.)
#[cfg(all(target_os = "linux", not(miri)))]
mod coarse {
    use std::time::Duration;

    /// `CLOCK_MONOTONIC_COARSE` since the clock was made.
    #[derive(Clone, Debug)]
    pub(super) struct Coarse {
        origin: Duration,
        step: Duration,
    }

    impl Coarse {
        pub(super) fn new() -> Option<Self> {
            let mut step = ZERO;
            // SAFETY: `step` is a timespec that we own, valid for writing for the whole call.
            let failed = unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC_COARSE, &mut step) };
            (failed == 0).then(|| Coarse { origin: read(), step: duration(step) })
        }

        pub(super) fn elapsed(&self) -> Duration {
            read().saturating_sub(self.origin)
        }

        pub(super) fn step(&self) -> Duration {
            self.step
        }
    }

    const ZERO: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 0 };

    #[inline]
    fn read() -> Duration {
        let mut now = ZERO;
        // SAFETY: `now` is a timespec that we own, valid for writing for the whole call. The call
        // fails only for an unknown clock, and `new` has asked this one for its resolution.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut now) };
        duration(now)
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "nanoseconds of a second")]
    fn duration(time: libc::timespec) -> Duration {
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod coarse {
    use std::time::Duration;

    /// A coarse clock that does not exist: none is known for this system.
    #[derive(Clone, Debug)]
    pub(super) enum Coarse {}

    impl Coarse {
        pub(super) fn new() -> Option<Self> {
            None
        }

        pub(super) fn elapsed(&self) -> Duration {
            match *self {}
        }

        pub(super) fn step(&self) -> Duration {
            match *self {}
        }
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    #[test]
    fn the_default_clock_moves_and_says_by_how_much_it_lags() {
        let coarse = MonotonicClock::for_tick(Duration::from_secs(1));
        assert!(coarse.lag() <= Duration::from_millis(250));
        let precise = MonotonicClock::for_tick(Duration::from_nanos(1));
        assert_eq!(precise.lag(), Duration::ZERO);
        for clock in [coarse, precise] {
            let start = clock.now();
            while clock.now() == start {
                std::hint::spin_loop();
            }
            assert!(clock.now() > start);
        }
    }
}
