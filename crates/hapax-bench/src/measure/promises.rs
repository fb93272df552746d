//! Checks that strategies were right as often as they promise.

use super::interval::probability_of_at_least;
use super::{Answers, Row};
use std::fmt;

/// A promise that was not kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Broken {
    /// The strategy's name.
    pub strategy: String,
    /// The kind of wrong answer.
    pub what: &'static str,
    /// The number of wrong answers.
    pub wrong: u64,
    /// The number of answers of which they are a part.
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
    /// Returns the kinds of answer of which it gave more wrong ones than it promises, where chance
    /// would do so once in a million times. With a budget of memory, which may be too small,
    /// nothing is promised.
    pub fn broken_promises(&self) -> Vec<Broken> {
        let mut all = Answers::default();
        self.runs.iter().for_each(|run| all += run.answers);
        let promises = [
            ("duplicates were called fresh", all.missed, all.duplicates, self.may_miss),
            ("ids were called fresh by several threads at once", all.twice, all.duplicates, self.may_miss),
            ("new ids were called duplicates", all.invented, all.fresh, self.may_invent),
        ];
        let is_broken = |(_, wrong, of, allowed): &(_, u64, u64, f64)| {
            self.setting.budget_bytes.is_none() && is_beyond_chance(*wrong, *of, *allowed)
        };
        let broken = |(what, wrong, of, allowed)| Broken { strategy: self.strategy.clone(), what, wrong, of, allowed };
        promises.into_iter().filter(is_broken).map(broken).collect()
    }
}

/// The probability with which a row is accused though it keeps its promise.
const CHANCE: f64 = 1e-6;

/// Returns true if this many are wrong beyond chance, where a share of `allowed` may be.
pub(super) fn is_beyond_chance(wrong: u64, of: u64, allowed: f64) -> bool {
    let share = wrong as f64 / of.max(1) as f64;
    share > allowed && (allowed == 0.0 || probability_of_at_least(wrong, of, allowed) < CHANCE)
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
    fn chance_is_given_its_due_over_all_runs() {
        let filter = |invented| Answers { fresh: 50_000, invented, ..Answers::default() };
        // Expected in two runs: 100, with a deviation of 10.
        assert_eq!(row(0.0, 1e-3, &[filter(72), filter(72)]).broken_promises(), []);
        assert_eq!(row(0.0, 1e-3, &[filter(78), filter(78)]).broken_promises().len(), 1);
        // Expected: 0.006. One may be chance, three are none.
        let missed = |missed| Answers { duplicates: 2_000, missed, ..Answers::default() };
        assert_eq!(row(3e-6, 0.0, &[missed(1)]).broken_promises(), []);
        assert_eq!(row(3e-6, 0.0, &[missed(3)]).broken_promises().len(), 1);
    }

    #[test]
    fn with_a_budget_nothing_is_promised() {
        let all_wrong = Answers { duplicates: 10, missed: 10, ..Answers::default() };
        let mut row = row(0.5, 0.0, &[all_wrong; 3]);
        assert_eq!(row.broken_promises().len(), 1);
        row.setting.budget_bytes = Some(1);
        assert_eq!(row.broken_promises(), []);
    }
}
