//! The time of an engine: from its clock, or from its events.

use super::Engine;
use crate::Timestamp;
use crate::clock::{ClockStep, Left, MachineTime, Reading, Stamp, TimeBase, go_on, nanos_of};
use crate::mutation::{Rule, obeys};
use crate::stream_time::{Around, Resumed};

impl Engine {
    /// Returns the time for a call that does not give one.
    #[inline(always)]
    pub(crate) fn now(&self) -> Reading {
        if !self.stream_time.is_by_clock() && !self.note_clock() {
            return self.window.latest().into();
        }
        let reading = self.clock.now();
        // A clock that was read before the first event and then stood still: nothing is to come
        // after it.
        if self.stream_time.is_by_clock() { reading } else { self.window.latest().into() }
    }

    /// Notes the first call without a time. From here on the clock counts; returns false if events'
    /// times do.
    #[inline(never)]
    fn note_clock(&self) -> bool {
        let noted = self.stream_time.note_clock();
        if let (true, Some(journal)) = (noted, &self.journal)
            && journal.time_base().kind == BY_EVENTS
        {
            // The clock goes on from where events' time ended, so the next reader of the journal
            // must not take it for theirs.
            journal.set_time_base(TimeBase::default());
        }
        noted
    }

    /// Returns the time at which something was accepted, as the journal records it.
    #[inline]
    pub(crate) fn stamp(&self, at: Reading) -> Stamp {
        match &self.journal {
            // Clocks run forward; events come late, and then count as the latest of all.
            Some(journal) if self.stream_time.is_by_events() => self.window.stamp(journal.latest_event().into()),
            _ => self.window.stamp(at),
        }
    }

    /// Returns a time, or that of the latest event, if that is earlier and the engine goes by
    /// events.
    pub(crate) fn no_later_than_events(&self, at: Timestamp) -> Timestamp {
        match &self.journal {
            Some(journal) if self.stream_time.is_by_events() && journal.latest_event() > Timestamp::default() => {
                at.min(journal.latest_event())
            }
            _ => at,
        }
    }

    /// Notes that an event has come. The window knows the latest one only by its ticks, and a later
    /// window over the same journal has others.
    #[inline(always)]
    pub(crate) fn note_event(&self, at: Timestamp) {
        if let Some(journal) = &self.journal {
            journal.note_event(at);
        }
    }

    /// Returns the window's time of a watermark, or why it is refused.
    pub(crate) fn event_time(&self, at: Timestamp) -> Result<Timestamp, crate::Refusal> {
        self.stream_time.admit(at).map_or_else(|| self.stream_time.decide(at, || None, self), Ok)
    }

    /// Returns the time, for a call that only reads: it does not decide by which time the engine
    /// goes.
    pub(crate) fn now_at_rest(&self) -> Reading {
        if self.stream_time.is_by_events() { self.window.latest().into() } else { self.clock.now() }
    }
}

/// A kind of [`TimeBase`]: time comes with events, and the offset is that of
/// [`StreamTime`](crate::stream_time::StreamTime).
const BY_EVENTS: u64 = 1;

/// The engine whose memory another one has, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Predecessor {
    /// The engine's clock at its last write.
    pub(crate) left: Option<Left>,
    /// The amount by which its time was ahead of its events', if it went by those.
    pub(crate) events: Option<i64>,
}

impl From<crate::journal::Resumed> for Predecessor {
    fn from(resumed: crate::journal::Resumed) -> Self {
        let left = resumed.clocks.map(|clocks| Left {
            engine: clocks.engine,
            machine: clocks.into(),
            same_boot: resumed.is_same_boot,
        });
        Predecessor { left, events: (resumed.base.kind == BY_EVENTS).then_some(resumed.base.offset_nanos) }
    }
}

impl Engine {
    /// Returns the way in which the engine counts time, for the files that outlive it.
    pub(crate) fn time_base(&self) -> TimeBase {
        match self.stream_time.base() {
            Some(offset_nanos) => TimeBase { offset_nanos, kind: BY_EVENTS },
            None => TimeBase::default(),
        }
    }

    /// Goes on where another engine has ended, whose memory is back. Returns the step that the wall
    /// clock has made meanwhile, if it is worth reporting.
    ///
    /// The default clock goes on from the latest time that the memory has, or later; so nothing
    /// freezes, however far ahead that is.
    pub(crate) fn go_on(&mut self, from: Predecessor, now: MachineTime) -> Option<ClockStep> {
        let latest = self.window.latest_start().unwrap_or_default();
        if let Some(offset) = from.events {
            // The clock's readings mean nothing for the events.
            self.stream_time.resume(Resumed::Events { offset, latest: latest.as_nanos() });
            self.clock.set_by_events(latest);
            return None;
        }
        let (start, step) = if obeys(Rule::GoOn) {
            go_on(from.left, latest, now, self.window.tick())
        } else {
            (self.clock.now().time, None)
        };
        self.stream_time.resume(Resumed::Clock);
        let is_ours = self.clock.set(start);
        step.filter(|_| is_ours)
    }
}

impl Around for Engine {
    fn wall(&self) -> u64 {
        self.clock.wall().as_nanos()
    }

    fn clock(&self) -> u64 {
        self.clock.now().time.as_nanos()
    }

    fn latest(&self) -> Option<u64> {
        self.window.latest_start().map(Timestamp::as_nanos)
    }

    fn tick(&self) -> u64 {
        nanos_of(self.window.tick())
    }

    fn moved(&self, offset: i64) {
        if let Some(journal) = &self.journal {
            journal.set_time_base(TimeBase { offset_nanos: offset, kind: BY_EVENTS });
        }
    }
}

#[cfg(all(test, not(modelled)))]
mod tests;
