//! The engine that a sequence begins with.

use crate::random::Random;
use std::time::Duration;

/// The source of the engine's time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// A clock that the builder was given.
    Manual,
    /// Events; a clock that the builder was given is the wall clock.
    Events,
    /// The default clock, over a simulated system's: wall, monotonic and boot time.
    System,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Config {
    pub(super) kind: Kind,
    pub(super) window_secs: u32,
    pub(super) refresh: bool,
    /// True if checks are appended when the work is done.
    pub(super) deferred: bool,
    /// True if what was appended is written by checkpoints.
    pub(super) checkpoints: bool,
    pub(super) history: Option<HistoryConfig>,
    /// The retention of a long memory, in thousandths of a window, if there is one.
    pub(super) long: Option<u32>,
    /// The lateness that is allowed to events, in thousandths of a window.
    pub(super) lateness: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct HistoryConfig {
    pub(super) horizon_windows: u8,
    /// The history's false-positive rate: 1 in this many.
    pub(super) one_in: u32,
    /// True if a guess is fresh.
    pub(super) unconfirmed_fresh: bool,
}

/// The number of new ids in a burst.
pub(super) const BURST: usize = 600;

impl Config {
    pub(super) fn draw(random: &mut Random) -> Self {
        let kind = [Kind::Manual, Kind::Events, Kind::System][random.below(3) as usize];
        let history = (random.below(10) == 0).then(|| HistoryConfig {
            horizon_windows: 1 + random.below(5) as u8,
            one_in: [10, 100][random.below(2) as usize],
            unconfirmed_fresh: random.below(2) == 0,
        });
        Config {
            kind,
            window_secs: [10, 60, 600, 86_400][random.below(4) as usize],
            refresh: random.below(3) == 0,
            deferred: random.below(4) == 0,
            checkpoints: random.below(4) == 0,
            history,
            long: None,
            lateness: (random.below(4) == 0).then(|| random.below(1_500) as u32),
        }
    }

    /// Gives one engine in four a long memory. (Apart from `draw`, so that
    /// the others are what they were without.)
    pub(super) fn with_long_memory(self, random: &mut Random) -> Self {
        if random.below(4) > 0 {
            return self;
        }
        let retention = [1_100, 2_000, 5_000, 12_000][random.below(4) as usize];
        Config { history: None, long: Some(retention), ..self }
    }

    /// Returns the retention of the long memory.
    pub(super) fn retention(&self) -> Option<Duration> {
        self.long.map(|milliwindows| self.window() / 1_000 * milliwindows)
    }

    pub(super) fn window(&self) -> Duration {
        Duration::from_secs(self.window_secs.into())
    }
}

impl HistoryConfig {
    pub(super) fn horizon(&self, window: Duration) -> Duration {
        window * u32::from(self.horizon_windows)
    }

    pub(super) fn rate(&self) -> f64 {
        1.0 / f64::from(self.one_in)
    }

    /// The most ids within a horizon: a burst, and the few that the sequence is about.
    pub(super) const IDS: usize = BURST + 64;
}
