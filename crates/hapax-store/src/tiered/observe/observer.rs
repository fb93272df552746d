//! The counts of calls of the store, with their metrics, spans and events.

use super::labels::{RESULTS, RequestKind};
use super::meters::{Count, Distribution};
use crate::ErrorKind;
use crate::sync::{Ordering, StdAtomicU64};
use std::time::Instant;

/// The counts of calls.
pub(crate) struct Observer {
    #[cfg(feature = "tracing")]
    backend: &'static str,
    /// The calls that have begun, the requests in them, and the calls that have failed: those of
    /// callers.
    called: [StdAtomicU64; 3],
    of_kind: [OfKind; RequestKind::ALL.len()],
    request_errors: [Count; RESULTS.len() - 1],
    /// The number of times that the circuit breaker opened.
    pub(crate) opened: Count,
    /// Records that were removed since they were over.
    pub(crate) expired: Count,
    /// Ids that were read from the store to warm the memory tiers.
    pub(crate) warmed: Count,
}

/// The counts of one kind of request.
struct OfKind {
    results: [Count; RESULTS.len()],
    seconds: Distribution,
    ids: Distribution,
    retries: Count,
    refusals: Count,
}

/// A call that is under way.
pub(crate) struct Call<'o> {
    observer: &'o Observer,
    kind: RequestKind,
    ids: usize,
    begun: Instant,
    #[cfg(feature = "tracing")]
    span: tracing::Span,
}

impl OfKind {
    fn new(backend: (&'static str, &str), kind: RequestKind) -> Self {
        let labels = [backend, ("operation", kind.name())];
        let result =
            |result| Count::new("hapax_store_calls_total", &[backend, ("operation", kind.name()), ("result", result)]);
        OfKind {
            results: RESULTS.map(result),
            seconds: Distribution::new("hapax_store_call_seconds", &labels),
            ids: Distribution::new("hapax_store_batch_ids", &labels),
            retries: Count::new("hapax_store_retries_total", &labels),
            refusals: Count::new("hapax_store_refusals_total", &labels),
        }
    }
}

impl Observer {
    pub(crate) fn new(backend: &'static str) -> Self {
        #[cfg(feature = "metrics")]
        super::meters::describe();
        let labels = [("backend", backend)];
        let error = |i: usize| Count::new("hapax_store_request_errors_total", &[labels[0], ("kind", RESULTS[i + 1])]);
        Observer {
            #[cfg(feature = "tracing")]
            backend,
            called: Default::default(),
            of_kind: RequestKind::ALL.map(|kind| OfKind::new(labels[0], kind)),
            request_errors: std::array::from_fn(error),
            opened: Count::new("hapax_breaker_opened_total", &labels),
            expired: Count::new("hapax_expired_records_total", &labels),
            warmed: Count::new("hapax_warmed_ids_total", &labels),
        }
    }

    /// Returns the number of callers' calls that have begun, of the requests in them, and of those
    /// that have failed.
    pub(crate) fn called(&self) -> [u64; 3] {
        // Relaxed: counts order nothing.
        self.called.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    pub(crate) fn retries(&self) -> u64 {
        self.of_kind.iter().map(|of_kind| of_kind.retries.get()).sum()
    }

    pub(crate) fn refusals(&self) -> u64 {
        self.of_kind.iter().map(|of_kind| of_kind.refusals.get()).sum()
    }

    pub(crate) fn begin(&self, kind: RequestKind, ids: usize) -> Call<'_> {
        self.count(kind, 0, 1);
        self.count(kind, 1, ids as u64);
        Call {
            observer: self,
            kind,
            ids,
            begun: Instant::now(),
            #[cfg(feature = "tracing")]
            span: tracing::debug_span!(
                "hapax_store_call",
                backend = self.backend,
                operation = kind.name(),
                ids,
                result = tracing::field::Empty
            ),
        }
    }

    fn count(&self, kind: RequestKind, what: usize, n: u64) {
        if kind.is_a_callers() {
            // Relaxed: counts order nothing.
            self.called[what].fetch_add(n, Ordering::Relaxed);
        }
    }

    pub(crate) fn retried(&self, kind: RequestKind) {
        self.of_kind[kind as usize].retries.add(1);
    }

    pub(crate) fn not_asked(&self, kind: RequestKind) {
        self.of_kind[kind as usize].refusals.add(1);
    }

    /// Notes a request that has failed in a call that has not.
    pub(crate) fn request_failed(&self, error: ErrorKind) {
        self.request_errors[error as usize].add(1);
    }

    pub(crate) fn opened(&self) {
        self.opened.add(1);
        #[cfg(feature = "tracing")]
        tracing::warn!(backend = self.backend, "the store fails again and again: the circuit breaker opens");
    }

    pub(crate) fn closed(&self) {
        #[cfg(feature = "tracing")]
        tracing::info!(backend = self.backend, "the store answers again: the circuit breaker closes");
    }

    /// Reports that this engine may not go on.
    pub(crate) fn lost(&self, why: &str) {
        #[cfg(feature = "tracing")]
        tracing::error!(backend = self.backend, why, "this engine is no longer the owner of the store");
        let _ = why;
    }

    pub(crate) fn warm(&self, ids: u64) {
        #[cfg(feature = "tracing")]
        tracing::info!(backend = self.backend, ids, "the memory tiers are warm");
        let _ = ids;
    }
}

impl Call<'_> {
    /// Returns the call, in a span.
    pub(crate) fn under_way<F: Future>(&self, call: F) -> impl Future<Output = F::Output> + use<F> {
        #[cfg(feature = "tracing")]
        return tracing::Instrument::instrument(call, self.span.clone());
        #[cfg(not(feature = "tracing"))]
        call
    }

    pub(crate) fn ended(self, error: Option<ErrorKind>) {
        if error.is_some() {
            self.observer.count(self.kind, 2, 1);
        }
        let of_kind = &self.observer.of_kind[self.kind as usize];
        of_kind.results[error.map_or(0, |error| 1 + error as usize)].add(1);
        of_kind.seconds.record(self.begun.elapsed().as_secs_f64());
        of_kind.ids.record(self.ids as f64);
        #[cfg(feature = "tracing")]
        match error {
            Some(kind) => self.span.record("result", tracing::field::display(kind)),
            None => self.span.record("result", "ok"),
        };
    }
}
