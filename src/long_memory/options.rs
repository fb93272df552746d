//! The options of a long memory.

use std::time::Duration;

/// The options of a [long memory](crate::Builder::long_memory).
///
/// ```
/// use hapax::LongMemory;
/// use std::time::Duration;
///
/// let a_week = LongMemory::new(Duration::from_secs(7 * 24 * 3600)).read_threads(16);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct LongMemory {
    pub(crate) retention: Duration,
    pub(crate) read_threads: usize,
    pub(crate) sort_memory_bytes: u64,
}

impl LongMemory {
    /// Remembers each id for this long.
    ///
    /// A window of an 18th of it, or longer, costs least: an id is then written three times in all.
    /// (Of a ninth, with a journal that is [told later](crate::JournalOptions::deferred).) With a
    /// shorter one, segments are merged more often.
    pub fn new(retention: Duration) -> Self {
        LongMemory { retention, read_threads: 8, sort_memory_bytes: 64 << 20 }
    }

    /// Sets the number of threads that read pages which are not in memory, for all callers
    /// together. Default: 8, at most 64.
    pub fn read_threads(self, read_threads: usize) -> Self {
        LongMemory { read_threads, ..self }
    }

    /// Sets the memory in which ids are sorted before they are written, in bytes. Default: 64 MiB,
    /// in which four million ids are sorted. Of half the window's ids, which are written at a time,
    /// the journal's files are read as often as that takes, and twice more: with 256 MiB and 30
    /// million ids, four times.
    pub fn sort_memory_bytes(self, bytes: u64) -> Self {
        LongMemory { sort_memory_bytes: bytes, ..self }
    }
}
