//! The options of a history, which users set.

use std::time::Duration;

/// The history of an engine: ids beyond the window, in a Bloom filter. See
/// [`Builder::history`](crate::Builder::history).
///
/// ```
/// use hapax::{Dedup, History, Unconfirmed};
/// use std::time::Duration;
///
/// let history = History {
///     horizon: Duration::from_secs(24 * 3600),
///     ids: 5_000_000,
///     false_positive_rate: 1e-4,
///     unconfirmed: Unconfirmed::Fresh,
/// };
/// let dedup = Dedup::builder().capacity(100_000).history(history).build()?;
/// # Ok::<(), hapax::Error>(())
/// ```
///
/// # Guarantees
///
/// - "Not seen" is certain: an id accepted at t is known at every t' - t <= horizon, also while
///   others are accepted, however long a caller stalls anywhere.
/// - "Seen" is a guess: wrong with at most the configured rate as long as no more than `ids` are
///   accepted within any horizon, however unevenly. With more, the horizon is kept and the rate
///   rises; see [`Stats::history_false_positive_rate`](crate::Stats::history_false_positive_rate).
/// - An id may be remembered for two horizons; after traffic has paused, for one horizon from when
///   it resumed.
///
/// # Cost
///
/// Memory, all allocated when the engine is built, in bytes for each of `ids`: 1.6 at a rate of 10
/// %, 3.1 at 1 %, 5.0 at 1e-3, 7.0 at 1e-4, 10.0 at 1e-5, 13.8 at 1e-6. A check reads one cache
/// line more; an id that is accepted takes two atomic operations, at 1e-4 and below four.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct History {
    /// The time for which ids are remembered: no shorter than the window, 1 ms to 100 years.
    pub horizon: Duration,
    /// The most ids that are accepted within any horizon: what it has room for.
    pub ids: usize,
    /// The share of new ids that it may take for seen ones: above 0, below 1.
    pub false_positive_rate: f64,
    /// The answer when only the history knows an id.
    pub unconfirmed: Unconfirmed,
}

#[cfg(any(fuzzing, test))]
/// Returns a history whose guess is taken for a duplicate.
pub(crate) fn history(horizon: Duration, false_positive_rate: f64, ids: usize) -> History {
    History { horizon, ids, false_positive_rate, unconfirmed: Unconfirmed::Duplicate }
}

/// The answer when only the history knows an id: it says "maybe", and nothing can confirm it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unconfirmed {
    /// Duplicate: a new message is dropped with the history's false-positive rate.
    Duplicate,
    /// Fresh: a duplicate from beyond the window is handled again, and can be told from a certainly
    /// new id by its verdict ([`is_certain`](crate::Verdict::is_certain)).
    Fresh,
}
