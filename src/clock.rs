//! Time is an argument: a [`Timestamp`] given to a call, or read from a [`Clock`].

mod engine;
mod going_on;
mod machine;
mod monotonic;

pub(crate) use self::engine::EngineClock;
#[cfg(test)]
pub(crate) use self::engine::SimulatedClock;
pub(crate) use self::going_on::{ClockStep, Left, MachineTime, go_on};
pub(crate) use self::machine::{Clocks, Machine, SharedTimeBase, TimeBase};
pub use self::monotonic::MonotonicClock;

use crate::sync::{Ordering, StdAtomicU64};
use std::fmt;
use std::ops::{Add, Sub};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The longest time that an option may set: a hundred years, however many of them are leap years.
pub const HUNDRED_YEARS: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

/// Returns a duration in nanoseconds; the greatest number for one of more than 584 years.
#[inline]
pub fn nanos_of(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A point in time: nanoseconds since an origin of the caller's choosing (the Unix epoch, the start
/// of the process, …).
///
/// ```
/// use hapax::Timestamp;
/// use std::time::Duration;
///
/// let t = Timestamp::from_millis(1_500);
/// assert_eq!(t + Duration::from_secs(1), Timestamp::from_nanos(2_500_000_000));
/// ```
///
/// Only differences matter, so any origin will do, as long as one engine is given times of one
/// origin, and is told if that is not the origin of its clock
/// ([`EventTime::unrelated`](crate::EventTime::unrelated)). Times beyond 292 years after the origin
/// count as 292 years; an engine refuses those from 146 years on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The latest time there is; arithmetic saturates here.
    const MAX: u64 = i64::MAX as u64;

    /// Returns the time `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Timestamp(if nanos < Self::MAX { nanos } else { Self::MAX })
    }

    /// Returns the time `nanos` nanoseconds after the origin, which is known to be no later than
    /// the latest time.
    #[inline(always)]
    pub(crate) const fn of_nanos(nanos: u64) -> Self {
        debug_assert!(nanos <= Self::MAX);
        Timestamp(nanos)
    }

    /// Returns the time `micros` microseconds after the origin.
    pub const fn from_micros(micros: u64) -> Self {
        Self::from_nanos(micros.saturating_mul(1_000))
    }

    /// Returns the time `millis` milliseconds after the origin.
    pub const fn from_millis(millis: u64) -> Self {
        Self::from_nanos(millis.saturating_mul(1_000_000))
    }

    /// Returns the time `secs` seconds after the origin.
    pub const fn from_secs(secs: u64) -> Self {
        Self::from_nanos(secs.saturating_mul(1_000_000_000))
    }

    /// Returns the nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the time that has passed since an earlier point, or zero if that point is later.
    ///
    /// ```
    /// use hapax::Timestamp;
    /// use std::time::Duration;
    ///
    /// // The time that is left of a lease, as a store tells it.
    /// let (now, until) = (Timestamp::from_secs(100), Timestamp::from_secs(130));
    /// assert_eq!(until.since(now), Duration::from_secs(30));
    /// assert_eq!(now.since(until), Duration::ZERO);
    /// ```
    pub const fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// The latest time there is, if the sum would be later.
impl Add<Duration> for Timestamp {
    type Output = Timestamp;

    fn add(self, duration: Duration) -> Timestamp {
        Timestamp::from_nanos(self.0.saturating_add(saturated(duration)))
    }
}

/// The origin, if the difference would be earlier.
///
/// ```
/// use hapax::Timestamp;
/// use std::time::Duration;
///
/// let minute = Duration::from_secs(60);
/// assert_eq!(Timestamp::from_secs(90) - minute, Timestamp::from_secs(30));
/// assert_eq!(Timestamp::from_secs(30) - minute, Timestamp::from_secs(0));
/// ```
impl Sub<Duration> for Timestamp {
    type Output = Timestamp;

    fn sub(self, duration: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(saturated(duration)))
    }
}

/// The time from the second to the first; zero if the second is the later one. The same as
/// [`since`](Timestamp::since).
///
/// ```
/// use hapax::Timestamp;
/// use std::time::Duration;
///
/// let (sent, received) = (Timestamp::from_secs(100), Timestamp::from_secs(103));
/// assert_eq!(received - sent, Duration::from_secs(3));
/// assert_eq!(sent - received, Duration::ZERO);
/// ```
impl Sub for Timestamp {
    type Output = Duration;

    fn sub(self, earlier: Timestamp) -> Duration {
        self.since(earlier)
    }
}

/// Returns the duration in nanoseconds, or the most that there can be.
fn saturated(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The time since 1970. A time before 1970 becomes 1970, one after April 2262 becomes that.
///
/// ```
/// use hapax::{Dedup, Timestamp};
/// use std::time::{Duration, SystemTime};
///
/// let dedup = Dedup::builder().build()?;
/// let written = SystemTime::now() - Duration::from_secs(5); // a file's time, say
/// assert!(dedup.check_at("order-17", written.into()).is_fresh());
///
/// let before_1970 = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
/// assert_eq!(Timestamp::from(before_1970), Timestamp::from_secs(0));
/// # Ok::<(), hapax::Error>(())
/// ```
impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        Timestamp::default() + time.duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}

/// Shows the seconds since the origin, with as many decimals as it takes.
///
/// ```
/// use hapax::Timestamp;
///
/// assert_eq!(Timestamp::from_millis(1_500).to_string(), "1.5s");
/// assert_eq!(Timestamp::from_secs(1_700_000_000).to_string(), "1700000000s");
/// ```
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (secs, nanos) = (self.0 / 1_000_000_000, self.0 % 1_000_000_000);
        if nanos == 0 {
            return f.pad(&format!("{secs}s"));
        }
        let decimals = format!("{nanos:09}");
        f.pad(&format!("{secs}.{}s", decimals.trim_end_matches('0')))
    }
}

/// A reading of a clock: a time that is, in truth, up to `lag_nanos` later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) time: Timestamp,
    /// The lag, at most a tick of the window.
    pub(crate) lag_nanos: u64,
}

impl Reading {
    /// Returns the latest that the time may be in truth.
    #[inline(always)]
    pub(crate) fn end_nanos(self) -> u64 {
        self.time.as_nanos().saturating_add(self.lag_nanos)
    }

    /// Returns the later of two readings: no earlier than either, with a lag that covers both.
    pub(crate) fn later(self, other: Reading) -> Reading {
        let time = self.time.max(other.time);
        Reading { time, lag_nanos: self.end_nanos().max(other.end_nanos()) - time.as_nanos() }
    }
}

/// The stamp that a window gives to ids that are accepted at a reading: readings with the same tick
/// are all the same to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    pub(crate) reading: Reading,
    pub(crate) tick: u64,
}

impl From<Timestamp> for Reading {
    #[inline(always)]
    fn from(time: Timestamp) -> Self {
        Reading { time, lag_nanos: 0 }
    }
}

/// The source of the time, where an engine is not given one.
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
/// A clock should not run backwards; if it does, the engine stays at the largest time that it has
/// seen.
pub trait Clock: Send + Sync + 'static {
    /// Returns the present time.
    fn now(&self) -> Timestamp;

    /// Returns the most that [`now`](Clock::now) may lag behind the true time, for a clock that
    /// advances in steps. Ids are remembered for that much longer, a tick of the window at most, so
    /// that none is forgotten early.
    fn lag(&self) -> Duration {
        Duration::ZERO
    }
}

/// A clock that moves only when it is told to. Clones share the time.
///
/// For tests of expiry that do not sleep, and for replaying recorded streams.
#[derive(Clone, Debug, Default)]
pub struct ManualClock(Arc<StdAtomicU64>);

impl ManualClock {
    /// Returns a clock that stands at its origin.
    pub fn new() -> Self {
        Self::default()
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.set(self.now() + by);
    }

    /// Sets the clock to a time, which may be an earlier one.
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

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;

    #[test]
    fn times_saturate() {
        let last = Timestamp::from_secs(u64::MAX);
        assert_eq!(last + Duration::MAX, last);
        assert_eq!(Timestamp::from_nanos(u64::MAX), last);
        assert_eq!(last - Duration::MAX, Timestamp::default());
        assert_eq!(Timestamp::default() - last, Duration::ZERO);
    }

    #[test]
    fn differences_are_exact() {
        let (earlier, later) = (Timestamp::from_nanos(1_000), Timestamp::from_nanos(3_001));
        assert_eq!(later - earlier, Duration::from_nanos(2_001));
        assert_eq!(later - Duration::from_nanos(2_001), earlier);
        assert_eq!(earlier + (later - earlier), later);
    }

    #[test]
    fn the_systems_times_count_from_1970() {
        let of = |since: Duration| Timestamp::from(UNIX_EPOCH + since);
        assert_eq!(of(Duration::ZERO), Timestamp::default());
        assert_eq!(of(Duration::new(1_700_000_000, 7)), Timestamp::from_nanos(1_700_000_000_000_000_007));
        assert_eq!(Timestamp::from(UNIX_EPOCH - Duration::from_nanos(1)), Timestamp::default());
        assert_eq!(of(Duration::from_secs(400 * 366 * 24 * 3600)), Timestamp::from_secs(u64::MAX));
    }

    #[test]
    fn times_are_shown_in_seconds() {
        let shown = |nanos| Timestamp::from_nanos(nanos).to_string();
        assert_eq!([shown(0), shown(1), shown(10_000_000)], ["0s", "0.000000001s", "0.01s"]);
        assert_eq!([shown(2_000_000_000), shown(61_000_000_020)], ["2s", "61.00000002s"]);
        assert_eq!(format!("[{:>5}]", Timestamp::from_secs(7)), "[   7s]");
    }
}
