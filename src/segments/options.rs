//! The options of segments.

use crate::digest::WantedKey;
use std::time::Duration;

/// The options with which segments are opened.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct SegmentOptions {
    /// The time for which an id is known.
    pub retention: Duration,
    /// The key of the digests, if it must be a certain one.
    pub key: WantedKey,
    /// The bytes of memory in which a span is sorted; the smaller, the more often it is read. 256
    /// MiB: sixteen million events.
    pub sort_bytes_max: u64,
    /// The threads that read pages which are not in memory, besides the caller: 8, and at most
    /// [`READ_THREADS_MAX`](super::READ_THREADS_MAX).
    pub read_threads: usize,
    /// The longest time that a caller waits for what these threads have begun to read, when it has
    /// read its own part: 30 s. Ids in pages that are not there by then are in doubt.
    pub read_wait_max: Duration,
    /// The mode of new files: 600.
    pub file_mode: u32,
}

impl SegmentOptions {
    /// Returns the default options.
    pub fn new(retention: Duration) -> Self {
        let key = WantedKey::default();
        let (sort_bytes_max, read_threads, read_wait_max) = (256 << 20, 8, Duration::from_secs(30));
        SegmentOptions { retention, key, sort_bytes_max, read_threads, read_wait_max, file_mode: 0o600 }
    }
}
