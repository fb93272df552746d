//! The configuration of a memory of versions.

use super::shards::{CAPACITY_MAX, Shards};
use super::{Core, Latest};
use crate::clock::{Clock, EngineClock, nanos_of};
use crate::digest::{Digester, WantedKey};
use crate::error::check;
use crate::process::at_rest_in_forks;
use crate::stream_time::StreamTime;
use crate::sync::StdAtomicU64;
use crate::window::Ticks;
use crate::{Error, EventTime};
use std::sync::Arc;
use std::time::Duration;

/// Configures a [`Latest`].
///
/// ```
/// use hapax::Latest;
/// use std::time::Duration;
///
/// let latest = Latest::builder().retention(Duration::from_secs(3_600)).capacity(100_000).scope("prices").build()?;
/// # Ok::<(), hapax::Error>(())
/// ```
#[must_use = "a builder does nothing until `build` is called"]
pub struct LatestBuilder {
    retention: Duration,
    capacity: usize,
    clock: Option<Box<dyn Clock>>,
    event_time: Option<EventTime>,
    key: WantedKey,
    scope: Option<String>,
}

impl LatestBuilder {
    pub(super) fn new() -> Self {
        LatestBuilder {
            retention: Duration::from_secs(600),
            capacity: 1_000_000,
            clock: None,
            event_time: None,
            key: WantedKey::default(),
            scope: None,
        }
    }

    /// Sets how long an id's highest version is known, from when it was accepted: 100 ns to 100
    /// years. Longer than a message can be late. Default: 10 minutes.
    pub fn retention(self, retention: Duration) -> Self {
        LatestBuilder { retention, ..self }
    }

    /// Sets how many ids can be known at a time, at 51 bytes each (a little more for fewer than a
    /// million, whose shards need more room to spare). It does not grow: with more, those whose
    /// versions were accepted first are forgotten early. Default: a million.
    pub fn capacity(self, ids: usize) -> Self {
        LatestBuilder { capacity: ids, ..self }
    }

    /// Sets the clock from which the time is read. Default: the one that an engine has,
    /// [`MonotonicClock::since_epoch`](crate::MonotonicClock::since_epoch).
    pub fn clock(self, clock: impl Clock) -> Self {
        LatestBuilder { clock: Some(Box::new(clock)), ..self }
    }

    /// Declares that times come with the events ([`check_at`](Latest::check_at)), and sets which of
    /// them are refused; see [`Builder::event_time`](crate::Builder::event_time).
    pub fn event_time(self, event_time: EventTime) -> Self {
        LatestBuilder { event_time: Some(event_time), ..self }
    }

    /// Sets a key of 64 bits for the [digests](Digester), for runs that are to be repeatable.
    /// Default: 16 bytes from the operating system. Anyone who knows it can construct ids that
    /// collide.
    pub fn seed(self, seed: u64) -> Self {
        LatestBuilder { key: WantedKey { bits: Some(seed.into()), ..self.key }, ..self }
    }

    /// Sets the namespace of the ids. Default: none. See [`Latest::with_scope`] for several in one
    /// memory.
    pub fn scope(self, scope: impl Into<String>) -> Self {
        LatestBuilder { scope: Some(scope.into()), ..self }
    }

    /// Returns true if times are to come with the events.
    #[doc(hidden)] // for `TieredLatest`, whose checks have no times
    pub fn is_by_events(&self) -> bool {
        self.event_time.is_some()
    }

    /// Returns the time for which versions are known.
    #[doc(hidden)] // for `TieredLatest`, whose store is to know them for as long
    pub fn known_for(&self) -> Duration {
        self.retention
    }

    /// Builds the memory.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidOption`] names the option, its value and what would be valid;
    /// [`Error::OutOfMemory`] says how much memory was not available.
    pub fn build(self) -> Result<Latest, Error> {
        let retention = self.retention;
        let ticks = Ticks::of_window(retention).map_err(|_| {
            let expected = "a duration from 100ns to 100 years";
            crate::error::InvalidOption::new("retention", retention, expected)
        })?;
        let is_valid = (1..=CAPACITY_MAX).contains(&self.capacity);
        check(is_valid, "capacity", self.capacity, format!("the number of ids, from 1 to {CAPACITY_MAX}"))?;
        let policy = self.event_time.clone().unwrap_or_default().policy(retention)?;
        let unscoped = Digester::from(self.key.or_random()?);
        let digester = self.scope.as_ref().map_or_else(|| unscoped.clone(), |scope| unscoped.scoped(scope));
        let shards = Arc::new(Shards::new(self.capacity, nanos_of(retention))?);
        at_rest_in_forks(&shards);
        let core = Core {
            shards,
            clock: EngineClock::new(self.clock, ticks.tick()),
            stream_time: StreamTime::new(policy, self.event_time.is_some()),
            unscoped,
            refused: StdAtomicU64::new(0),
        };
        Ok(Latest { core: Arc::new(core), digester })
    }
}
