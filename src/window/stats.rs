//! The statistics of a window.

use super::Window;
use super::bits::slot::false_match_rate;
use crate::Timestamp;
use std::time::Duration;

/// The counters of the window, and its contents.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WindowStats {
    /// The number of live digests. Counted one by one, by reading all tables: 10 to 20 ms for 10
    /// million digests. (Some are in two places for a while, and count twice: one that is just
    /// being moved, one that was accepted just when a table was started, and one that was found in
    /// an older table and is to be remembered longer.)
    pub live: u64,
    /// The number of digests that had to go although they were live, or might have been for a
    /// caller with a slower clock.
    pub evicted_live: u64,
    /// The shortest recent stay: the age of the youngest digest that was evicted within this window
    /// of time or the one before, and W if none was. Most digests stay longer.
    pub effective_window: Duration,
    /// The granularity of time; see [`Dedup::tick`](crate::Dedup::tick).
    pub tick: Duration,
    /// The number of buckets that were found broken and repaired. It takes a thread that stalls
    /// while half a million ids go by.
    pub repaired_buckets: u64,
    /// The memory of all tables, in bytes.
    pub bytes: usize,
    /// The number of tables. There is one, unless the window has grown or shrunk within its own
    /// length.
    pub tables: usize,
    /// The number of times that the window would have grown, and there was no memory.
    pub refused_tables: u64,
    /// The probability that a check of a new digest answers `Duplicate`, for as many digests as are
    /// live now.
    pub false_duplicate_rate: f64,
}

/// One of a window's tables.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TableStats {
    /// The memory, in bytes.
    pub bytes: usize,
    /// The number of live digests for which it is rated.
    pub capacity: usize,
    /// The time since it was started.
    pub age: Duration,
    /// The time since a newer one was started, after which nothing is accepted here any more;
    /// nothing for the newest.
    pub closed: Option<Duration>,
}

impl Window {
    /// Returns the window's contents and counters. Reads all of its memory.
    pub fn stats(&self, at: Timestamp) -> WindowStats {
        let shared = &self.tables().shared;
        let moment = shared.moment(shared.agree_at_rest(self.ticks.at(at.into())));
        let now = moment.tick.now;
        let (mut live, mut false_duplicate_rate) = (0, 0.0);
        for table in self.tables().roster().indices().map(|index| self.tables().table(index)) {
            let found = table.live(&moment, self.ticks.window);
            live += found;
            false_duplicate_rate += false_match_rate(found as f64, table.buckets() as f64);
        }
        let effective_ticks = shared.counters.effective_window_ticks(now);
        WindowStats {
            live,
            evicted_live: shared.counters.evicted_live(),
            effective_window: if effective_ticks == self.ticks.window {
                self.duration
            } else {
                // Rounded down twice: an evicted digest may have been accepted late in its tick,
                // and evicted early in one.
                self.duration_of(effective_ticks.saturating_sub(1))
            },
            tick: self.ticks.tick(),
            repaired_buckets: shared.counters.repaired_buckets(),
            bytes: self.growth.bytes(),
            tables: self.tables().roster().len(),
            refused_tables: self.growth.refused(),
            false_duplicate_rate,
        }
    }

    /// Returns the tables, from the newest to the oldest.
    pub(crate) fn table_stats(&self, at: Timestamp) -> Vec<TableStats> {
        let now = self.tables().shared.agree_at_rest(self.ticks.at(at.into())).now;
        let of = |index: usize| {
            let (table, times) = (self.tables().table(index), self.tables().times(index));
            let since = |tick: u64| self.duration_of(now.saturating_sub(tick));
            #[expect(clippy::cast_possible_truncation, reason = "ids of a table in memory")]
            let capacity = super::growth::sizes::capacity_of(table.buckets()) as usize;
            let (age, closed) = (since(times.started), times.closed.map(since));
            TableStats { bytes: table.bytes(), capacity, age, closed }
        };
        self.tables().roster().indices().map(of).collect()
    }

    fn duration_of(&self, ticks: u64) -> Duration {
        Duration::from_nanos(self.ticks.nanos.saturating_mul(ticks))
    }
}
