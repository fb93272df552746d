//! What was measured, and what follows from it.

use crate::case::{Measurement, Mode, Setting};
use crate::roofline;
use hapax::strategy::Listed;

/// All strategies under the same conditions.
pub struct Comparison {
    pub setting: Setting,
    pub rows: Vec<Results>,
}

/// All runs of one strategy in one mode.
pub struct Results {
    pub strategy: Listed,
    pub mode: Mode,
    pub runs: Vec<Measurement>,
    /// Runs that did not end well.
    pub failures: usize,
}

impl Results {
    pub fn new(strategy: Listed, mode: Mode) -> Self {
        Results { strategy, mode, runs: Vec::new(), failures: 0 }
    }

    /// Of all runs the median of a quantity; none if there was no run.
    pub fn median(&self, quantity: impl Fn(&Measurement) -> f64) -> Option<f64> {
        let mut values: Vec<f64> = self.runs.iter().map(quantity).collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        match values.len() % 2 {
            _ if values.is_empty() => None,
            0 => Some((values[middle - 1] + values[middle]) / 2.0),
            _ => Some(values[middle]),
        }
    }

    pub fn nanos_per_id(&self) -> Option<f64> {
        self.median(Measurement::nanos_per_id)
    }

    pub fn bytes_per_id(&self) -> Option<f64> {
        self.median(|run| run.bytes as f64 / run.held as f64)
    }

    /// A count, over all runs.
    pub fn sum(&self, count: impl Fn(&Measurement) -> u64) -> u64 {
        self.runs.iter().map(count).sum()
    }

    pub fn is_ours(&self) -> bool {
        self.strategy.name.starts_with("hapax")
    }

    pub fn is_roofline(&self) -> bool {
        roofline::NAMES.iter().any(|(name, _)| *name == self.strategy.name)
    }

    fn is_rival(&self) -> bool {
        !self.is_ours() && !self.is_roofline()
    }

    /// In what it gave more wrong answers than it is allowed: how many, of how many questions.
    pub fn broken_promises(&self) -> Vec<(&'static str, u64, u64)> {
        let allowance = self.strategy.allowance;
        let at_the_end = if self.strategy.expires { allowance.missed } else { allowance.invented };
        let promises = [
            ("duplicates called fresh", self.sum(|run| run.missed), self.sum(|run| run.duplicates), allowance.missed),
            ("new ids called duplicates", self.sum(|run| run.invented), self.sum(|run| run.fresh), allowance.invented),
            ("ids asked for at the end", self.sum(|run| run.wrong), self.sum(|run| run.asked), at_the_end),
        ];
        let is_broken = |(_, wrong, of, allowed): &(_, u64, u64, f64)| {
            // Five deviations of a Poisson distribution.
            let expected = allowed * *of as f64;
            *wrong as f64 > expected + 5.0 * expected.sqrt()
        };
        promises.into_iter().filter(is_broken).map(|(what, wrong, of, _)| (what, wrong, of)).collect()
    }
}

impl Comparison {
    pub fn new(setting: Setting, rows: Vec<Results>) -> Self {
        Comparison { setting, rows }
    }

    pub fn find(&self, name: &str, mode: Mode) -> Option<&Results> {
        self.rows.iter().find(|row| row.strategy.name == name && row.mode == mode)
    }

    /// The fastest rival of the same sort: one by one, or in whichever way it is fastest.
    pub fn best_rival_nanos(&self, mode: Mode, expires: bool) -> Option<f64> {
        let is_rival = |row: &&Results| {
            row.is_rival() && row.strategy.expires == expires && (mode == Mode::Batched || row.mode == Mode::Single)
        };
        self.rows.iter().filter(is_rival).filter_map(Results::nanos_per_id).min_by(f64::total_cmp)
    }

    /// The faster of the two.
    pub fn roofline_nanos(&self) -> Option<f64> {
        let rooflines = self.rows.iter().filter(|row| row.is_roofline());
        rooflines.filter_map(Results::nanos_per_id).min_by(f64::total_cmp)
    }
}
