//! Measures how long calls take, and excludes the time between them.

use super::gauge::nanos;
use std::time::{Duration, Instant};

/// A thread's stopwatch.
pub(super) struct Watch {
    last: Instant,
    longest: Duration,
    thought: Duration,
}

impl Watch {
    pub fn start() -> Self {
        Watch { last: Instant::now(), longest: Duration::ZERO, thought: Duration::ZERO }
    }

    /// Ends a call (or several), which began at the last lap.
    #[inline(always)]
    pub fn lap(&mut self) -> Instant {
        let now = Instant::now();
        self.longest = self.longest.max(now.saturating_duration_since(self.last));
        self.last = now;
        now
    }

    /// Excludes the time up to `now`, which was no call.
    pub fn skip_to(&mut self, now: Instant) {
        self.last = now;
    }

    /// Keeps the processor busy, like a consumer that works on its message. The time is no part of
    /// any call.
    #[inline]
    pub fn think(&mut self, time: Duration) {
        let begun = Instant::now();
        let thought = loop {
            std::hint::spin_loop();
            let thought = begun.elapsed();
            if thought >= time {
                break thought;
            }
        };
        self.thought += thought;
        self.last += thought;
    }

    /// Returns all time that went by in [`think`](Self::think).
    pub fn thought(&self) -> Duration {
        self.thought
    }

    pub fn longest_nanos(&self) -> u64 {
        nanos(self.longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinking_is_no_part_of_a_call() {
        let mut watch = Watch::start();
        watch.think(Duration::from_millis(30));
        assert!(watch.thought() >= Duration::from_millis(30));
        watch.last = Instant::now() - Duration::from_secs(1);
        watch.skip_to(Instant::now());
        watch.last -= Duration::from_secs(2);
        watch.lap();
        let longest = watch.longest_nanos();
        assert!(longest >= 2_000_000_000);
        watch.lap();
        assert_eq!(watch.longest_nanos(), longest, "the longest of all is kept");
    }
}
