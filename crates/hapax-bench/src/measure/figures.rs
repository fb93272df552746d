//! Derives figures from the runs of a row.

use super::interval::is_beyond_chance;
use super::{Interval, Latency, Measurement, Row};

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

impl Wrong {
    pub fn share(&self) -> f64 {
        self.wrong as f64 / self.of as f64
    }

    /// Returns true if more were wrong than allowed, beyond what chance explains.
    pub fn is_broken(&self) -> bool {
        is_beyond_chance(self.wrong, self.of, self.allowed)
    }

    pub fn interval(&self) -> Interval {
        Interval::of(self.wrong, self.of)
    }
}

impl std::iter::Sum for Wrong {
    fn sum<I: Iterator<Item = Wrong>>(all: I) -> Self {
        all.fold(Wrong { wrong: 0, of: 0, allowed: 0.0 }, |sum, one| Wrong {
            wrong: sum.wrong.saturating_add(one.wrong),
            of: sum.of.saturating_add(one.of),
            allowed: sum.allowed.max(one.allowed),
        })
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
    /// too little to be told by difference, and if ids were due at a rate, since counting their
    /// latencies takes memory, too.
    pub(super) fn bytes(&self, run: &Measurement) -> Option<u64> {
        (run.bytes >= BYTES_TOLD_MIN && self.setting.rate.is_none()).then_some(run.bytes)
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

    pub(super) fn missed(&self) -> Wrong {
        let of = |run: &Measurement| (run.answers.missed, run.answers.duplicates);
        self.runs.iter().map(of).map(|(wrong, of)| Wrong { wrong, of, allowed: self.may_miss }).sum()
    }

    pub(super) fn invented(&self) -> Wrong {
        let of = |run: &Measurement| (run.answers.invented, run.answers.fresh);
        self.runs.iter().map(of).map(|(wrong, of)| Wrong { wrong, of, allowed: self.may_invent }).sum()
    }

    /// Returns true if the strategy is one of hapax, alone or in front of another store.
    pub(super) fn is_ours(&self) -> bool {
        self.strategy.to_ascii_lowercase().contains("hapax")
    }
}
