//! The way in which time passes for a store, and so how near to their ends leases and retentions
//! can be tested.

use std::time::Duration;

pub(super) const NANOSECOND: Duration = Duration::from_nanos(1);

/// The way in which time passes for a store under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreTime {
    /// Time passes by [`Fixture::advance`](super::Fixture::advance) alone. Each lease, failure and
    /// retention is tested a nanosecond before its end, where it must hold, and less than a unit
    /// after it, where it must not.
    Stands {
        /// The unit in which the store counts, which it may add to a time: a second at most.
        unit: Duration,
    },
    /// Time passes by itself as well. Ends are tested this long before and after them: flaws that
    /// are smaller are not noticed.
    Passes {
        /// The tolerance for coarse counting and slow tests: 10 seconds at most.
        slack: Duration,
    },
}

impl StoreTime {
    /// Time by [`Fixture::advance`](super::Fixture::advance) alone, for a store that counts
    /// nanoseconds.
    pub const EXACT: StoreTime = StoreTime::Stands { unit: Duration::from_nanos(1) };

    /// Returns the time with its number within its limits.
    pub(super) fn limited(self) -> Self {
        match self {
            StoreTime::Stands { unit } => StoreTime::Stands { unit: unit.clamp(NANOSECOND, Duration::from_secs(1)) },
            StoreTime::Passes { slack } => StoreTime::Passes { slack: slack.min(Duration::from_secs(10)) },
        }
    }
}
