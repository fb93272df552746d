//! Plans the cases: strategies times settings.

use super::options::{BenchArgs, Limit, Way};
use crate::error::CommandError;
use hapax_bench::measure::servers::missing;
use hapax_bench::measure::{Absent, IdKind, Row, Setting, Shape, Sort, Workload, listed_for};
use hapax_bench::strategy::{Listed, Place, not_built};
use itertools::iproduct;

/// The largest number of cases: more than anybody waits for.
const CASES_MAX: usize = 20_000;

/// The age of redeliveries, in windows, at most.
const DISTANCE_WINDOWS: f64 = 0.1;

/// The rows to measure, and the strategies that cannot be measured.
pub struct Plan {
    /// A row for each strategy in each setting, with no run so far.
    pub rows: Vec<Row>,
    pub absent: Vec<Absent>,
}

/// Lists of parameters that multiply, for some of the strategies.
struct Grid {
    live: Vec<usize>,
    threads: Vec<usize>,
    ways: Vec<Way>,
    rates: Vec<Option<f64>>,
    /// The strategies that it is for.
    includes: fn(&Listed) -> bool,
}

impl Plan {
    pub fn new(args: &BenchArgs, processors: usize) -> Result<Self, CommandError> {
        let grids = grids(args, processors);
        let (workloads, kinds) = (workloads(args), or(&args.workload.ids, &[IdKind::U64]));
        let (pages, works) = (or(&args.pages, &[false]), or(&args.work, &[0]));
        let sizes = grids.iter().map(|grid| [grid.live.len(), grid.threads.len(), grid.ways.len()]);
        let settings: usize =
            sizes.map(|sizes| sizes.into_iter().fold(args.rate.len().max(1), usize::saturating_mul)).sum();
        not_too_many(settings.saturating_mul(workloads.len() * kinds.len() * pages.len() * works.len()))?;
        let wanted = not_built().into_iter().filter(|absent| is_wanted(args, &absent.strategy));
        let (mut rows, mut absent): (Vec<Row>, Vec<Absent>) = (Vec::new(), wanted.collect());
        for (workload, &ids, &huge_pages, &work) in iproduct!(&workloads, &kinds, &pages, &works) {
            let strategies = strategies(args, ids, &mut absent);
            for Grid { live, threads, ways, rates, includes } in &grids {
                for (&live, &threads, &way, &rate) in iproduct!(live, threads, ways, rates) {
                    let (batch, ahead) = match way {
                        Way::Batch(batch) => (batch, false),
                        Way::Ahead if rate.is_some() => continue,
                        Way::Ahead => (1, true),
                    };
                    if work > 0 && (batch > 1 || rate.is_some()) {
                        continue;
                    }
                    let workload = workload.clone();
                    let setting = Setting { workload, ids, live, threads, batch, ahead, rate, work, huge_pages };
                    check(&setting)?;
                    let can = |it: &&Listed| includes(it) && (it.reads_ahead || !ahead);
                    add_rows(&mut rows, &setting, strategies.iter().filter(can));
                }
            }
        }
        if rows.is_empty() {
            let reasons: Vec<String> = absent.iter().map(|it| format!("{}: {}", it.strategy, it.reason)).collect();
            let reasons = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join("; ")) };
            return Err(CommandError::Usage(format!("there is nothing to measure: see `hapax bench --list`{reasons}")));
        }
        not_too_many(rows.len().saturating_mul(args.rounds() as usize))?;
        Ok(Plan { rows, absent })
    }
}

/// Returns what was given, or else the default.
fn or<T: Clone>(given: &[T], default: &[T]) -> Vec<T> {
    if given.is_empty() { default.to_vec() } else { given.to_vec() }
}

/// Returns the default grids: throughput in memory, then of slower strategies, then latencies.
/// Options that were given replace the defaults.
fn grids(args: &BenchArgs, processors: usize) -> Vec<Grid> {
    let large: &[usize] = if args.quick { &[20_000, 100_000] } else { &[100_000, 1_000_000] };
    let all = processors.clamp(1, 8);
    let each = if all == 1 { vec![1] } else { vec![1, all] };
    let grid = |live: &[usize], threads: &[usize], ways: &[Way], includes| Grid {
        live: or(&args.live, live),
        threads: or(&args.threads, threads),
        ways: or(&args.batch, ways),
        rates: or(&args.rate, &[Limit(None)]).into_iter().map(|limit| limit.0).collect(),
        includes,
    };
    if !args.rate.is_empty() {
        return vec![grid(&large[..1], &[all], &[Way::Batch(64)], |_| true)];
    }
    // A thread that waits for an id to be due keeps a processor busy: one processor is left for
    // everything else.
    let paced = grid(&large[..1], &[(all - 1).max(1)], &[Way::Batch(64)], |_| true);
    vec![
        grid(large, &each, &[Way::Batch(1), Way::Ahead, Way::Batch(1_024)], |strategy| strategy.sort == Sort::Window),
        grid(&large[1..], &[all], &[Way::Batch(1_024)], |strategy| strategy.sort != Sort::Window),
        Grid { rates: vec![Some(100_000.0)], ..paced },
    ]
}

/// Adds rows of a setting, each once only, though grids overlap.
fn add_rows<'a>(rows: &mut Vec<Row>, setting: &Setting, strategies: impl Iterator<Item = &'a Listed>) {
    for strategy in strategies {
        if !rows.iter().any(|row| row.strategy == strategy.name && row.setting == *setting) {
            let allowance = (strategy.allowance)(&setting.plan(Place::Memory));
            rows.push(Row::new(strategy.name, strategy.sort, setting, allowance.missed, allowance.invented));
        }
    }
}

/// Returns the strategies that are wanted and can be measured here.
fn strategies(args: &BenchArgs, ids: IdKind, absent: &mut Vec<Absent>) -> Vec<Listed> {
    let mut can_be_measured = |strategy: &Listed| {
        let Some(reason) = missing(strategy.needs) else { return true };
        if !absent.iter().any(|absent| absent.strategy == strategy.name) {
            absent.push(Absent { strategy: strategy.name.to_string(), reason });
        }
        false
    };
    let listed = listed_for(ids).into_iter().filter(|strategy| is_wanted(args, strategy.name));
    listed.filter(|strategy| can_be_measured(strategy)).collect()
}

fn is_wanted(args: &BenchArgs, name: &str) -> bool {
    let name = name.to_lowercase();
    let has_one = |texts: &[String]| texts.iter().any(|text| name.contains(&text.to_lowercase()));
    (args.only.is_empty() || has_one(&args.only)) && !has_one(&args.without)
}

fn workloads(args: &BenchArgs) -> Vec<Workload> {
    let mut all: Vec<Workload> = Vec::new();
    let (shapes, shares) = (or(&args.workload.workload, &[Shape::Uniform]), or(&args.workload.duplicates, &[0.1]));
    for (shape, duplicates) in iproduct!(shapes, shares) {
        // How often an id of Zipf's distribution comes again is a matter of the exponent.
        let duplicates = if matches!(shape, Shape::Zipf { .. }) { 0.1 } else { duplicates };
        let workload = Workload { shape, duplicates, distance_windows: DISTANCE_WINDOWS };
        if !all.contains(&workload) {
            all.push(workload);
        }
    }
    all
}

fn check(setting: &Setting) -> Result<(), CommandError> {
    if setting.threads == 0 || setting.batch == 0 {
        return Err(CommandError::Usage("--threads and --batch: there has to be at least one".to_string()));
    }
    if setting.live < setting.threads.saturating_mul(1_000) {
        let reason = "fewer than 1,000 live ids for each thread are too few to tell ticks apart";
        return Err(CommandError::Usage(format!("--live: {reason}")));
    }
    Ok(())
}

fn not_too_many(cases: usize) -> Result<(), CommandError> {
    if cases > CASES_MAX {
        let reason = format!("{cases} cases, more than the {CASES_MAX} that anybody waits for: shorten the lists");
        return Err(CommandError::Usage(reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Args, Command};
    use clap::Parser;
    use std::collections::HashSet;

    fn plan(options: &[&str], processors: usize) -> Result<Plan, CommandError> {
        let words = ["hapax", "bench"].iter().chain(options);
        let Command::Bench(args) = Args::try_parse_from(words).unwrap().command else { unreachable!() };
        Plan::new(&args, processors)
    }

    fn settings(plan: &Plan) -> Vec<&Setting> {
        let mut settings: Vec<&Setting> = Vec::new();
        for row in &plan.rows {
            if !settings.contains(&&row.setting) {
                settings.push(&row.setting);
            }
        }
        settings
    }

    #[test]
    fn lists_multiply() {
        let lists = ["--live", "4000,8000", "--threads", "1,2", "--batch", "1,16,ahead", "--rate", "max,1000"];
        let only = ["--only", "hapax window", "--ids", "u64,uuid-text", "--workload", "uniform,zipf:1.5"];
        let more = ["--pages", "default,huge", "--work", "0,500"];
        let plan = plan(&[&lists[..], &only, &more].concat(), 2).unwrap();
        // What comes at a rate is not read ahead; work is between ids that come one by one.
        assert_eq!(settings(&plan).len(), 2 * 2 * ((3 + 2) + 2) * 2 * 2 * 2);
        let names: HashSet<&str> = plan.rows.iter().map(|row| row.strategy.as_str()).collect();
        assert!(names.contains("hapax window") && !names.contains("DashMap"), "{names:?}");
        assert!(plan.rows.iter().any(|row| row.setting.workload.shape == Shape::Zipf { exponent: 1.5 }));
    }

    #[test]
    fn without_options_every_picture_gets_its_figures() {
        let plan = plan(&["--without", "hapax window+history"], 4).unwrap();
        let settings = settings(&plan);
        let values = |of: fn(&Setting) -> usize| settings.iter().map(|s| of(s)).collect::<HashSet<_>>().len();
        assert!(values(|s| s.live) >= 2 && values(|s| s.threads) >= 2 && values(|s| s.batch) >= 2);
        assert!(settings.iter().any(|setting| setting.rate.is_some()));
        let ahead: HashSet<&str> =
            plan.rows.iter().filter(|row| row.setting.ahead).map(|row| row.strategy.as_str()).collect();
        assert_eq!(ahead, HashSet::from(["hapax window"]), "no rival can");
        assert!(!settings.iter().any(|setting| setting.huge_pages), "as it comes");
        assert!(!plan.rows.iter().any(|row| row.strategy == "hapax window+history"));
        let mut seen = HashSet::new();
        assert!(plan.rows.iter().all(|row| seen.insert(format!("{} {:?}", row.strategy, row.setting))), "each once");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refused = |options: &[&str]| match plan(options, 2) {
            Err(CommandError::Usage(reason)) => reason,
            _ => panic!("{options:?}"),
        };
        let list = (1..=20).map(|i| (i * 10_000).to_string()).collect::<Vec<_>>().join(",");
        assert!(refused(&["--live", &list, "--rounds", "1000"]).contains("cases"));
        assert!(refused(&["--live", "1999", "--threads", "2"]).contains("1,000"));
        assert!(refused(&["--threads", "0"]).contains("at least one"));
        assert!(refused(&["--only", "no such strategy"]).contains("--list"));
    }
}
