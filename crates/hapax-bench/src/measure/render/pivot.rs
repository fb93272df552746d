//! Tables of one quantity where one parameter varies, and of latencies.

use super::axis::{Axis, Marks};
use super::columns::median;
use super::table::{Row, Table};
use super::view::{Group, Line, QUANTILES, View};
use super::words::{self, number, share, time};
use crate::measure::{Setting, Sort};

/// A parameter that varies along a table.
pub struct Along {
    pub id: &'static str,
    /// Its value, if the setting has it.
    pub of: fn(&Setting) -> Option<f64>,
    /// Prints its value.
    pub head: fn(f64) -> String,
    /// Makes settings the same that differ in it only.
    pub without: fn(&mut Setting),
    /// Describes what the settings have in common.
    pub common: fn(&Setting) -> String,
    /// The quantity, of a line where there is one, and in print.
    pub value: fn(&Line) -> Option<f64>,
    pub print: fn(f64) -> String,
    pub legend: &'static str,
}

fn speed(line: &Line) -> Option<f64> {
    let Setting { rate, budget_bytes, .. } = line.row.setting;
    Some(line.speed.filter(|_| rate.is_none() && budget_bytes.is_none())?.median)
}

const SPEEDS: &str = "Checks a second; hollow marks are in the first column, filled ones in the last.";

pub const THREADS: Along = Along {
    id: "threads",
    of: |setting| Some(setting.threads as f64),
    head: |threads| words::threads(threads as usize),
    without: |setting| setting.threads = 0,
    common: |setting| format!("{}, {}", words::live(setting), words::stream(setting)),
    value: speed,
    print: number,
    legend: SPEEDS,
};

pub const LIVE: Along = Along {
    id: "live",
    of: |setting| Some(setting.live as f64),
    head: |live| format!("{} live", number(live)),
    without: |setting| setting.live = 0,
    common: |setting| format!("{}, {}", words::threads(setting.threads), words::stream(setting)),
    value: speed,
    print: number,
    legend: SPEEDS,
};

pub const BUDGET: Along = Along {
    id: "accuracy",
    of: |setting| Some(setting.budget_bytes? as f64 / setting.live as f64),
    head: |bytes| format!("{} bytes/id", number(bytes)),
    without: |setting| setting.budget_bytes = None,
    common: words::setting,
    // Both kinds of wrong answers: no strategy has many of both.
    value: |line| (line.missed.of > 0).then(|| line.missed.share().max(line.invented.share())),
    print: share,
    legend: "The share of wrong answers, of duplicates or of new ids, whichever is larger; hollow marks are of the smallest budget, \
             filled ones of the largest; none is no mark.",
};

/// Returns a table for each set of settings that differ in the parameter only, the largest first.
pub fn tables(view: &View, along: &Along) -> Vec<Table> {
    let mut groups: Vec<(Setting, Vec<(f64, &Line)>)> = Vec::new();
    for line in view.lines().filter(|line| line.row.sort != Sort::Roofline && (along.value)(line).is_some()) {
        let Some(at) = (along.of)(&line.row.setting) else { continue };
        let mut setting = Setting { batch: 1, ..line.row.setting.clone() };
        (along.without)(&mut setting);
        match groups.iter_mut().find(|(other, _)| *other == setting) {
            Some((_, lines)) => lines.push((at, line)),
            None => groups.push((setting, vec![(at, line)])),
        }
    }
    groups.sort_by_key(|(setting, lines)| std::cmp::Reverse((lines.len(), setting.live, setting.threads)));
    let tables = groups.iter().filter_map(|(setting, lines)| table(along, setting, lines));
    let named = tables.enumerate().map(|(i, table)| Table { id: numbered(along.id, i), ..table });
    named.collect()
}

fn numbered(id: &str, i: usize) -> String {
    if i == 0 { id.into() } else { format!("{id}-{}", i + 1) }
}

fn table(along: &Along, setting: &Setting, lines: &[(f64, &Line)]) -> Option<Table> {
    let mut values: Vec<f64> = lines.iter().map(|(at, _)| *at).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let [first, .., last] = values[..] else { return None };
    let is_one_size = is_one_size(lines.iter().map(|(_, line)| *line));
    let name = |line: &Line| if is_one_size { line.row.strategy.clone() } else { line.name.clone() };
    let mut names: Vec<(String, bool)> = Vec::new();
    for (_, line) in lines {
        if names.iter().all(|(other, _)| *other != name(line)) {
            names.push((name(line), line.ours));
        }
    }
    let rows = names.into_iter().filter_map(|(own, ours)| {
        let of_name = || lines.iter().filter(|(_, line)| name(line) == own);
        let value = |at: f64| of_name().find(|(place, _)| *place == at).and_then(|(_, line)| (along.value)(line));
        let cells: Vec<String> =
            values.iter().map(|at| value(*at).map_or_else(String::new, |value| (along.print)(value))).collect();
        let marks = Marks { hollow: value(first), filled: value(last), end: None };
        // With one of the values only there is nothing to compare.
        (cells.iter().filter(|cell| !cell.is_empty()).count() > 1).then_some(Row { name: own, ours, marks, cells })
    });
    let rows: Vec<Row> = rows.collect();
    (!rows.is_empty()).then(|| Table {
        id: String::new(),
        caption: format!("{}.", (along.common)(setting)),
        legend: along.legend,
        head: values.iter().map(|value| (along.head)(*value)).collect(),
        axis: Axis::over(rows.iter().map(|row| row.marks), along.print),
        rows,
    })
}

/// Returns true if all lines have batches of one size, which then is none of their names' business.
fn is_one_size<'l>(mut lines: impl Iterator<Item = &'l Line<'l>>) -> bool {
    let first = lines.next().map(|line| line.row.setting.batch);
    lines.all(|line| Some(line.row.setting.batch) == first)
}

/// Returns a table of latencies for each setting in which ids were due at a rate.
pub fn latencies(view: &View) -> Vec<Table> {
    view.paced().enumerate().filter_map(|(i, group)| latency(group, numbered("latency", i))).collect()
}

fn latency(group: &Group, id: String) -> Option<Table> {
    const LEGEND: &str = "From the hollow mark, half of the ids, over the filled one, 99.9 %, to the longest.";
    let caption = format!(
        "{}. Each id's time from when it was due, so that a stall counts for all that wait for its end; medians of the runs.",
        words::setting(&group.setting)
    );
    let is_one_size = is_one_size(group.lines.iter());
    let longest = |line: &Line| line.row.latency_nanos(1.0);
    let row = |line: &Line| {
        let [p50, _, p99_9, _] = line.quantiles.map(|spread| spread.map(|spread| spread.median));
        let behind = if line.fell_behind() { " (fell behind)" } else { "" };
        let cells = line.quantiles.into_iter().chain([longest(line)]).map(|spread| median(spread, time));
        Row {
            name: format!("{}{behind}", if is_one_size { &line.row.strategy } else { &line.name }),
            ours: line.ours,
            marks: Marks { hollow: p50, filled: p99_9, end: longest(line).map(|spread| spread.median) },
            cells: cells.collect(),
        }
    };
    let rows: Vec<Row> = group.lines.iter().filter(|line| line.quantiles[0].is_some()).map(row).collect();
    let axis = Some(Axis::over(rows.iter().map(|row| row.marks), time)?);
    let head = QUANTILES.iter().map(|(_, name)| *name).chain(["longest"]).map(String::from).collect();
    Some(Table { id, caption, legend: LEGEND, head, rows, axis }.without_empty_columns())
}
