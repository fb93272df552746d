//! Decides when ids come again, and which.

use crate::measure::{Shape, Workload};
use hapax::tier::random::Random;
use std::ops::Range;

/// Decides, one by one, whether the next id is new.
pub(super) struct Redeliveries {
    shape: Shape,
    share: f64,
    /// New ids for each redelivery.
    new_ids_each: f64,
    /// The number of redeliveries in one storm.
    storm_times: usize,
    /// The number of new ids after which the next burst comes.
    due: f64,
    /// The rest of a burst, the next one last.
    burst: Vec<u64>,
}

/// Ids that are tried again in a storm.
const STORM_IDS: usize = 4;

/// The number of redeliveries in one storm, unless it would be more than a tenth of a window's
/// redeliveries.
const STORM_TIMES: f64 = 256.0;

impl Redeliveries {
    /// Creates the redeliveries of a workload, where a window brings `live` new ids.
    pub fn new(workload: &Workload, live: usize) -> Self {
        let share = workload.duplicates;
        let new_ids_each = (1.0 - share) / share;
        let storm_times = (live as f64 / new_ids_each / 10.0).clamp(1.0, STORM_TIMES);
        let first = match workload.shape {
            Shape::Rebalance => live as f64 * workload.distance_windows,
            _ => storm_times,
        };
        Redeliveries {
            shape: workload.shape.clone(),
            share,
            new_ids_each,
            storm_times: storm_times as usize,
            due: first * new_ids_each,
            burst: Vec::new(),
        }
    }

    /// Returns the redelivery that comes now, out of a range of new ids that have come; if none,
    /// the next id is new. `fresh` ids were.
    pub fn next(&mut self, random: &mut Random, fresh: u64, recent: impl Fn() -> Range<u64>) -> Option<u64> {
        if fresh == 0 {
            return None;
        }
        let any_of = |range: &Range<u64>, random: &mut Random| range.start + random.below(range.end - range.start);
        if !matches!(self.shape, Shape::Rebalance | Shape::RetryStorm) {
            return (random.unit() < self.share).then(|| any_of(&recent(), random));
        }
        if self.burst.is_empty() && fresh as f64 >= self.due {
            let recent = recent();
            self.burst = match self.shape {
                // All of them, in their order: the redeliveries to a consumer that takes over a
                // partition, from the last committed offset on.
                Shape::Rebalance => recent.rev().collect(),
                _ => {
                    let ids: [u64; STORM_IDS] = std::array::from_fn(|_| any_of(&recent, random));
                    (0..self.storm_times).map(|_| ids[random.below(STORM_IDS as u64) as usize]).collect()
                }
            };
            self.due += self.burst.len() as f64 * self.new_ids_each;
        }
        self.burst.pop()
    }
}
