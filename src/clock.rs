//! Time is an argument: a [`Timestamp`] given to a call, or read from a [`Clock`].

use crate::sync::{Ordering, StdAtomicU64};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A point in time: nanoseconds since an origin of the caller's choosing (the Unix epoch, the start of the process, …).
///
/// ```
/// use hapax::Timestamp;
/// use std::time::Duration;
///
/// let t = Timestamp::from_millis(1_500);
/// assert_eq!(t + Duration::from_secs(1), Timestamp::from_nanos(2_500_000_000));
/// ```
///
/// Only differences matter, so any origin will do, as long as one engine is given times of one origin. Times beyond 292
/// years after the origin count as 292 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The latest time there is; arithmetic saturates here.
    const MAX: u64 = i64::MAX as u64;

    /// `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Timestamp(if nanos < Self::MAX { nanos } else { Self::MAX })
    }

    /// The same for what is known to be no later than the latest time.
    #[inline(always)]
    pub(crate) const fn of_nanos(nanos: u64) -> Self {
        debug_assert!(nanos <= Self::MAX);
        Timestamp(nanos)
    }

    /// `micros` microseconds after the origin.
    pub const fn from_micros(micros: u64) -> Self {
        Self::from_nanos(micros.saturating_mul(1_000))
    }

    /// `millis` milliseconds after the origin.
    pub const fn from_millis(millis: u64) -> Self {
        Self::from_nanos(millis.saturating_mul(1_000_000))
    }

    /// `secs` seconds after the origin.
    pub const fn from_secs(secs: u64) -> Self {
        Self::from_nanos(secs.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The time that has passed since an earlier point, or none.
    pub(crate) const fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl std::ops::Add<Duration> for Timestamp {
    type Output = Timestamp;

    fn add(self, duration: Duration) -> Timestamp {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Timestamp::from_nanos(self.0.saturating_add(nanos))
    }
}

/// A time that is, in truth, up to `lag_nanos` later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) time: Timestamp,
    /// At most a tick of the window.
    pub(crate) lag_nanos: u64,
}

impl From<Timestamp> for Reading {
    #[inline(always)]
    fn from(time: Timestamp) -> Self {
        Reading { time, lag_nanos: 0 }
    }
}

/// Where an engine reads the time when it is not given one.
///
/// ```
/// use hapax::{Clock, Dedup, ManualClock};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// let dedup = Dedup::builder().window(Duration::from_secs(60)).clock(clock.clone()).build()?;
/// assert!(dedup.check("a").is_fresh());
/// clock.advance(Duration::from_secs(59));
/// assert!(dedup.check("a").is_duplicate());
/// clock.advance(Duration::from_secs(3));
/// assert!(dedup.check("a").is_fresh());
/// # Ok::<(), hapax::Error>(())
/// ```
///
/// A clock should not run backwards; if it does, the engine keeps to the largest time that it has seen.
pub trait Clock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Timestamp;

    /// How far [`now`](Clock::now) may lag behind the true time, for a clock that advances in steps. Ids are remembered
    /// for that much longer, a tick of the window at most, so that none is forgotten early.
    fn lag(&self) -> Duration {
        Duration::ZERO
    }
}

/// A clock that moves only when it is told to. Clones share the time.
///
/// Made for tests of expiry that do not sleep, and for replaying recorded streams.
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<StdAtomicU64>);

impl ManualClock {
    /// A clock that stands at its origin.
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.set(self.now() + by);
    }

    /// Puts the clock to a time, which may be an earlier one.
    pub fn set(&self, to: Timestamp) {
        // Relaxed: a clock orders nothing but itself.
        self.0.store(to.as_nanos(), Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// The default clock: monotonic time since it was made, or, as an engine has it, [since the Unix epoch](MonotonicClock::since_epoch).
///
/// On Linux it reads `CLOCK_MONOTONIC_COARSE` (about 5 ns; [`Instant::now`] takes about 24 ns), which advances in steps of
/// 1 to 10 ms, unless the window's tick is so short that these steps would matter: then, and elsewhere, [`Instant`].
#[derive(Debug)]
pub struct MonotonicClock {
    /// What it shows at its origin.
    start: Timestamp,
    origin: Instant,
    coarse: Option<coarse::Coarse>,
}

impl MonotonicClock {
    /// A clock for a window whose tick is `tick`: the cheapest one that is precise enough for it.
    pub fn for_tick(tick: Duration) -> Self {
        MonotonicClock {
            start: Timestamp::default(),
            origin: Instant::now(),
            coarse: coarse::Coarse::new().filter(|coarse| coarse.step() * 4 <= tick),
        }
    }

    /// The same, since the Unix epoch, as the system's clock has it now: for what outlives the process. When that clock is set later on, this
    /// one is not.
    pub fn since_epoch(tick: Duration) -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        MonotonicClock { start: Timestamp::default() + since_epoch, ..Self::for_tick(tick) }
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

#[cfg(target_os = "linux")]
mod coarse {
    use std::time::Duration;

    /// `CLOCK_MONOTONIC_COARSE` since it was made.
    #[derive(Debug)]
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
        // SAFETY: `now` is a timespec that we own, valid for writing for the whole call. The call fails only for an
        // unknown clock, and `new` has asked this one for its resolution.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut now) };
        duration(now)
    }

    #[inline]
    fn duration(time: libc::timespec) -> Duration {
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
}

#[cfg(not(target_os = "linux"))]
mod coarse {
    use std::time::Duration;

    /// No coarse clock is known for this system.
    #[derive(Debug)]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_saturate() {
        let last = Timestamp::from_secs(u64::MAX);
        assert_eq!(last + Duration::MAX, last);
        assert_eq!(Timestamp::from_nanos(u64::MAX), last);
    }

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
