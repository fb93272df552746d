//! The policy: which events are accepted, and what they mean for the window's time. Pure: numbers
//! in, decisions out.

use crate::digest::Digest;

/// The end of time, a caller's or the window's: no time from here on is accepted. The window's
/// ticks, of a nanosecond at least, end here.
pub(crate) const END: u64 = 1 << 62;

/// The rule for which events are refused. In nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    pub(crate) bound: Bound,
    pub(crate) allowed_lateness: Option<u64>,
}

/// The bound of the future.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// The wall clock.
    Wall { max_skew: u64 },
    /// The latest event, until enough others agree.
    Jump { max: u64, agreeing: usize },
    /// Only [`END`].
    None,
}

/// The order of an event, compared with the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Near,
    Late,
    /// The event is so far ahead that others must agree.
    Jump,
}

impl Policy {
    /// Returns the first time that is too far ahead, by the wall clock.
    pub(super) fn limit(&self, wall: impl FnOnce() -> u64) -> u64 {
        match self.bound {
            Bound::Wall { max_skew } => wall().saturating_add(max_skew).saturating_add(1).min(END),
            Bound::Jump { .. } | Bound::None => END,
        }
    }

    /// Returns true if decisions depend on the latest event.
    pub(super) fn compares(&self) -> bool {
        self.allowed_lateness.is_some() || matches!(self.bound, Bound::Jump { .. })
    }

    /// Compares an event with the latest, if there was one; both in the window's time, in which an
    /// event from before its beginning is negative.
    #[inline(always)]
    pub(super) fn order(&self, at: i64, latest: Option<u64>) -> Order {
        let Some(latest) = latest.map(u64::cast_signed) else {
            return Order::Near;
        };
        let is_late = |allowed: u64| at.saturating_add_unsigned(allowed) < latest;
        match self.bound {
            _ if self.allowed_lateness.is_some_and(is_late) => Order::Late,
            Bound::Jump { max, .. } if at > latest.saturating_add_unsigned(max) => Order::Jump,
            _ => Order::Near,
        }
    }
}

/// Events that were refused because they are ahead, as witnesses that the stream has gone on.
#[derive(Debug)]
pub(super) struct Agreement {
    /// The different ids in the order in which they came, each with its last time.
    heard: Vec<(Digest, u64)>,
    within: u64,
    enough: usize,
}

impl Agreement {
    /// Creates an agreement, with memory for as many events as it will ever remember: four times as
    /// many as are enough, so that others between them do no harm.
    pub(super) fn new(policy: &Policy) -> Option<Self> {
        let Bound::Jump { max: within, agreeing: enough } = policy.bound else {
            return None;
        };
        Some(Agreement { heard: Vec::with_capacity(4 * enough), within, enough })
    }

    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.heard.capacity() * size_of::<(Digest, u64)>()
    }

    /// Notes one more event; returns true if enough of them agree with it. Then all are forgotten.
    pub(super) fn hear(&mut self, id: Digest, at: u64) -> bool {
        self.heard.retain(|(other, _)| *other != id);
        if self.heard.len() == 4 * self.enough {
            self.heard.remove(0);
        }
        self.heard.push((id, at));
        // Any two events in one of these spans are within the bound of each other.
        let half = self.within / 2;
        let spans = [
            (at.saturating_sub(self.within), at),
            (at.saturating_sub(half), at.saturating_add(half)),
            (at, at.saturating_add(self.within)),
        ];
        let agree = spans.iter().any(|&(from, to)| {
            let agreeing = self.heard.iter().filter(|(_, other)| (from..=to).contains(other));
            agreeing.count() >= self.enough
        });
        if agree {
            self.heard.clear();
        }
        agree
    }

    pub(super) fn clear(&mut self) {
        self.heard.clear();
    }
}

/// The time of an engine before its first event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Before {
    /// The window's latest time, if there was any call.
    pub(super) latest: Option<u64>,
    /// The clock, if calls without a time went by it.
    pub(super) clock: Option<u64>,
    /// The time that a journal has told.
    pub(super) resumed: Option<Resumed>,
    /// Nanoseconds per tick.
    pub(super) tick: u64,
}

/// The time of the engine whose memory this one has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resumed {
    /// The engine went by its clock.
    Clock,
    /// The engine went by its events' time: `offset` is the amount by which the window's was ahead
    /// of that, and `latest` is where that ended, from where the clock goes on.
    Events { offset: i64, latest: u64 },
}

impl Before {
    /// Returns the amount by which the window's time is ahead of the events', when the first of
    /// them is at this time.
    ///
    /// The window's time only grows. So that an event from 2020 is not five years late in a window
    /// that has already been in 2026, its time is taken for the window's present.
    ///
    /// It is at most [`END`], as the window's time is.
    pub(super) fn offset(&self, first: u64) -> i64 {
        if let Some(Resumed::Events { offset, latest }) = self.resumed {
            // The time that has passed by the clock since then has passed for the window, too.
            let since = self.clock.map_or(0, |clock| difference(clock.max(latest), latest));
            return offset.saturating_add(since).min(END as i64);
        }
        let present_is_known = self.clock.is_some() || self.resumed == Some(Resumed::Clock);
        match self.latest.max(self.clock) {
            // Time has stood still at its origin, waiting for this event. In whole ticks, so that
            // it makes no difference for later events.
            Some(now) if now < self.tick && self.clock.is_none() => -difference(first - first % self.tick, 0),
            Some(now) if present_is_known => difference(now, first).max(0),
            // There was no call; or one whose way of counting time is unknown.
            _ => 0,
        }
    }
}

/// Returns the difference of two times below 2^63.
pub(super) fn difference(one: u64, other: u64) -> i64 {
    one as i64 - other as i64
}

/// Returns the window's time of an event; none if that is beyond the end.
#[inline(always)]
pub(super) fn internal(at: u64, offset: i64) -> Option<u64> {
    // An event from before the window's time began counts as of its beginning.
    let at = at.checked_add_signed(offset).unwrap_or(if offset < 0 { 0 } else { END });
    (at < END).then_some(at)
}

/// Returns the same for comparisons: negative before the window's time began.
#[inline(always)]
pub(super) fn signed(at: u64, offset: i64) -> i64 {
    at.cast_signed().saturating_add(offset)
}

/// Returns the time of an event as its caller would express it.
pub(super) fn external(internal: u64, offset: i64) -> u64 {
    internal.checked_add_signed(-offset).unwrap_or(if offset > 0 { 0 } else { END })
}

#[cfg(all(test, not(modelled)))]
#[path = "policy_tests.rs"]
mod tests;
