//! The schedule by which ids are due, and the lateness of their answers.

use super::Latency;
use super::gauge::nanos;
use hdrhistogram::Histogram;
use std::time::{Duration, Instant};

/// A latency longer than any run.
const LATENCY_NANOS_MAX: u64 = 100_000_000_000;

/// The times at which a thread's ids are due: those of all threads in turns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    first: Instant,
    step_nanos: f64,
}

/// The results of one thread.
pub(super) struct Delays {
    histogram: Histogram<u64>,
    pub answered: u64,
    pub elapsed: Duration,
}

impl Schedule {
    /// Returns the schedule of one of several threads, of which all together have a rate.
    pub fn of(thread: usize, threads: usize, rate: f64, start: Instant) -> Self {
        let apart_nanos = 1e9 / rate;
        let first = start + Duration::from_nanos((apart_nanos * thread as f64) as u64);
        Schedule { first, step_nanos: apart_nanos * threads as f64 }
    }

    /// Returns the time at which an id is due, counted from 0.
    pub fn due(&self, id: usize) -> Instant {
        self.first + Duration::from_nanos((self.step_nanos * id as f64) as u64)
    }

    /// Returns how many ids are due by then.
    pub fn due_by(&self, now: Instant) -> usize {
        let since = now.checked_duration_since(self.first);
        since.map_or(0, |since| (since.as_nanos() as f64 / self.step_nanos) as usize + 1)
    }
}

impl Delays {
    pub fn new() -> Self {
        let histogram = Histogram::new_with_bounds(1, LATENCY_NANOS_MAX, 3).expect("the bounds are valid");
        Delays { histogram, answered: 0, elapsed: Duration::ZERO }
    }

    #[inline]
    pub fn record(&mut self, delay: Duration) {
        self.histogram.saturating_record(nanos(delay).max(1));
    }
}

/// Merges the results of all threads.
pub(super) fn latency(threads: impl Iterator<Item = Delays>) -> Option<Latency> {
    let all = threads.reduce(|mut all, thread| {
        all.histogram.add(&thread.histogram).expect("both have the same bounds");
        all.answered += thread.answered;
        all.elapsed = all.elapsed.max(thread.elapsed);
        all
    })?;
    let reached = all.answered as f64 / all.elapsed.as_secs_f64().max(1e-9);
    let [p50, p99, p99_9, longest] = [0.5, 0.99, 0.999, 1.0].map(|share| all.histogram.value_at_quantile(share));
    Some(Latency { reached, p50, p99, p99_9, longest })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_due_in_turns() {
        let start = Instant::now();
        let schedules = [0, 1].map(|thread| Schedule::of(thread, 2, 1_000.0, start));
        let due = |thread: usize, id| (schedules[thread].due(id) - start).as_micros();
        assert_eq!([due(0, 0), due(1, 0), due(0, 1), due(1, 1), due(0, 500)], [0, 1_000, 2_000, 3_000, 1_000_000]);
        for (thread, id) in [(0, 0), (0, 7), (1, 0), (1, 3_000)] {
            let due = schedules[thread].due(id);
            assert_eq!(schedules[thread].due_by(due + Duration::from_micros(1)), id + 1);
            assert_eq!(schedules[thread].due_by(due + Duration::from_micros(1_999)), id + 1);
        }
        assert_eq!(schedules[1].due_by(start), 0);
    }

    #[test]
    fn a_rate_that_is_no_round_number_does_not_drift() {
        let schedule = Schedule::of(0, 3, 3e6, Instant::now());
        let due = schedule.due(1_000_000) - schedule.due(0);
        assert!(due.abs_diff(Duration::from_secs(1)) < Duration::from_micros(1), "{due:?}");
    }

    #[test]
    fn latencies_are_those_that_were_recorded() {
        let mut delays = Delays::new();
        (1..=100_000).for_each(|micros| delays.record(Duration::from_micros(micros)));
        let seen = latency([delays].into_iter()).unwrap();
        for (nanos, share) in [(seen.p50, 0.5), (seen.p99, 0.99), (seen.p99_9, 0.999), (seen.longest, 1.0)] {
            assert!((nanos as f64 / (share * 1e8) - 1.0).abs() < 2e-3, "{share}: {nanos}");
        }
    }

    #[test]
    fn threads_add_up() {
        let thread = |nanos: u64, seconds| {
            let mut delays = Delays::new();
            delays.histogram.record_n(nanos, 10).unwrap();
            Delays { answered: 10, elapsed: Duration::from_secs(seconds), ..delays }
        };
        assert!(latency([].into_iter()).is_none());
        let both = latency([thread(100, 1), thread(900, 2)].into_iter()).unwrap();
        assert_eq!((both.reached, both.p50, both.p99, both.longest), (10.0, 100, 900, 900));
    }
}
