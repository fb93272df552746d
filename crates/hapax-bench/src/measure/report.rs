//! All results, with the information that it takes to reproduce them.

use super::{Measurement, Setting};
use crate::strategy::{Absent, Failure, Sort};
use serde::{Deserialize, Serialize};

/// The result of a comparison: the table and the page are made from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The time at which it began, in seconds since 1970.
    pub began_unix_seconds: u64,
    /// The command that repeats it.
    pub command: String,
    /// The seed of all random choices.
    pub seed: u64,
    /// The machine on which it was measured.
    pub machine: Machine,
    /// The rows, in the order in which they were measured.
    pub rows: Vec<Row>,
    /// The strategies that were not measured, with the reasons.
    pub absent: Vec<Absent>,
    /// True if it ended before its time, so that rows or rounds are missing.
    pub interrupted: bool,
}

/// A machine on which something is measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The model of its processor.
    pub processor: String,
    /// Logical processors that this process may use.
    pub processors: usize,
    /// Operating system, and whether it gives huge pages.
    pub system: String,
}

/// All runs of one strategy in one setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The strategy's name.
    pub strategy: String,
    /// Its sort.
    pub sort: Sort,
    /// The conditions.
    pub setting: Setting,
    /// The runs, in the order of the rounds.
    pub runs: Vec<Measurement>,
    /// The messages of runs that failed.
    pub failures: Vec<String>,
    /// The share of duplicates that it may call fresh.
    pub may_miss: f64,
    /// The share of new ids that it may call duplicates.
    pub may_invent: f64,
}

impl Row {
    /// Creates a row without runs: a strategy, its sort, and the wrong answers that it may give.
    pub fn new(strategy: &str, sort: Sort, setting: &Setting, may_miss: f64, may_invent: f64) -> Row {
        let (strategy, setting) = (strategy.to_string(), setting.clone());
        Row { strategy, sort, setting, runs: Vec::new(), failures: Vec::new(), may_miss, may_invent }
    }

    /// Adds the result of a run.
    pub fn add(&mut self, seen: Result<Measurement, Failure>) {
        match seen {
            Ok(seen) => self.runs.push(seen),
            Err(failure) => self.failures.push(failure.to_string()),
        }
    }
}
