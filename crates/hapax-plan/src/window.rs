//! Plans the window: its dimensions, its work and its misses; and the claims next to it.

use super::memory::{Division, capacity_max, grown_window_bytes, one_table_bytes};
use super::{Demand, PlanError, SECONDS_A_DAY, loss};
use hapax::seam::sizing::claims::IN_FLIGHT_MAX;
use hapax::seam::sizing::window::{LOSSLESS_SHARE, SLOTS, Sizes, buckets_for, false_match_rate};
use hapax::seam::sizing::{LINE_BYTES, Ticks};
use std::time::Duration;

/// The window of a [`Plan`](crate::Plan).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct WindowPlan {
    /// Its length: ids are remembered for no less …
    pub duration: Duration,
    /// … and for at most two of these more.
    pub tick: Duration,
    /// Ids that are live in the busiest window, rounded up.
    pub capacity: usize,
    /// Ids that are live on average.
    pub live: f64,
    /// Buckets of the first table, of eight slots and 64 bytes each.
    pub buckets: usize,
    /// The memory to begin with: that of the first table, and what every window takes.
    pub bytes: usize,
    /// The memory that the buckets of its tables may take.
    pub max_memory_bytes: usize,
    /// The memory when it has grown as far as it may, within its own length: one table of each
    /// size.
    pub grown_bytes: usize,
    /// The number of these tables.
    pub tables_max: usize,
    /// The number of live ids that it then has room for.
    pub grown_capacity: usize,
    /// The checks a second up to which it can grow without forgetting ids early.
    pub checks_per_second_max: f64,
    /// The share of slots that live ids take in the busiest window.
    pub load: f64,
    /// Ids that will be forgotten before their time, at the mean rate.
    pub forgotten_early_a_day: f64,
    /// Ids that will be forgotten before their time, if the peak lasts all day.
    pub forgotten_early_a_day_at_peak: f64,
    /// Ids that will be taken for others, since digests are finite, at the mean rate.
    pub false_duplicates_a_day: f64,
    pub(super) sizes: Sizes,
    window_ticks: u64,
    duplicates: f64,
    /// The capacity at which a window without a growth thread does not have to grow under the
    /// expected load; or the same capacity, if the memory has no room for more.
    pub(super) capacity_without_thread: usize,
}

impl WindowPlan {
    pub(super) fn of(demand: &Demand, division: &Division, ticks: Ticks) -> Self {
        let sizes = &division.sizes;
        let window = demand.window.as_secs_f64();
        let fresh = demand.fresh_per_second();
        let lost_at = |peak: f64| lost_a_day(sizes.buckets(0), fresh * peak, demand.window, ticks.window);
        let grown_capacity = capacity_max(sizes);
        let without_thread = (division.capacity as f64 / LOSSLESS_SHARE).ceil() as usize;
        let fits = |buckets: usize| buckets.saturating_mul(LINE_BYTES) <= division.window_bytes_max;
        WindowPlan {
            duration: demand.window,
            tick: ticks.tick(),
            capacity: division.capacity,
            live: fresh * window,
            buckets: sizes.buckets(0),
            bytes: one_table_bytes(sizes.buckets(0)),
            max_memory_bytes: division.window_bytes_max,
            grown_bytes: grown_window_bytes(sizes),
            tables_max: sizes.count(),
            grown_capacity: grown_capacity as usize,
            checks_per_second_max: grown_capacity / window / (1.0 - demand.duplicates),
            load: fresh * demand.peak * window / slots(sizes.buckets(0)),
            forgotten_early_a_day: lost_at(1.0),
            forgotten_early_a_day_at_peak: lost_at(demand.peak),
            false_duplicates_a_day: fresh * SECONDS_A_DAY * false_match_rate(fresh * window, sizes.buckets(0) as f64),
            sizes: sizes.clone(),
            window_ticks: ticks.window,
            duplicates: demand.duplicates,
            capacity_without_thread: if buckets_for(without_thread).is_some_and(fits) {
                without_thread
            } else {
                division.capacity
            },
        }
    }

    /// Returns the ids that would be forgotten before their time if this many checks came a second,
    /// for longer than a window: in the smallest table that has room for them, or in the largest
    /// possible one.
    ///
    /// ```
    /// use hapax_plan::Demand;
    /// use std::time::Duration;
    ///
    /// let window = Demand::new(1_000.0, Duration::from_secs(600)).growth(1.0).plan()?.window;
    /// assert!(window.forgotten_early_a_day_at(1_000.0) < 200.0);
    /// assert!(window.forgotten_early_a_day_at(2_000.0) > 0.01 * 2_000.0 * 86_400.0);
    /// # Ok::<(), hapax_plan::PlanError>(())
    /// ```
    pub fn forgotten_early_a_day_at(&self, checks_per_second: f64) -> f64 {
        let fresh = checks_per_second.max(0.0) * (1.0 - self.duplicates);
        let size = self.sizes.for_live(fresh * self.duration.as_secs_f64());
        lost_a_day(self.sizes.buckets(size), fresh, self.duration, self.window_ticks)
    }
}

fn slots(buckets: usize) -> f64 {
    (buckets * SLOTS) as f64
}

/// Returns the ids a day that a table of this many buckets loses before their time, with this many
/// new ones a second.
fn lost_a_day(buckets: usize, fresh_per_second: f64, window: Duration, window_ticks: u64) -> f64 {
    let load = fresh_per_second * window.as_secs_f64() / slots(buckets);
    fresh_per_second * SECONDS_A_DAY * loss::share_lost(load, window_ticks)
}

/// The claims of a [`Plan`](crate::Plan).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ClaimsPlan {
    /// Ids that are in flight at a time, at the peak.
    pub in_flight: f64,
    /// The lease that a claim should have: three times the work, and at least a second.
    pub lease: Duration,
    /// The memory at the peak. (Fingerprints of completed claims come on top: 40 to 90 bytes each,
    /// for as long as the window.)
    pub bytes: usize,
}

impl ClaimsPlan {
    pub(super) fn of(demand: &Demand, division: &Division) -> Result<Option<Self>, PlanError> {
        let Some((in_flight, work)) = demand.in_flight().zip(demand.work) else { return Ok(None) };
        if in_flight > IN_FLIGHT_MAX as f64 {
            return Err(PlanError::TooManyInFlight { in_flight, in_flight_max: IN_FLIGHT_MAX });
        }
        let lease = (3 * work).max(Duration::from_secs(1));
        Ok(Some(ClaimsPlan { in_flight, lease, bytes: division.claims_bytes }))
    }
}
