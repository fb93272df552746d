//! After the last line: what there is to say.

use super::check::Time;
use super::parse::{Batch, Unchecked};
use super::plan::Plan;
use crate::args::StatsFormat;
use crate::failure::Failure;
use hapax::Stats;
use std::time::Duration;

/// Lines, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    pub lines: u64,
    pub headers: u64,
    pub bad: u64,
    pub missing: u64,
    pub fresh: u64,
    pub duplicates_by_window: u64,
    pub duplicates_by_history: u64,
}

impl Counts {
    /// Adds a batch that was checked.
    pub fn add(&mut self, batch: &Batch) {
        self.lines += batch.ends.len() as u64 + batch.lines_too_long;
        self.bad += batch.bad;
        for (_, unchecked) in &batch.unchecked {
            match unchecked {
                Unchecked::Pass | Unchecked::DropMissing => self.missing += 1,
                Unchecked::Header | Unchecked::OtherHeader => self.headers += 1,
                Unchecked::Bad => {}
            }
        }
    }

    pub fn checked(&self) -> u64 {
        self.fresh + self.duplicates()
    }

    pub fn duplicates(&self) -> u64 {
        self.duplicates_by_window + self.duplicates_by_history
    }
}
