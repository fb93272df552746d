//! The system's clock, as it is set and corrected: several machines have it in common.

use hapax::{Clock, Timestamp};
use hapax_store::sync::{Ordering, StdAtomicU64};
use std::time::SystemTime;

/// The system's clock, which this process does not see going back.
#[derive(Debug, Default)]
pub(crate) struct SystemClock {
    last_nanos: StdAtomicU64,
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let nanos = Timestamp::from(SystemTime::now()).as_nanos();
        // Relaxed: nothing else is published with it.
        Timestamp::from_nanos(self.last_nanos.fetch_max(nanos, Ordering::Relaxed).max(nanos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_from_the_latest_time_it_has_told() {
        let clock = SystemClock::default();
        let later = clock.now() + std::time::Duration::from_secs(3_600);
        clock.last_nanos.store(later.as_nanos(), Ordering::Relaxed);
        assert_eq!(clock.now(), later);
    }
}
