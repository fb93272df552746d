//! Sizes of the engine's parts, and the lengths of its ticks: `hapax-plan` computes with them.

pub use crate::claims::planned as claims;
pub use crate::clock::{HUNDRED_YEARS, nanos_of};
pub use crate::error::{InvalidOption, check};
pub use crate::history::{Density, Size, rate_in};
pub use crate::journal::write::sizing as journal;
pub use crate::memory::LINE_BYTES;
pub use crate::segments::{Needs, SPANS_PER_RETENTION_MAX};
pub use crate::window::{Ticks, planned as window};

use crate::JournalOptions;
use crate::history::HistoryTier;
use std::time::Duration;

/// Returns the memory of a history of this size.
pub fn history_bytes(size: Size) -> usize {
    HistoryTier::bytes_of(size.blocks)
}

/// Returns the time within which a journal commits, unless its options say another.
pub fn commit_interval() -> Duration {
    JournalOptions::new().commit_interval
}

/// The memory of an engine beside its tiers.
pub const BYTES_BESIDE_TIERS: usize = crate::engine::Engine::BYTES_BESIDE_TIERS;
