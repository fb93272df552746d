//! The report of a simulation that has found nothing.

use super::plan::{Decision, Fault};
use super::state::Visits;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// The number of schedules, faults and places that were tried, if nothing was found.
///
/// ```
/// # use hapax_testing::consumer::Report;
/// # fn check(report: Report) {
/// println!("{report}");
/// assert!(report.never_reached().is_empty());
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The number of schedules with no fault, one, two and three, which were tried one after the
    /// other.
    pub systematic: [u64; 4],
    /// The number of schedules with two and three faults that were left out, evenly, for the sake
    /// of [`schedules_max`](super::Simulation::schedules_max).
    pub left_out: u64,
    /// The number of schedules that were drawn.
    pub drawn: u64,
    /// The number of faults that were injected, by their kind.
    pub faults: BTreeMap<Fault, u64>,
    pub(super) seeds: Range<u64>,
    pub(super) places: BTreeMap<&'static str, Visits>,
    pub(super) expected: Vec<&'static str>,
}

impl Report {
    /// Returns the number of schedules.
    pub fn schedules(&self) -> u64 {
        self.systematic.iter().sum::<u64>() + self.drawn
    }

    /// Returns the expected [places](super::Simulation::places) that no schedule has reached.
    pub fn never_reached(&self) -> Vec<&'static str> {
        self.expected.iter().copied().filter(|place| !self.places.contains_key(place)).collect()
    }

    pub(super) fn count(&mut self, decisions: &[Decision], places: &BTreeMap<&'static str, Visits>) {
        for fault in decisions.iter().filter_map(|decision| decision.fault) {
            *self.faults.entry(fault).or_default() += 1;
        }
        for (place, visits) in places {
            let sum = self.places.entry(place).or_default();
            sum.reached += visits.reached;
            sum.faults += visits.faults;
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [none, one, two, three] = self.systematic;
        writeln!(f, "nothing found in {} schedules:", self.schedules())?;
        write!(f, "  {none} without faults, {one} with one, {two} with two, {three} with three")?;
        if self.left_out > 0 {
            write!(f, " ({} left out)", self.left_out)?;
        }
        let Range { start, end } = &self.seeds;
        write!(f, ",\n  {} drawn (seeds {start} to {end}, without the last)\nfaults:", self.drawn)?;
        for (fault, count) in &self.faults {
            write!(f, "\n  {fault:<24} {count:>8}")?;
        }
        write!(f, "\nplaces:                     reached   faults")?;
        for (place, Visits { reached, faults }) in &self.places {
            write!(f, "\n  {place:<24} {reached:>8} {faults:>8}")?;
        }
        for place in self.never_reached() {
            write!(f, "\n  {place:<24}    never")?;
        }
        Ok(())
    }
}
