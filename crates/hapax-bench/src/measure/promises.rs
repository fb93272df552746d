//! Checks that strategies were right as often as they promise.

use super::Row;
use super::figures::Wrong;
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
    /// would do so once in a million times.
    pub fn broken_promises(&self) -> Vec<Broken> {
        let (missed, invented) = (self.missed(), self.invented());
        let twice = self.runs.iter().map(|run| run.answers.twice).fold(0, u64::saturating_add);
        let promises = [
            ("duplicates were called fresh", missed),
            ("ids were called fresh by several threads at once", Wrong { wrong: twice, ..missed }),
            ("new ids were called duplicates", invented),
        ];
        let broken = |(what, it): (&'static str, Wrong)| Broken {
            strategy: self.strategy.clone(),
            what,
            wrong: it.wrong,
            of: it.of,
            allowed: it.allowed,
        };
        promises.into_iter().filter(|(_, wrong)| wrong.is_broken()).map(broken).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Answers, Measurement, Setting, Sort};

    fn row(may_miss: f64, may_invent: f64, runs: &[Answers]) -> Row {
        let run = |&answers| Measurement { answers, ..Measurement::default() };
        let row = Row::new("one", Sort::Window, &Setting::default(), may_miss, may_invent);
        Row { runs: runs.iter().map(run).collect(), ..row }
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
        assert_eq!(row(0.0, 1e-3, &[filter(80), filter(80)]).broken_promises().len(), 1);
        // Expected: 0.006. One may be chance, three are none.
        let missed = |missed| Answers { duplicates: 2_000, missed, ..Answers::default() };
        assert_eq!(row(3e-6, 0.0, &[missed(1)]).broken_promises(), []);
        assert_eq!(row(3e-6, 0.0, &[missed(3)]).broken_promises().len(), 1);
    }
}
