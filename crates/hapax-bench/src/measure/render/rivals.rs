//! Rows that can be compared, side by side.

use crate::measure::figures::{RUNS_MIN, Spread};
use crate::measure::{Report, Row, Setting, Sort};

/// Rows that differ in strategy and in the way in which ids come.
pub struct Group<'r> {
    /// The setting of all rows; its way means nothing.
    pub setting: Setting,
    /// The rows, the fastest first; where ids were due at a rate, the one with the shortest p99
    /// first.
    pub rows: Vec<&'r Row>,
}

/// A comparison of a strategy with the fastest one of its sort that is not ours.
pub struct Versus<'r> {
    pub rival: &'r Row,
    /// The factor by which it is faster.
    pub times: f64,
    /// True if every run of the one was faster than every run of the other; none if there are too
    /// few to tell.
    pub clear: Option<bool>,
}

/// Returns the groups of a report; first the one that shows most: as fast as possible, memory as it
/// comes, with most strategies, live ids and threads.
pub fn groups(report: &Report) -> Vec<Group<'_>> {
    let mut groups: Vec<Group> = Vec::new();
    for row in &report.rows {
        let setting = Setting { batch: 1, ahead: false, ..row.setting.clone() };
        match groups.iter_mut().find(|group| group.setting == setting) {
            Some(group) => group.rows.push(row),
            None => groups.push(Group { setting, rows: vec![row] }),
        }
    }
    let median = |spread: Option<Spread>| spread.map_or(f64::INFINITY, |spread| spread.median);
    for Group { setting, rows } in &mut groups {
        let key = |row: &Row| match setting.rate {
            Some(_) => median(row.latency(|latency| latency.p99)),
            None => median(row.nanos_per_id()),
        };
        rows.sort_by(|a, b| key(a).total_cmp(&key(b)));
    }
    let weight = |group: &Group| {
        let Setting { rate, live, threads, work, huge_pages, .. } = group.setting;
        let measured = group.rows.iter().filter(|row| !row.runs.is_empty()).count();
        (rate.is_none() && work == 0, !huge_pages, measured, live, threads)
    };
    if let Some(main) = (0..groups.len()).rev().max_by_key(|&i| weight(&groups[i])) {
        groups[..=main].rotate_right(1);
    }
    groups
}

impl<'r> Group<'r> {
    pub fn of_sort(&self, sort: Sort) -> impl Iterator<Item = &'r Row> {
        self.rows.iter().copied().filter(move |row| row.sort == sort)
    }

    /// Compares a row with a rival. A strategy measured one by one, or read ahead, is compared with
    /// those measured one by one, and batches with whatever is fastest.
    pub fn versus(&self, row: &Row) -> Option<Versus<'r>> {
        let is_rival = |other: &&Row| !other.is_ours() && (row.setting.batch > 1 || other.setting.batch <= 1);
        let is_measured = |other: &&Row| other.nanos_per_id().is_some();
        // The fastest rows are first.
        let rival = self.of_sort(row.sort).find(|other| is_rival(other) && is_measured(other))?;
        let (ours, rivals) = (row.nanos_per_id()?, rival.nanos_per_id()?);
        let is_told = self.setting.rate.is_none();
        let clear = (ours.runs.min(rivals.runs) >= RUNS_MIN).then(|| ours.is_apart_from(&rivals));
        is_told.then(|| Versus { rival, times: rivals.median / ours.median, clear })
    }
}
