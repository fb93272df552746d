//! The observable state of an asynchronous engine: counts, and with the features `metrics` and
//! `tracing` metrics (`docs/metrics.md`), spans and events.

#[cfg(feature = "metrics")]
use super::breaker::BreakerState;
use super::claim::ClaimError;
use super::meters::{PolicyMeters, StoreMeters};
use crate::ErrorKind;
use crate::sync::{Ordering, StdAtomicU64};
use hapax::{Certainty, Outcome, Tier, Verdict};
use std::time::{Duration, Instant};

/// The kind of a request to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Mark,
    Unmark,
    Claim,
    Complete,
    Release,
    Fail,
    Renew,
    LookUp,
    Record,
    Forget,
    // The engine's own requests: these bypass the breaker, and are no part of its statistics.
    Expire,
    Scan,
    Own,
}

impl Asked {
    #[cfg(feature = "metrics")]
    pub(super) const ALL: [Asked; 13] = {
        use Asked::*;
        [Mark, Unmark, Claim, Complete, Release, Fail, Renew, LookUp, Record, Forget, Expire, Scan, Own]
    };

    pub(super) fn name(self) -> &'static str {
        match self {
            Asked::Mark => "mark",
            Asked::Unmark => "unmark",
            Asked::Claim => "claim",
            Asked::Complete => "complete",
            Asked::Release => "release",
            Asked::Fail => "fail",
            Asked::Renew => "renew",
            Asked::LookUp => "look_up",
            Asked::Record => "record",
            Asked::Forget => "forget",
            Asked::Expire => "expire",
            Asked::Scan => "scan",
            Asked::Own => "own",
        }
    }

    fn is_a_callers(self) -> bool {
        !matches!(self, Asked::Expire | Asked::Scan | Asked::Own)
    }
}

/// The end of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Completed,
    Released,
    Dropped,
    Failed,
    /// Its lease had expired.
    Lost,
    /// The store gave no certain answer.
    Unknown,
}

impl End {
    #[cfg(feature = "metrics")]
    pub(super) const ALL: [End; 6] =
        [End::Completed, End::Released, End::Dropped, End::Failed, End::Lost, End::Unknown];

    #[cfg(feature = "metrics")]
    pub(super) fn name(self) -> &'static str {
        match self {
            End::Completed => "completed",
            End::Released => "released",
            End::Dropped => "dropped",
            End::Failed => "failed",
            End::Lost => "lost",
            End::Unknown => "unknown",
        }
    }

    /// Returns the actual end of a claim that was to end like this.
    pub(super) fn of(self, ended: &Result<(), ClaimError>) -> Self {
        match ended {
            Ok(()) => self,
            Err(ClaimError::LostLease(_)) => End::Lost,
            Err(ClaimError::Store(_)) => End::Unknown,
        }
    }
}

/// The result of a renewal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Renewal {
    Renewed,
    Lost,
    Unknown,
}

impl Renewal {
    #[cfg(feature = "metrics")]
    pub(super) const ALL: [Renewal; 3] = [Renewal::Renewed, Renewal::Lost, Renewal::Unknown];

    #[cfg(feature = "metrics")]
    pub(super) fn name(self) -> &'static str {
        match self {
            Renewal::Renewed => "renewed",
            Renewal::Lost => "lost",
            Renewal::Unknown => "unknown",
        }
    }

    pub(super) fn of(renewed: &Result<(), ClaimError>) -> Self {
        match renewed {
            Ok(()) => Renewal::Renewed,
            Err(ClaimError::LostLease(_)) => Renewal::Lost,
            Err(ClaimError::Store(_)) => Renewal::Unknown,
        }
    }
}

/// The current state, for gauges.
#[cfg(feature = "metrics")]
pub(super) struct Sample {
    pub(super) breaker: BreakerState,
    pub(super) waiting: usize,
    pub(super) behind: u64,
    pub(super) unresolved: usize,
    pub(super) is_warm: bool,
    pub(super) is_refused: bool,
}

/// The counts of calls.
pub(super) struct Observer {
    #[cfg(feature = "tracing")]
    backend: &'static str,
    pub(super) calls: StdAtomicU64,
    pub(super) requests: StdAtomicU64,
    pub(super) failed_calls: StdAtomicU64,
    pub(super) retries: StdAtomicU64,
    pub(super) refusals: StdAtomicU64,
    pub(super) opened: StdAtomicU64,
    pub(super) meters: StoreMeters,
}

/// A call that is under way.
pub(super) struct Call<'o> {
    observer: &'o Observer,
    asked: Asked,
    ids: usize,
    begun: Instant,
    #[cfg(feature = "tracing")]
    span: tracing::Span,
}

impl Observer {
    pub(super) fn new(backend: &'static str) -> Self {
        let zero = || StdAtomicU64::new(0);
        Observer {
            #[cfg(feature = "tracing")]
            backend,
            calls: zero(),
            requests: zero(),
            failed_calls: zero(),
            retries: zero(),
            refusals: zero(),
            opened: zero(),
            meters: StoreMeters::new(backend),
        }
    }

    pub(super) fn begin(&self, asked: Asked, ids: usize) -> Call<'_> {
        if asked.is_a_callers() {
            add(&self.calls, 1);
            add(&self.requests, ids as u64);
        }
        Call {
            observer: self,
            asked,
            ids,
            begun: Instant::now(),
            #[cfg(feature = "tracing")]
            span: tracing::debug_span!(
                "hapax_store_call",
                backend = self.backend,
                operation = asked.name(),
                ids,
                result = tracing::field::Empty
            ),
        }
    }

    pub(super) fn retried(&self, asked: Asked) {
        add(&self.retries, 1);
        self.meters.retried(asked);
    }

    pub(super) fn not_asked(&self, asked: Asked) {
        add(&self.refusals, 1);
        self.meters.refused(asked);
    }

    pub(super) fn opened(&self) {
        add(&self.opened, 1);
        self.meters.opened();
        #[cfg(feature = "tracing")]
        tracing::warn!(backend = self.backend, "the store fails again and again: the circuit breaker opens");
    }

    pub(super) fn closed(&self) {
        #[cfg(feature = "tracing")]
        tracing::info!(backend = self.backend, "the store answers again: the circuit breaker closes");
    }

    /// Reports that this engine may not go on.
    pub(super) fn lost(&self, why: &str) {
        #[cfg(feature = "tracing")]
        tracing::error!(backend = self.backend, why, "this engine is no longer the owner of the store");
        let _ = why;
    }

    pub(super) fn warm(&self, ids: u64) {
        #[cfg(feature = "tracing")]
        tracing::info!(backend = self.backend, ids, "the memory tiers are warm");
        let _ = ids;
    }
}

impl Call<'_> {
    /// Returns the call, in a span.
    pub(super) fn under_way<F: Future>(&self, call: F) -> impl Future<Output = F::Output> + use<F> {
        #[cfg(feature = "tracing")]
        return tracing::Instrument::instrument(call, self.span.clone());
        #[cfg(not(feature = "tracing"))]
        call
    }

    pub(super) fn ended(self, error: Option<ErrorKind>) {
        if error.is_some() && self.asked.is_a_callers() {
            add(&self.observer.failed_calls, 1);
        }
        self.observer.meters.called(self.asked, self.ids, self.begun.elapsed(), error);
        #[cfg(feature = "tracing")]
        match error {
            Some(kind) => self.span.record("result", tracing::field::display(kind)),
            None => self.span.record("result", "ok"),
        };
    }
}

/// The counts of the results of checks and claims in the scopes of one policy.
pub(super) struct Verdicts {
    counts: [[StdAtomicU64; TIERS.len()]; VERDICTS.len()],
    admitted: StdAtomicU64,
    shadowed: StdAtomicU64,
    pub(super) meters: PolicyMeters,
}

impl Verdicts {
    pub(super) fn new(policy: &str) -> Self {
        Verdicts {
            counts: Default::default(),
            admitted: StdAtomicU64::new(0),
            shadowed: StdAtomicU64::new(0),
            meters: PolicyMeters::new(policy),
        }
    }

    /// Counts a decision.
    pub(super) fn count(&self, verdict: Verdict) {
        let (outcome, tier) = (outcome_index(verdict.decided()), tier_index(verdict.tier()));
        add(&self.counts[outcome][tier], 1);
        self.meters.verdict(outcome, tier);
        if verdict.certainty() == Certainty::Unverified {
            add(&self.admitted, 1);
            self.meters.admitted();
        }
        if verdict.decided() != verdict.outcome() {
            add(&self.shadowed, 1);
            self.meters.shadowed();
        }
    }

    /// Counts the end of a claim that was held for this long.
    pub(super) fn ended(&self, end: End, held: Duration) {
        self.meters.ended(end, held);
    }

    pub(super) fn of(&self, outcome: Outcome, tier: Tier) -> u64 {
        get(&self.counts[outcome_index(outcome)][tier_index(tier)])
    }

    pub(super) fn admitted(&self) -> u64 {
        get(&self.admitted)
    }

    pub(super) fn shadowed(&self) -> u64 {
        get(&self.shadowed)
    }
}

/// Labels of a verdict.
pub(super) const VERDICTS: [&str; 3] = ["fresh", "duplicate", "in_progress"];

/// Labels of the tier that decided.
pub(super) const TIERS: [&str; 4] = ["window", "history", "claims", "store"];

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

fn add(counter: &StdAtomicU64, n: u64) {
    // Relaxed: counters order nothing.
    counter.fetch_add(n, Ordering::Relaxed);
}

pub(super) fn get(counter: &StdAtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
