//! A report as all pages see it: rows that can be compared, side by side.

use super::words;
use crate::measure::figures::{RUNS_MIN, Spread, Wrong};
use crate::measure::{Report, Row, Setting, Sort};

/// The shares of ids whose latency is shown.
pub const QUANTILES: [(f64, &str); 4] = [(0.5, "p50"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99")];

/// The sorts that are compared, in the order in which they are shown.
pub const SORTS: [Sort; 4] = [Sort::Window, Sort::Filter, Sort::Durable, Sort::Server];

pub struct View<'r> {
    pub report: &'r Report,
    /// The groups, in the order of the report.
    pub groups: Vec<Group<'r>>,
}

/// Rows that differ in strategy and batch size only.
pub struct Group<'r> {
    /// The setting of all rows; its batch size means nothing.
    pub setting: Setting,
    /// The lines, the fastest first; where ids were due at a rate, the one with the shortest p99
    /// first.
    pub lines: Vec<Line<'r>>,
}

pub struct Line<'r> {
    pub row: &'r Row,
    pub name: String,
    pub ours: bool,
    pub speed: Option<Spread>,
    pub quantiles: [Option<Spread>; 4],
    /// The memory of the process and outside it together.
    pub all_bytes: Option<Spread>,
    pub missed: Wrong,
    pub invented: Wrong,
    pub versus: Option<Versus>,
}

/// A comparison of a strategy with the fastest one of its sort that is not ours.
#[derive(Clone, Debug)]
pub struct Versus {
    pub rival: String,
    /// The factor by which it is faster.
    pub times: f64,
    /// True if every run of the one was faster than every run of the other, and there were enough
    /// to tell.
    pub clear: bool,
    /// The runs of the one that has fewer.
    pub runs: usize,
}

impl<'r> View<'r> {
    pub fn of(report: &'r Report) -> View<'r> {
        let mut groups: Vec<Group> = Vec::new();
        for row in &report.rows {
            let setting = Setting { batch: 1, ..row.setting.clone() };
            match groups.iter_mut().find(|group| group.setting == setting) {
                Some(group) => group.lines.push(Line::of(row)),
                None => groups.push(Group { setting, lines: vec![Line::of(row)] }),
            }
        }
        groups.iter_mut().for_each(Group::finish);
        View { report, groups }
    }

    pub fn lines(&self) -> impl Iterator<Item = &Line<'r>> {
        self.groups.iter().flat_map(|group| &group.lines)
    }

    /// Returns the lines of a strategy where it had all the memory that it needs.
    pub fn lines_of(&self, name: &str) -> impl Iterator<Item = &Line<'r>> {
        self.lines().filter(move |line| line.row.strategy == name && line.row.setting.budget_bytes.is_none())
    }

    /// Returns the group that shows most: as fast as possible, without a budget; the one with most
    /// strategies, live ids and threads.
    pub fn main(&self) -> Option<&Group<'r>> {
        let measured = |group: &Group| group.lines.iter().filter(|line| line.speed.is_some()).count();
        let weight = |group: &&Group| {
            let Setting { rate, budget_bytes, live, threads, think_nanos, .. } = group.setting;
            (rate.is_none(), budget_bytes.is_none(), think_nanos == 0, measured(group), live, threads)
        };
        // Of equal groups this is the first.
        self.groups.iter().rev().filter(|group| measured(group) > 0).max_by_key(weight)
    }

    /// Returns the groups whose ids were due at a rate.
    pub fn paced(&self) -> impl Iterator<Item = &Group<'r>> {
        self.groups.iter().filter(|group| group.setting.rate.is_some())
    }

    /// Returns the strategies, ours first.
    pub fn strategies(&self) -> Vec<&'r str> {
        let mut names: Vec<&str> = Vec::new();
        for ours in [true, false] {
            for row in self.report.rows.iter().filter(|row| row.is_ours() == ours) {
                if row.sort != Sort::Roofline && !names.contains(&row.strategy.as_str()) {
                    names.push(&row.strategy);
                }
            }
        }
        names
    }
}

impl Group<'_> {
    fn finish(&mut self) {
        let paced = self.setting.rate.is_some();
        let key = |line: &Line| match paced {
            true => line.quantiles[1].or(line.quantiles[0]).map_or(f64::INFINITY, |p99| p99.median),
            false => line.speed.map_or(f64::INFINITY, |speed| -speed.median),
        };
        self.lines.sort_by(|a, b| key(a).total_cmp(&key(b)));
        if !paced {
            let versus: Vec<_> = self.lines.iter().map(|line| self.versus(line)).collect();
            self.lines.iter_mut().zip(versus).for_each(|(line, versus)| line.versus = versus);
        }
    }

    /// Compares a line with a rival. A strategy measured one by one is compared with those measured
    /// one by one, and batches with whatever is fastest.
    fn versus(&self, line: &Line) -> Option<Versus> {
        let speed = line.speed.filter(|_| line.row.sort != Sort::Roofline)?;
        let is_rival = |other: &&Line| !other.ours && (line.row.setting.batch > 1 || other.row.setting.batch <= 1);
        // The fastest lines are first.
        let rival = self.of_sort(line.row.sort).find(|other| is_rival(other) && other.speed.is_some())?;
        let rivals = rival.speed?;
        let runs = speed.runs.min(rivals.runs);
        let clear = runs >= RUNS_MIN && speed.is_apart_from(&rivals);
        Some(Versus { rival: rival.name.clone(), times: speed.median / rivals.median, clear, runs })
    }

    pub fn of_sort(&self, sort: Sort) -> impl Iterator<Item = &Line<'_>> {
        self.lines.iter().filter(move |line| line.row.sort == sort)
    }
}

impl<'r> Line<'r> {
    fn of(row: &'r Row) -> Line<'r> {
        Line {
            row,
            name: words::name(row),
            ours: row.is_ours(),
            speed: row.ids_per_second(),
            quantiles: QUANTILES.map(|(of, _)| row.latency_nanos(of)),
            all_bytes: row.all_bytes_per_id(),
            missed: row.missed(),
            invented: row.invented(),
            versus: None,
        }
    }

    /// Returns true if it answered noticeably fewer ids than were due.
    pub fn fell_behind(&self) -> bool {
        self.row.reached().zip(self.row.setting.rate).is_some_and(|(reached, rate)| reached.median < 0.98 * rate)
    }

    /// Returns the latency that one in a thousand exceeds, if it kept up with the ids.
    pub fn tail(&self) -> Option<Spread> {
        self.quantiles[2].filter(|_| !self.fell_behind())
    }

    /// Returns true if more of its answers were wrong than allowed. With a budget of memory that
    /// may be too small, nothing is promised.
    pub fn breaks(&self, wrong: &Wrong) -> bool {
        self.row.setting.budget_bytes.is_none() && wrong.breaks_its_promise()
    }

    pub fn is_measured(&self) -> bool {
        !self.row.runs.is_empty()
    }
}
