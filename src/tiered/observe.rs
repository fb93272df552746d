//! What can be seen of an asynchronous engine from outside: counts, and with the features `metrics` and `tracing` metrics and spans.
//!
//! | metric | kind, unit | labels |
//! |---|---|---|
//! | `hapax_verdicts_total` | counter, ids | `policy`, `verdict` (fresh, duplicate, in_progress), `tier` (window, history, claims, store, none) |
//! | `hapax_admitted_total` | counter, ids | `policy` |
//! | `hapax_shadowed_total` | counter, ids | `policy` |
//! | `hapax_store_calls_total` | counter, calls | `backend`, `operation`, `result` (ok, or the kind of error) |
//! | `hapax_store_call_seconds` | histogram, seconds | `backend`, `operation` |
//! | `hapax_store_batch_ids` | histogram, ids | `backend`, `operation` |
//! | `hapax_store_retries_total` | counter, calls | `backend`, `operation` |
//! | `hapax_store_refusals_total` | counter, calls not made since the breaker was open | `backend`, `operation` |
//! | `hapax_breaker_opened_total` | counter | `backend` |
//! | `hapax_breaker_state` | gauge: 0 closed, 1 half open, 2 open | `backend` |
//! | `hapax_waiting_ids` | gauge, requests that wait or are under way | `backend` |
//! | `hapax_behind_ids` | gauge, records that are not durable yet | `backend` |
//!
//! Gauges are set once a second. Spans (`tracing`, level debug): `hapax_store_call` with `backend`, `operation`, `ids`.

use super::breaker::BreakerState;
use crate::store::ErrorKind;
use crate::sync::{Ordering, StdAtomicU64};
use crate::{Certainty, Outcome, Tier, Verdict};
use std::time::Instant;

/// Counts calls.
pub(super) struct Observer {
    backend: &'static str,
    pub(super) calls: StdAtomicU64,
    pub(super) requests: StdAtomicU64,
    pub(super) failed_calls: StdAtomicU64,
    pub(super) retries: StdAtomicU64,
    pub(super) refusals: StdAtomicU64,
    pub(super) opened: StdAtomicU64,
}

/// A call that is under way.
pub(super) struct Call<'o> {
    observer: &'o Observer,
    operation: &'static str,
    begun: Instant,
}

impl Observer {
    pub(super) fn new(backend: &'static str) -> Self {
        let zero = || StdAtomicU64::new(0);
        Observer {
            backend,
            calls: zero(),
            requests: zero(),
            failed_calls: zero(),
            retries: zero(),
            refusals: zero(),
            opened: zero(),
        }
    }

    pub(super) fn begin(&self, operation: &'static str, ids: usize) -> Call<'_> {
        add(&self.calls, 1);
        add(&self.requests, ids as u64);
        #[cfg(feature = "metrics")]
        metrics::histogram!("hapax_store_batch_ids", "backend" => self.backend, "operation" => operation)
            .record(ids as f64);
        Call { observer: self, operation, begun: Instant::now() }
    }

    pub(super) fn retried(&self, operation: &'static str) {
        add(&self.retries, 1);
        #[cfg(feature = "metrics")]
        metrics::counter!("hapax_store_retries_total", "backend" => self.backend, "operation" => operation)
            .increment(1);
        let _ = operation;
    }

    pub(super) fn not_asked(&self, operation: &'static str) {
        add(&self.refusals, 1);
        #[cfg(feature = "metrics")]
        metrics::counter!("hapax_store_refusals_total", "backend" => self.backend, "operation" => operation)
            .increment(1);
        let _ = operation;
    }

    pub(super) fn opened(&self) {
        add(&self.opened, 1);
        #[cfg(feature = "metrics")]
        metrics::counter!("hapax_breaker_opened_total", "backend" => self.backend).increment(1);
        #[cfg(feature = "tracing")]
        tracing::warn!(backend = self.backend, "the store fails again and again: the circuit breaker opens");
    }

    /// What is so now.
    #[cfg_attr(not(feature = "metrics"), expect(unused_variables, reason = "only metrics have gauges"))]
    pub(super) fn sample(&self, breaker: BreakerState, waiting: usize, behind: u64) {
        #[cfg(feature = "metrics")]
        {
            let state = match breaker {
                BreakerState::Closed => 0.0,
                BreakerState::HalfOpen => 1.0,
                BreakerState::Open => 2.0,
            };
            metrics::gauge!("hapax_breaker_state", "backend" => self.backend).set(state);
            metrics::gauge!("hapax_waiting_ids", "backend" => self.backend).set(waiting as f64);
            metrics::gauge!("hapax_behind_ids", "backend" => self.backend).set(behind as f64);
        }
    }

    /// A span around a call.
    #[cfg(feature = "tracing")]
    pub(super) fn span(&self, operation: &'static str, ids: usize) -> tracing::Span {
        tracing::debug_span!("hapax_store_call", backend = self.backend, operation, ids)
    }
}

impl Call<'_> {
    pub(super) fn ended(self, error: Option<ErrorKind>) {
        if error.is_some() {
            add(&self.observer.failed_calls, 1);
        }
        #[cfg(feature = "metrics")]
        {
            let (backend, operation) = (self.observer.backend, self.operation);
            let result = error.map_or("ok", label);
            metrics::counter!("hapax_store_calls_total", "backend" => backend, "operation" => operation, "result" => result)
                .increment(1);
            metrics::histogram!("hapax_store_call_seconds", "backend" => backend, "operation" => operation)
                .record(self.begun.elapsed().as_secs_f64());
        }
        let _ = (self.operation, self.begun, self.observer.backend);
    }
}

#[cfg(feature = "metrics")]
fn label(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::Timeout => "timeout",
        ErrorKind::Conflict => "conflict",
        ErrorKind::Corrupt => "corrupt",
        ErrorKind::Misconfigured => "misconfigured",
    }
}

/// Counts verdicts of the scopes of one policy.
pub(super) struct Verdicts {
    counts: [[StdAtomicU64; 4]; 3],
    admitted: StdAtomicU64,
    shadowed: StdAtomicU64,
    #[cfg(feature = "metrics")]
    meters: Meters,
}

impl Verdicts {
    #[cfg_attr(not(feature = "metrics"), expect(unused_variables, reason = "only metrics have labels"))]
    pub(super) fn new(policy: &str) -> Self {
        Verdicts {
            counts: Default::default(),
            admitted: StdAtomicU64::new(0),
            shadowed: StdAtomicU64::new(0),
            #[cfg(feature = "metrics")]
            meters: Meters::new(policy),
        }
    }

    /// Counts what was decided.
    pub(super) fn count(&self, verdict: Verdict) {
        let (outcome, tier) = (outcome_index(verdict.decided()), tier_index(verdict.tier()));
        add(&self.counts[outcome][tier], 1);
        #[cfg(feature = "metrics")]
        self.meters.verdicts[outcome][tier].increment(1);
        if verdict.certainty() == Certainty::Unverified {
            add(&self.admitted, 1);
            #[cfg(feature = "metrics")]
            self.meters.admitted.increment(1);
        }
        if verdict.decided() != verdict.outcome() {
            add(&self.shadowed, 1);
            #[cfg(feature = "metrics")]
            self.meters.shadowed.increment(1);
        }
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

fn outcome_index(outcome: Outcome) -> usize {
    match outcome {
        Outcome::Fresh => 0,
        Outcome::Duplicate => 1,
        Outcome::InProgress => 2,
    }
}

fn tier_index(tier: Tier) -> usize {
    match tier {
        Tier::Window => 0,
        Tier::History => 1,
        Tier::Claims => 2,
        Tier::Store => 3,
    }
}

/// Asked for once, so that a check does not look them up.
#[cfg(feature = "metrics")]
struct Meters {
    verdicts: [[metrics::Counter; 4]; 3],
    admitted: metrics::Counter,
    shadowed: metrics::Counter,
}

#[cfg(feature = "metrics")]
impl Meters {
    fn new(policy: &str) -> Self {
        let policy = policy.to_owned();
        let counter = |verdict, tier| metrics::counter!("hapax_verdicts_total", "policy" => policy.clone(), "verdict" => verdict, "tier" => tier);
        let verdicts = ["fresh", "duplicate", "in_progress"]
            .map(|verdict| ["window", "history", "claims", "store"].map(|tier| counter(verdict, tier)));
        Meters {
            admitted: metrics::counter!("hapax_admitted_total", "policy" => policy.clone()),
            shadowed: metrics::counter!("hapax_shadowed_total", "policy" => policy.clone()),
            verdicts,
        }
    }
}

fn add(counter: &StdAtomicU64, n: u64) {
    // Relaxed: counters order nothing.
    counter.fetch_add(n, Ordering::Relaxed);
}

pub(super) fn get(counter: &StdAtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}
