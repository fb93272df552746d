//! Whether an id was seen before.

use std::time::{Duration, SystemTime};

/// Whether a consumer has had an id before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a duplicate is not to be processed"]
pub enum Seen {
    /// It has not. Now it has, if the transaction is committed.
    First,
    /// It has.
    Duplicate {
        /// When it was marked, by the server's clock: when it was processed by [`once`](super::inbox::once), or came in
        /// by [`receive`](super::inbox::receive).
        first_at: SystemTime,
    },
}

impl Seen {
    /// Whether it is to be processed.
    pub fn is_first(self) -> bool {
        self == Seen::First
    }
}

/// A time as the server says it, in microseconds since 1970.
pub(super) fn time(micros: i64) -> SystemTime {
    let distance = Duration::from_micros(micros.unsigned_abs());
    match micros < 0 {
        true => SystemTime::UNIX_EPOCH - distance,
        false => SystemTime::UNIX_EPOCH + distance,
    }
}
