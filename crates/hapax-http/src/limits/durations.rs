//! The typical duration of similar requests, for `Retry-After`: a table of fixed size.
//!
//! Requests are alike if scope, method and the shape of the path are: `/charges/17/refund` is like
//! `/charges/18/refund`, since a segment with a digit counts as a number. Each kind has a slot,
//! which belongs to the kind that came last; so no client makes the table grow, and a forgotten
//! kind is learned again.
//!
//! ```text
//! slot: tag of the kind, 24 bits | exponentially weighted mean in microseconds, 40 bits (12 days)
//! ```

use hapax_store::sync::{Ordering, StdAtomicU64};
use http::request::Parts;
use std::hash::{BuildHasher as _, Hash as _, Hasher as _, RandomState};
use std::time::Duration;

const SLOTS: usize = 4_096;
const MICROS: u64 = (1 << 40) - 1;
/// The weight of the newest: one part of this many.
const PARTS: u64 = 4;

pub(crate) struct TypicalDurations {
    slots: Box<[StdAtomicU64]>,
    hashes: RandomState,
}

/// A kind of alike requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestKind(u64);

impl TypicalDurations {
    pub(crate) fn new() -> Self {
        TypicalDurations { slots: (0..SLOTS).map(|_| StdAtomicU64::new(0)).collect(), hashes: RandomState::new() }
    }

    pub(crate) fn kind_of(&self, scope: Option<&str>, parts: &Parts) -> RequestKind {
        let mut hasher = self.hashes.build_hasher();
        scope.hash(&mut hasher);
        parts.method.hash(&mut hasher);
        for segment in parts.uri.path().split('/') {
            if segment.bytes().any(|byte| byte.is_ascii_digit()) {
                0_u8.hash(&mut hasher)
            } else {
                segment.hash(&mut hasher)
            }
        }
        RequestKind(hasher.finish())
    }

    /// Learns the duration of such a request.
    pub(crate) fn learn(&self, kind: RequestKind, took: Duration) {
        let (slot, tag) = self.slot(kind);
        // Relaxed: an estimate; of two at a time one may be lost.
        let before = slot.load(Ordering::Relaxed);
        let took = u64::try_from(took.as_micros()).unwrap_or(MICROS).clamp(1, MICROS);
        let mean = if before >> 40 == tag && before & MICROS > 0 {
            ((before & MICROS) * (PARTS - 1) + took) / PARTS
        } else {
            took
        };
        slot.store(tag << 40 | mean.max(1), Ordering::Relaxed);
    }

    /// Returns the duration of such a request, if any was seen recently.
    pub(crate) fn typical(&self, kind: RequestKind) -> Option<Duration> {
        let (slot, tag) = self.slot(kind);
        let found = slot.load(Ordering::Relaxed);
        (found >> 40 == tag && found & MICROS > 0).then(|| Duration::from_micros(found & MICROS))
    }

    fn slot(&self, RequestKind(hash): RequestKind) -> (&StdAtomicU64, u64) {
        (&self.slots[hash as usize % SLOTS], hash >> 40)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(method: &str, path: &str) -> Parts {
        http::Request::builder().method(method).uri(path).body(()).unwrap().into_parts().0
    }

    #[test]
    fn requests_are_alike_but_for_numbers_in_their_paths() {
        let durations = TypicalDurations::new();
        let kind = |scope, method, path| durations.kind_of(scope, &parts(method, path));
        let one = kind(Some("a"), "POST", "/charges/17/refund?x=1");
        assert_eq!(one, kind(Some("a"), "POST", "/charges/c3f0-9/refund?y=2"));
        for (scope, method, path) in [
            (Some("b"), "POST", "/charges/17/refund"),
            (None, "POST", "/charges/17/refund"),
            (Some("a"), "PATCH", "/charges/17/refund"),
            (Some("a"), "POST", "/charges/17/capture"),
            (Some("a"), "POST", "/charges/refund"),
        ] {
            assert_ne!(one, kind(scope, method, path));
        }
    }

    #[test]
    fn the_mean_follows_and_what_is_unlike_is_unknown() {
        let durations = TypicalDurations::new();
        let (one, same_slot) = (RequestKind(1 << 40 | 7), RequestKind(2 << 40 | 7));
        assert_eq!(durations.typical(one), None);
        durations.learn(one, Duration::from_millis(400));
        assert_eq!(durations.typical(one), Some(Duration::from_millis(400)));
        (0..20).for_each(|_| durations.learn(one, Duration::from_secs(4)));
        assert!(durations.typical(one).unwrap() > Duration::from_millis(3_900));
        assert_eq!(durations.typical(same_slot), None);
        durations.learn(same_slot, Duration::MAX);
        assert_eq!(durations.typical(one), None);
        assert_eq!(durations.typical(same_slot), Some(Duration::from_micros(MICROS)));
        durations.learn(one, Duration::ZERO);
        assert_eq!(durations.typical(one), Some(Duration::from_micros(1)));
    }
}
