//! The schedule by which ids are due, and the lateness of their answers.

use super::gauge::nanos;
use super::{Latency, Quantile};
use hdrhistogram::Histogram;
use std::time::{Duration, Instant};

/// A latency longer than any run.
const LATENCY_NANOS_MAX: u64 = 100_000_000_000;

/// The times at which ids are due: those of all threads in turns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    pub start: Instant,
    /// The time between two ids of one thread.
    step_nanos: f64,
    /// The time between two ids of different threads.
    offset_nanos: f64,
}

/// The results of one thread.
pub(super) struct Delays {
    histogram: Histogram<u64>,
    pub answered: u64,
    pub elapsed: Duration,
}

impl Schedule {
    pub fn new(start: Instant, rate: f64, threads: usize) -> Self {
        let offset_nanos = 1e9 / rate;
        Schedule { start, step_nanos: offset_nanos * threads as f64, offset_nanos }
    }

    /// Returns the time at which a thread's id is due, counted from 0.
    pub fn due(&self, thread: usize, id: usize) -> Instant {
        let nanos = self.step_nanos * id as f64 + self.offset_nanos * thread as f64;
        self.start + Duration::from_nanos(nanos as u64)
    }

    /// Returns how many of a thread's ids are due by then.
    pub fn due_by(&self, thread: usize, now: Instant) -> usize {
        let nanos = now.saturating_duration_since(self.start).as_nanos() as f64 - self.offset_nanos * thread as f64;
        if nanos < 0.0 { 0 } else { (nanos / self.step_nanos) as usize + 1 }
    }
}

impl Delays {
    pub fn new() -> Self {
        Delays { histogram: histogram(), answered: 0, elapsed: Duration::ZERO }
    }

    #[inline]
    pub fn record(&mut self, delay: Duration) {
        self.histogram.saturating_record(nanos(delay).max(1));
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NANOS_MAX, 3).expect("the bounds are valid")
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
    Some(Latency { reached, quantiles: quantiles(&all.histogram) })
}

/// The shares of all ids for which the latency is reported.
const SHARES: [f64; 15] = [0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9998, 0.9999, 1.0];

/// Returns the quantiles that this many ids can show: where the slower ones are less than one, only
/// the maximum is known.
fn quantiles(histogram: &Histogram<u64>) -> Vec<Quantile> {
    let ids = histogram.len() as f64;
    // The comparison is not with exactly 1, since shares are no binary fractions.
    let is_known = |&of: &f64| of == 1.0 || (1.0 - of) * ids > 0.999;
    let shares = SHARES.into_iter().filter(is_known);
    match histogram.is_empty() {
        true => Vec::new(),
        false => shares.map(|of| Quantile { of, nanos: histogram.value_at_quantile(of) }).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_due_in_turns() {
        let start = Instant::now();
        let schedule = Schedule::new(start, 1_000.0, 2);
        let due = |thread, id| (schedule.due(thread, id) - start).as_micros();
        assert_eq!([due(0, 0), due(1, 0), due(0, 1), due(1, 1), due(0, 500)], [0, 1_000, 2_000, 3_000, 1_000_000]);
        for (thread, id) in [(0, 0), (0, 7), (1, 0), (1, 3_000)] {
            let due = schedule.due(thread, id);
            assert_eq!(schedule.due_by(thread, due + Duration::from_micros(1)), id + 1);
            assert_eq!(schedule.due_by(thread, due + Duration::from_micros(1_999)), id + 1);
        }
        assert_eq!(schedule.due_by(1, start), 0);
    }

    #[test]
    fn a_rate_that_is_no_round_number_does_not_drift() {
        let schedule = Schedule::new(Instant::now(), 3e6, 3);
        let due = schedule.due(0, 1_000_000) - schedule.start;
        assert!(due.abs_diff(Duration::from_secs(1)) < Duration::from_micros(1), "{due:?}");
    }

    #[test]
    fn shares_are_told_that_ids_can_tell() {
        let mut all = histogram();
        assert!(quantiles(&all).is_empty());
        (1..=1_000).for_each(|i| all.record(i * 1_000).unwrap());
        let told = quantiles(&all);
        assert_eq!(told.iter().map(|quantile| quantile.of).max_by(f64::total_cmp), Some(1.0));
        assert!(told.iter().all(|quantile| quantile.of <= 0.999 || quantile.of == 1.0), "{told:?}");
        for Quantile { of, nanos } in told {
            // Three significant digits.
            assert!((nanos as f64 - of * 1e6).abs() <= 2e3, "{of}: {nanos}");
        }
    }

    #[test]
    fn threads_add_up() {
        let thread = |nanos: u64, seconds| {
            let mut histogram = histogram();
            histogram.record_n(nanos, 10).unwrap();
            Delays { histogram, answered: 10, elapsed: Duration::from_secs(seconds) }
        };
        assert!(latency([].into_iter()).is_none());
        let both = latency([thread(100, 1), thread(900, 2)].into_iter()).unwrap();
        assert_eq!(both.reached, 10.0);
        let of = |share| both.quantiles.iter().find(|quantile| quantile.of == share).unwrap().nanos;
        assert_eq!((of(0.5), of(0.6), of(1.0)), (100, 900, 900));
    }
}
