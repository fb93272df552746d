//! Metrics of marks, as `docs/metrics.md` lists them.

use super::Seen;
use metrics::{Unit, counter, describe_counter};
use std::sync::Once;

const ONCE: &str = "hapax_once_total";

/// Counts ids that a consumer was told of. There is no handle to keep counters in; to look them up
/// costs a microsecond, beside a round trip.
pub(super) fn marked(consumer: &str, seen: &[Seen]) {
    static DESCRIBED: Once = Once::new();
    DESCRIBED.call_once(|| {
        describe_counter!(ONCE, Unit::Count, "ids that were marked in transactions, or had been before");
    });
    let first = seen.iter().filter(|seen| seen.is_first()).count();
    for (ids, label) in [(first, "first"), (seen.len() - first, "duplicate")] {
        counter!(ONCE, "consumer" => consumer.to_owned(), "seen" => label).increment(ids as u64);
    }
}
