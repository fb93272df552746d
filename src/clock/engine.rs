//! The clock of an engine: the default one, or one that it was given.

use super::{Clock, Machine, MonotonicClock, Reading, Timestamp, nanos_of};
use crate::sync::{Ordering, StdAtomicU64};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The source of the time. Clones read the same.
#[derive(Clone)]
pub(crate) struct EngineClock {
    source: Source,
    lag_nanos: u64,
    /// The amount by which it was set since it was made; for clones from before that.
    set_by: Arc<StdAtomicU64>,
}

/// The clock itself. The default one is known to the compiler.
#[derive(Clone)]
enum Source {
    Monotonic(MonotonicClock),
    /// A caller's clock, and the nanoseconds that are added to its time.
    Custom(Arc<dyn Clock>, i64),
    #[cfg(test)]
    Simulated(SimulatedClock),
}

/// A default clock over a simulated system's monotonic one.
#[cfg(test)]
#[derive(Clone)]
pub(crate) struct SimulatedClock {
    pub(crate) monotonic: crate::ManualClock,
    pub(crate) ahead_nanos: Arc<StdAtomicU64>,
}

#[cfg(test)]
impl SimulatedClock {
    pub(crate) fn now(&self) -> Timestamp {
        let ahead = self.ahead_nanos.load(Ordering::Relaxed);
        Timestamp::from_nanos(self.monotonic.now().as_nanos().wrapping_add(ahead))
    }

    pub(crate) fn set(&self, now: Timestamp) {
        let ahead = now.as_nanos().wrapping_sub(self.monotonic.now().as_nanos());
        self.ahead_nanos.store(ahead, Ordering::Relaxed);
    }
}

impl EngineClock {
    /// Returns the given clock, or the default one, for a window of this tick.
    pub(crate) fn new(clock: Option<Box<dyn Clock>>, tick: Duration) -> Self {
        let (lag, source) = match clock {
            Some(clock) => (clock.lag(), Source::Custom(clock.into(), 0)),
            None => {
                // Since the epoch, so that the next process understands what outlives this one.
                let clock = MonotonicClock::since_epoch(tick);
                (clock.lag(), Source::Monotonic(clock))
            }
        };
        EngineClock { source, lag_nanos: nanos_of(lag.min(tick)), set_by: Arc::default() }
    }

    #[cfg(test)]
    pub(crate) fn simulated(clock: SimulatedClock) -> Self {
        EngineClock { source: Source::Simulated(clock), lag_nanos: 0, set_by: Arc::default() }
    }

    #[inline(always)]
    pub(crate) fn now(&self) -> Reading {
        let time = match &self.source {
            Source::Monotonic(clock) => clock.now(),
            Source::Custom(clock, ahead) => Timestamp::from_nanos(clock.now().as_nanos().saturating_add_signed(*ahead)),
            #[cfg(test)]
            Source::Simulated(clock) => clock.now(),
        };
        Reading { time, lag_nanos: self.lag_nanos }
    }

    /// Sets the clock to go on from here, now, also one that the builder was given: its last
    /// reading says nothing of the events that the engine went by.
    pub(crate) fn set_by_events(&mut self, now: Timestamp) {
        if let Source::Custom(clock, ahead) = &mut self.source {
            *ahead = (now.as_nanos() as i64).wrapping_sub(clock.now().as_nanos() as i64);
        } else {
            self.set(now);
        }
    }

    /// Sets the default clock to go on from here, now. A clock that the builder was given belongs
    /// to its owner: for that it returns false.
    pub(crate) fn set(&mut self, now: Timestamp) -> bool {
        match &mut self.source {
            Source::Monotonic(clock) => {
                let by = (now.as_nanos() as i64).wrapping_sub(clock.now().as_nanos() as i64);
                // Relaxed: it carries nothing but the time.
                self.set_by.fetch_add(by as u64, Ordering::Relaxed);
                clock.set(now);
                true
            }
            Source::Custom(..) => false,
            #[cfg(test)]
            Source::Simulated(clock) => {
                clock.set(now);
                true
            }
        }
    }

    /// Returns the machine that the engine runs on, with the time that its clock shows.
    pub(crate) fn machine(&self) -> Machine {
        let (clock, before) = (self.clone(), self.set_by.load(Ordering::Relaxed));
        Machine::this(move || {
            let set_by = clock.set_by.load(Ordering::Relaxed).wrapping_sub(before) as i64;
            let now = clock.now().time.as_nanos().saturating_add_signed(set_by);
            Timestamp::from_nanos(now)
        })
    }

    /// Returns the time of the wall clock: the one that the builder was given, or the system's.
    pub(crate) fn wall(&self) -> Timestamp {
        match &self.source {
            Source::Monotonic(_) => SystemTime::now().into(),
            Source::Custom(clock, _) => clock.now(),
            #[cfg(test)]
            Source::Simulated(clock) => clock.now(),
        }
    }

    /// Returns the longest that a thread may wait by the system's clock without reading this one;
    /// `unknown` if it is not known how this one runs.
    pub(crate) fn glance(&self, unknown: Duration) -> Duration {
        match &self.source {
            Source::Monotonic(_) => Duration::MAX,
            Source::Custom(..) => unknown,
            #[cfg(test)]
            Source::Simulated(_) => unknown,
        }
    }
}
