//! The figures of a long memory.

use crate::SegmentError;
use crate::segments::SegmentStats;
use std::time::Duration;

/// The state and the counters of a long memory.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LongMemoryStats {
    /// The segments.
    pub segments: SegmentStats,
    /// The age of the oldest id of the journal that may be in no segment: less than the window
    /// (half of it with a [deferred](crate::JournalOptions::deferred) journal), or answers are in
    /// doubt.
    pub lag: Duration,
    /// The number of ids that were forgotten, and which no segment says of yet.
    pub forgotten: u64,
    /// The number of answers that were in doubt: a page could not be read, or what the window has
    /// forgotten by now could not be sealed. Each was fresh, as a
    /// [guess](crate::Verdict::is_certain).
    pub in_doubt: u64,
    /// The reason why nothing is sealed at present, if that is so. It is tried again.
    pub failed: Option<SegmentError>,
    /// The reason why segments that are elsewhere (`hapax-handover`) do not come at present, if
    /// that is so. It is tried again.
    pub not_brought: Option<SegmentError>,
}

impl PartialEq for LongMemoryStats {
    fn eq(&self, other: &Self) -> bool {
        let key = |stats: &Self| {
            let LongMemoryStats { segments, lag, forgotten, in_doubt, ref failed, ref not_brought } = *stats;
            let why = [failed, not_brought].map(|error| error.as_ref().map(ToString::to_string));
            (segments, lag, forgotten, in_doubt, why)
        };
        key(self) == key(other)
    }
}
