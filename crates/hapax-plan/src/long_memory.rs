//! Plans a long memory: what it will keep in memory and on the disk, and write.

use super::Demand;
use hapax::seam::sizing::{Needs, SPANS_PER_RETENTION_MAX};
use std::time::Duration;

/// The memory in which ids are sorted before they are written, unless
/// [`LongMemory::sort_memory_bytes`](hapax::LongMemory::sort_memory_bytes) says otherwise.
pub(super) const SORT_BYTES: usize = 64 << 20;

/// The ids of half a window are sealed together.
const SPANS_PER_WINDOW: f64 = 2.0;

/// The long memory of a [`Plan`](crate::Plan).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LongMemoryPlan {
    /// The time for which ids are remembered.
    pub retention: Duration,
    /// Ids within it, at the mean rate.
    pub ids: u64,
    /// The memory that its filters take, at the mean rate.
    pub bytes: usize,
    /// The most memory that it takes: in its busiest retention, while the largest merge is under
    /// way, and ids are sorted.
    pub bytes_max: usize,
    /// Bytes on the disk, at the mean rate, besides the journal's.
    pub disk_bytes: u64,
    /// The most bytes on the disk: in its busiest retention, while the largest merge is under way.
    pub disk_bytes_max: u64,
    /// True if the window is at least an 18th of the retention. An id is then written to segments
    /// three times in all, and at most ten segments are asked for it; else more often. (With a
    /// journal that is [told later](hapax::JournalOptions::deferred), which a plan does not know
    /// of, segments are those of half the window.)
    pub is_written_three_times: bool,
}

impl LongMemoryPlan {
    pub(super) fn of(demand: &Demand, retention: Duration) -> Self {
        let spans = (SPANS_PER_WINDOW * retention.as_secs_f64() / demand.window.as_secs_f64()).ceil() as u64;
        let mean = demand.fresh_per_second() * retention.as_secs_f64();
        let (needs, at_peak) =
            (Needs::of(mean as u64, spans), Needs::of((mean * demand.peak_of_horizon(retention)) as u64, spans));
        let in_memory = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        LongMemoryPlan {
            retention,
            ids: mean as u64,
            bytes: in_memory(needs.memory_bytes_mean),
            bytes_max: in_memory(at_peak.memory_bytes_max).saturating_add(SORT_BYTES),
            disk_bytes: needs.disk_bytes_mean,
            disk_bytes_max: at_peak.disk_bytes_max,
            is_written_three_times: spans <= SPANS_PER_RETENTION_MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_segments_take_counts_in_a_budget() {
        let demand = || Demand::new(1_000.0, Duration::from_secs(3_600)).growth(1.0);
        let day = Duration::from_secs(86_400);
        let alone = demand().plan().unwrap().bytes_max();
        let with = demand().long_memory(day).plan().unwrap();
        let segments = with.long_memory.as_ref().unwrap().bytes_max;
        assert_eq!(with.bytes_max(), alone + segments);
        assert!(segments > SORT_BYTES + 86_400_000 * 12 / 8, "{segments}");
        assert!(demand().memory_bytes(alone + segments / 2).long_memory(day).plan().is_err());
        let fits = demand().memory_bytes(alone + segments + (1 << 20)).long_memory(day).plan().unwrap();
        assert!(fits.bytes_max() <= alone + segments + (1 << 20));
    }

    #[test]
    fn a_retention_is_longer_than_the_window_and_no_history_is_beside_it() {
        let demand = || Demand::new(1_000.0, Duration::from_secs(60));
        for demand in [
            demand().long_memory(Duration::from_secs(60)),
            demand().long_memory(Duration::MAX),
            demand().long_memory(Duration::from_secs(600)).history(Duration::from_secs(600)).false_positive_rate(0.01),
        ] {
            let error = demand.plan().unwrap_err().to_string();
            assert!(error.contains("long_memory") || error.contains("history"), "{error}");
        }
        let often = demand().long_memory(Duration::from_secs(1_081)).plan().unwrap().long_memory.unwrap();
        let thrice = demand().long_memory(Duration::from_secs(1_080)).plan().unwrap().long_memory.unwrap();
        assert!(thrice.is_written_three_times && !often.is_written_three_times);
    }
}
