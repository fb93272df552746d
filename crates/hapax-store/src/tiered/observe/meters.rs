//! Metrics: their table, and the handles to them, each requested once.

use super::labels::{End, Renewal, RequestKind, TIERS, VERDICTS};
use crate::ErrorKind;
use crate::tiered::breaker::BreakerState;
use metrics::{Counter, Gauge, Histogram, Unit, counter, gauge, histogram};
use std::time::Duration;

/// A metric as `docs/metrics.md` lists it, which is the table that users read.
struct Metric {
    name: &'static str,
    kind: Kind,
    unit: Unit,
    what: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

const fn metric(name: &'static str, kind: Kind, unit: Unit, what: &'static str) -> Metric {
    Metric { name, kind, unit, what }
}

/// All metrics but those of memories, in the order of the document.
const METRICS: [Metric; 23] = {
    use Kind::{Counter, Gauge, Histogram};
    use Unit::{Count, Seconds};
    [
        metric("hapax_verdicts_total", Counter, Count, "ids that were decided"),
        metric("hapax_admitted_total", Counter, Count, "ids admitted since the store could not be asked"),
        metric("hapax_shadowed_total", Counter, Count, "ids of a shadow that would not have been fresh"),
        metric("hapax_claim_mismatches_total", Counter, Count, "claims with another fingerprint than the id's"),
        metric("hapax_claims_refused_total", Counter, Count, "claims refused since too many ids are in flight"),
        metric("hapax_claim_ends_total", Counter, Count, "claims that ended"),
        metric("hapax_claim_held_seconds", Histogram, Seconds, "how long claims were held"),
        metric("hapax_claim_renewals_total", Counter, Count, "renewals of claims"),
        metric("hapax_store_calls_total", Counter, Count, "calls of the store, each a batch"),
        metric("hapax_store_call_seconds", Histogram, Seconds, "how long calls of the store took"),
        metric("hapax_store_batch_ids", Histogram, Count, "ids in a call of the store"),
        metric("hapax_store_request_errors_total", Counter, Count, "requests that failed in calls that did not"),
        metric("hapax_store_retries_total", Counter, Count, "calls that were made again"),
        metric("hapax_store_refusals_total", Counter, Count, "calls not made since the circuit breaker was open"),
        metric("hapax_breaker_opened_total", Counter, Count, "how often the circuit breaker opened"),
        metric("hapax_expired_records_total", Counter, Count, "records removed from the store since they were over"),
        metric("hapax_warmed_ids_total", Counter, Count, "ids read from the store to warm the memory tiers"),
        metric("hapax_breaker_state", Gauge, Count, "circuit breaker: 0 closed, 1 half open, 2 open"),
        metric("hapax_waiting_ids", Gauge, Count, "requests that wait for the store, or are under way"),
        metric("hapax_behind_ids", Gauge, Count, "ids that are accepted and not durable yet"),
        metric("hapax_unresolved_ids", Gauge, Count, "attempts of which nobody knows what came"),
        metric("hapax_warm", Gauge, Count, "1 if the history knows what the store knows"),
        metric("hapax_refusing", Gauge, Count, "1 if the engine was shut down, or is no longer the owner"),
    ]
};

fn describe() {
    for metric in &METRICS {
        match metric.kind {
            Kind::Counter => metrics::describe_counter!(metric.name, metric.unit, metric.what),
            Kind::Gauge => metrics::describe_gauge!(metric.name, metric.unit, metric.what),
            Kind::Histogram => metrics::describe_histogram!(metric.name, metric.unit, metric.what),
        }
    }
}

/// The current state, for gauges.
pub(crate) struct Sample {
    pub(crate) breaker: BreakerState,
    pub(crate) waiting: usize,
    pub(crate) behind: u64,
    pub(crate) unresolved: usize,
    pub(crate) is_warm: bool,
    pub(crate) is_refused: bool,
}

/// Metrics of the store and the engine.
pub(crate) struct StoreMeters {
    of_kind: [RequestMeters; RequestKind::ALL.len()],
    request_errors: [Counter; RESULTS.len() - 1],
    opened: Counter,
    expired: Counter,
    warmed: Counter,
    breaker: Gauge,
    waiting: Gauge,
    behind: Gauge,
    unresolved: Gauge,
    warm: Gauge,
    refusing: Gauge,
}

/// Metrics of one operation.
struct RequestMeters {
    results: [Counter; RESULTS.len()],
    seconds: Histogram,
    ids: Histogram,
    retries: Counter,
    refusals: Counter,
}

/// Labels of a call's result.
const RESULTS: [&str; 6] = ["ok", "unavailable", "timeout", "conflict", "corrupt", "misconfigured"];

fn result_index(error: Option<ErrorKind>) -> usize {
    match error {
        None => 0,
        Some(ErrorKind::Unavailable) => 1,
        Some(ErrorKind::Timeout) => 2,
        Some(ErrorKind::Conflict) => 3,
        Some(ErrorKind::Corrupt) => 4,
        Some(ErrorKind::Misconfigured) => 5,
    }
}

impl RequestMeters {
    fn new(backend: &'static str, kind: RequestKind) -> Self {
        let operation = kind.name();
        RequestMeters {
            results: RESULTS.map(
                |result| counter!("hapax_store_calls_total", "backend" => backend, "operation" => operation, "result" => result),
            ),
            seconds: histogram!("hapax_store_call_seconds", "backend" => backend, "operation" => operation),
            ids: histogram!("hapax_store_batch_ids", "backend" => backend, "operation" => operation),
            retries: counter!("hapax_store_retries_total", "backend" => backend, "operation" => operation),
            refusals: counter!("hapax_store_refusals_total", "backend" => backend, "operation" => operation),
        }
    }
}

impl StoreMeters {
    pub(crate) fn new(backend: &'static str) -> Self {
        describe();
        let gauge = |name: &'static str| gauge!(name, "backend" => backend);
        let error =
            |i: usize| counter!("hapax_store_request_errors_total", "backend" => backend, "kind" => RESULTS[i + 1]);
        StoreMeters {
            of_kind: RequestKind::ALL.map(|kind| RequestMeters::new(backend, kind)),
            request_errors: std::array::from_fn(error),
            opened: counter!("hapax_breaker_opened_total", "backend" => backend),
            expired: counter!("hapax_expired_records_total", "backend" => backend),
            warmed: counter!("hapax_warmed_ids_total", "backend" => backend),
            breaker: gauge("hapax_breaker_state"),
            waiting: gauge("hapax_waiting_ids"),
            behind: gauge("hapax_behind_ids"),
            unresolved: gauge("hapax_unresolved_ids"),
            warm: gauge("hapax_warm"),
            refusing: gauge("hapax_refusing"),
        }
    }

    pub(crate) fn called(&self, kind: RequestKind, ids: usize, took: Duration, error: Option<ErrorKind>) {
        let meters = &self.of_kind[kind as usize];
        meters.results[result_index(error)].increment(1);
        meters.seconds.record(took.as_secs_f64());
        meters.ids.record(ids as f64);
    }

    pub(crate) fn request_failed(&self, kind: ErrorKind) {
        self.request_errors[result_index(Some(kind)) - 1].increment(1);
    }

    pub(crate) fn retried(&self, kind: RequestKind) {
        self.of_kind[kind as usize].retries.increment(1);
    }

    pub(crate) fn refused(&self, kind: RequestKind) {
        self.of_kind[kind as usize].refusals.increment(1);
    }

    pub(crate) fn opened(&self) {
        self.opened.increment(1);
    }

    pub(crate) fn expired(&self, records: u64) {
        self.expired.increment(records);
    }

    pub(crate) fn warmed(&self, ids: u64) {
        self.warmed.increment(ids);
    }

    pub(crate) fn sample(&self, now: &Sample) {
        use BreakerState::{Closed, HalfOpen, Open};
        self.breaker.set(match now.breaker {
            Closed => 0.0,
            HalfOpen => 1.0,
            Open => 2.0,
        });
        self.waiting.set(now.waiting as f64);
        self.behind.set(now.behind as f64);
        self.unresolved.set(now.unresolved as f64);
        self.warm.set(f64::from(u8::from(now.is_warm)));
        self.refusing.set(f64::from(u8::from(now.is_refused)));
    }
}

/// Metrics of the scopes of one policy.
pub(crate) struct PolicyMeters {
    verdicts: [[Counter; TIERS.len()]; VERDICTS.len()],
    admitted: Counter,
    shadowed: Counter,
    mismatches: Counter,
    refused: Counter,
    ends: [Counter; End::ALL.len()],
    held_seconds: Histogram,
    renewals: [Counter; Renewal::ALL.len()],
}

impl PolicyMeters {
    pub(crate) fn new(policy: &str) -> Self {
        let label = || policy.to_owned();
        let counter = |name: &'static str| counter!(name, "policy" => label());
        let verdict =
            |verdict, tier| counter!("hapax_verdicts_total", "policy" => label(), "verdict" => verdict, "tier" => tier);
        let end = |end: End| counter!("hapax_claim_ends_total", "policy" => label(), "end" => end.name());
        let renewal =
            |result: Renewal| counter!("hapax_claim_renewals_total", "policy" => label(), "result" => result.name());
        PolicyMeters {
            verdicts: VERDICTS.map(|outcome| TIERS.map(|tier| verdict(outcome, tier))),
            admitted: counter("hapax_admitted_total"),
            shadowed: counter("hapax_shadowed_total"),
            mismatches: counter("hapax_claim_mismatches_total"),
            refused: counter("hapax_claims_refused_total"),
            ends: End::ALL.map(end),
            held_seconds: histogram!("hapax_claim_held_seconds", "policy" => label()),
            renewals: Renewal::ALL.map(renewal),
        }
    }

    #[inline]
    pub(crate) fn verdict(&self, outcome: usize, tier: usize) {
        self.verdicts[outcome][tier].increment(1);
    }

    pub(crate) fn admitted(&self) {
        self.admitted.increment(1);
    }

    pub(crate) fn shadowed(&self) {
        self.shadowed.increment(1);
    }

    pub(crate) fn mismatched(&self) {
        self.mismatches.increment(1);
    }

    pub(crate) fn refused(&self) {
        self.refused.increment(1);
    }

    pub(crate) fn ended(&self, end: End, held: Duration) {
        self.ends[end as usize].increment(1);
        self.held_seconds.record(held.as_secs_f64());
    }

    pub(crate) fn renewed(&self, result: Renewal) {
        self.renewals[result as usize].increment(1);
    }
}
