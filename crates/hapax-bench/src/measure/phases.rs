//! The length of a run.

use super::workload::{WINDOW_TICKS, window_bytes, window_checks};
use super::{Setting, Sort};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The amount of time that a run may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    /// Enough that figures can be trusted.
    #[default]
    Full,
    /// Little enough that all strategies have their turn within a minute.
    Quick,
}

/// A stretch of the stream: this many ticks, or fewer if they take too long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Phase {
    pub ticks_min: usize,
    pub ticks_max: usize,
    /// The number of ticks of which the phase's length is a multiple.
    pub step: usize,
    pub time_max: Duration,
}

impl Phase {
    /// Returns a phase of whole windows.
    fn windows(min: usize, max: usize, time_max: Duration) -> Phase {
        Phase { ticks_min: min * WINDOW_TICKS, ticks_max: max * WINDOW_TICKS, step: WINDOW_TICKS, time_max }
    }
}

/// The phases of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Phases {
    pub warm_up: Phase,
    pub measured: Phase,
    /// The longest time for which ids are due, if they come at a rate.
    pub due_max: Duration,
}

/// The bytes that a stream does not exceed, if that is possible at all.
const STREAM_BYTES_WANTED: u64 = 2 << 30;

impl Phases {
    /// Returns one window, without a warm-up.
    pub fn one_window() -> Phases {
        let measured = Phase::windows(1, 1, Duration::MAX);
        Phases { warm_up: Phase { ticks_min: 0, ticks_max: 0, ..measured }, measured, due_max: Duration::ZERO }
    }

    /// Returns all ticks of the stream.
    pub fn ticks(&self) -> usize {
        self.warm_up.ticks_max + self.measured.ticks_max
    }

    /// Returns the phases of a strategy. One in memory runs for whole windows, since maps are
    /// purged once in each. It is warmed up for four windows, because a table is not in its steady
    /// state before all of its slots have been used; or for two, at which expiry is under way, if
    /// those take very long. Then it is measured for two, or one. A strategy that survives a crash,
    /// or is asked over a socket, takes so long for each id that it has the same time instead,
    /// wherever that ends.
    pub fn of(setting: &Setting, sort: Sort, effort: Effort) -> Self {
        let due_max = due_max(setting, effort);
        let millis = |full, quick| Duration::from_millis(if effort == Effort::Quick { quick } else { full });
        let (warm_up, measured) = match sort {
            Sort::Durable | Sort::Server => {
                let some = |time_max| Phase { ticks_min: 1, ticks_max: 2 * WINDOW_TICKS, step: 1, time_max };
                (some(millis(500, 150)), some(millis(1_500, 350)))
            }
            Sort::Window => {
                let (warm_up_max, measured_max) = match STREAM_BYTES_WANTED / window_bytes(setting).max(1) {
                    6.. => (4, 2),
                    4.. => (2, 2),
                    _ => (2, 1),
                };
                let warm_up = Phase::windows(2, warm_up_max, millis(10_000, 1_000));
                (warm_up, Phase::windows(1, measured_max, millis(5_000, 1_000)))
            }
        };
        Phases { warm_up, measured, due_max }
    }
}

/// Returns the longest time for which ids are due that come at a rate: those of a window, in which
/// work that happens once in a window (expiry, purging) has its turn, unless that takes too long.
fn due_max(setting: &Setting, effort: Effort) -> Duration {
    let (least, most) = if effort == Effort::Quick { (0.6, 2.0) } else { (3.0, 30.0) };
    Duration::from_secs_f64(setting.rate.map_or(least, |rate| (window_checks(setting) / rate).clamp(least, most)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::IdKind;

    #[test]
    fn what_is_in_memory_runs_for_whole_windows_and_what_is_slow_for_some_time() {
        let setting = Setting::default();
        let memory = Phases::of(&setting, Sort::Window, Effort::Full);
        assert_eq!((memory.warm_up.ticks_max, memory.measured.ticks_max, memory.ticks()), (400, 200, 600));
        assert_eq!((memory.warm_up.ticks_min, memory.measured.ticks_min, memory.measured.step), (200, 100, 100));
        let server = Phases::of(&setting, Sort::Server, Effort::Quick);
        assert_eq!((server.warm_up.step, server.measured.step), (1, 1));
        assert!(server.measured.time_max < memory.measured.time_max);
    }

    #[test]
    fn ids_that_come_at_a_rate_come_for_a_window_at_least() {
        let due = |live, effort| {
            let setting = Setting { live, rate: Some(100_000.0), ..Setting::default() };
            Phases::of(&setting, Sort::Window, effort).due_max.as_secs()
        };
        assert_eq!(
            (due(10_000, Effort::Full), due(1_000_000, Effort::Full), due(10_000_000, Effort::Full)),
            (3, 11, 30)
        );
        assert_eq!(due(1_000_000, Effort::Quick), 2);
    }

    #[test]
    fn a_large_stream_has_fewer_windows() {
        let large = Setting { ids: IdKind::Key200, live: 3_000_000, ..Setting::default() };
        assert_eq!(Phases::of(&large, Sort::Window, Effort::Full).ticks(), 300);
        assert!((window_bytes(&large) as f64 / 670e6 - 1.0).abs() < 0.01);
    }
}
