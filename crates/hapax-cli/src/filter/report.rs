//! The report after the last line.

use super::plan::Plan;
use super::source::lines::Unchecked;
use super::source::parse::Batch;
use super::verdicts::refusing::Refused;
use crate::args::Format;
use crate::error::CommandError;
use crate::printable::tell;
use hapax::{Refusal, Stats};
use hapax_plan::{Bytes, Time};
use serde_json::{Map, Value};
use std::fmt::{Display, Write};
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

    pub fn percent_duplicates(&self) -> f64 {
        100.0 * self.duplicates as f64 / self.checked.max(1) as f64
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

/// The figures of a run, as a table and as JSON.
#[derive(Default)]
struct Figures {
    table: String,
    json: Map<String, Value>,
}

impl Figures {
    /// Adds a row to the table.
    fn row(&mut self, name: &str, shown: impl Display) {
        writeln!(self.table, "{name:<28}{shown}").expect("a string takes everything");
    }

    /// Adds a value to the JSON.
    fn value(&mut self, name: &str, value: impl Into<Value>) {
        self.json.insert(name.to_string(), value.into());
    }

    /// Adds a number to both.
    fn count(&mut self, row: &str, name: &str, number: u64) {
        self.row(row, number);
        self.value(name, number);
    }

    /// Adds lines by their kind, up to the fresh ones.
    fn lines(&mut self, counts: &Counts, fresh: u64) {
        self.count("lines", "lines", counts.lines);
        self.count("  headers", "headers", counts.headers);
        self.count("  bad", "bad", counts.bad);
        self.count("  without id", "missing", counts.missing);
        self.count("  fresh", "fresh", fresh);
    }

    fn duplicates(&mut self, counts: &Counts) {
        self.row("  duplicates", format_args!("{} ({:.2} %)", counts.duplicates, counts.percent_duplicates()));
        self.value("duplicates", counts.duplicates);
    }

    /// Adds the time that all took, and returns the text.
    fn end(mut self, counts: &Counts, elapsed: Duration, format: Format) -> String {
        let (seconds, per_second) = (elapsed.as_secs_f64(), counts.lines as f64 / elapsed.as_secs_f64().max(1e-9));
        self.row("time", format_args!("{seconds:.2} s, {:.2} M lines/s", per_second / 1e6));
        self.value("elapsed_seconds", seconds);
        self.value("lines_per_second", per_second);
        match format {
            Format::Text => self.table.trim_end().to_string(),
            Format::Json => Value::Object(self.json).to_string(),
        }
    }
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
    pub fn text(&self, format: Format) -> String {
        let Report { counts, stats, plan, window, elapsed } = self;
        let (history, of_window) = (stats.history_false_positive_rate, &stats.window);
        let mut figures = Figures::default();
        figures.lines(counts, stats.fresh);
        if history.is_some() {
            figures.row("    known to the history?", stats.fresh_unconfirmed);
        }
        figures.value("fresh_unconfirmed", stats.fresh_unconfirmed);
        figures.duplicates(counts);
        figures.count("    by the window", "duplicates_by_window", stats.duplicates_by_window);
        if history.is_some() {
            figures.row("    by the history, guessed", stats.duplicates_by_history);
        }
        figures.value("duplicates_by_history", stats.duplicates_by_history);
        figures.count("  late", "late", counts.late);
        figures.count("  refused, too far ahead", "refused_ahead", counts.refused_ahead);
        figures.count("  refused, too late", "refused_late", counts.refused_late);
        figures.count("ids forgotten early", "forgotten_early", of_window.evicted_live);
        let times = window.map(|window| [window, of_window.tick, of_window.effective_window]);
        match times {
            None => figures.row("window", "the whole input"),
            Some([window, tick, effective]) => {
                figures.row("window", format_args!("{}, in ticks of {}", Time(window), Time(tick)));
                figures.row("effective window", Time(effective));
            }
        }
        for (i, name) in ["window_seconds", "tick_seconds", "effective_window_seconds"].into_iter().enumerate() {
            figures.value(name, times.map(|times| times[i].as_secs_f64()));
        }
        figures.row("capacity", format_args!("{} ids ({})", plan.capacity, plan.capacity_from));
        figures.value("capacity", plan.capacity);
        figures.value("capacity_from", plan.capacity_from);
        figures.row("false duplicates, window", format_args!("{:.1e} of checks", of_window.false_duplicate_rate));
        figures.value("false_duplicate_rate_window", of_window.false_duplicate_rate);
        if let Some(rate) = history {
            figures.row("false duplicates, history", format_args!("{rate:.1e} of checks"));
        }
        figures.value("false_positive_rate_history", history);
        figures.count("tables", "tables", of_window.tables as u64);
        figures.row("memory", format_args!("{} for ids", Bytes(stats.bytes as f64)));
        figures.value("memory_bytes", stats.bytes);
        figures.end(counts, *elapsed, format)
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
    pub fn text(&self, counts: &Counts, elapsed: Duration, format: Format) -> String {
        let mut figures = Figures::default();
        figures.lines(counts, counts.checked - counts.duplicates);
        figures.duplicates(counts);
        figures.count("partitions", "partitions", self.partitions);
        figures.count("  divided further", "divided", self.divided);
        figures.row("temporary files", format_args!("{} for ids", Bytes(self.bytes as f64)));
        figures.value("temporary_bytes", self.bytes);
        figures.row("  copied input", Bytes(self.copied as f64));
        figures.value("copied_bytes", self.copied);
        figures.end(counts, elapsed, format)
    }
}
