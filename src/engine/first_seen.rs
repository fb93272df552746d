//! The time at which an id was accepted, as far as the window can tell.

use super::Engine;
use crate::Timestamp;
use crate::clock::nanos_of;
use crate::digest::Digest;
use crate::first_seen::{FirstSeen, Span};
use std::time::Duration;

/// The number of ticks by which the journal may have rounded a time down that the window rounds up.
const ROUNDED_TICKS: u64 = 2;

impl Engine {
    /// Returns when an id was accepted that the window has, by the window's time.
    pub(crate) fn accepted(&self, id: Digest) -> Option<Span> {
        let rounded = self.journal.as_ref().map_or(0, |_| ROUNDED_TICKS * nanos_of(self.window.tick()));
        // Also if the engine goes by events: the id may have come before the first of them.
        let lag = self.clock.now().lag_nanos.max(rounded);
        let (earliest, latest) = self.window.first_seen(id, self.now_at_rest().time, lag)?;
        Some(Span { earliest, latest })
    }

    /// Returns what is said of an id that was accepted then: as of an event that was checked just
    /// now, if there is one.
    pub(crate) fn first_seen(&self, seen: Span, event: Option<Timestamp>) -> FirstSeen {
        let now = self.present(event);
        let external = |span: Span| Span {
            earliest: self.stream_time.external(span.earliest),
            latest: self.stream_time.external(span.latest),
        };
        FirstSeen { seen: external(seen), now: external(now) }
    }

    /// Returns the present by the window's time, which is what ids are accepted at.
    fn present(&self, event: Option<Timestamp>) -> Span {
        let (earliest, latest) = self.window.latest_span();
        if self.stream_time.is_by_events() {
            // No later than the window knows: a reset of stream time may have given the event
            // another time meanwhile.
            let event = event.map_or(earliest, |event| self.stream_time.taken(event, latest));
            return Span { earliest: event.max(earliest), latest };
        }
        let clock = self.clock.now();
        // A clock that was set back: the window stays where it is.
        if clock.time < earliest {
            return Span { earliest, latest };
        }
        Span { earliest: clock.time, latest: clock.time + Duration::from_nanos(clock.lag_nanos) }
    }
}
