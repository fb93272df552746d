//! The statistics of a journal.

use super::{Journal, Recovery};
use crate::error::JournalError;

/// The state and the counters of a journal.
///
/// ```
/// # let directory = std::env::temp_dir().join(format!("hapax-doc-stats-{}", std::process::id()));
/// use hapax::{Dedup, JournalOptions};
///
/// let dedup = Dedup::builder().journal(&directory, JournalOptions::new()).build()?;
/// dedup.check("a");
/// dedup.journal()?.flush()?;
/// let journal = dedup.stats().journal.unwrap();
/// assert_eq!((journal.appended, journal.durable), (1, journal.appended));
/// assert!(journal.failed.is_none());
/// # drop(dedup);
/// # std::fs::remove_dir_all(directory)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct JournalStats {
    /// The number of ids that were appended since the engine was built.
    pub appended: u64,
    /// The number of them that are durable, in their order.
    pub durable: u64,
    /// The number of bytes that wait to be written.
    pub pending_bytes: usize,
    /// The number of bytes that wait for the next [checkpoint](crate::JournalHandle::checkpoint).
    pub held_bytes: usize,
    /// The number of bytes that all files take.
    pub disk_bytes: u64,
    /// The number of files.
    pub segments: u64,
    /// The number of times that data was made durable.
    pub commits: u64,
    /// The number of ids, and of other events to be appended, that were not kept while the journal
    /// had failed: they are not durable, and will not be.
    pub dropped: u64,
    /// The number of times that it went on after a failure: by itself, or
    /// [reopened](crate::JournalHandle::reopen).
    pub reopened: u64,
    /// The reason why nothing becomes durable any more, if that is so. In a
    /// [child](crate::JournalError::Forked) of the process that has the journal nothing else is
    /// known but [`recovery`](JournalStats::recovery).
    pub failed: Option<JournalError>,
    /// The findings when it was opened.
    pub recovery: Recovery,
}

impl Journal {
    pub(crate) fn stats(&self) -> JournalStats {
        if let Err(forked) = self.shared.must_be_here() {
            return JournalStats { failed: Some(forked), recovery: self.recovery.clone(), ..JournalStats::default() };
        }
        let status = self.shared.status();
        JournalStats {
            appended: status.appended,
            durable: status.durable,
            pending_bytes: status.pending_bytes,
            held_bytes: status.held_bytes,
            disk_bytes: status.written.disk_bytes,
            segments: status.written.segments,
            commits: status.written.commits,
            dropped: status.dropped,
            reopened: status.reopened,
            failed: status.failed,
            recovery: self.recovery.clone(),
        }
    }
}

/// Compares statistics: two are equal if nothing has happened in between; errors are compared by
/// their messages.
impl PartialEq for JournalStats {
    fn eq(&self, other: &Self) -> bool {
        let key = |stats: &JournalStats| {
            let JournalStats { appended, durable, disk_bytes, segments, commits, dropped, reopened, .. } = *stats;
            let bytes = (stats.pending_bytes, stats.held_bytes, disk_bytes);
            let failed = stats.failed.as_ref().map(|error| error.to_string());
            (appended, durable, bytes, segments, commits, dropped, reopened, failed)
        };
        key(self) == key(other) && self.recovery == other.recovery
    }
}
