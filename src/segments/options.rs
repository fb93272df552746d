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
    /// MiB: eight million events.
    pub sort_bytes_max: u64,
    /// The threads that read pages which are not in memory, besides the caller: 8, and at most
    /// [`READ_THREADS_MAX`](super::READ_THREADS_MAX).
    pub read_threads: usize,
    /// The mode of new files: 600.
    pub file_mode: u32,
}

impl SegmentOptions {
    /// Returns the default options.
    pub fn new(retention: Duration) -> Self {
        let key = WantedKey::default();
        SegmentOptions { retention, key, sort_bytes_max: 256 << 20, read_threads: 8, file_mode: 0o600 }
    }
}
