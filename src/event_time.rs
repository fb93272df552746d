//! The times of events that an engine accepts.

use crate::error::{InvalidOption, check};
use crate::stream_time::{Bound, Policy};
use std::time::Duration;

/// A rule for the times that callers give: it says which are refused because they cannot be right.
///
/// One event that claims to be from the year 2200 would otherwise end the window of all ids at
/// once, and hold its time there until 2200. A refused event changes nothing, is counted, and its
/// caller is told the reason.
///
/// ```
/// use hapax::{Dedup, EventTime, Refusal, Timestamp};
/// use std::time::Duration;
///
/// // Seconds since a machine was started: no time of day. No pause is longer than an hour.
/// let times = EventTime::unrelated().max_jump(Duration::from_secs(3_600)).allowed_lateness(Duration::from_secs(60));
/// let dedup = Dedup::builder().window(Duration::from_secs(600)).event_time(times).build()?;
/// assert!(dedup.check_at("a", Timestamp::from_secs(1_000)).is_fresh());
/// assert_eq!(dedup.check_at("b", Timestamp::from_secs(900_000)).refusal(), Some(Refusal::Ahead));
/// assert_eq!(dedup.check_at("c", Timestamp::from_secs(900)).refusal(), Some(Refusal::Late));
/// assert!(dedup.check_at("a", Timestamp::from_secs(1_001)).is_duplicate());
/// # Ok::<(), hapax::Error>(())
/// ```
///
/// # Guarantees
///
/// - Times from 146 years after their origin on (in 2116, for the Unix epoch) are always refused as
///   ahead: stream time could not go on from there.
/// - Without [`allowed_lateness`](EventTime::allowed_lateness) no event is too late: it counts as
///   of the latest time.
/// - A batch has one time, so it is accepted or refused as a whole. So is a watermark, an empty
///   batch.
///
/// # Cost
///
/// It costs a comparison with a limit that is remembered. The wall clock is read for an event
/// beyond that limit: about once every `max_skew`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a rule does nothing until a builder is given it"]
pub struct EventTime {
    is_wall_time: bool,
    max_skew: Option<Duration>,
    max_jump: Option<Duration>,
    agreeing: Option<usize>,
    allowed_lateness: Option<Duration>,
}

/// The number of events that must agree, unless the rule sets another.
const AGREEING: usize = 16;
const AGREEING_MAX: usize = 1_024;
const MIN_SKEW: Duration = Duration::from_secs(60);

impl EventTime {
    const fn new(is_wall_time: bool) -> Self {
        EventTime { is_wall_time, max_skew: None, max_jump: None, agreeing: None, allowed_lateness: None }
    }

    /// Returns the rule for times of day: nanoseconds since the Unix epoch, or since the origin of
    /// the clock that the builder was given.
    ///
    /// Events that are ahead of that clock by more than [`max_skew`](EventTime::max_skew) are
    /// refused. This is the default rule of an engine.
    pub const fn wall() -> Self {
        Self::new(true)
    }

    /// Returns the rule for times that are unrelated to any clock: a counter, seconds since a
    /// machine was started, a simulation.
    ///
    /// Nothing is refused unless [`max_jump`](EventTime::max_jump) says so.
    pub const fn unrelated() -> Self {
        Self::new(false)
    }

    /// Sets by how much an event may be ahead of the wall clock. Default: the window, at least a
    /// minute.
    pub const fn max_skew(self, max_skew: Duration) -> Self {
        EventTime { max_skew: Some(max_skew), ..self }
    }

    /// Sets by how much an event may be ahead of the latest one, for times that are
    /// [`unrelated`](EventTime::unrelated) to a clock. Default: by any amount.
    ///
    /// A stream may pause for longer than that. So the jump is made once
    /// [`agreeing`](EventTime::agreeing) events have asked for it.
    pub const fn max_jump(self, max_jump: Duration) -> Self {
        EventTime { max_jump: Some(max_jump), ..self }
    }

    /// Sets how many events with different ids, and times within `max_jump` of each other, make a
    /// jump: 1 to 1,024. The last of them is accepted, those before it were refused. A batch counts
    /// as one event, with its first id. Default: 16.
    pub const fn agreeing(self, events: usize) -> Self {
        EventTime { agreeing: Some(events), ..self }
    }

    /// Sets how late an event may be, measured from the latest. Default: arbitrarily late; it then
    /// counts as of the latest time.
    pub const fn allowed_lateness(self, allowed_lateness: Duration) -> Self {
        EventTime { allowed_lateness: Some(allowed_lateness), ..self }
    }

    /// Returns the rule in nanoseconds, for an engine with this window.
    pub(crate) fn policy(&self, window: Duration) -> Result<Policy, InvalidOption> {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        if let Some(max_skew) = self.max_skew {
            let expected = "none: times that are unrelated to a clock have no skew";
            check(self.is_wall_time, "event_time.max_skew", max_skew, expected)?;
        }
        if let Some(max_jump) = self.max_jump {
            let expected = "none: times of day are bound by the clock (`max_skew`), not by the latest event";
            check(!self.is_wall_time, "event_time.max_jump", max_jump, expected)?;
        }
        if let Some(agreeing) = self.agreeing {
            let expected = "a `max_jump`, without which it means nothing";
            check(self.max_jump.is_some(), "event_time.agreeing", agreeing, expected)?;
        }
        let agreeing = self.agreeing.unwrap_or(AGREEING);
        let is_valid = (1..=AGREEING_MAX).contains(&agreeing);
        check(is_valid, "event_time.agreeing", agreeing, "1 to 1,024 events")?;
        let bound = match self.max_jump {
            _ if self.is_wall_time => Bound::Wall { max_skew: nanos(self.max_skew.unwrap_or(window.max(MIN_SKEW))) },
            Some(max_jump) => Bound::Jump { max: nanos(max_jump), agreeing },
            None => Bound::None,
        };
        Ok(Policy { bound, allowed_lateness: self.allowed_lateness.map(nanos) })
    }
}

impl Default for EventTime {
    fn default() -> Self {
        Self::wall()
    }
}

#[cfg(all(test, not(modelled)))]
mod tests {
    use super::*;
    use crate::Error;

    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn the_default_skew_is_the_window_but_at_least_a_minute() {
        for (window, expected) in [(HOUR, HOUR), (Duration::from_secs(1), MIN_SKEW)] {
            let max_skew = expected.as_nanos() as u64;
            let policy = EventTime::default().policy(window).unwrap();
            assert_eq!(policy, Policy { bound: Bound::Wall { max_skew }, allowed_lateness: None });
        }
    }

    #[test]
    fn what_means_nothing_is_refused_by_name() {
        let refused = |rule: EventTime| Error::from(rule.policy(HOUR).unwrap_err()).to_string();
        assert!(refused(EventTime::unrelated().max_skew(HOUR)).contains("`event_time.max_skew`: got 3600s"));
        assert!(refused(EventTime::wall().max_jump(HOUR)).contains("`event_time.max_jump`: got 3600s"));
        assert!(refused(EventTime::unrelated().agreeing(3)).contains("`event_time.agreeing`: got 3"));
        for agreeing in [0, 1_025] {
            let rule = EventTime::unrelated().max_jump(HOUR).agreeing(agreeing);
            assert!(refused(rule).contains("1 to 1,024"));
        }
    }
}
