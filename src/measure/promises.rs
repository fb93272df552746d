//! Whether strategies were as often right as they promise.

use super::{Answers, Row};
use std::fmt;

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Broken {
    /// The strategy's name.
    pub strategy: String,
    /// What it got wrong.
    pub what: &'static str,
    /// How often.
    pub wrong: u64,
    /// Of how many.
    pub of: u64,
    /// The share that it may get wrong.
    pub allowed: f64,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Broken { strategy, what, wrong, of, allowed } = self;
        write!(f, "{strategy}: {wrong} of {of} {what}, where {allowed:.1e} of them are allowed")
    }
}

impl Row {
    /// In what it gave more wrong answers than it promises, by more than chance: five deviations of a Poisson distribution.
    pub fn broken_promises(&self) -> Vec<Broken> {
        let mut all = Answers::default();
        self.runs.iter().for_each(|run| all += run.answers);
        let promises = [
            ("duplicates were called fresh", all.missed, all.duplicates, self.may_miss),
            ("new ids were called duplicates", all.invented, all.fresh, self.may_invent),
        ];
        let is_broken = |(_, wrong, of, allowed): &(_, u64, u64, f64)| {
            let expected = allowed * *of as f64;
            *wrong as f64 > expected + 5.0 * expected.sqrt()
        };
        let broken = |(what, wrong, of, allowed)| Broken { strategy: self.strategy.clone(), what, wrong, of, allowed };
        promises.into_iter().filter(is_broken).map(broken).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Measurement, Setting, Sort};

    fn row(may_miss: f64, may_invent: f64, runs: &[Answers]) -> Row {
        let run = |&answers| Measurement { answers, ..Measurement::default() };
        Row {
            strategy: "one".into(),
            sort: Sort::Window,
            setting: Setting::default(),
            runs: runs.iter().map(run).collect(),
            failures: Vec::new(),
            may_miss,
            may_invent,
        }
    }

    #[test]
    fn a_single_wrong_answer_breaks_the_promise_that_there_is_none() {
        let right = Answers { fresh: 900, duplicates: 100, ..Answers::default() };
        assert_eq!(row(0.0, 0.0, &[right, right]).broken_promises(), []);
        let wrong = Answers { missed: 1, ..right };
        let broken = row(0.0, 0.0, &[right, wrong]).broken_promises();
        assert_eq!((broken.len(), broken[0].wrong, broken[0].of), (1, 1, 200));
        assert_eq!(
            broken[0].to_string(),
            "one: 1 of 200 duplicates were called fresh, where 0.0e0 of them are allowed"
        );
        assert_eq!(row(1.0, 0.0, &[wrong]).broken_promises(), []);
    }

    #[test]
    fn chance_is_given_five_deviations_over_all_runs() {
        let filter = |invented| Answers { fresh: 50_000, invented, ..Answers::default() };
        // Expected in two runs: 100, with a deviation of 10.
        assert_eq!(row(0.0, 1e-3, &[filter(75), filter(75)]).broken_promises(), []);
        assert_eq!(row(0.0, 1e-3, &[filter(75), filter(76)]).broken_promises().len(), 1);
    }
}
