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
///
/// The two ages are as far apart as the two times, and as much farther as the present is unsure: by
/// the clock's lag; or with times of events by a tick, since the window knows the latest event to
/// within one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FirstSeen {
    pub(crate) seen: Span,
    pub(crate) now: Span,
}

/// A time, as far as it is known: it lies between these, or is one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Span {
    pub(crate) earliest: Timestamp,
    pub(crate) latest: Timestamp,
}

impl FirstSeen {
    /// Returns the earliest time that it can have been.
    pub fn earliest(&self) -> Timestamp {
        self.seen.earliest
    }

    /// Returns the latest time that it can have been: a tick after the earliest, and as much as the
    /// clock may lag. With a journal, up to three ticks.
    pub fn latest(&self) -> Timestamp {
        self.seen.latest
    }

    /// Returns the least time that can have passed since then, until the call: until the time that
    /// its caller gave, if it gave one and is not late.
    pub fn age_at_least(&self) -> Duration {
        self.now.earliest.since(self.seen.latest)
    }

    /// Returns the most time that can have passed since then, until the call.
    pub fn age_at_most(&self) -> Duration {
        self.now.latest.since(self.seen.earliest)
    }
}
