//! The report: counts of the operations that were checked, and what they have not exercised.

use super::rules::{Rule, Rules};
use crate::operation::Event;
use std::fmt;

/// Counts of recorded operations that were found right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// All operations.
    pub operations: u64,
    /// Checks that were fresh.
    pub fresh: u64,
    /// Checks that were duplicates.
    pub duplicates: u64,
    /// Checks without an answer.
    pub unanswered: u64,
    /// Ids that were forgotten.
    pub forgotten: u64,
    /// Attempts that got a claim.
    pub claimed: u64,
    /// Checks and attempts that found an id claimed.
    pub in_progress: u64,
    /// Leases that were renewed.
    pub renewed: u64,
    /// Calls of holders that were told that they had lost the claim.
    pub lost: u64,
    /// Attempts that found the id claimed or done with another fingerprint.
    pub mismatches: u64,
    /// The number of times that the subject was stopped and started again.
    pub restarts: u64,
    /// Operations that overlapped another one on the same id. If these are few, not much was
    /// tested.
    pub overlapping: u64,
    /// Answers that only an eviction explains.
    pub needed_evictions: u64,
    /// Evictions that the subject has counted.
    pub counted_evictions: u64,
    /// The largest number of ids that the subject had to know at once, claims included. A limit
    /// that is larger than this was not tested.
    pub live_max: u64,
    /// Operations that asked at the edges of the window, to the nanosecond, by one thread, after
    /// the workload. None where the subject reads a clock of its own.
    pub probes: u64,
    /// The rules that the subject has, and those that were exercised.
    pub(crate) rules: Rules,
    pub(crate) exercised: Rules,
}

impl Report {
    /// Returns the rules that nothing in the history has exercised: a subject that breaks one of
    /// these was accepted nevertheless.
    pub fn never_exercised(&self) -> impl Iterator<Item = Rule> + use<> {
        self.rules.without(self.exercised)
    }

    pub(crate) fn count(&mut self, event: Event) {
        self.operations += 1;
        match event {
            Event::Fresh => self.fresh += 1,
            Event::Duplicate => self.duplicates += 1,
            Event::Unanswered => self.unanswered += 1,
            Event::Forget => self.forgotten += 1,
            Event::InProgress => self.in_progress += 1,
            Event::Claimed => self.claimed += 1,
            Event::Renewed => self.renewed += 1,
            Event::Lost => self.lost += 1,
            Event::Mismatch => self.mismatches += 1,
            Event::Completed | Event::Released | Event::Evict => {}
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { operations, fresh, duplicates, unanswered, forgotten, claimed, in_progress, overlapping, .. } =
            self;
        write!(f, "{operations} operations: {fresh} fresh, {duplicates} duplicates, {unanswered} without an answer, ")?;
        write!(f, "{claimed} claimed, {in_progress} in progress, ")?;
        let Report { renewed, lost, mismatches, restarts, .. } = self;
        if [renewed, lost, mismatches, restarts].into_iter().any(|count| *count > 0) {
            write!(f, "{renewed} renewed, {lost} lost, {mismatches} mismatches, {restarts} restarts, ")?;
        }
        write!(f, "{forgotten} forgotten; {overlapping} overlapped another one on the same id; ")?;
        write!(f, "{} fresh because of an eviction, of {} counted; ", self.needed_evictions, self.counted_evictions)?;
        write!(f, "{} probes of the edges; at most {} ids live at once", self.probes, self.live_max)?;
        self.never_exercised().try_for_each(|rule| write!(f, "\nnever exercised: {rule}"))
    }
}
