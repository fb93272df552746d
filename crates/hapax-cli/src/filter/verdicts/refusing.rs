//! Options for events whose time cannot be right.

use crate::args::units::duration;
use clap::ValueEnum;
use hapax::EventTime;
use std::time::Duration;

/// The options that say which times of events are refused, and what happens to their lines.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = "Times that cannot be right")]
pub struct RefusingArgs {
    /// Refuse events that are ahead of the clock by more than this: one from the year 2200 would
    /// end the window of all ids. The window without it, at least a minute
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "time", conflicts_with = "time_unrelated")]
    pub max_skew: Option<Duration>,

    /// Refuse events that are more than this earlier than the latest one. Without it none is too
    /// late: each counts as of the latest time
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "time")]
    pub allowed_lateness: Option<Duration>,

    /// Times are no times of day: seconds since a machine was started, a simulation. None is ahead
    /// of the clock
    #[arg(long, requires = "time")]
    pub time_unrelated: bool,

    /// Refuse events that are more than this ahead of the latest one, until 16 in a row agree: then
    /// it was a pause
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "time_unrelated")]
    pub max_jump: Option<Duration>,

    /// Action for a line whose time is refused: nobody knows whether it is a duplicate, and
    /// its id is not remembered
    #[arg(long, value_name = "ACTION", default_value = "pass")]
    pub refused: Refused,
}

/// The treatment of a line whose time is refused.
#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub enum Refused {
    /// Print it
    Pass,
    /// Drop it
    Drop,
    /// Stop
    Error,
}

impl RefusingArgs {
    /// Returns the rule of an engine. Without times of events nothing is refused.
    pub fn event_time(&self, has_time: bool) -> EventTime {
        let mut rule = if has_time && !self.time_unrelated { EventTime::wall() } else { EventTime::unrelated() };
        if let Some(max_skew) = self.max_skew {
            rule = rule.max_skew(max_skew);
        }
        if let Some(max_jump) = self.max_jump {
            rule = rule.max_jump(max_jump);
        }
        match self.allowed_lateness {
            Some(allowed_lateness) => rule.allowed_lateness(allowed_lateness),
            None => rule,
        }
    }

    /// Returns true if an event of `at` after one of `latest` must be checked by itself: it may be
    /// refused where its neighbours are not.
    pub fn stands_alone(&self, latest_nanos: u64, at_nanos: u64) -> bool {
        let beyond =
            |bound: Option<Duration>, distance: u64| bound.is_some_and(|bound| u128::from(distance) > bound.as_nanos());
        beyond(self.max_jump, at_nanos.saturating_sub(latest_nanos))
            || beyond(self.allowed_lateness, latest_nanos.saturating_sub(at_nanos))
    }
}
