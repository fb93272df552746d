//! The time at which an id was first seen.

use crate::Timestamp;
use std::time::Duration;

/// The time at which an id was first seen, to within a [tick](crate::Dedup::tick) of the window.
///
/// ```
/// use hapax::{Dedup, ManualClock, Timestamp};
/// use std::time::Duration;
///
/// let clock = ManualClock::new();
/// clock.set(Timestamp::from_secs(1_000));
/// let dedup = Dedup::builder().window(Duration::from_secs(600)).clock(clock.clone()).build()?;
/// dedup.check("order-17");
/// clock.advance(Duration::from_secs(42));
///
/// let (verdict, first) = dedup.check_first_seen("order-17");
/// let first = first.expect("the window has it");
/// assert!(verdict.is_duplicate());
/// assert!(first.earliest() <= Timestamp::from_secs(1_000) && Timestamp::from_secs(1_000) <= first.latest());
/// assert!(first.age_at_least() <= Duration::from_secs(42) && Duration::from_secs(42) <= first.age_at_most());
/// # Ok::<(), hapax::Error>(())
/// ```
///
/// Times are those of the engine: its clock's, or those of the events, if callers give times. An
/// event that came late counts as of the latest one at that moment, here as everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FirstSeen {
    pub(crate) earliest: Timestamp,
    pub(crate) latest: Timestamp,
    pub(crate) now: Timestamp,
}

impl FirstSeen {
    /// Returns the earliest time that it can have been.
    pub fn earliest(&self) -> Timestamp {
        self.earliest
    }

    /// Returns the latest time that it can have been: a tick after the earliest, and as much as the
    /// clock may lag. With a journal, up to three ticks.
    pub fn latest(&self) -> Timestamp {
        self.latest
    }

    /// Returns the least time that can have passed since then, until the call.
    pub fn age_at_least(&self) -> Duration {
        self.now.since(self.latest)
    }

    /// Returns the most time that can have passed since then, until the call.
    pub fn age_at_most(&self) -> Duration {
        self.now.since(self.earliest)
    }
}
