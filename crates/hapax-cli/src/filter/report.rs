//! The report after the last line.

use super::options::StatsFormat;
use super::plan::Plan;
use super::source::lines::Unchecked;
use super::source::parse::Batch;
use super::verdicts::refusing::Refused;
use crate::error::CommandError;
use crate::printable::tell;
use hapax::{Refusal, Stats};
use hapax_plan::{Bytes, Time};
use std::fmt::Write;
use std::time::Duration;

/// Counts of lines, by their treatment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    pub lines: u64,
    pub headers: u64,
    pub bad: u64,
    pub missing: u64,
    pub checked: u64,
    pub duplicates: u64,
    /// Events that were refused because their time is too far ahead, or too late.
    pub refused_ahead: u64,
    pub refused_late: u64,
    /// Events that were checked as of a later time than their own.
    pub late: u64,
}

impl Counts {
    /// Adds a batch that was checked.
    pub fn add(&mut self, batch: &Batch) {
        self.lines += batch.ends.len() as u64 + batch.too_long;
        self.bad += batch.too_long;
        for (_, unchecked) in &batch.unchecked {
            match unchecked {
                Unchecked::Pass | Unchecked::DropMissing => self.missing += 1,
                Unchecked::Header | Unchecked::OtherHeader | Unchecked::OwnHeader => self.headers += 1,
                Unchecked::Bad => self.bad += 1,
            }
        }
        self.late += batch.late;
        self.checked += batch.verdicts.len() as u64;
        for verdict in &batch.verdicts {
            match verdict.refusal() {
                Some(Refusal::Late) => self.refused_late += 1,
                Some(_) => self.refused_ahead += 1,
                None => self.duplicates += u64::from(verdict.is_duplicate()),
            }
        }
    }

    fn percent_duplicates(&self) -> f64 {
        100.0 * self.duplicates as f64 / self.checked.max(1) as f64
    }

    fn per_second(&self, elapsed: Duration) -> f64 {
        self.lines as f64 / elapsed.as_secs_f64().max(1e-9)
    }

    /// Returns a line about events whose time was refused, if there were any.
    pub fn refused(&self, refused: Refused) -> Option<String> {
        let became = match refused {
            Refused::Pass => "printed, since nobody knows whether they are duplicates",
            Refused::Drop => "dropped",
            Refused::Error => "not printed",
        };
        let Counts { refused_ahead, refused_late, .. } = self;
        (refused_ahead + refused_late > 0).then(|| {
            format!(
                "{} events have times that cannot be right, and were {became}: {refused_ahead} too far ahead, {refused_late} too late \
                 (see --refused)",
                refused_ahead + refused_late
            )
        })
    }
}

/// Returns a failure if ids were forgotten early.
pub fn forgotten_early(plan: &Plan) -> Option<CommandError> {
    let forgotten = plan.dedup.evicted_live();
    (forgotten > 0).then(|| {
        CommandError::Forgotten(format!(
            "{forgotten} ids had to be forgotten before their time, and duplicates of them may have passed: there was memory for no more \
             (a larger --max-memory may help, or a shorter --window)"
        ))
    })
}

/// Prints what was found in the state's directory, if a clean end does not leave it like that.
/// Returns a failure if ids are lost.
pub fn found(stats: &Stats) -> Option<CommandError> {
    let recovery = &stats.journal.as_ref()?.recovery;
    for torn in &recovery.torn {
        tell(format_args!(
            "hapax: {}: the last run was cut off while it wrote ({} bytes, at most {} ids): what it had printed last may be printed again",
            torn.path.display(),
            torn.bytes,
            torn.ids_at_most
        ));
    }
    let first = recovery.damage.first()?;
    tell(format_args!(
        "hapax: warning: {first}; in all {} files and {} blocks",
        recovery.files_lost, recovery.blocks_lost
    ));
    recovery
        .moved_aside
        .iter()
        .for_each(|path| tell(format_args!("hapax: {}: the damaged file is kept here", path.display())));
    let lost = recovery.ids_lost;
    Some(CommandError::Lost(format!("{lost} are lost from the state: duplicates of them may have passed")))
}

/// The contents of the report.
pub struct Report<'a> {
    pub counts: Counts,
    pub stats: Stats,
    pub plan: &'a Plan,
    pub window: Option<Duration>,
    pub elapsed: Duration,
}

impl Report<'_> {
    pub fn text(&self, format: StatsFormat) -> String {
        match format {
            StatsFormat::Table => self.table(),
            StatsFormat::Json => self.json(),
        }
    }

    fn table(&self) -> String {
        let Report { counts, stats, plan, .. } = self;
        let mut table = String::new();
        let mut row =
            |name: &str, value: String| writeln!(table, "{name:<28}{value}").expect("a string takes everything");
        row("lines", counts.lines.to_string());
        row("  headers", counts.headers.to_string());
        row("  bad", counts.bad.to_string());
        row("  without id", counts.missing.to_string());
        row("  fresh", stats.fresh.to_string());
        if stats.history_false_positive_rate.is_some() {
            row("    known to the history?", stats.fresh_unconfirmed.to_string());
        }
        row("  duplicates", format!("{} ({:.2} %)", counts.duplicates, counts.percent_duplicates()));
        row("    by the window", stats.duplicates_by_window.to_string());
        if stats.history_false_positive_rate.is_some() {
            row("    by the history, guessed", stats.duplicates_by_history.to_string());
        }
        row("  late", counts.late.to_string());
        row("  refused, too far ahead", counts.refused_ahead.to_string());
        row("  refused, too late", counts.refused_late.to_string());
        row("ids forgotten early", stats.window.evicted_live.to_string());
        match self.window {
            None => row("window", "the whole input".to_string()),
            Some(window) => {
                row("window", format!("{}, in ticks of {}", Time(window), Time(stats.window.tick)));
                row("effective window", Time(stats.window.effective_window).to_string());
            }
        }
        row("capacity", format!("{} ids ({})", plan.capacity, plan.capacity_from));
        row("false duplicates, window", format!("{:.1e} of checks", stats.window.false_duplicate_rate));
        if let Some(rate) = stats.history_false_positive_rate {
            row("false duplicates, history", format!("{rate:.1e} of checks"));
        }
        row("tables", stats.window.tables.to_string());
        row("memory", format!("{} for ids", Bytes(stats.bytes as f64)));
        row(
            "time",
            format!("{:.2} s, {:.2} M lines/s", self.elapsed.as_secs_f64(), counts.per_second(self.elapsed) / 1e6),
        );
        table.truncate(table.trim_end().len());
        table
    }

    fn json(&self) -> String {
        let Report { counts, stats, plan, .. } = self;
        serde_json::json!({
            "lines": counts.lines,
            "headers": counts.headers,
            "bad": counts.bad,
            "missing": counts.missing,
            "fresh": stats.fresh,
            "fresh_unconfirmed": stats.fresh_unconfirmed,
            "duplicates": counts.duplicates,
            "duplicates_by_window": stats.duplicates_by_window,
            "duplicates_by_history": stats.duplicates_by_history,
            "late": counts.late,
            "refused_ahead": counts.refused_ahead,
            "refused_late": counts.refused_late,
            "forgotten_early": stats.window.evicted_live,
            "window_seconds": self.window.map(|window| window.as_secs_f64()),
            "tick_seconds": self.window.map(|_| stats.window.tick.as_secs_f64()),
            "effective_window_seconds": self.window.map(|_| stats.window.effective_window.as_secs_f64()),
            "capacity": plan.capacity,
            "capacity_from": plan.capacity_from,
            "false_duplicate_rate_window": stats.window.false_duplicate_rate,
            "false_positive_rate_history": stats.history_false_positive_rate,
            "tables": stats.window.tables,
            "memory_bytes": stats.bytes,
            "elapsed_seconds": self.elapsed.as_secs_f64(),
            "lines_per_second": counts.per_second(self.elapsed),
        })
        .to_string()
    }
}

/// The work of `--spill`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spilled {
    /// Bytes of digests on the disk, and bytes of input.
    pub bytes: u64,
    pub copied: u64,
    pub partitions: u64,
    /// The number of times that a partition was divided, since its digests did not fit into memory.
    pub divided: u64,
}

impl Spilled {
    /// Returns the report of a run.
    pub fn text(&self, counts: &Counts, elapsed: Duration, format: StatsFormat) -> String {
        match format {
            StatsFormat::Table => self.table(counts, elapsed),
            StatsFormat::Json => self.json(counts, elapsed),
        }
    }

    fn table(&self, counts: &Counts, elapsed: Duration) -> String {
        let rows = [
            ("lines", counts.lines.to_string()),
            ("  headers", counts.headers.to_string()),
            ("  bad", counts.bad.to_string()),
            ("  without id", counts.missing.to_string()),
            ("  fresh", (counts.checked - counts.duplicates).to_string()),
            ("  duplicates", format!("{} ({:.2} %)", counts.duplicates, counts.percent_duplicates())),
            ("partitions", self.partitions.to_string()),
            ("  divided further", self.divided.to_string()),
            ("temporary files", format!("{} for ids", Bytes(self.bytes as f64))),
            ("  copied input", Bytes(self.copied as f64).to_string()),
            ("time", format!("{:.2} s, {:.2} M lines/s", elapsed.as_secs_f64(), counts.per_second(elapsed) / 1e6)),
        ];
        rows.map(|(name, value)| format!("{name:<28}{value}")).join("\n")
    }

    fn json(&self, counts: &Counts, elapsed: Duration) -> String {
        serde_json::json!({
            "lines": counts.lines,
            "headers": counts.headers,
            "bad": counts.bad,
            "missing": counts.missing,
            "fresh": counts.checked - counts.duplicates,
            "duplicates": counts.duplicates,
            "partitions": self.partitions,
            "divided": self.divided,
            "temporary_bytes": self.bytes,
            "copied_bytes": self.copied,
            "elapsed_seconds": elapsed.as_secs_f64(),
            "lines_per_second": counts.per_second(elapsed),
        })
        .to_string()
    }
}
