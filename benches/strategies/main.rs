//! Compares strategies: each on the same steady-state stream of ids, in a process of its own, with its answers checked.

mod answers;
mod case;
mod drive;
mod lines;
mod options;
mod pace;
mod picture;
mod report;
mod resident;
mod results;
mod roofline;
mod stream;
mod targets;

use crate::case::{Case, Kind, Measurement, Mode, Setting};
use crate::options::Options;
use crate::results::{Comparison, Results};
use hapax::strategy::{Listed, listed};
use std::process::{Command, ExitCode};

/// The first argument of a process that measures one case.
const CHILD: &str = "--measure";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some((CHILD, case)) = args.split_first().map(|(first, case)| (first.as_str(), case)) {
        return measure_and_tell(case);
    }
    let options = match Options::parse(&args) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    if options.help {
        print!("{}", options::HELP);
        return ExitCode::SUCCESS;
    }
    report::print_conditions(&options);
    let mut comparisons = Vec::new();
    for setting in settings(&options) {
        let comparison = compare(setting, &options);
        report::print_comparison(&comparison);
        comparisons.push(comparison);
    }
    targets::print(&comparisons);
    if let Err(error) = draw(&options, &comparisons) {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    match report::print_wrong_answers(&comparisons) {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn draw(options: &Options, comparisons: &[Comparison]) -> Result<(), String> {
    let Some(path) = &options.picture else { return Ok(()) };
    let of_one_thread = comparisons.iter().filter(|comparison| comparison.setting.threads == 1);
    // Of equally large ones the first.
    let largest = of_one_thread.rev().max_by_key(|comparison| comparison.setting.live);
    let comparison = largest.ok_or("a picture takes a comparison of one thread")?;
    std::fs::write(path, picture::draw(comparison)).map_err(|e| format!("{path}: {e}"))
}

/// Measures a case and prints what came of it, for [`measure_apart`] to read.
fn measure_and_tell(case: &[String]) -> ExitCode {
    let Some(case) = Case::from_args(case) else { return ExitCode::from(2) };
    match roofline::measure(&case).or_else(|| drive::measure(&case)) {
        Some(measurement) => {
            println!("{measurement}");
            ExitCode::SUCCESS
        }
        None => ExitCode::from(2),
    }
}

/// Measures a case in a process of its own, so that its memory can be told from that of others.
fn measure_apart(case: &Case, huge_pages: bool) -> Result<Measurement, String> {
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut command = Command::new(program);
    command.arg(CHILD).args(case.to_args());
    if huge_pages {
        command.env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");
    }
    let output = command.stderr(std::process::Stdio::inherit()).output().map_err(|e| e.to_string())?;
    if !output.status.success() {
        return Err(output.status.to_string());
    }
    String::from_utf8_lossy(&output.stdout).parse()
}

fn settings(options: &Options) -> Vec<Setting> {
    let mut settings = Vec::new();
    for &live in &options.live {
        for &kind in &options.kinds {
            settings.extend(options.threads.iter().map(|&threads| Setting { live, threads, kind }));
        }
    }
    settings
}

/// Runs all strategies in turn, several times.
fn compare(setting: Setting, options: &Options) -> Comparison {
    let mut comparison = Comparison::new(setting, rows(options, setting.kind));
    for round in 1..=options.rounds {
        for results in &mut comparison.rows {
            let case = Case { strategy: results.strategy.name.into(), mode: results.mode, setting, seed: options.seed };
            let Setting { live, threads, kind } = setting;
            let name = &case.strategy;
            eprint!("{live} {kind}, {threads} threads, round {round}/{}: {name}, {} … ", options.rounds, case.mode);
            match measure_apart(&case, options.huge_pages) {
                Ok(measurement) => {
                    eprintln!("{:.1} ns", measurement.nanos_per_id());
                    results.runs.push(measurement);
                }
                Err(error) => {
                    eprintln!("failed: {error}");
                    results.failures += 1;
                }
            }
        }
    }
    comparison
}

/// What is measured in every setting. A strategy that has no better way to check a batch than one by one is measured one by one.
fn rows(options: &Options, kind: Kind) -> Vec<Results> {
    let strategies = match kind {
        Kind::U64 => listed::<u64>(),
        Kind::Text => listed::<[u8]>(),
    };
    let is_wanted = |strategy: &Listed| options.only.iter().any(|text| strategy.name.contains(text));
    let mut rows = Vec::new();
    for (name, _) in roofline::NAMES {
        let roofline = Listed {
            name,
            sort: hapax::measure::Sort::Roofline,
            needs: hapax::strategy::Needs::Nothing,
            takes_budget: false,
            batches: true,
            expires: true,
            allowance: hapax::strategy::Allowance::NONE,
        };
        rows.push(Results::new(roofline, Mode::Batched));
    }
    for strategy in strategies.into_iter().filter(is_wanted) {
        if strategy.batches {
            rows.push(Results::new(strategy, Mode::Batched));
        }
        rows.push(Results::new(strategy, Mode::Single));
    }
    rows
}
