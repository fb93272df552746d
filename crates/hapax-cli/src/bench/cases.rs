//! Plans the cases: strategies times settings.

use super::options::{BenchArgs, Limit};
use crate::error::CommandError;
use hapax_bench::measure::servers::missing;
use hapax_bench::measure::{Absent, IdKind, ROOFLINE, Row, Setting, Shape, Sort, Workload, listed_for};
use hapax_bench::strategy::{Listed, Place, not_built};

/// The largest number of cases: more than anybody waits for.
const CASES_MAX: usize = 20_000;

/// The number of ids below which the smallest table is too large a part of the memory …
const BUDGETED_MIN: usize = 50_000;
/// … or does not fit in it.
const BUDGETED_MIN_OF_TRACE: usize = 16_384;

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
    batch: Vec<usize>,
    rates: Vec<Option<f64>>,
    /// The budgets in bytes for each live id.
    budgets: Vec<Option<f64>>,
    of: Of,
}

/// The strategies that a grid is for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Of {
    All,
    InMemory,
    /// Those that survive a crash, or ask a server.
    Apart,
    /// Those in memory that can work with less of it.
    Budgeted,
}

impl Of {
    fn includes(self, strategy: &Listed) -> bool {
        let is_apart = matches!(strategy.sort, Sort::Durable | Sort::Server);
        match self {
            Of::All => true,
            Of::InMemory => !is_apart,
            Of::Apart => is_apart,
            Of::Budgeted => strategy.takes_budget && !is_apart,
        }
    }
}

/// A trace that was made: its file, and the ids that are live.
pub struct Traced {
    pub workload: Workload,
    pub live: usize,
    pub events: usize,
}

impl Plan {
    pub fn new(args: &BenchArgs, traced: Option<&Traced>, processors: usize) -> Result<Self, CommandError> {
        let grids = grids(args, traced, processors);
        let kinds = match (traced, args.workload.ids.is_empty()) {
            (Some(_), _) => vec![IdKind::Bytes],
            (None, true) => vec![IdKind::U64],
            (None, false) => args.workload.ids.clone(),
        };
        check(args, &grids, kinds.len())?;
        let (mut rows, mut absent) = (Vec::new(), absent(args));
        for workload in workloads(args, traced) {
            for &ids in &kinds {
                let strategies = strategies(args, ids, &mut absent);
                for grid in &grids {
                    for setting in grid.settings(&workload, ids, args) {
                        add_rows(&mut rows, grid.of, &setting, &strategies, args);
                    }
                }
            }
        }
        if rows.is_empty() {
            let reasons: Vec<String> =
                absent.iter().map(|absent| format!("{}: {}", absent.strategy, absent.reason)).collect();
            let reasons = if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join("; ")) };
            return Err(CommandError::Usage(format!("there is nothing to measure: see `hapax bench --list`{reasons}")));
        }
        not_too_many(rows.len().saturating_mul(args.rounds() as usize))?;
        Ok(Plan { rows, absent })
    }
}

/// Returns the default grids: throughput in memory, then of slower strategies, then latencies, then
/// less memory. Options that were given replace the defaults.
fn grids(args: &BenchArgs, traced: Option<&Traced>, processors: usize) -> Vec<Grid> {
    let or = |given: &[usize], default: &[usize]| if given.is_empty() { default.to_vec() } else { given.to_vec() };
    let (small, large): (usize, &[usize]) =
        if args.quick { (20_000, &[20_000, 100_000]) } else { (100_000, &[100_000, 1_000_000]) };
    let given = traced.map_or_else(|| args.live.clone(), |traced| vec![traced.live]);
    let all = processors.clamp(1, 8);
    let each = if all == 1 { vec![1] } else { vec![1, all] };
    let limits =
        |limits: &[Limit]| if limits.is_empty() { vec![None] } else { limits.iter().map(|limit| limit.0).collect() };
    let grid = |live: &[usize], threads: &[usize], batch: &[usize], of| Grid {
        live: or(&given, live),
        threads: or(&args.threads, threads),
        batch: or(&args.batch, batch),
        rates: limits(&args.rate),
        budgets: limits(&args.budget),
        of,
    };
    if !args.rate.is_empty() || !args.budget.is_empty() {
        let batch = if args.rate.is_empty() { 1_024 } else { 64 };
        return vec![grid(&[small], &[all], &[batch], Of::All)];
    }
    let mut grids = vec![
        grid(large, &each, &[1, 1_024], Of::InMemory),
        grid(&large[1..], &each[each.len() - 1..], &[1_024], Of::Apart),
    ];
    if args.think.is_none() {
        let paced = Of::All;
        let rates = vec![Some(100_000.0)];
        // A thread that waits for an id to be due keeps a processor busy: one processor is left for
        // everything else.
        grids.push(Grid { rates, ..grid(&[small], &[(all - 1).max(1)], &[64], paced) });
        if traced.is_none_or(|traced| traced.live >= BUDGETED_MIN_OF_TRACE) {
            let budgets = [4.0, 8.0, 12.0, 16.0, 24.0, 48.0].map(Some).to_vec();
            grids.push(Grid { budgets, ..grid(&[small.max(BUDGETED_MIN)], &[1], &[1_024], Of::Budgeted) });
        }
    }
    grids
}

impl Grid {
    fn len(&self) -> usize {
        let lists = [self.live.len(), self.threads.len(), self.batch.len(), self.rates.len(), self.budgets.len()];
        lists.into_iter().fold(1, usize::saturating_mul)
    }

    fn settings(&self, workload: &Workload, ids: IdKind, args: &BenchArgs) -> Vec<Setting> {
        let is_generated = !matches!(workload.shape, Shape::Trace { .. });
        let mut workload = workload.clone();
        if args.workload.distance.is_none() && is_generated && self.budgets.iter().any(Option::is_some) {
            // With less memory the oldest ids are forgotten first: they have to come again for that
            // to be seen.
            workload.distance_windows = 1.0;
        }
        let think_nanos = args.think.map_or(0, |think| u64::try_from(think.as_nanos()).unwrap_or(u64::MAX));
        let Grid { live, threads, batch, rates, budgets, of: _ } = self;
        let all = itertools::iproduct!(live, threads, batch, rates, budgets);
        let setting = |(&live, &threads, &batch, &rate, budget): (_, _, _, _, &Option<f64>)| Setting {
            workload: workload.clone(),
            ids,
            live,
            threads,
            batch,
            think_nanos,
            rate,
            budget_bytes: budget.map(|bytes| (bytes * live as f64) as u64),
        };
        all.map(setting).collect()
    }
}

/// Adds rows of a setting, each once only, though grids overlap. With a budget only strategies are
/// measured that make use of it; the others appear where there is none.
fn add_rows(rows: &mut Vec<Row>, of: Of, setting: &Setting, strategies: &[Listed], args: &BenchArgs) {
    let is_plain = setting.rate.is_none() && setting.think_nanos == 0 && setting.budget_bytes.is_none();
    let is_trace = matches!(setting.workload.shape, Shape::Trace { .. });
    let mut add = |strategy: &str, sort, may_miss, may_invent| {
        if !rows.iter().any(|row| row.strategy == strategy && row.setting == *setting) {
            let (strategy, setting) = (strategy.to_string(), setting.clone());
            rows.push(Row { strategy, sort, setting, runs: Vec::new(), failures: Vec::new(), may_miss, may_invent });
        }
    };
    if is_plain && !is_trace && of != Of::Apart && is_wanted(args, ROOFLINE) {
        add(ROOFLINE, Sort::Roofline, 0.0, 0.0);
    }
    for strategy in strategies {
        if of.includes(strategy) && (setting.budget_bytes.is_none() || strategy.takes_budget) {
            let allowance = (strategy.allowance)(&setting.plan(Place::Memory));
            add(strategy.name, strategy.sort, allowance.missed, allowance.invented);
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

fn absent(args: &BenchArgs) -> Vec<Absent> {
    not_built().into_iter().filter(|absent| is_wanted(args, &absent.strategy)).collect()
}

fn is_wanted(args: &BenchArgs, name: &str) -> bool {
    let name = name.to_lowercase();
    let has_one = |texts: &[String]| texts.iter().any(|text| name.contains(&text.to_lowercase()));
    (args.only.is_empty() || has_one(&args.only)) && !has_one(&args.without)
}

fn workloads(args: &BenchArgs, traced: Option<&Traced>) -> Vec<Workload> {
    let distance_windows = args.workload.distance.unwrap_or(0.1);
    if let Some(traced) = traced {
        return vec![traced.workload.clone()];
    }
    let or = |given: &[f64]| if given.is_empty() { vec![0.1] } else { given.to_vec() };
    let shapes = match args.workload.workload.is_empty() {
        true => vec![Shape::Uniform],
        false => args.workload.workload.clone(),
    };
    let mut all: Vec<Workload> = Vec::new();
    for (shape, duplicates) in itertools::iproduct!(shapes, or(&args.workload.duplicates)) {
        // How often an id of Zipf's distribution comes again is a matter of the exponent.
        let duplicates = if matches!(shape, Shape::Zipf { .. }) { 0.1 } else { duplicates };
        let workload = Workload { shape, duplicates, distance_windows };
        if !all.contains(&workload) {
            all.push(workload);
        }
    }
    all
}

fn check(args: &BenchArgs, grids: &[Grid], kinds: usize) -> Result<(), CommandError> {
    for grid in grids {
        if grid.threads.contains(&0) || grid.batch.contains(&0) {
            return Err(CommandError::Usage("--threads and --batch: there has to be at least one".to_string()));
        }
        let threads_max = grid.threads.iter().copied().max().unwrap_or(1);
        let is_generated = args.workload.files.is_empty();
        if is_generated && grid.live.iter().any(|&live| live < threads_max.saturating_mul(1_000)) {
            let reason = "fewer than 1,000 live ids for each thread are too few to tell ticks apart";
            return Err(CommandError::Usage(format!("--live: {reason}")));
        }
    }
    let settings = grids.iter().map(Grid::len).fold(0, usize::saturating_add);
    let shapes = [&args.workload.workload.len(), &args.workload.duplicates.len()].map(|given| (*given).max(1));
    not_too_many([settings, kinds].into_iter().chain(shapes).fold(1, usize::saturating_mul))
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
        Plan::new(&args, None, processors)
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
        let lists = [
            "--live",
            "4000,8000",
            "--threads",
            "1,2",
            "--batch",
            "1,16,64",
            "--rate",
            "max,1000",
            "--only",
            "hapax window",
        ];
        let plan = plan(&[&lists[..], &["--ids", "u64,uuid", "--workload", "uniform,zipf:1.5"]].concat(), 2).unwrap();
        assert_eq!(settings(&plan).len(), 2 * 2 * 3 * 2 * 2 * 2);
        let names: HashSet<&str> = plan.rows.iter().map(|row| row.strategy.as_str()).collect();
        assert!(names.contains("hapax window") && !names.contains("DashMap") && !names.contains(ROOFLINE), "{names:?}");
        assert!(plan.rows.iter().any(|row| row.setting.workload.shape == Shape::Zipf { exponent: 1.5 }));
    }

    #[test]
    fn without_options_every_picture_gets_its_figures() {
        let plan = plan(&["--without", "hapax history"], 4).unwrap();
        let settings = settings(&plan);
        let values = |of: fn(&Setting) -> usize| settings.iter().map(|s| of(s)).collect::<HashSet<_>>().len();
        assert!(values(|s| s.live) >= 2 && values(|s| s.threads) >= 2 && values(|s| s.batch) >= 2);
        assert!(settings.iter().any(|setting| setting.rate.is_some()));
        assert!(!plan.rows.iter().any(|row| row.strategy == "hapax history"));
        let mut seen = HashSet::new();
        assert!(plan.rows.iter().all(|row| seen.insert(format!("{} {:?}", row.strategy, row.setting))), "each once");
        let roofline = plan.rows.iter().filter(|row| row.strategy == ROOFLINE);
        assert!(roofline.clone().count() > 0 && roofline.clone().all(|row| row.setting.rate.is_none()));
    }

    #[test]
    fn a_budget_is_for_those_that_make_use_of_it_and_others_appear_once() {
        let plan = plan(&["--budget", "max,4,16", "--live", "10000"], 2).unwrap();
        let takes: HashSet<&str> = listed_for(IdKind::U64).iter().filter(|s| s.takes_budget).map(|s| s.name).collect();
        for row in plan.rows.iter().filter(|row| row.setting.budget_bytes.is_some()) {
            assert!(takes.contains(row.strategy.as_str()));
            assert!([Some(40_000), Some(160_000)].contains(&row.setting.budget_bytes));
        }
        assert_eq!(plan.rows.iter().filter(|row| row.strategy == "DashMap").count(), 1);
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
