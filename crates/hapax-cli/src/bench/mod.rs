//! `hapax bench`: compares strategies in speed, size, cost and accuracy.
//!
//! Plan ([`cases`]), run ([`child`]: each case a process of its own), report.

mod cases;
mod child;
mod list;
mod options;

pub use self::options::BenchArgs;

use self::cases::Plan;
use self::child::Ended;
use crate::error::CommandError;
use crate::printable::{self, tell};
use crate::shell::quoted;
use crate::signals::Signals;
use crate::target::Target;
use hapax::seam::random;
use hapax_bench::measure::{Case, Effort, Machine, Report, Row, render, servers};
use std::io::Write as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// The directory where processes may leave files, and the signal by which the user wants the
/// command to end.
struct Surroundings {
    directory: TempDir,
    signals: Signals,
}

/// Runs the command to its end.
pub fn run(args: BenchArgs) -> Result<(), CommandError> {
    if args.case {
        return child::answer();
    }
    if args.list {
        return crate::print(list::text().as_bytes());
    }
    for path in args.save.iter().chain(&args.html) {
        Target::open(path)?; // before anything is measured
    }
    if cfg!(debug_assertions) {
        tell("hapax: built without optimization: these figures say nothing; build with --release");
    }
    let surroundings = Surroundings::new()?;
    let plan = Plan::new(&args, std::thread::available_parallelism().map_or(1, usize::from))?;
    let seed = args.seed.unwrap_or_else(random::any);
    let began_unix_seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let mut rows = plan.rows;
    tell(format_args!("{} rows, {} rounds; --seed {seed}", rows.len(), args.rounds()));
    let interrupted = measure_all(&mut rows, &args, seed, &surroundings);
    rows.retain(|row| !row.runs.is_empty() || !row.failures.is_empty());
    let words = std::env::args().skip(2).map(|word| quoted(&word));
    let words = args.seed.is_none().then(|| format!("--seed={seed}")).into_iter().chain(words);
    let command = ["hapax".to_string(), "bench".to_string()].into_iter().chain(words).collect::<Vec<_>>().join(" ");
    let machine = Machine::here();
    let report = Report { began_unix_seconds, command, seed, machine, rows, absent: plan.absent, interrupted };
    write(&report, &args)?;
    verdict(&report)?;
    if interrupted {
        tell("hapax: interrupted: what was finished is kept");
        return surroundings.signals.asked();
    }
    Ok(())
}

impl Surroundings {
    /// Notices interrupts from now on; a second one ends the process at once.
    fn new() -> Result<Self, CommandError> {
        let base = servers::parent();
        let directory = tempfile::Builder::new().prefix("hapax-").tempdir_in(&base);
        let directory = directory.map_err(|error| CommandError::input(&base, error))?;
        Ok(Surroundings { directory, signals: Signals::listen(|| ())? })
    }

    fn is_interrupted(&self) -> bool {
        self.signals.asked().is_err()
    }
}

/// Runs rounds in turns over all rows, so that changes in the machine affect all of them. Returns
/// true if it ended early.
fn measure_all(rows: &mut [Row], args: &BenchArgs, seed: u64, surroundings: &Surroundings) -> bool {
    let effort = if args.quick { Effort::Quick } else { Effort::Full };
    let cases = rows.len() * args.rounds() as usize;
    for i in 0..cases {
        let count = rows.len();
        let row = &mut rows[i % count];
        let case = Case { strategy: row.strategy.clone(), setting: row.setting.clone(), seed, effort };
        let said = match child::measure(&case, surroundings) {
            Ok(seen) => {
                let said = match &seen.latency {
                    Some(latency) => format!("99 % within {:.1} us", latency.p99 as f64 / 1e3),
                    None => format!("{:.1} ns an id", seen.nanos as f64 / seen.checks.max(1) as f64),
                };
                row.runs.push(seen);
                said
            }
            Err(Ended::Interrupted) => return true,
            Err(Ended::Failed(reason)) => {
                row.failures.push(reason.clone());
                format!("failed: {reason}")
            }
        };
        tell(format_args!("{} of {cases}: {}, {}: {said}", i + 1, row.strategy, render::described(&row.setting)));
        // The signal may have come between two cases.
        if surroundings.is_interrupted() {
            return true;
        }
    }
    false
}

/// Writes the files, and prints the tables. A failure does not keep the rest from being written;
/// the first one is returned.
fn write(report: &Report, args: &BenchArgs) -> Result<(), CommandError> {
    let write = |path: &Path, text: String| {
        let (mut file, target) = Target::open(path)?;
        file.write_all(text.as_bytes()).map_err(|error| CommandError::input(path, error))?;
        target.replace(&file)
    };
    let json = serde_json::to_string_pretty(report).map_err(|error| CommandError::Io(error.to_string()))?;
    let saved = args.save.as_ref().map_or(Ok(()), |path| write(path, json + "\n"));
    let drawn = args.html.as_ref().map_or(Ok(()), |path| write(path, render::html(report)));
    let printed = printable::page(&render::table(report));
    saved.and(drawn).and(printed)
}

/// Names the strategies that were wrong more often than they promise.
fn verdict(report: &Report) -> Result<(), CommandError> {
    let culprits = report.rows.iter().flat_map(|row| {
        let setting = render::described(&row.setting);
        row.broken_promises().into_iter().map(move |broken| format!("{broken} ({setting})"))
    });
    let culprits: Vec<String> = culprits.collect();
    if !culprits.is_empty() {
        return Err(CommandError::Io(format!("more wrong answers than promised:\n  {}", culprits.join("\n  "))));
    }
    let has_failed = !report.interrupted && report.rows.iter().all(|row| row.runs.is_empty());
    if has_failed { Err(CommandError::Io("every case has failed".to_string())) } else { Ok(()) }
}
