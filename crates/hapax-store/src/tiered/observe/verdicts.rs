//! The counts of verdicts.

use super::counter::Counter;
use super::labels::{End, TIERS, VERDICTS};
use super::meters::PolicyMeters;
use hapax::{Outcome, Tier, Verdict};
use std::time::Duration;

/// The counts of the results of checks and claims in the scopes of one policy.
pub(crate) struct Verdicts {
    counts: [[Counter; TIERS.len()]; VERDICTS.len()],
    admitted: Counter,
    shadowed: Counter,
    pub(crate) meters: PolicyMeters,
}

impl Verdicts {
    pub(crate) fn new(policy: &str) -> Self {
        Verdicts {
            counts: Default::default(),
            admitted: Counter::default(),
            shadowed: Counter::default(),
            meters: PolicyMeters::new(policy),
        }
    }

    /// Counts a decision.
    pub(crate) fn count(&self, verdict: Verdict) {
        let (outcome, tier) = (outcome_index(verdict.decided()), tier_index(verdict.tier()));
        self.counts[outcome][tier].add(1);
        self.meters.verdict(outcome, tier);
        if !verdict.is_certain() && verdict.tier() == Tier::Store {
            self.admitted.add(1);
            self.meters.admitted();
        }
        if verdict.decided() != verdict.outcome() {
            self.shadowed.add(1);
            self.meters.shadowed();
        }
    }

    /// Counts the end of a claim that was held for this long.
    pub(crate) fn ended(&self, end: End, held: Duration) {
        self.meters.ended(end, held);
    }

    pub(crate) fn of(&self, outcome: Outcome, tier: Tier) -> u64 {
        self.counts[outcome_index(outcome)][tier_index(tier)].get()
    }

    pub(crate) fn admitted(&self) -> u64 {
        self.admitted.get()
    }

    pub(crate) fn shadowed(&self) -> u64 {
        self.shadowed.get()
    }
}

fn outcome_index(outcome: Outcome) -> usize {
    match outcome {
        Outcome::Fresh => 0,
        Outcome::Duplicate => 1,
        // `Refused` does not occur: callers give no times. Such a message would have to come again,
        // too.
        Outcome::InProgress | Outcome::Refused(_) => 2,
    }
}

fn tier_index(tier: Tier) -> usize {
    match tier {
        Tier::Window => 0,
        Tier::History => 1,
        Tier::Claims => 2,
        // The store; what comes later has a number of its own then.
        _ => 3,
    }
}
