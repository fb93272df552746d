//! The answer to a check of an id.

use std::time::{Duration, SystemTime};

/// The answer to whether a consumer has had an id before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a duplicate is not to be processed"]
pub enum Seen {
    /// The consumer has not had it. Now it has, if the transaction is committed.
    First,
    /// The consumer has had it.
    Duplicate {
        /// The time at which it was marked, by the server's clock: when it was processed by
        /// [`once`](super::inbox::once), or came in by [`receive`](super::inbox::receive).
        first_at: SystemTime,
    },
}

impl Seen {
    /// Returns true if the id is to be processed.
    pub fn is_first(self) -> bool {
        self == Seen::First
    }
}

/// Converts a time of the server, in microseconds since 1970.
pub(super) fn time(micros: i64) -> SystemTime {
    let distance = Duration::from_micros(micros.unsigned_abs());
    if micros < 0 { SystemTime::UNIX_EPOCH - distance } else { SystemTime::UNIX_EPOCH + distance }
}
