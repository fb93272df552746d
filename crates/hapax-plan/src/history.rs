//! Plans the history, and predicts how often it will be mistaken.

use super::memory::HistorySize;
use super::{Demand, SECONDS_A_DAY};
use hapax::seam::sizing::Size;
use hapax::{History, Unconfirmed};
use std::time::Duration;

/// The history of a [`Plan`](crate::Plan).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HistoryPlan {
    /// The time for which ids are remembered at least; at most for twice as long.
    pub horizon: Duration,
    /// The rate that it is built for: in its busiest horizon, when both of its generations are
    /// full.
    pub false_positive_rate: f64,
    /// Ids within the busiest horizon, rounded up.
    pub ids: usize,
    /// Memory.
    pub bytes: usize,
    /// The share of new ids that it will be mistaken about at the mean rate: on average, between a
    /// generation that has just begun and one that is full.
    pub mean_false_positive_rate: f64,
    /// The same as new ids a day. They are dropped, or, with
    /// [`Unconfirmed::Fresh`](hapax::Unconfirmed::Fresh), marked as a guess.
    pub false_positives_a_day: f64,
}

impl HistoryPlan {
    /// Returns the options of the engine's history. What it guesses is a duplicate, as the plan
    /// counts it.
    pub(super) fn options(&self) -> History {
        let HistoryPlan { horizon, ids, false_positive_rate, .. } = *self;
        History { horizon, ids, false_positive_rate, unconfirmed: Unconfirmed::Duplicate }
    }

    pub(super) fn of(demand: &Demand, history: &HistorySize) -> Self {
        let horizon = demand.horizon.unwrap_or_default();
        let fresh = demand.fresh_per_second();
        // Ids are added to a generation for a horizon, until an id comes that finds it over.
        let mean = mean_rate(&history.size, fresh * horizon.as_secs_f64());
        HistoryPlan {
            horizon,
            false_positive_rate: history.rate,
            ids: history.ids,
            bytes: history.bytes(),
            mean_false_positive_rate: mean,
            false_positives_a_day: fresh * SECONDS_A_DAY * mean,
        }
    }
}

/// Returns the false-positive rate, averaged over the ids of a generation, next to a complete one.
/// This many new ids come within a horizon.
fn mean_rate(size: &Size, ids: f64) -> f64 {
    const STEPS: u32 = 64;
    let with_full = |full: f64| {
        let rate_of_full = size.rate_with(full);
        let shares = (0..STEPS).map(|step| (f64::from(step) + 0.5) / f64::from(STEPS));
        // The first id finds both generations complete, and clears one for itself; the others find
        // one id fewer than they will be.
        let rates = shares.map(|share| rate_of_full + size.rate_with(0.5 + share * full) * (1.0 - rate_of_full));
        rates.sum::<f64>() / f64::from(STEPS)
    };
    // A generation begins with an id, and then takes those of a horizon. An id that is taken for a
    // duplicate is not added, which matters where that is frequent.
    (0..8).fold(0.0, |mean, _| with_full(1.0 + ids * (1.0 - mean)))
}
