//! The time at which an id was accepted, as far as the window can tell.

use super::Engine;
use crate::clock::{Reading, nanos_of};
use crate::digest::Digest;
use crate::first_seen::FirstSeen;

/// The number of ticks by which the journal may have rounded a time down that the window rounds up.
const ROUNDED_TICKS: u64 = 2;

impl Engine {
    /// Returns when an id was accepted that the window has.
    pub(crate) fn first_seen(&self, id: Digest, now: Reading) -> Option<FirstSeen> {
        let rounded = self.journal.as_ref().map_or(0, |_| ROUNDED_TICKS * nanos_of(self.window.tick()));
        // Also if the engine goes by events: the id may have come before the first of them.
        let lag = self.clock.now().lag_nanos.max(rounded);
        let (earliest, latest) = self.window.first_seen(id, now.time, lag)?;
        let external = |time| self.stream_time.external(time);
        Some(FirstSeen { earliest: external(earliest), latest: external(latest), now: external(now.time) })
    }
}
