//! The seam between this engine and the asynchronous one (`hapax-store`): the tiers in memory as
//! that one uses them, and what else the crates of this workspace share. It is no part of what this
//! crate promises: versions of these crates are used together only.

pub mod back_off;
mod counted;
mod memory;
pub mod sizing;
mod witness;

pub use crate::clock::MonotonicClock;
pub use crate::digest::{Digest, DigestKey, DigestKind, Digester, WantedKey};
pub use crate::engine::Tried;
pub use crate::history::{HistoryStats, HistoryTier};
pub use crate::journal::{DurableFile, DurableFiles, DurableSegments, Inspection, RunInfo, SegmentInfo, inspect};
pub use crate::memory::{Line, Lines, available_bytes, prefetch};
pub use crate::process::salt;
pub use crate::segments::SegmentSource;
pub use crate::size_hint::collect;
pub use crate::window::{TableStats, Window};
pub use memory::{Guess, Memory};

/// Digests an id for another thread to check, and asks for no memory of this one's processor.
#[inline]
pub fn digested(dedup: &crate::Dedup, id: impl crate::Id) -> crate::Prepared {
    dedup.prepared(id.digest_by(&dedup.digester))
}

/// Returns the memory that the window takes, in bytes: how long a call of `stats` takes goes by it.
pub fn window_bytes(dedup: &crate::Dedup) -> usize {
    dedup.engine.window.bytes()
}

/// Returns the window's tables, from the newest to the oldest.
pub fn tables(dedup: &crate::Dedup) -> Vec<TableStats> {
    dedup.engine.window.table_stats(dedup.engine.now_at_rest().time)
}

pub mod random {
    //! Random numbers, and those that are the same for the same seed on every machine.

    pub use crate::random::{Random, any, hash, mix, scale};
}
