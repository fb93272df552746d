//! Decides when ids come again, and which.

use crate::measure::{Shape, Workload};
use hapax::tier::random::Random;
use std::ops::Range;

/// Decides, one by one, whether the next id is new.
pub(super) enum Redeliveries {
    /// Any recent id, at any time.
    Evenly { share: f64 },
    /// Recent ids in bursts: many at once.
    Bursts(Bursts),
}

/// Redeliveries in bursts, after enough new ids that their share is right.
pub(super) struct Bursts {
    kind: Kind,
    /// New ids for each redelivery.
    new_ids_each: f64,
    /// The number of new ids after which the next burst comes.
    due: f64,
    burst: Burst,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// All new ids within the distance, in their order: the redeliveries to a consumer that takes
    /// over a partition, from the last committed offset on.
    Run,
    /// A few ids, again and again, this many times in all.
    Storm { times: u64 },
}

/// The rest of a burst.
enum Burst {
    Over,
    Run(Range<u64>),
    Storm { ids: [u64; STORM_IDS], left: u64 },
}

/// Ids that are tried again in a storm.
const STORM_IDS: usize = 4;

/// The number of redeliveries in one storm, unless it would be more than a tenth of a window's
/// redeliveries.
const STORM_TIMES: u64 = 256;

impl Redeliveries {
    /// Creates the redeliveries of a workload, where a window brings `live` new ids.
    pub fn new(workload: &Workload, live: usize) -> Self {
        let share = workload.duplicates;
        let new_ids_each = (1.0 - share) / share;
        let of_window = live as f64 / new_ids_each;
        let (kind, first) = match workload.shape {
            Shape::Rebalance => (Kind::Run, live as f64 * workload.distance_windows),
            Shape::RetryStorm => {
                let times = (of_window / 10.0).clamp(1.0, STORM_TIMES as f64);
                (Kind::Storm { times: times as u64 }, times)
            }
            _ => return Redeliveries::Evenly { share },
        };
        Redeliveries::Bursts(Bursts { kind, new_ids_each, due: first * new_ids_each, burst: Burst::Over })
    }

    /// Returns the redelivery that comes now, out of a range of new ids that have come; if none,
    /// the next id is new. `fresh` ids were.
    pub fn next(&mut self, random: &mut Random, fresh: u64, recent: impl Fn() -> Range<u64>) -> Option<u64> {
        if fresh == 0 {
            return None;
        }
        match self {
            Redeliveries::Evenly { share } => (random.unit() < *share).then(|| any_of(&recent(), random)),
            Redeliveries::Bursts(bursts) => bursts.next(random, fresh, recent),
        }
    }
}

impl Bursts {
    fn next(&mut self, random: &mut Random, fresh: u64, recent: impl Fn() -> Range<u64>) -> Option<u64> {
        if let Some(id) = self.burst.next(random) {
            return Some(id);
        }
        if (fresh as f64) < self.due {
            return None;
        }
        let (burst, size) = match self.kind {
            Kind::Run => (Burst::Run(recent()), recent().end - recent().start),
            Kind::Storm { times } => {
                let ids = std::array::from_fn(|_| any_of(&recent(), random));
                (Burst::Storm { ids, left: times }, times)
            }
        };
        self.burst = burst;
        self.due += size as f64 * self.new_ids_each;
        self.burst.next(random)
    }
}

impl Burst {
    fn next(&mut self, random: &mut Random) -> Option<u64> {
        match self {
            Burst::Over => None,
            Burst::Run(run) => run.next(),
            Burst::Storm { left: 0, .. } => None,
            Burst::Storm { ids, left } => {
                *left -= 1;
                Some(ids[random.below(STORM_IDS as u64) as usize])
            }
        }
    }
}

fn any_of(range: &Range<u64>, random: &mut Random) -> u64 {
    range.start + random.below(range.end - range.start)
}
