//! Compares two reports, and finds changes beyond noise.

use super::figures::{RUNS_MIN, Spread, Wrong};
use super::render::words;
use super::{Machine, Report, Row, Setting};
use std::fmt;

/// Changes of the median that are too small to mention.
const CHANGE_MIN: f64 = 0.03;

/// The result of a comparison of a newer report with an older one.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The figures that changed, in the order of the newer report.
    pub changes: Vec<Changed>,
    /// The number of figures that were compared.
    pub figures: usize,
    /// The number of those that cannot be told for lack of runs.
    pub untold: usize,
    /// The share of unchanged figures that chance alone shows as changed: for the fewest runs that
    /// were compared.
    pub by_chance: f64,
    /// Rows of the older report that the newer one lacks: strategy and setting.
    pub vanished: Vec<String>,
    /// Rows of the newer report that the older one lacks.
    pub new: Vec<String>,
    /// The differences between the machines; empty if the reports are from the same one.
    pub machines: Vec<String>,
}

/// One figure of one strategy in one setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Changed {
    /// The name of the strategy, with its batch size.
    pub name: String,
    /// The setting in which it was measured.
    pub setting: Setting,
    /// The figure that changed.
    pub figure: Figure,
    /// The older median, or share.
    pub old: f64,
    /// The newer one.
    pub new: f64,
    /// The direction: better or worse.
    pub change: Change,
}

/// A kind of figure that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    /// Checks a second, unless ids were due at a rate.
    IdsPerSecond,
    /// The median latency.
    P50,
    /// The latency that one in a hundred exceeds.
    P99,
    /// The latency that one in a thousand exceeds.
    P999,
    /// Memory of the process, and outside it, for each live id.
    BytesPerId,
    /// The share of duplicates that were called fresh.
    Missed,
    /// The share of new ids that were called duplicates.
    Invented,
}

/// The direction of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Faster, smaller, fewer wrong.
    Better,
    /// Slower, larger, more wrong.
    Worse,
}

/// Compares rows of the same strategy in the same setting.
///
/// ```
/// # use hapax_bench::measure::{Report, compare};
/// # let old = Report::from_json(&std::fs::read_to_string("tests/integration/report/small.json")?)?;
/// # let new = old.clone();
/// let comparison = compare(&old, &new);
/// assert!(comparison.changes.is_empty());
/// println!("{comparison}");
/// # Ok::<(), hapax_bench::strategy::Failure>(())
/// ```
///
/// Speed, latency and memory have changed if every run of the one report is beyond every run of the
/// other, with three runs or more of each, and the medians differ by 3 % or more. With three runs
/// that happens to a tenth of all unchanged figures, with five to one in 126:
/// [`Comparison::by_chance`]. Wrong answers have changed if the two confidence intervals
/// ([`Interval`](super::Interval)) do not overlap.
///
/// Runs within one report have more in common than runs a day apart (the machine's other load, the
/// placement of memory), which no test can see.
pub fn compare(old: &Report, new: &Report) -> Comparison {
    let mut comparison = Comparison {
        changes: Vec::new(),
        figures: 0,
        untold: 0,
        by_chance: 0.0,
        vanished: missing(&old.rows, &new.rows),
        new: missing(&new.rows, &old.rows),
        machines: differences(&old.machine, &new.machine),
    };
    for new in &new.rows {
        if let Some(old) = old.rows.iter().find(|old| same(old, new)) {
            comparison.row(old, new);
        }
    }
    comparison
}

fn same(a: &Row, b: &Row) -> bool {
    a.strategy == b.strategy && a.setting == b.setting
}

/// Returns the names of those `rows` that are not among the others.
fn missing(rows: &[Row], others: &[Row]) -> Vec<String> {
    let is_missing = |row: &&Row| !others.iter().any(|other| same(row, other));
    rows.iter()
        .filter(is_missing)
        .map(|row| format!("{}: {}", words::name(row), words::setting(&row.setting)))
        .collect()
}

fn differences(old: &Machine, new: &Machine) -> Vec<String> {
    let pairs = [
        ("processor", old.processor.clone(), new.processor.clone()),
        ("processors", old.processors.to_string(), new.processors.to_string()),
        ("memory", words::bytes(old.memory_bytes as f64), words::bytes(new.memory_bytes as f64)),
        ("system", old.system.clone(), new.system.clone()),
        ("compiler", old.compiler.clone(), new.compiler.clone()),
    ];
    let differ = pairs.into_iter().filter(|(_, old, new)| old != new);
    differ.map(|(what, old, new)| format!("{what}: {old} before, {new} now")).collect()
}

impl Comparison {
    fn row(&mut self, old: &Row, new: &Row) {
        if new.setting.rate.is_none() {
            self.figure(new, Figure::IdsPerSecond, old.ids_per_second(), new.ids_per_second());
        }
        for (figure, of) in [(Figure::P50, 0.5), (Figure::P99, 0.99), (Figure::P999, 0.999)] {
            self.figure(new, figure, old.latency_nanos(of), new.latency_nanos(of));
        }
        self.figure(new, Figure::BytesPerId, old.all_bytes_per_id(), new.all_bytes_per_id());
        self.wrong(new, Figure::Missed, old.missed(), new.missed());
        self.wrong(new, Figure::Invented, old.invented(), new.invented());
    }

    fn figure(&mut self, row: &Row, figure: Figure, old: Option<Spread>, new: Option<Spread>) {
        let (Some(old), Some(new)) = (old, new) else { return };
        self.figures += 1;
        if old.runs.min(new.runs) < RUNS_MIN {
            self.untold += 1;
            return;
        }
        self.by_chance = self.by_chance.max(by_chance(old.runs, new.runs));
        let large = (new.median - old.median).abs() >= CHANGE_MIN * old.median.abs();
        if old.is_apart_from(&new) && large {
            let better = (new.median > old.median) == (figure == Figure::IdsPerSecond);
            self.push(row, figure, old.median, new.median, better);
        }
    }

    fn wrong(&mut self, row: &Row, figure: Figure, old: Wrong, new: Wrong) {
        if old.of == 0 || new.of == 0 {
            return;
        }
        self.figures += 1;
        if old.interval().is_apart_from(&new.interval()) {
            self.push(row, figure, old.share(), new.share(), new.share() < old.share());
        }
    }

    fn push(&mut self, row: &Row, figure: Figure, old: f64, new: f64, better: bool) {
        let change = if better { Change::Better } else { Change::Worse };
        self.changes.push(Changed { name: words::name(row), setting: row.setting.clone(), figure, old, new, change });
    }
}

/// Returns how often n and m runs of the same distribution happen to be apart: 2 of the (n + m)
/// over n orders.
fn by_chance(n: usize, m: usize) -> f64 {
    let orders: f64 = (1..=n).map(|i| (m + i) as f64 / i as f64).product();
    2.0 / orders
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, number): (_, fn(f64) -> String) = match self.figure {
            Figure::IdsPerSecond => ("ids/s", words::number),
            Figure::P50 => ("p50", words::time),
            Figure::P99 => ("p99", words::time),
            Figure::P999 => ("p99.9", words::time),
            Figure::BytesPerId => ("bytes a live id", words::number),
            Figure::Missed => ("missed duplicates", words::share),
            Figure::Invented => ("invented duplicates", words::share),
        };
        let verdict = match self.change {
            Change::Better => "better",
            Change::Worse => "worse",
        };
        let by = match self.old > 0.0 {
            true => format!("{:+.1} %", 100.0 * (self.new / self.old - 1.0)),
            false => "none before".into(),
        };
        let (old, new) = (number(self.old), number(self.new));
        write!(f, "{verdict}: {}: {what} {old} → {new} ({by}); {}", self.name, words::setting(&self.setting))
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut page = String::new();
        let mut say =
            |text: &str| super::render::text::paragraph(&mut page, text, "    ", super::render::WIDTH_COLUMNS);
        if !self.machines.is_empty() {
            say("The machines differ, so differences may be theirs:");
            self.machines.iter().for_each(|difference| say(&format!("  {difference}")));
        }
        self.changes.iter().for_each(|changed| say(&format!("  {changed}")));
        let told = self.figures - self.untold;
        say(&format!("{} of {} changed beyond noise.", self.changes.len(), words::plural(told, "figure", "figures")));
        say(
            "Noise: some run of the one is within the runs of the other, or medians differ by less than 3 %; for wrong answers, 95 % \
             confidence intervals overlap.",
        );
        if self.by_chance > 0.0 {
            say(&format!("Of unchanged figures chance alone shows {} as changed.", words::share(self.by_chance)));
        }
        if self.untold > 0 {
            let figures = words::plural(self.untold, "figure", "figures");
            say(&format!("Of {figures} it cannot be told: that takes {RUNS_MIN} runs or more in both reports."));
        }
        self.vanished.iter().for_each(|row| say(&format!("  not measured now: {row}")));
        self.new.iter().for_each(|row| say(&format!("  not measured before: {row}")));
        f.write_str(&page)
    }
}
