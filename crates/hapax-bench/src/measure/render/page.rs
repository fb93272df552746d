//! The contents of a report, in order, whatever the format.

use super::rivals::{Group, Versus, groups};
use super::words::{self, number, plural, time};
use crate::measure::figures::{RUNS_MIN, Spread};
use crate::measure::{Report, Row, Sort};
use std::collections::BTreeSet;

pub struct Page {
    pub title: &'static str,
    pub lead: String,
    /// Errors; then which strategy to take, and where hapax loses.
    pub warnings: Vec<String>,
    pub sentences: Vec<String>,
    /// A table for each setting.
    pub tables: Vec<Table>,
    /// The rest: names and values.
    pub terms: Vec<(String, String)>,
}

/// Strategies, one a row, with the names of those that failed and the reasons.
pub struct Table {
    pub title: String,
    pub head: Vec<&'static str>,
    /// Names, whether they are ours, and cells.
    pub rows: Vec<(String, bool, Vec<String>)>,
    pub failures: Vec<String>,
}

impl Page {
    pub fn of(report: &Report) -> Page {
        let groups = groups(report);
        let machine = &report.machine;
        let processors = plural(machine.processors, "processor", "processors");
        let date = words::date(report.began_unix_seconds);
        let absent = report.absent.iter().map(|absent| (absent.strategy.clone(), absent.reason.clone()));
        let columns = COLUMNS.iter().map(|(head, says, _)| (*head, *says));
        let explained = [words::WAYS].into_iter().chain(columns).map(|(head, says)| (head.into(), says.into()));
        let conditions = [("system", machine.system.clone()), ("repeat it by", report.command.clone())];
        let conditions = conditions.map(|(name, value)| (name.to_string(), value));
        Page {
            title: "Strategies to deduplicate",
            lead: format!("{}, {processors}, {date}; seed {}", machine.processor, report.seed),
            warnings: warnings(report),
            sentences: [advice(report, &groups), losses(&groups)].concat(),
            tables: groups.iter().map(table).collect(),
            terms: explained.chain(absent).chain(conditions).collect(),
        }
    }
}

/// A column: its head, what that means, and its cell.
type Column = (&'static str, &'static str, fn(&Group, &Row) -> String);

const COLUMNS: [Column; 14] = [
    ("ns/id", "wall time by checks: the median of the runs, and the fastest and slowest", |group, row| match () {
        _ if row.runs.is_empty() => "failed".into(),
        _ if group.setting.rate.is_some() => String::new(),
        _ => row.nanos_per_id().map_or_else(String::new, |nanos| {
            let [median, lowest, highest] = [nanos.median, nanos.lowest, nanos.highest].map(number);
            if nanos.runs > 1 { format!("{median} ({lowest}–{highest})") } else { median }
        }),
    }),
    ("work", "time of the work between two checks, ns; ns/id is what a check adds to that", |_, row| {
        median(row.work_nanos_per_id(), number)
    }),
    (
        "× rival",
        "times as fast as the fastest of the same sort that is not hapax; ~ if that may be chance",
        |group, row| {
            let told = |Versus { times, clear, .. }| number(times) + if clear == Some(true) { "" } else { "~" };
            group.versus(row).map_or_else(String::new, told)
        },
    ),
    ("ids/s", "ids a second that were answered, if fewer than were due", |_, row| {
        if row.fell_behind() { median(row.reached(), number) } else { String::new() }
    }),
    ("p50", "half of the ids took at most so long", |_, row| median(row.latency(|it| it.p50), time)),
    ("p99.9", "99.9 % took at most so long", |_, row| median(row.latency(|it| it.p99_9), time)),
    ("longest", "the longest that an id took", |_, row| median(row.latency(|it| it.longest), time)),
    (
        "B/id",
        "memory of the process by live ids; empty if it is too little to be told, or holds few of them",
        |_, row| median(row.bytes_per_id(), number),
    ),
    ("beside", "bytes of a server or a directory by live ids", |_, row| median(row.beside_bytes_per_id(), number)),
    ("held", "ids that it held at the end, if others than the live ones, or by its own clock", |_, row| {
        median(row.held().filter(|held| row.has_own_clock() || held.median != row.setting.live as f64), number)
    }),
    ("CPU", "processor time of the process, ns by checks", |_, row| median(row.cpu_nanos_per_id(), number)),
    ("server's", "processor time of the server, ns by checks", |_, row| median(row.server_cpu_nanos_per_id(), number)),
    ("missed", "share of duplicates that it called fresh, and its 95 % confidence interval", |_, row| {
        words::wrong(&row.missed())
    }),
    ("invented", "share of new ids that it called duplicates; ! marks more than it promises", |_, row| {
        words::wrong(&row.invented())
    }),
];

fn median(spread: Option<Spread>, print: fn(f64) -> String) -> String {
    spread.map_or_else(String::new, |spread| print(spread.median))
}

/// Returns the table of a group, without the columns in which nothing is said.
fn table(group: &Group) -> Table {
    let is_said = |(_, _, cell): &&Column| group.rows.iter().any(|row| !cell(group, row).is_empty());
    let columns: Vec<&Column> = COLUMNS.iter().filter(is_said).collect();
    let row =
        |row: &&Row| (words::name(row), row.is_ours(), columns.iter().map(|(_, _, cell)| cell(group, row)).collect());
    let failed = |row: &&Row| row.failures.first().map(|why| format!("{} failed: {}", words::name(row), why.trim()));
    Table {
        title: words::setting(&group.setting),
        head: columns.iter().map(|(head, ..)| *head).collect(),
        rows: group.rows.iter().map(row).collect(),
        failures: group.rows.iter().filter_map(failed).collect(),
    }
}

fn warnings(report: &Report) -> Vec<String> {
    let failures: usize = report.rows.iter().map(|row| row.failures.len()).sum();
    let broken = report.rows.iter().filter(|row| !row.broken_promises().is_empty());
    let broken: BTreeSet<&str> = broken.map(|row| row.strategy.as_str()).collect();
    let broken: Vec<&str> = broken.into_iter().collect();
    [
        report.interrupted.then(|| "The measurement was interrupted: rows or rounds are missing.".into()),
        report.rows.is_empty().then(|| "Nothing was measured.".into()),
        (failures > 0).then(|| format!("{} failed; the tables say why.", plural(failures, "run", "runs"))),
        (!broken.is_empty()).then(|| format!("More wrong answers than promised: {}.", broken.join(", "))),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The needs that a reader may have, and the sort of strategy that meets each.
const NEEDS: [(Sort, &str); 3] = [
    (Sort::Window, "one process checks, and may forget what it knows when it crashes"),
    (Sort::Durable, "ids have to survive a crash, and one process checks"),
    (Sort::Server, "several processes share the ids"),
];

/// Says which strategy to take for which need: the fastest that gave no more wrong answers than it
/// promises.
fn advice(report: &Report, groups: &[Group]) -> Vec<String> {
    let Some(main) = groups.first().filter(|main| main.setting.rate.is_none() && main.setting.work == 0) else {
        return Vec::new();
    };
    let is_right = |row: &&Row| {
        let own = report.rows.iter().filter(|other| other.strategy == row.strategy);
        own.map(Row::broken_promises).all(|broken| broken.is_empty())
    };
    let take = |(sort, need): &(Sort, &str)| {
        let best = main.of_sort(*sort).filter(is_right).find(|row| row.nanos_per_id().is_some())?;
        let nanos = number(best.nanos_per_id()?.median);
        let bytes = best.all_bytes_per_id().map(|bytes| format!(", {} bytes an id", number(bytes.median)));
        let versus = main.versus(best).filter(|_| best.is_ours()).map(|Versus { rival, times, clear }| {
            let chance = if clear == Some(true) { "" } else { " (that may be chance)" };
            format!("; {} × as fast as {}, the fastest that isn't hapax{chance}", number(times), words::name(rival))
        });
        let (name, bytes, versus) = (words::name(best), bytes.unwrap_or_default(), versus.unwrap_or_default());
        Some(format!("Take {name} if {need}: {nanos} ns an id{bytes}{versus}."))
    };
    NEEDS.iter().filter_map(take).collect()
}

/// Says where hapax is slower than the fastest rival.
fn losses(groups: &[Group]) -> Vec<String> {
    let ours = groups.iter().flat_map(|group| group.rows.iter().map(move |row| (group, *row)));
    let compared: Vec<(&Row, Versus)> =
        ours.filter(|(_, row)| row.is_ours()).filter_map(|(group, row)| Some((row, group.versus(row)?))).collect();
    let (told, untold): (Vec<_>, Vec<_>) = compared.into_iter().partition(|(_, versus)| versus.clear.is_some());
    let slower = |of: &[(&Row, Versus)]| of.iter().filter(|(_, versus)| versus.times < 1.0).count();
    let lost: Vec<_> = told.iter().filter(|(_, it)| it.clear == Some(true) && it.times < 1.0).collect();
    let comparisons = |count| plural(count, "comparison", "comparisons");
    let mut said = Vec::new();
    if let Some((row, versus)) = lost.iter().min_by(|a, b| a.1.times.total_cmp(&b.1.times)) {
        let (name, times, rival) = (words::name(row), number(versus.times), words::name(versus.rival));
        let of = format!("{} of {}", lost.len(), comparisons(told.len()));
        let at = words::setting(&row.setting);
        said.push(format!(
            "hapax is slower than the fastest rival in {of}; worst: {name}, {times} × as fast as {rival}, the fastest \
             {} ({at}).",
            words::noun(row.sort)
        ));
    } else if !told.is_empty() {
        said.push(format!("hapax is slower than the fastest rival in none of {}.", comparisons(told.len())));
    }
    if !untold.is_empty() {
        let (all, slower) = (untold.len(), slower(&untold));
        said.push(format!(
            "In {} of fewer than {RUNS_MIN} runs a side, hapax is as fast or faster in {}, and slower in {slower}: either \
             may be chance.",
            comparisons(all),
            all - slower
        ));
    }
    said
}
