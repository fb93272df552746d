//! Counts and distributions, which are shown as metrics where there is the feature `metrics`.

use crate::sync::{Ordering, StdAtomicU64};
#[cfg(feature = "metrics")]
pub(super) use described::describe;

/// A count that any thread may add to.
pub(crate) struct Count {
    count: StdAtomicU64,
    #[cfg(feature = "metrics")]
    shown: metrics::Counter,
}

/// A distribution, which is shown only.
pub(super) struct Distribution {
    #[cfg(feature = "metrics")]
    shown: metrics::Histogram,
}

impl Count {
    /// Creates a count that is shown by this name with these labels.
    #[cfg_attr(not(feature = "metrics"), expect(unused_variables, reason = "it is shown by them"))]
    pub(super) fn new(name: &'static str, labels: &[(&'static str, &str)]) -> Self {
        Count {
            count: StdAtomicU64::new(0),
            #[cfg(feature = "metrics")]
            shown: metrics::counter!(name, described::labels(labels)),
        }
    }

    #[inline]
    pub(crate) fn add(&self, n: u64) {
        // Relaxed: counts order nothing.
        self.count.fetch_add(n, Ordering::Relaxed);
        #[cfg(feature = "metrics")]
        self.shown.increment(n);
    }

    pub(crate) fn get(&self) -> u64 {
        // Relaxed: counts order nothing.
        self.count.load(Ordering::Relaxed)
    }
}

#[cfg_attr(not(feature = "metrics"), expect(unused_variables, reason = "it is shown only"))]
impl Distribution {
    pub(super) fn new(name: &'static str, labels: &[(&'static str, &str)]) -> Self {
        Distribution {
            #[cfg(feature = "metrics")]
            shown: metrics::histogram!(name, described::labels(labels)),
        }
    }

    pub(super) fn record(&self, value: f64) {
        #[cfg(feature = "metrics")]
        self.shown.record(value);
    }
}

#[cfg(feature = "metrics")]
mod described {
    use metrics::{Label, Unit};

    enum Kind {
        Counter,
        Gauge,
        Histogram,
    }

    /// All metrics but those of memories, in the order of `docs/metrics.md`, which is the table
    /// that users read.
    const METRICS: [(&str, Kind, Unit, &str); 24] = {
        use Kind::{Counter, Gauge, Histogram};
        use Unit::{Count, Seconds};
        [
            ("hapax_verdicts_total", Counter, Count, "ids that were decided"),
            ("hapax_admitted_total", Counter, Count, "ids admitted since the store could not be asked"),
            ("hapax_shadowed_total", Counter, Count, "ids of a shadow that would not have been fresh"),
            ("hapax_bypassed_total", Counter, Count, "ids that passed undecided, since the engine is bypassed"),
            ("hapax_claim_mismatches_total", Counter, Count, "claims with another fingerprint than the id's"),
            ("hapax_claims_refused_total", Counter, Count, "claims refused since too many ids are in flight"),
            ("hapax_claim_ends_total", Counter, Count, "claims that ended"),
            ("hapax_claim_held_seconds", Histogram, Seconds, "how long claims were held"),
            ("hapax_claim_renewals_total", Counter, Count, "renewals of claims"),
            ("hapax_store_calls_total", Counter, Count, "calls of the store, each a batch"),
            ("hapax_store_call_seconds", Histogram, Seconds, "how long calls of the store took"),
            ("hapax_store_batch_ids", Histogram, Count, "ids in a call of the store"),
            ("hapax_store_request_errors_total", Counter, Count, "requests that failed in calls that did not"),
            ("hapax_store_retries_total", Counter, Count, "calls that were made again"),
            ("hapax_store_refusals_total", Counter, Count, "calls not made since the circuit breaker was open"),
            ("hapax_breaker_opened_total", Counter, Count, "how often the circuit breaker opened"),
            ("hapax_expired_records_total", Counter, Count, "records removed from the store since they were over"),
            ("hapax_warmed_ids_total", Counter, Count, "ids read from the store to warm the memory tiers"),
            ("hapax_breaker_state", Gauge, Count, "circuit breaker: 0 closed, 1 half open, 2 open"),
            ("hapax_waiting_ids", Gauge, Count, "requests that wait for the store, or are under way"),
            ("hapax_behind_ids", Gauge, Count, "ids that are accepted and not durable yet"),
            ("hapax_unresolved_ids", Gauge, Count, "attempts of which nobody knows what came"),
            ("hapax_warm", Gauge, Count, "1 if the history knows what the store knows"),
            ("hapax_refusing", Gauge, Count, "1 if the engine was shut down, or is no longer the owner"),
        ]
    };

    pub(in super::super) fn describe() {
        for (name, kind, unit, what) in METRICS {
            match kind {
                Kind::Counter => metrics::describe_counter!(name, unit, what),
                Kind::Gauge => metrics::describe_gauge!(name, unit, what),
                Kind::Histogram => metrics::describe_histogram!(name, unit, what),
            }
        }
    }

    pub(super) fn labels(all: &[(&'static str, &str)]) -> Vec<Label> {
        all.iter().map(|(name, value)| Label::new(*name, value.to_string())).collect()
    }
}
