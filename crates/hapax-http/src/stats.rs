//! Counts of requests by their outcome.

use crate::limits::quota::Amounts;
use hapax_store::sync::{Ordering, StdAtomicU64};

/// Counts of the requests that a layer has covered since it was built, and of the current ones.
///
/// ```
/// # fn watch(layer: &hapax_http::IdempotencyLayer<hapax_store::InMemoryStore>) {
/// let stats = layer.stats();
/// if stats.unrecorded > 0 {
///     eprintln!("{} requests were handled, and may be again: the store did not record them", stats.unrecorded);
/// }
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpStats {
    /// Handled, and recorded as done.
    pub executed: u64,
    /// Handled, and not to be recorded: a status that is not stored, an error, a panic, a time-out.
    /// The key was released.
    pub released: u64,
    /// Of those released: refused where nothing had begun.
    pub not_begun: u64,
    /// Handled, and answered before the store had recorded or released that, because it took longer
    /// than a second.
    pub answered_early: u64,
    /// Answered that the key has expired ([`Problem::KeyExpired`](super::Problem::KeyExpired)).
    pub expired: u64,
    /// Handled, but the store did not record that, or the lease was lost: a retry may be handled
    /// again. Worth an alarm.
    pub unrecorded: u64,
    /// Handled and recorded as done, but the response was too large to be stored.
    pub not_kept: u64,
    /// Answered with a stored response.
    pub replayed: u64,
    /// Answered by one of the layer's own problems.
    pub refused: u64,
    /// Let through without a key.
    pub passed: u64,
    /// Of those refused: because the scope was at its limit
    /// ([`Problem::QuotaExceeded`](super::Problem::QuotaExceeded)).
    pub over_quota: u64,
    /// Current requests whose bodies are coming.
    pub reading: u64,
    /// Current requests whose keys are claimed or waited for, or whose handlers run.
    pub in_flight: u64,
    /// Current bytes of requests' and responses' bodies in memory.
    pub buffered_bytes: u64,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) executed: Counter,
    pub(super) released: Counter,
    pub(super) not_begun: Counter,
    pub(super) answered_early: Counter,
    pub(super) expired: Counter,
    pub(super) unrecorded: Counter,
    pub(super) not_kept: Counter,
    pub(super) replayed: Counter,
    pub(super) refused: Counter,
    pub(super) passed: Counter,
    pub(super) over_quota: Counter,
}

#[derive(Debug, Default)]
pub(super) struct Counter(StdAtomicU64);

impl Counter {
    pub(super) fn count(&self) {
        // Relaxed: nothing is decided by it.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counters {
    pub(super) fn stats(&self, now: Amounts) -> HttpStats {
        HttpStats {
            executed: self.executed.get(),
            released: self.released.get(),
            not_begun: self.not_begun.get(),
            answered_early: self.answered_early.get(),
            expired: self.expired.get(),
            unrecorded: self.unrecorded.get(),
            not_kept: self.not_kept.get(),
            replayed: self.replayed.get(),
            refused: self.refused.get(),
            passed: self.passed.get(),
            over_quota: self.over_quota.get(),
            reading: now.reading as u64,
            in_flight: now.in_flight as u64,
            buffered_bytes: now.bytes as u64,
        }
    }
}
