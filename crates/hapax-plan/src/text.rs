//! A plan as text for people.

use super::units::{ADay, Bytes, Count, Share, Time};
use super::{Plan, WindowPlan};
use std::fmt;

/// The width of names.
const NAME: usize = 26;

/// Lines of a name and its value.
struct Rows<'a, 'f>(&'a mut fmt::Formatter<'f>);

impl Rows<'_, '_> {
    fn title(&mut self, title: &str) -> fmt::Result {
        writeln!(self.0, "{title}")
    }

    fn row(&mut self, name: &str, value: impl fmt::Display) -> fmt::Result {
        writeln!(self.0, "  {name:<width$}{value}", width = NAME - 2)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = &mut Rows(f);
        self.demand_rows(rows)?;
        self.window.rows(rows, self.peak)?;
        self.history_rows(rows)?;
        self.claims_rows(rows)?;
        self.journal_rows(rows)?;
        self.long_memory_rows(rows)?;
        self.total_rows(rows)?;
        self.store_rows(rows)?;
        self.responses_rows(rows)
    }
}

impl Plan {
    fn demand_rows(&self, rows: &mut Rows) -> fmt::Result {
        rows.title("Planned for")?;
        rows.row("checks", format_args!("{}/s on average", Count(self.checks_per_second)))?;
        rows.row("duplicates", format_args!("{} of them", Share(self.duplicates)))?;
        rows.row("busiest window", format_args!("{} times the average", Count(self.peak)))
    }

    fn history_rows(&self, rows: &mut Rows) -> fmt::Result {
        let Some(history) = &self.history else { return Ok(()) };
        rows.title("History")?;
        rows.row("ids remembered for", format_args!("{} to {}", Time(history.horizon), Time(2 * history.horizon)))?;
        rows.row("ids", format_args!("{} in the busiest {}", Count(history.ids as f64), Time(history.horizon)))?;
        rows.row("memory", Bytes(history.bytes as f64))?;
        rows.row("false-positive rate", format_args!("up to {}", Share(history.false_positive_rate)))?;
        let (mean, often) = (Share(history.mean_false_positive_rate), ADay(history.false_positives_a_day));
        rows.row("false positives", format_args!("{often} ({mean} of new ids on average)"))
    }

    fn claims_rows(&self, rows: &mut Rows) -> fmt::Result {
        let Some(claims) = &self.claims else { return Ok(()) };
        rows.title("Claims")?;
        rows.row("ids in flight", format_args!("{} at the peak", Count(claims.in_flight)))?;
        rows.row("memory", format_args!("{} at the peak", Bytes(claims.bytes as f64)))?;
        rows.row("lease", Time(claims.lease))
    }

    fn journal_rows(&self, rows: &mut Rows) -> fmt::Result {
        let Some(journal) = &self.journal else { return Ok(()) };
        rows.title("Journal")?;
        let (bytes, commits) = (Bytes(journal.bytes_per_second), Count(journal.commits_per_second));
        rows.row("written", format_args!("{bytes}/s, in {commits} commits/s"))?;
        rows.row(
            "on the disk",
            format_args!("{} in {} files", Bytes(journal.disk_bytes), Count(journal.segments.round())),
        )?;
        rows.row("  at most", Bytes(journal.disk_bytes_max))?;
        let rate = Count(super::journal::REPLAY_IDS_PER_SECOND);
        rows.row("read at the start in", format_args!("{} at {rate} ids/s", seconds(journal.replay)))
    }

    fn long_memory_rows(&self, rows: &mut Rows) -> fmt::Result {
        let Some(long_memory) = &self.long_memory else { return Ok(()) };
        rows.title("Long memory")?;
        rows.row("ids remembered for", Time(long_memory.retention))?;
        rows.row("ids", Count(long_memory.ids as f64))?;
        rows.row("memory", Bytes(long_memory.bytes as f64))?;
        rows.row("  at most", format_args!("{} while it seals and merges", Bytes(long_memory.bytes_max as f64)))?;
        rows.row("on the disk", Bytes(long_memory.disk_bytes as f64))?;
        rows.row("  at most", Bytes(long_memory.disk_bytes_max as f64))?;
        if long_memory.is_written_three_times {
            rows.row("an id is written", "3 times, besides the journal")
        } else {
            let window = Time(long_memory.retention / 18);
            rows.row("an id is written", format_args!("more than 3 times: a window of {window} would do"))
        }
    }

    fn total_rows(&self, rows: &mut Rows) -> fmt::Result {
        rows.title("Memory in all")?;
        rows.row("to begin with", Bytes(self.bytes() as f64))?;
        rows.row("after growth", format_args!("{} at most", Bytes(self.bytes_max() as f64)))?;
        let fixed = Bytes(super::memory::FIXED_BYTES as f64);
        rows.row("  of which", format_args!("{fixed} whatever is planned: counters and locks"))
    }

    fn responses_rows(&self, rows: &mut Rows) -> fmt::Result {
        let Some(responses) = &self.responses else { return Ok(()) };
        rows.title("Responses that an HTTP layer keeps, in its store")?;
        let (rate, retention) = (Count(responses.per_second), Time(responses.retention));
        let count = Count(responses.responses);
        rows.row("responses", format_args!("{count} within {retention}, {rate}/s on average"))?;
        rows.row("a record", format_args!("{} on average", Bytes(responses.record_bytes)))?;
        rows.row("BudgetStore, memory", Bytes(responses.budget_bytes))?;
        rows.row("Redis, memory", Bytes(responses.redis_bytes))?;
        rows.row("SQLite, disk", Bytes(responses.sqlite_bytes))
    }

    fn store_rows(&self, rows: &mut Rows) -> fmt::Result {
        let store = &self.store;
        rows.title("The same in a store (bytes an id as measured, ids of 16 bytes)")?;
        rows.row("ids", format_args!("{} within {}", Count(store.ids), Time(store.retention)))?;
        rows.row("Redis, memory", Bytes(store.redis_bytes))?;
        rows.row("PostgreSQL, disk", Bytes(store.postgres_bytes))?;
        rows.row("fjall, disk", Bytes(store.fjall_bytes))?;
        let saved = Count(store.round_trips_saved_per_second);
        rows.row("round trips saved", format_args!("{saved}/s: duplicates that the window knows"))?;
        let shared = Count(store.asked_per_second_shared);
        rows.row("ids to ask about", format_args!("{shared}/s if shared, in batches of up to 1,024"))?;
        rows.row("", format_args!("{}/s if this process's own", Count(store.asked_per_second_exclusive)))
    }
}

impl WindowPlan {
    fn rows(&self, rows: &mut Rows, peak: f64) -> fmt::Result {
        rows.title("Window")?;
        let longest = self.duration + 2 * self.tick;
        rows.row(
            "ids remembered for",
            format_args!("{} to {}, in ticks of {}", Time(self.duration), Time(longest), Time(self.tick)),
        )?;
        rows.row("capacity", format_args!("{}, {} live on average", ids(self.capacity), Count(self.live)))?;
        rows.row("memory", format_args!("{} in one table", Bytes(self.bytes as f64)))?;
        let (bytes, tables) = (Bytes(self.grown_bytes as f64), self.tables_max);
        let rate = Count(self.checks_per_second_max);
        match tables {
            1 => rows.row("  after growth", "the same: it may not grow")?,
            _ => {
                rows.row("  after growth", format_args!("up to {bytes} in {tables} tables, for up to {rate} checks/s"))?
            }
        }
        rows.row("forgotten early", ADay(self.forgotten_early_a_day))?;
        if peak > 1.0 {
            rows.row(
                "  at the peak",
                format_args!("{}, if it lasts so long", ADay(self.forgotten_early_a_day_at_peak)),
            )?;
        }
        rows.row("taken for another", ADay(self.false_duplicates_a_day))
    }
}

/// Formats a number of ids.
fn ids(number: usize) -> String {
    format!("{} id{}", Count(number as f64), if number == 1 { "" } else { "s" })
}

/// Formats a duration that is an estimate.
fn seconds(duration: std::time::Duration) -> String {
    match duration.as_secs_f64() {
        s if s < 0.001 => "less than 1 ms".to_string(),
        s if s < 1.0 => format!("{} ms", Count(s * 1e3)),
        s => format!("{} s", Count(s)),
    }
}
