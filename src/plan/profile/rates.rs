//! Counts records in each stretch of time, at several scales at once, in constant memory.

use std::time::Duration;

/// The unevenness of records at one scale of time.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Burst {
    /// The length of the stretches of time in which records were counted, one after the other from
    /// the first record on. The last stretch, which is not complete, is left out.
    pub scale: Duration,
    /// Records in a stretch on average.
    pub mean: f64,
    /// Records in the busiest stretch.
    pub peak: u64,
    /// The index of dispersion: the variance of the stretches' numbers of records, divided by their
    /// mean. It is 1 if records come at random (Poisson), 0 if they come by the clock, more if they
    /// come in bursts.
    pub dispersion: f64,
}

/// Counters for every scale.
#[derive(Clone, Debug)]
pub(super) struct Rates {
    scales: Vec<Scale>,
    first: Option<u64>,
    last: u64,
    /// The shortest positive time between two records.
    grain_nanos: u64,
}

#[derive(Clone, Copy, Debug)]
struct Scale {
    nanos: u64,
    /// The current stretch, and the records in it.
    now: u64,
    count: u64,
    // Of the complete ones:
    records: u64,
    squares: u128,
    peak: u64,
}

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLISECOND;
const SCALES: [u64; 8] = [
    10 * MILLISECOND,
    100 * MILLISECOND,
    SECOND,
    10 * SECOND,
    60 * SECOND,
    600 * SECOND,
    3_600 * SECOND,
    86_400 * SECOND,
];

/// The number of stretches of time below which nothing can be said.
const STRETCHES_MIN: u64 = 10;

impl Rates {
    pub(super) fn new() -> Self {
        let scale = |nanos| Scale { nanos, now: 0, count: 0, records: 0, squares: 0, peak: 0 };
        Rates { scales: SCALES.map(scale).to_vec(), first: None, last: 0, grain_nanos: u64::MAX }
    }

    /// Adds a record; times do not decrease.
    pub(super) fn add(&mut self, nanos: u64) {
        let first = *self.first.get_or_insert(nanos);
        if nanos > self.last && nanos > first {
            self.grain_nanos = self.grain_nanos.min(nanos - self.last.max(first));
        }
        self.last = nanos;
        self.scales.iter_mut().for_each(|scale| scale.add(nanos - first));
    }

    pub(super) fn bursts(&self) -> Vec<Burst> {
        let can_tell = |scale: &&Scale| scale.now >= STRETCHES_MIN && scale.nanos >= self.grain_nanos;
        self.scales.iter().filter(can_tell).map(Scale::burst).collect()
    }
}

impl Scale {
    fn add(&mut self, nanos: u64) {
        let stretch = nanos / self.nanos;
        if stretch > self.now {
            self.records += self.count;
            self.squares += u128::from(self.count).pow(2);
            self.peak = self.peak.max(self.count);
            (self.now, self.count) = (stretch, 0);
        }
        self.count += 1;
    }

    fn burst(&self) -> Burst {
        let stretches = self.now as f64;
        let mean = self.records as f64 / stretches;
        let variance = self.squares as f64 / stretches - mean * mean;
        let dispersion = (variance / mean).max(0.0);
        Burst { scale: Duration::from_nanos(self.nanos), mean, peak: self.peak, dispersion }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bursts(times: impl Iterator<Item = u64>) -> Vec<Burst> {
        let mut rates = Rates::new();
        times.for_each(|nanos| rates.add(nanos));
        rates.bursts()
    }

    #[test]
    fn what_comes_by_the_clock_has_no_bursts() {
        // Four a second for 200 seconds, after a while without records.
        let found = bursts((0..800).map(|i| 7 * SECOND + i * SECOND / 4));
        let by = |scale: u64, mean: f64, peak: u64| Burst {
            scale: Duration::from_nanos(scale),
            mean,
            peak,
            dispersion: 0.0,
        };
        // At scales below 250 ms nothing can be told; there are fewer than ten stretches of 60
        // seconds.
        assert_eq!(found, [by(SECOND, 4.0, 4), by(10 * SECOND, 40.0, 40)]);
    }

    #[test]
    fn bursts_have_their_dispersion() {
        // Ten at once in every tenth second: mean 1, variance (10^2 + 9 x 0) / 10 - 1 = 9.
        let found = bursts((0..500).map(|i| i / 10 * 10 * SECOND));
        assert_eq!((found[0].scale, found[0].peak), (Duration::from_secs(10), 10));
        let found = bursts((0..500).map(|i| i / 10 * 10 * SECOND).chain([491 * SECOND]));
        let second = found.iter().find(|burst| burst.scale == Duration::from_secs(1)).unwrap();
        assert_eq!(second.peak, 10);
        assert!((second.dispersion - 9.0).abs() < 0.2 && (second.mean - 500.0 / 491.0).abs() < 1e-9, "{second:?}");
    }
}
