//! A report as all pages see it: rows that can be compared, side by side.

use super::words;
use crate::measure::compare::RUNS_MIN;
pub(in crate::measure) use crate::measure::figures::{Spread, Wrong};
use crate::measure::{Report, Row, Setting, Sort};
use std::cmp::Ordering;

/// The shares of ids whose latency is shown.
pub const QUANTILES: [(f64, &str); 4] = [(0.5, "p50"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99")];

pub struct View<'r> {
    pub report: &'r Report,
    /// The groups, in the order of the report.
    pub groups: Vec<Group<'r>>,
    /// The size of all batches, if they have one size.
    pub batch: Option<usize>,
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
    /// A shorter title for charts.
    pub label: String,
    pub ours: bool,
    pub speed: Option<Spread>,
    pub nanos: Option<Spread>,
    pub quantiles: [Option<Spread>; 4],
    pub bytes: Option<Spread>,
    pub beside: Option<Spread>,
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
        let batch = only_batch(report);
        let mut groups: Vec<Group> = Vec::new();
        for row in &report.rows {
            let setting = Setting { batch: 1, ..row.setting.clone() };
            let line = Line::of(row, batch);
            match groups.iter_mut().find(|group| group.setting == setting) {
                Some(group) => group.lines.push(line),
                None => groups.push(Group { setting, lines: vec![line] }),
            }
        }
        groups.iter_mut().for_each(Group::finish);
        View { report, groups, batch }
    }

    pub fn lines(&self) -> impl Iterator<Item = &Line<'r>> {
        self.groups.iter().flat_map(|group| &group.lines)
    }

    /// Returns the group that shows most: as fast as possible, without a budget; the one with most
    /// strategies, live ids and threads.
    pub fn main(&self) -> Option<&Group<'r>> {
        let weight = |group: &&Group| {
            let Setting { rate, budget_bytes, live, threads, think_nanos, .. } = group.setting;
            let measured = group.lines.iter().filter(|line| line.speed.is_some()).count();
            (rate.is_none() && measured > 0, budget_bytes.is_none(), think_nanos == 0, measured, live, threads)
        };
        // Of equal groups this is the first.
        self.groups.iter().rev().max_by_key(weight).filter(|group| group.lines.iter().any(|line| line.speed.is_some()))
    }

    /// Returns strategies in the order in which charts number them: ours first.
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

fn only_batch(report: &Report) -> Option<usize> {
    let mut batches = report.rows.iter().map(|row| row.setting.batch).filter(|batch| *batch > 1);
    let first = batches.next()?;
    batches.all(|batch| batch == first).then_some(first)
}

impl Group<'_> {
    fn finish(&mut self) {
        let paced = self.setting.rate.is_some();
        let key = |line: &Line| match paced {
            true => line.quantiles[1].or(line.quantiles[0]).map(|p99| p99.median),
            false => line.speed.map(|speed| -speed.median),
        };
        self.lines.sort_by(|a, b| match (key(a), key(b)) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => Ordering::Equal,
        });
        if !paced {
            let versus: Vec<_> = self.lines.iter().map(|line| self.versus(line)).collect();
            self.lines.iter_mut().zip(versus).for_each(|(line, versus)| line.versus = versus);
        }
    }

    /// Compares a line with a rival. A strategy measured one by one is compared with those measured
    /// one by one, and batches with whatever is fastest.
    fn versus(&self, line: &Line) -> Option<Versus> {
        let speed = line.speed.filter(|_| line.row.sort != Sort::Roofline)?;
        let is_rival = |other: &&Line| {
            !other.ours
                && other.row.sort == line.row.sort
                && (line.row.setting.batch > 1 || other.row.setting.batch <= 1)
        };
        // The fastest lines are first.
        let rival = self.lines.iter().find(|other| is_rival(other) && other.speed.is_some())?;
        let rivals = rival.speed?;
        let runs = speed.runs.min(rivals.runs);
        Some(Versus {
            rival: rival.name.clone(),
            times: speed.median / rivals.median,
            clear: runs >= RUNS_MIN && speed.is_apart_from(&rivals),
            runs,
        })
    }

    pub fn of_sort(&self, sort: Sort) -> impl Iterator<Item = &Line<'_>> {
        self.lines.iter().filter(move |line| line.row.sort == sort)
    }
}

impl<'r> Line<'r> {
    fn of(row: &'r Row, batch: Option<usize>) -> Line<'r> {
        Line {
            row,
            name: words::name(row),
            label: match batch {
                Some(batch) if batch == row.setting.batch => format!("{}, batched", row.strategy),
                _ => words::name(row),
            },
            ours: row.is_ours(),
            speed: row.ids_per_second(),
            nanos: row.nanos_per_id(),
            quantiles: QUANTILES.map(|(of, _)| row.latency_nanos(of)),
            bytes: row.bytes_per_id(),
            beside: row.beside_bytes_per_id(),
            all_bytes: row.all_bytes_per_id(),
            missed: row.missed(),
            invented: row.invented(),
            versus: None,
        }
    }

    /// Returns true if it answered noticeably fewer ids than were due.
    pub fn fell_behind(&self) -> bool {
        match (self.row.reached(), self.row.setting.rate) {
            (Some(reached), Some(rate)) => reached.median < 0.98 * rate,
            _ => false,
        }
    }

    /// Returns true if more of these answers were wrong than allowed. With a budget of memory that
    /// may be too small, nothing is promised.
    pub fn breaks(&self, wrong: &Wrong) -> bool {
        self.row.setting.budget_bytes.is_none() && wrong.breaks_its_promise()
    }

    pub fn is_measured(&self) -> bool {
        !self.row.runs.is_empty()
    }
}
