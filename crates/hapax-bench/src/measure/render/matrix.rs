//! The matrix: all strategies side by side, one a row.

use super::axis::{Axis, Marks};
use super::columns::{median, wrong};
use super::table::{Row, Table};
use super::view::{Group, Line, SORTS, View};
use super::words::{self, number, time};
use crate::measure::Sort;
use crate::measure::figures::{Spread, Wrong};

const HEAD: [&str; 8] =
    ["one at a time", "in batches", "p99.9", "bytes/id", "missed", "invented", "survives", "shared"];

const LEGEND: &str = "Checks a second; hollow marks are ids one at a time, filled ones batches.";

/// A strategy, with what is known of it.
pub struct Entry<'v> {
    pub name: &'v str,
    pub sort: Sort,
    pub ours: bool,
    /// Its lines where it was as fast as it could, ids one by one and in batches.
    one: Option<&'v Line<'v>>,
    batched: Option<&'v Line<'v>>,
    /// The latency at a rate.
    tail: Option<Spread>,
    /// Over all settings, without those with a budget, where wrong answers are the budget's fault.
    pub missed: Wrong,
    pub invented: Wrong,
    keeps_promises: bool,
}

impl<'v> Entry<'v> {
    fn of(view: &'v View, main: &'v Group, name: &'v str) -> Option<Self> {
        let measured = |is_batch: bool| {
            let is_it = move |line: &&Line| {
                line.row.strategy == name && (line.row.setting.batch > 1) == is_batch && line.speed.is_some()
            };
            main.lines.iter().find(is_it)
        };
        let (one, batched) = (measured(false), measured(true));
        let row = one.or(batched)?.row;
        let tail = widest(view).and_then(|paced| paced.lines.iter().find(|line| line.row.strategy == name)?.tail());
        Some(Entry {
            name,
            sort: row.sort,
            ours: row.is_ours(),
            one,
            batched,
            tail,
            missed: view.lines_of(name).map(|line| line.missed).sum(),
            invented: view.lines_of(name).map(|line| line.invented).sum(),
            keeps_promises: view.lines_of(name).all(|line| !line.breaks(&line.missed) && !line.breaks(&line.invented)),
        })
    }

    /// Returns the line where it was faster.
    pub fn best(&self) -> Option<&'v Line<'v>> {
        let speed = |line: &&Line| line.speed.map_or(0.0, |speed| speed.median);
        self.one.into_iter().chain(self.batched).max_by(|a, b| speed(a).total_cmp(&speed(b)))
    }

    /// Returns true if it gave no more wrong answers than it may.
    pub fn is_right(&self) -> bool {
        self.keeps_promises
    }

    /// Describes the figures that a reader compares.
    pub fn figures(&self) -> String {
        let speeds = [(self.one, "one at a time"), (self.batched, "in batches")];
        let speeds = speeds.map(|(line, how)| Some(format!("{} ids/s {how}", number(line?.speed?.median))));
        let tail = self.tail.map(|tail| format!("p99.9 of {}", time(tail.median)));
        let bytes = self.bytes().map(|bytes| format!("{} bytes an id", number(bytes.median)));
        speeds.into_iter().chain([tail, bytes]).flatten().collect::<Vec<_>>().join(", ")
    }

    fn bytes(&self) -> Option<Spread> {
        self.one.into_iter().chain(self.batched).find_map(|line| line.all_bytes)
    }

    fn marks(&self) -> Marks {
        let speed = |line: Option<&Line>| Some(line?.speed?.median);
        Marks { hollow: speed(self.one), filled: speed(self.batched), end: None }
    }

    fn row(&self) -> Row {
        let speed = |line: Option<&Line>| median(line.and_then(|line| line.speed), number);
        let is = |yes: bool| match self.sort {
            Sort::Roofline => "",
            _ if yes => "yes",
            _ => "no",
        };
        let cells = [
            speed(self.one),
            speed(self.batched),
            median(self.tail, time),
            median(self.bytes(), number),
            wrong(self.sort, &self.missed),
            wrong(self.sort, &self.invented),
            is(matches!(self.sort, Sort::Durable | Sort::Server)).into(),
            is(self.sort == Sort::Server).into(),
        ];
        Row { name: self.name.into(), ours: self.ours, marks: self.marks(), cells: cells.into() }
    }
}

/// Returns the group with ids at a rate that has most strategies.
fn widest<'v, 'r>(view: &'v View<'r>) -> Option<&'v Group<'r>> {
    view.paced().max_by_key(|group| group.lines.len())
}

/// Returns the strategies of the main setting by sort, the fastest first.
pub fn entries<'v>(view: &'v View) -> Vec<Entry<'v>> {
    let Some(main) = view.main() else { return Vec::new() };
    let mut entries: Vec<Entry> = Vec::new();
    for sort in [Sort::Roofline].into_iter().chain(SORTS) {
        for line in main.of_sort(sort) {
            if entries.iter().all(|entry| entry.name != line.row.strategy) {
                entries.extend(Entry::of(view, main, &line.row.strategy));
            }
        }
    }
    entries
}

/// Returns the matrix, if anything was measured.
pub fn table(view: &View, entries: &[Entry]) -> Option<Table> {
    let mut caption = format!(
        "{}. In batches: handed over many at a time, whatever a strategy makes of that. Wrong answers: of all settings. Survives: a crash of the process. Shared: between processes.",
        words::setting(&view.main()?.setting)
    );
    if let Some(paced) = widest(view) {
        caption += &format!(" Latencies: {}.", words::setting(&paced.setting));
    }
    let rows: Vec<Row> = entries.iter().map(Entry::row).collect();
    let axis = Axis::over(rows.iter().map(|row| row.marks), number);
    let table =
        Table { id: "throughput".into(), caption, legend: LEGEND, head: HEAD.map(String::from).into(), rows, axis };
    Some(table.without_empty_columns())
}
