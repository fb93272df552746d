//! Plans the journal: what it will write and keep.

use super::Demand;
use hapax::seam::sizing::journal::{COMMIT_BYTES, DiskUse, Flow, retention, segment_length};
use std::time::Duration;

/// Ids a second that are read from a journal, as measured: benches/README.md.
pub(super) const REPLAY_IDS_PER_SECOND: f64 = 32e6;

/// The journal of a [`Plan`](crate::Plan). Figures are averages, at the mean rate, unless stated
/// otherwise.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct JournalPlan {
    /// The time that ids wait until they are durable.
    pub commit_interval: Duration,
    /// Commits a second: writes with a sync.
    pub commits_per_second: f64,
    /// Bytes written a second: 16 bytes an id, and a little for each commit.
    pub bytes_per_second: f64,
    /// The time for which a file is kept after the youngest id in it.
    pub retention: Duration,
    /// The number of files.
    pub segments: f64,
    /// Bytes on the disk.
    pub disk_bytes: f64,
    /// The most bytes on the disk, if the peak lasts as long as ids are kept.
    pub disk_bytes_max: f64,
    /// The time that it takes to read it at the start, at 32 million ids a second.
    pub replay: Duration,
}

impl JournalPlan {
    pub(super) fn of(demand: &Demand, commit_interval: Duration, tick: Duration) -> Self {
        let flow = |peak: f64| Flow::of(demand.fresh_per_second() * peak, commit_interval, COMMIT_BYTES, tick);
        let retention = retention(demand.window, tick, demand.horizon);
        let kept = |flow: Flow| DiskUse::of(flow.bytes, segment_length(retention), retention, tick);
        let (mean, at_peak) = (flow(1.0), flow(demand.peak));
        let ids_kept = kept(mean).bytes / mean.bytes * demand.fresh_per_second();
        JournalPlan {
            commit_interval,
            commits_per_second: mean.blocks,
            bytes_per_second: mean.bytes,
            retention,
            segments: kept(mean).segments,
            disk_bytes: kept(mean).bytes,
            disk_bytes_max: kept(at_peak).bytes_max,
            replay: Duration::try_from_secs_f64(ids_kept / REPLAY_IDS_PER_SECOND).unwrap_or(Duration::MAX),
        }
    }
}
