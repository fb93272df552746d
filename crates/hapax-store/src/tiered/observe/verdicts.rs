//! The counts of verdicts, and of what becomes of claims.

use super::labels::{End, Renewal, TIERS, VERDICTS};
use super::meters::{Count, Distribution};
use hapax::{Outcome, Tier, Verdict};
use std::time::Duration;

/// The counts of the results of checks and claims in the scopes of one policy.
pub(crate) struct Verdicts {
    counts: [[Count; TIERS.len()]; VERDICTS.len()],
    pub(crate) admitted: Count,
    pub(crate) shadowed: Count,
    /// Ids that passed undecided.
    pub(crate) bypassed: Count,
    /// Claims with another fingerprint.
    pub(crate) mismatches: Count,
    /// Claims for which there was no room.
    pub(crate) refused: Count,
    ends: [Count; End::ALL.len()],
    held_seconds: Distribution,
    renewals: [Count; Renewal::ALL.len()],
}

impl Verdicts {
    pub(crate) fn new(policy: &str) -> Self {
        let policy = ("policy", policy);
        let verdict =
            |verdict, tier| Count::new("hapax_verdicts_total", &[policy, ("verdict", verdict), ("tier", tier)]);
        let end = |end: End| Count::new("hapax_claim_ends_total", &[policy, ("end", end.name())]);
        let renewal = |to: Renewal| Count::new("hapax_claim_renewals_total", &[policy, ("result", to.name())]);
        Verdicts {
            counts: VERDICTS.map(|outcome| TIERS.map(|tier| verdict(outcome, tier))),
            admitted: Count::new("hapax_admitted_total", &[policy]),
            shadowed: Count::new("hapax_shadowed_total", &[policy]),
            bypassed: Count::new("hapax_bypassed_total", &[policy]),
            mismatches: Count::new("hapax_claim_mismatches_total", &[policy]),
            refused: Count::new("hapax_claims_refused_total", &[policy]),
            ends: End::ALL.map(end),
            held_seconds: Distribution::new("hapax_claim_held_seconds", &[policy]),
            renewals: Renewal::ALL.map(renewal),
        }
    }

    /// Counts a decision.
    pub(crate) fn count(&self, verdict: Verdict) {
        self.counts[outcome_index(verdict.decided())][tier_index(verdict.tier())].add(1);
        if !verdict.is_certain() && verdict.tier() == Tier::Store {
            self.admitted.add(1);
        }
        if verdict.decided() != verdict.outcome() {
            self.shadowed.add(1);
        }
    }

    /// Counts the end of a claim that was held for this long.
    pub(crate) fn ended(&self, end: End, held: Duration) {
        self.ends[end as usize].add(1);
        self.held_seconds.record(held.as_secs_f64());
    }

    pub(crate) fn renewed(&self, result: Renewal) {
        self.renewals[result as usize].add(1);
    }

    pub(crate) fn of(&self, outcome: Outcome, tier: Tier) -> u64 {
        self.counts[outcome_index(outcome)][tier_index(tier)].get()
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
