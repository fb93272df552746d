//! The state of segments, in numbers.

use crate::segments::read::segment::Segment;
use crate::sync::{Ordering, StdAtomicU64};
use std::sync::Arc;

/// Counts since the directory was opened.
#[derive(Default)]
pub(in crate::segments) struct Counters {
    pub(in crate::segments) pages_read: StdAtomicU64,
    pub(in crate::segments) known: StdAtomicU64,
    pub(in crate::segments) sealed_events: StdAtomicU64,
    pub(in crate::segments) written_records: StdAtomicU64,
}

/// The state of the segments of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentStats {
    /// The number of live segments.
    pub segments: u64,
    /// The number of ids in them. One that was accepted again after its retention counts twice.
    pub ids: u64,
    /// The number of ids that were forgotten, and may be in an older segment.
    pub tombstones: u64,
    /// The bytes of filters and tables of pages in memory.
    pub memory_bytes: u64,
    /// The bytes of the files of live segments.
    pub disk_bytes: u64,
    /// The number of segments whose filter is not in memory yet.
    pub filters_missing: u64,
    /// The number of live segments whose file is not here yet: their pages are read
    /// [elsewhere](crate::segments::SegmentSource).
    pub remote: u64,
    /// The number of pages that were read for questions, since the directory was opened.
    pub pages_read: u64,
    /// The number of questions that were answered with
    /// [`Answer::Known`](crate::segments::Answer::Known).
    pub known: u64,
    /// The number of events that were sealed.
    pub sealed_events: u64,
    /// The number of records that were written, by sealing and by merging.
    pub written_records: u64,
}

impl SegmentStats {
    pub(in crate::segments) fn of(segments: &[Arc<Segment>], counters: &Counters) -> Self {
        let sum = |of: &dyn Fn(&Segment) -> u64| segments.iter().map(|segment| of(segment)).sum();
        // Relaxed: counts.
        let count = |counter: &StdAtomicU64| counter.load(Ordering::Relaxed);
        SegmentStats {
            segments: segments.len() as u64,
            ids: sum(&|segment| segment.trailer.ids),
            tombstones: sum(&|segment| segment.trailer.tombstones),
            memory_bytes: sum(&Segment::memory_bytes),
            disk_bytes: sum(&|segment| segment.listed.bytes),
            filters_missing: sum(&|segment| u64::from(segment.filter.get().is_none())),
            remote: sum(&|segment| u64::from(!segment.is_here())),
            pages_read: count(&counters.pages_read),
            known: count(&counters.known),
            sealed_events: count(&counters.sealed_events),
            written_records: count(&counters.written_records),
        }
    }
}
