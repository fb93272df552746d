//! Derives figures from the runs of a row, and whether its strategy was right as often as it
//! promises.

use super::{Answers, Latency, Measurement, Row};

/// The number of runs of each side below which no difference can be told.
pub(super) const RUNS_MIN: usize = 3;

/// The spread of a quantity over several runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub median: f64,
    pub lowest: f64,
    pub highest: f64,
    pub runs: usize,
}

impl Spread {
    /// Computes the spread; none without values.
    pub fn of(values: impl Iterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (lowest, highest) = (*values.first()?, *values.last()?);
        let runs = values.len();
        let median = 0.5 * (values[(runs - 1) / 2] + values[runs / 2]);
        Some(Spread { median, lowest, highest, runs })
    }

    /// Returns true if every run of the one was beyond every run of the other.
    pub fn is_apart_from(&self, other: &Spread) -> bool {
        self.lowest > other.highest || other.lowest > self.highest
    }
}

/// Wrong answers of one kind, over all runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Wrong {
    pub wrong: u64,
    pub of: u64,
    /// The share that may be wrong.
    pub allowed: f64,
}

/// The normal distribution's quantile of 0.975.
const DEVIATIONS: f64 = 1.959_963_984_540_054;

/// The probability with which a row is accused at most, though it keeps its promise.
const CHANCE: f64 = 1e-6;

impl Wrong {
    pub fn share(&self) -> f64 {
        self.wrong as f64 / self.of.max(1) as f64
    }

    /// Returns the 95 % confidence interval of the share: the score interval (Wilson, 1927). More
    /// than were asked count as all. With nothing asked it is from 0 to 1.
    ///
    /// The events that are counted have to be independent, which redeliveries of one id are not.
    pub fn interval(&self) -> [f64; 2] {
        if self.of == 0 {
            return [0.0, 1.0];
        }
        let (k, n, square) = (self.wrong.min(self.of) as f64, self.of as f64, DEVIATIONS * DEVIATIONS);
        let middle = (k + square / 2.0) / (n + square);
        let half = DEVIATIONS / (n + square) * (k * (n - k) / n + square / 4.0).sqrt();
        [if self.wrong == 0 { 0.0 } else { middle - half }, (middle + half).min(1.0)]
    }

    /// Returns true if more were wrong than allowed, beyond chance.
    ///
    /// So many of n or more are at most as probable as exp(-n D) (Chernoff, 1952), where D is the
    /// divergence of the share that was seen from the one that is allowed.
    pub fn is_broken(&self) -> bool {
        let Wrong { of, allowed, .. } = *self;
        let share = self.share();
        let term = |seen: f64, expected: f64| if seen <= 0.0 { 0.0 } else { seen * (seen / expected).ln() };
        let divergence = || term(share, allowed) + term(1.0 - share, 1.0 - allowed);
        share > allowed && (allowed == 0.0 || of as f64 * divergence() > -CHANCE.ln())
    }
}

/// The smallest growth of memory that can be told. A strategy may allocate memory that the process
/// had already, freed and not returned to the system. Growth below this limit may be none, or twice
/// as much.
const BYTES_TOLD_MIN: u64 = 256 << 10;

fn per(what: f64, count: u64) -> Option<f64> {
    (count > 0).then(|| what / count as f64)
}

impl Row {
    pub(super) fn spread(&self, quantity: impl Fn(&Measurement) -> Option<f64>) -> Option<Spread> {
        Spread::of(self.runs.iter().filter_map(quantity))
    }

    pub(super) fn nanos_per_id(&self) -> Option<Spread> {
        self.spread(|run| per(run.nanos as f64, run.checks))
    }

    /// Returns the time of the work between two checks, if there is work.
    pub(super) fn work_nanos_per_id(&self) -> Option<Spread> {
        self.spread(|run| if self.setting.work == 0 { None } else { per(run.work_nanos as f64, run.checks) })
    }

    /// Returns the processor time for each id; none where the system does not tell.
    pub(super) fn cpu_nanos_per_id(&self) -> Option<Spread> {
        self.spread(|run| if run.cpu_nanos == 0 { None } else { per(run.cpu_nanos as f64, run.checks) })
    }

    pub(super) fn server_cpu_nanos_per_id(&self) -> Option<Spread> {
        self.spread(|run| per(run.server_cpu_nanos? as f64, run.checks))
    }

    /// Returns the ids by which the memory of a run is divided: those that it held. None if it held
    /// less than half of those that are live, since the memory for so few says nothing about more.
    fn ids_held(&self, run: &Measurement) -> Option<u64> {
        Some(run.held).filter(|&held| held >= (self.setting.live as u64).div_ceil(2))
    }

    /// Returns the memory of the process in a run. None where the system does not tell, if it is
    /// too little to be told by difference, and if ids were due at a rate or there was work, since
    /// counting latencies takes memory, too, and so do messages.
    pub(super) fn bytes(&self, run: &Measurement) -> Option<u64> {
        let is_told = run.bytes >= BYTES_TOLD_MIN && self.setting.rate.is_none() && self.setting.work == 0;
        is_told.then_some(run.bytes)
    }

    pub(super) fn bytes_per_id(&self) -> Option<Spread> {
        self.spread(|run| per(self.bytes(run)? as f64, self.ids_held(run)?))
    }

    pub(super) fn beside_bytes_per_id(&self) -> Option<Spread> {
        self.spread(|run| per(run.beside_bytes? as f64, self.ids_held(run)?))
    }

    /// Returns the memory in the process and outside it. Here the one may be too little to be told
    /// if the other is not.
    pub(super) fn all_bytes_per_id(&self) -> Option<Spread> {
        self.spread(|run| {
            let bytes = run.bytes.saturating_add(run.beside_bytes.unwrap_or(0));
            let whole = self.bytes(&Measurement { bytes, ..run.clone() })?;
            per(whole as f64, self.ids_held(run)?)
        })
    }

    pub(super) fn reached(&self) -> Option<Spread> {
        self.spread(|run| Some(run.latency.as_ref()?.reached))
    }

    pub(super) fn latency(&self, of: fn(&Latency) -> u64) -> Option<Spread> {
        self.spread(|run| Some(of(run.latency.as_ref()?) as f64))
    }

    /// Returns true if it answered noticeably fewer ids than were due.
    pub(super) fn fell_behind(&self) -> bool {
        self.reached().zip(self.setting.rate).is_some_and(|(reached, rate)| reached.median < 0.98 * rate)
    }

    pub(super) fn held(&self) -> Option<Spread> {
        self.spread(|run| (run.held > 0).then_some(run.held as f64))
    }

    /// Returns true if ids came by its own clock: it may miss any, since the harness chose the time
    /// after which it forgets.
    pub fn has_own_clock(&self) -> bool {
        self.may_miss >= 1.0
    }

    pub(super) fn missed(&self) -> Wrong {
        self.wrong(self.may_miss, |answers| (answers.missed, answers.duplicates))
    }

    pub(super) fn invented(&self) -> Wrong {
        self.wrong(self.may_invent, |answers| (answers.invented, answers.fresh))
    }

    /// Counts wrong answers of a kind, and all of this kind.
    fn wrong(&self, allowed: f64, count: fn(&Answers) -> (u64, u64)) -> Wrong {
        let counts = self.runs.iter().map(|run| count(&run.answers));
        let add = |all: (u64, u64), run: (u64, u64)| (all.0.saturating_add(run.0), all.1.saturating_add(run.1));
        let (wrong, of) = counts.fold((0, 0), add);
        Wrong { wrong, of, allowed }
    }

    /// Returns what it did more often than it promises, where chance would do so once in a million
    /// times: "DashMap: 3 of 200 duplicates were called fresh, where 0.0e0 of them are allowed".
    pub fn broken_promises(&self) -> Vec<String> {
        let twice = self.wrong(self.may_miss, |answers| (answers.twice, answers.duplicates));
        let promises = [
            ("duplicates were called fresh", self.missed()),
            ("ids were called fresh by several threads at once", twice),
            ("new ids were called duplicates", self.invented()),
        ];
        let broken = |(what, Wrong { wrong, of, allowed }): (&str, Wrong)| {
            format!("{}: {wrong} of {of} {what}, where {allowed:.1e} of them are allowed", self.strategy)
        };
        promises.into_iter().filter(|(_, wrong)| wrong.is_broken()).map(broken).collect()
    }

    /// Returns true if the strategy is one of hapax, alone or in front of another store.
    pub(super) fn is_ours(&self) -> bool {
        self.strategy.to_ascii_lowercase().contains("hapax")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{Setting, Sort};

    fn of(wrong: u64, of: u64, allowed: f64) -> Wrong {
        Wrong { wrong, of, allowed }
    }

    fn row(may_miss: f64, may_invent: f64, runs: &[Answers]) -> Row {
        let run = |&answers| Measurement { answers, ..Measurement::default() };
        let row = Row::new("one", Sort::Window, &Setting::default(), may_miss, may_invent);
        Row { runs: runs.iter().map(run).collect(), ..row }
    }

    #[test]
    fn a_single_wrong_answer_breaks_the_promise_that_there_is_none() {
        let right = Answers { fresh: 900, duplicates: 100, ..Answers::default() };
        assert!(row(0.0, 0.0, &[right, right]).broken_promises().is_empty());
        let wrong = Answers { missed: 1, ..right };
        assert_eq!(
            row(0.0, 0.0, &[right, wrong]).broken_promises(),
            ["one: 1 of 200 duplicates were called fresh, where 0.0e0 of them are allowed"]
        );
        assert!(row(1.0, 0.0, &[wrong]).broken_promises().is_empty());
    }

    #[test]
    fn chance_is_given_its_due_over_all_runs() {
        let filter = |invented| Answers { fresh: 50_000, invented, ..Answers::default() };
        // Expected in two runs: 100, with a deviation of 10.
        assert!(row(0.0, 1e-3, &[filter(72), filter(72)]).broken_promises().is_empty());
        assert_eq!(row(0.0, 1e-3, &[filter(80), filter(80)]).broken_promises().len(), 1);
        // Expected: 0.006. One may be chance, three are none.
        let missed = |missed| Answers { duplicates: 2_000, missed, ..Answers::default() };
        assert!(row(3e-6, 0.0, &[missed(1)]).broken_promises().is_empty());
        assert_eq!(row(3e-6, 0.0, &[missed(3)]).broken_promises().len(), 1);
    }

    /// The examples of Newcombe's comparison of intervals (1998), and what must be so at the ends.
    #[test]
    fn as_published() {
        for (wrong, asked, lower, upper) in
            [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)]
        {
            let found = of(wrong, asked, 0.0).interval();
            assert!((found[0] - lower).abs() < 6e-5 && (found[1] - upper).abs() < 6e-5, "{found:?}");
        }
        assert_eq!(of(0, 0, 0.0).interval(), [0.0, 1.0]);
        for (wrong, asked) in [(7, 3), (u64::MAX / 2, u64::MAX), (1, u64::MAX), (u64::MAX, 1)] {
            let [lower, upper] = of(wrong, asked, 0.0).interval();
            assert!(0.0 <= lower && lower < upper && upper <= 1.0, "{wrong}/{asked}: {lower:e} {upper:e}");
        }
    }

    #[test]
    fn who_is_accused_is_wrong_beyond_chance() {
        // The tail itself, added up term by term.
        let at_least = |k: u64, n: u64, share: f64| {
            let mut term = (n as f64 * (-share).ln_1p()).exp();
            let mut below = 0.0;
            for i in 0..k {
                below += term;
                term *= (n - i) as f64 / (i + 1) as f64 * share / (1.0 - share);
            }
            1.0 - below
        };
        for (n, allowed) in [(300, 0.01), (2_000, 0.05), (400, 0.2)] {
            let accused = (0..n).find(|&k| of(k, n, allowed).is_broken()).expect("all of them are too many");
            let (of_accused, far_less) = (at_least(accused, n, allowed), at_least(accused * 4 / 5, n, allowed));
            assert!(of_accused < CHANCE && far_less > CHANCE, "{accused} of {n}: {of_accused:e}, {far_less:e}");
        }
        assert!(of(1, u64::MAX, 0.0).is_broken() && !of(0, 1, 0.0).is_broken() && !of(7, 7, 1.0).is_broken());
    }
}
