//! The counts of calls of the store, with their metrics, spans and events.

use super::counter::Counter;
use super::labels::RequestKind;
use super::meters::StoreMeters;
use crate::ErrorKind;
use std::time::Instant;

/// The counts of calls.
pub(crate) struct Observer {
    #[cfg(feature = "tracing")]
    backend: &'static str,
    pub(crate) calls: Counter,
    pub(crate) requests: Counter,
    pub(crate) failed_calls: Counter,
    pub(crate) retries: Counter,
    pub(crate) refusals: Counter,
    pub(crate) opened: Counter,
    pub(crate) meters: StoreMeters,
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

impl Observer {
    pub(crate) fn new(backend: &'static str) -> Self {
        Observer {
            #[cfg(feature = "tracing")]
            backend,
            calls: Counter::default(),
            requests: Counter::default(),
            failed_calls: Counter::default(),
            retries: Counter::default(),
            refusals: Counter::default(),
            opened: Counter::default(),
            meters: StoreMeters::new(backend),
        }
    }

    pub(crate) fn begin(&self, kind: RequestKind, ids: usize) -> Call<'_> {
        if kind.is_a_callers() {
            self.calls.add(1);
            self.requests.add(ids as u64);
        }
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

    pub(crate) fn retried(&self, kind: RequestKind) {
        self.retries.add(1);
        self.meters.retried(kind);
    }

    pub(crate) fn not_asked(&self, kind: RequestKind) {
        self.refusals.add(1);
        self.meters.refused(kind);
    }

    pub(crate) fn opened(&self) {
        self.opened.add(1);
        self.meters.opened();
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
        if error.is_some() && self.kind.is_a_callers() {
            self.observer.failed_calls.add(1);
        }
        self.observer.meters.called(self.kind, self.ids, self.begun.elapsed(), error);
        #[cfg(feature = "tracing")]
        match error {
            Some(kind) => self.span.record("result", tracing::field::display(kind)),
            None => self.span.record("result", "ok"),
        };
    }
}
