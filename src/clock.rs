//! Time is an argument: a [`Timestamp`] given to a call, or read from a [`Clock`].

#[cfg(feature = "journal")]
mod going_on;

#[cfg(feature = "journal")]
pub use self::going_on::ClockStep;
#[cfg(feature = "journal")]
pub(crate) use self::going_on::{Left, MachineTime, go_on};

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
/// Only differences matter, so any origin will do, as long as one engine is given times of one
/// origin, and is told if that is not the origin of its clock
/// ([`EventTime::unrelated`](crate::EventTime::unrelated)). Times beyond 292 years after the origin
/// count as 292 years; an engine refuses those from 146 years on.
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

impl Reading {
    /// The later of two: no earlier than either, with a lag that covers both.
    #[cfg(feature = "journal")]
    pub(crate) fn later(self, other: Reading) -> Reading {
        let time = self.time.max(other.time);
        let end = |reading: Reading| reading.time.as_nanos().saturating_add(reading.lag_nanos);
        Reading { time, lag_nanos: end(self).max(end(other)) - time.as_nanos() }
    }
}

/// The stamp that a window gives to what is accepted at a reading: readings with the same tick are
/// all the same to it.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "journal"), allow(dead_code, reason = "only a journal reads them"))]
pub(crate) struct Stamp {
    pub(crate) reading: Reading,
    pub(crate) tick: u64,
}

/// The clocks of a machine at one moment.
#[cfg(feature = "journal")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clocks {
    /// Of the engine.
    pub(crate) engine: Timestamp,
    /// Since 1970.
    pub(crate) wall_nanos: u64,
    /// Since the machine was started, suspended or not; 0 if nobody knows.
    pub(crate) boot_nanos: u64,
}

/// The way an engine counts time.
#[cfg(feature = "journal")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TimeBase {
    /// The time that its clock shows beyond the wall clock.
    pub(crate) offset_nanos: i64,
    /// 0: undecided, or by the clock; 1: by events.
    pub(crate) kind: u64,
}

/// The way an engine counts time, for those who write it down.
#[cfg(feature = "journal")]
#[derive(Debug, Default)]
pub(crate) struct SharedTimeBase {
    offset_nanos: StdAtomicU64,
    kind: StdAtomicU64,
}

#[cfg(feature = "journal")]
impl SharedTimeBase {
    pub(crate) fn set(&self, base: TimeBase) {
        // Relaxed: a file says how time was counted at about the time when it was begun; a run says
        // when that has changed.
        self.offset_nanos.store(base.offset_nanos as u64, Ordering::Relaxed);
        self.kind.store(base.kind, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> TimeBase {
        let offset_nanos = self.offset_nanos.load(Ordering::Relaxed) as i64;
        TimeBase { offset_nanos, kind: self.kind.load(Ordering::Relaxed) }
    }
}

/// The machine that a journal is written on.
#[cfg(feature = "journal")]
#[derive(Clone)]
pub(crate) struct Machine {
    pub(crate) clocks: Arc<dyn Fn() -> Clocks + Send + Sync>,
    /// The boot of the machine that this is; 0 if nobody knows.
    pub(crate) boot: u64,
}

#[cfg(feature = "journal")]
impl Machine {
    /// This one, with what an engine's clock shows.
    pub(crate) fn this(engine: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Machine { clocks: Arc::new(move || Clocks { engine: engine(), ..system() }), boot: boot() }
    }
}

#[cfg(feature = "journal")]
fn system() -> Clocks {
    let wall_nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    Clocks { engine: Timestamp::default(), wall_nanos, boot_nanos: since_boot() }
}

#[cfg(all(feature = "journal", target_os = "linux"))]
fn since_boot() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a timespec that we own, valid for writing for the whole call.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut now) };
    if failed == 0 { now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64 } else { 0 }
}

#[cfg(all(feature = "journal", not(target_os = "linux")))]
fn since_boot() -> u64 {
    0
}

/// A hash of what Linux calls this boot.
#[cfg(feature = "journal")]
pub(crate) fn boot() -> u64 {
    let id = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    if id.is_empty() { 0 } else { xxhash_rust::xxh3::xxh3_64(&id).max(1) }
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
#[derive(Clone, Debug)]
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

    /// The same clock, but it is this late now.
    #[cfg(feature = "journal")]
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

#[cfg(target_os = "linux")]
mod coarse {
    use std::time::Duration;

    /// `CLOCK_MONOTONIC_COARSE` since it was made.
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
