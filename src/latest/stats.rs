//! The counters of a memory of versions.

use super::verdict::VersionVerdict;
use std::time::Duration;

/// The counters of a [`Latest`](crate::Latest), and its contents.
///
/// ```
/// let latest = hapax::Latest::builder().capacity(1_000).build()?;
/// for version in [5, 6, 5, 6] {
///     let _ = latest.check("user-17", version);
/// }
/// let stats = latest.stats();
/// assert_eq!((stats.newer, stats.duplicates, stats.stale, stats.live), (2, 1, 1, 1));
/// assert_eq!(stats.forgotten_early, 0);
/// # Ok::<(), hapax::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LatestStats {
    /// Checks of versions that were newer.
    pub newer: u64,
    /// Checks of versions that were known.
    pub duplicates: u64,
    /// Checks of versions below the one that was known.
    pub stale: u64,
    /// Checks whose time was refused.
    pub refused: u64,
    /// Ids that had to go before their time, since there was no room: an old version of such an id
    /// passes again. Zero as long as no more ids are live than the capacity.
    pub forgotten_early: u64,
    /// The number of ids whose version is known.
    pub live: usize,
    /// The number of ids that there is room for: the capacity, and a little more.
    pub room: usize,
    /// The time since the oldest version that is known was accepted.
    pub oldest: Duration,
    /// The memory of the whole, in bytes, taken or not yet.
    pub bytes: usize,
}

/// The counts of a shard.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) newer: u64,
    pub(super) duplicates: u64,
    pub(super) stale: u64,
    pub(super) forgotten_early: u64,
}

impl Counts {
    #[inline(always)]
    pub(super) fn add(&mut self, verdict: VersionVerdict) {
        match verdict {
            VersionVerdict::Newer => self.newer += 1,
            VersionVerdict::Duplicate => self.duplicates += 1,
            VersionVerdict::Stale { .. } => self.stale += 1,
            // Decided before any shard is asked.
            VersionVerdict::Refused(_) => {}
        }
    }

    pub(super) fn plus(self, other: Counts) -> Counts {
        Counts {
            newer: self.newer + other.newer,
            duplicates: self.duplicates + other.duplicates,
            stale: self.stale + other.stale,
            forgotten_early: self.forgotten_early + other.forgotten_early,
        }
    }
}
