//! The counts of what sequences have met with a long memory: what never happens is not tested.

use crate::{Attempt, Tier, Verdict};

/// The things that sequences have met.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Met {
    pub(super) fresh_beyond: u64,
    pub(super) known_beyond: u64,
    pub(super) claims_known_beyond: u64,
    pub(super) in_doubt: u64,
    pub(super) forgotten_meanwhile: u64,
    /// Calls in the midst of which time has passed.
    pub(super) meanwhile: u64,
    /// Events that ask for a time before the latest.
    pub(super) late: u64,
    pub(super) restarts: u64,
    /// Directories of segments that are not those of their journal.
    pub(super) not_ours: u64,
    pub(super) segments: u64,
    pub(super) merged: u64,
    pub(super) tombstones: u64,
}

impl Met {
    pub(super) fn verdict(&mut self, verdict: Verdict) {
        match (verdict.tier(), verdict.is_fresh(), verdict.is_certain()) {
            (Tier::Segments, true, true) => self.fresh_beyond += 1,
            (Tier::Segments, false, _) => self.known_beyond += 1,
            (_, true, false) => self.in_doubt += 1,
            _ => {}
        }
    }

    pub(super) fn attempt(&mut self, attempt: &Attempt<'_>) {
        let is_beyond = |verdict: &Verdict| verdict.tier() == Tier::Segments;
        self.claims_known_beyond += u64::from(matches!(attempt, Attempt::Duplicate(verdict) if is_beyond(verdict)));
    }

    /// Counts what segments are like in the end.
    pub(super) fn stats(&mut self, stats: &crate::Stats) {
        let Some(long) = &stats.long_memory else { return };
        self.segments += long.segments.segments;
        self.merged += u64::from(long.segments.written_records > long.segments.sealed_events);
        self.tombstones += long.segments.tombstones;
    }

    /// Returns all counts by their names.
    pub(super) fn named(&self) -> [(&'static str, u64); 12] {
        let Met { fresh_beyond, known_beyond, claims_known_beyond, in_doubt, forgotten_meanwhile, meanwhile, .. } =
            *self;
        let Met { late, restarts, not_ours, segments, merged, tombstones, .. } = *self;
        [
            ("fresh beyond the window", fresh_beyond),
            ("known beyond the window", known_beyond),
            ("claims of what is known beyond the window", claims_known_beyond),
            ("in doubt", in_doubt),
            ("forgotten while it was asked for", forgotten_meanwhile),
            ("a call in the midst of which time has passed", meanwhile),
            ("late events", late),
            ("restarts", restarts),
            ("segments of another journal", not_ours),
            ("segments", segments),
            ("merges", merged),
            ("tombstones", tombstones),
        ]
    }
}
