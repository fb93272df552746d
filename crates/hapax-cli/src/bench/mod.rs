//! `hapax bench`: compares strategies in speed, size, cost and accuracy.
//!
//! Plan ([`cases`]), run ([`child`]: each case a process of its own), report ([`output`]).

mod cases;
mod child;
mod command;
mod estimate;
mod huge_pages;
mod interrupt;
mod list;
#[cfg(test)]
mod locked;
mod options;
mod output;
mod progress;
mod recorded;
mod scratch;
mod versions;

pub use self::options::BenchArgs;

use self::cases::Plan;
use self::child::{Ended, Surroundings};
use self::huge_pages::HugePages;
use self::interrupt::Interrupt;
use self::progress::Progress;
use self::scratch::Scratch;
use crate::error::CommandError;
use crate::printable::tell;
use hapax_bench::measure::{Case, Effort, Machine, Report, Row, render};
use std::time::{SystemTime, UNIX_EPOCH};

/// Runs the command to its end.
pub fn run(args: BenchArgs) -> Result<(), CommandError> {
    if args.case {
        return child::answer();
    }
    if args.list {
        return crate::print(list::text().as_bytes());
    }
    args.output.check()?;
    if let Some(path) = &args.output.from {
        return output::write(&output::read(path)?, &args.output);
    }
    if cfg!(debug_assertions) {
        tell(format_args!("hapax: built without optimization: these figures say nothing; build with --release"));
    }
    args.huge_pages.withhold()?;
    let interrupt = Interrupt::listen()?;
    let scratch = Scratch::new()?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let traced = recorded::trace(&args, &scratch, &interrupt)?;
    let plan = Plan::new(&args, traced.as_ref(), processors)?;
    let seed = args.seed.unwrap_or_else(random);
    let time = estimate::estimate(&plan.rows, args.rounds(), args.quick, traced.map_or(0, |traced| traced.events));
    tell(progress::announce(&plan.rows, args.rounds(), time, seed));
    let began_unix_seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let surroundings = Surroundings { directory: scratch.path(), huge_pages: args.huge_pages, interrupt: &interrupt };
    let mut rows = plan.rows;
    let interrupted = measure_all(&mut rows, &args, seed, &surroundings);
    rows.retain(|row| !row.runs.is_empty() || !row.failures.is_empty());
    recorded::rename(&mut rows, &args);
    let report = Report {
        format: Report::FORMAT,
        began_unix_seconds,
        command: command::repeats(
            std::env::args_os().map(|it| it.to_string_lossy().into_owned()),
            args.seed.is_none().then_some(seed),
        ),
        seed,
        machine: machine(args.huge_pages),
        rows,
        absent: plan.absent,
        interrupted,
    };
    output::write(&report, &args.output)?;
    verdict(&report)
}

/// Runs rounds in turns over all rows, so that changes in the machine affect all of them. Returns
/// true if it ended early.
fn measure_all(rows: &mut [Row], args: &BenchArgs, seed: u64, surroundings: &Surroundings<'_>) -> bool {
    let effort = if args.quick { Effort::Quick } else { Effort::Full };
    let mut progress = Progress::new(rows.len() * args.rounds() as usize, args.rounds());
    for round in 1..=args.rounds() {
        for row in rows.iter_mut() {
            progress.begin(row, round);
            let case = Case { strategy: row.strategy.clone(), setting: row.setting.clone(), seed, effort };
            match child::measure(&case, surroundings) {
                Ok(seen) => {
                    progress.end(row, Ok(&seen));
                    row.runs.push(seen);
                }
                Err(Ended::Failed(reason)) => {
                    progress.end(row, Err(&reason));
                    row.failures.push(reason);
                }
                Err(Ended::Interrupted) => {
                    progress.finish();
                    return true;
                }
            }
            // The signal may have come between two cases.
            if surroundings.interrupt.is_wanted() {
                progress.finish();
                return true;
            }
        }
    }
    progress.finish();
    false
}

/// Names the strategies that were wrong more often than they promise.
fn verdict(report: &Report) -> Result<(), CommandError> {
    let culprits = report.rows.iter().flat_map(|row| {
        let setting = render::described(&row.setting);
        row.broken_promises().into_iter().map(move |broken| format!("{broken} ({setting})"))
    });
    let culprits: Vec<String> = culprits.collect();
    let has_runs = report.rows.iter().any(|row| !row.runs.is_empty());
    match (culprits.is_empty(), report.interrupted) {
        (true, false) if !has_runs => Err(CommandError::Wrong("every case has failed".to_string())),
        (false, _) => {
            Err(CommandError::Wrong(format!("more wrong answers than promised:\n  {}", culprits.join("\n  "))))
        }
        (true, true) => Err(CommandError::Interrupted),
        (true, false) => Ok(()),
    }
}

/// Describes this machine, the versions of what is compared, and who has huge pages.
fn machine(huge_pages: HugePages) -> Machine {
    let here = Machine::here();
    let system = format!("{}, {}", here.system, huge_pages.described());
    Machine { system, libraries: versions::libraries(), ..here }
}

/// Returns a number that differs from run to run.
fn random() -> u64 {
    use std::hash::{BuildHasher, Hasher, RandomState};
    RandomState::new().build_hasher().finish()
}
