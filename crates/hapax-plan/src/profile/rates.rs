//! Counts records in stretches of time, at several scales. A stretch may begin anywhere, so nothing
//! depends on when the first record came. Pure; takes no memory beside the sorted times.

use std::time::Duration;

/// The unevenness of records at one scale of time.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Burst {
    /// The length of the stretches of time in which records were counted: all of them, wherever
    /// between the first record and the last they begin.
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

/// Returns the unevenness of sorted times, at each scale that they can show.
pub(super) fn bursts(times: impl Iterator<Item = u64> + Clone) -> Vec<Burst> {
    let Some((first, last)) = times.clone().next().zip(times.clone().last()) else { return Vec::new() };
    let grain = grain(times.clone()).unwrap_or(u64::MAX);
    let can_tell = |scale: &u64| last - first >= STRETCHES_MIN * scale && *scale >= grain;
    SCALES.into_iter().filter(can_tell).map(|scale| burst(times.clone(), first..last, scale)).collect()
}

/// Returns the shortest positive time between two records.
pub(super) fn grain(times: impl Iterator<Item = u64> + Clone) -> Option<u64> {
    let next = times.clone().skip(1);
    times.zip(next).map(|(time, next)| next - time).filter(|between| *between > 0).min()
}

/// Returns the most of these sorted times that lie in one stretch of this length, without its end.
pub(super) fn most_within(times: impl Iterator<Item = u64> + Clone, length: u64) -> u64 {
    let (mut oldest, mut before) = (times.clone().peekable(), 0);
    let within = times.zip(1_u64..).map(|(now, records)| {
        while oldest.next_if(|then| now - then >= length).is_some() {
            before += 1;
        }
        records.saturating_sub(before)
    });
    within.max().unwrap_or(0)
}

/// Counts the records of the stretch `[t, t + scale)` for all t from the first record to the last
/// one less a stretch: the number changes where a record comes in at the end or leaves at the
/// beginning, and counts for as long as it stays the same.
fn burst(times: impl Iterator<Item = u64> + Clone, span: std::ops::Range<u64>, scale: u64) -> Burst {
    let end = span.end - scale;
    let (mut entering, mut leaving) = (times.clone().peekable(), times.clone().peekable());
    let (mut at, mut count) = (span.start, 0_u64);
    let (mut sum, mut squares) = (0_u128, 0_u128);
    while at < end {
        // From just behind `at` on, the stretch has the record at its end, and not the one at `at`.
        while entering.next_if(|time| *time <= at + scale).is_some() {
            count += 1;
        }
        while leaving.next_if(|time| *time <= at).is_some() {
            count -= 1;
        }
        let enters = entering.peek().map_or(end, |time| time - scale);
        let next = enters.min(leaving.peek().copied().unwrap_or(end)).min(end);
        let stays = u128::from(next - at);
        sum += stays * u128::from(count);
        squares += stays * u128::from(count).pow(2);
        at = next;
    }
    let length = (end - span.start) as f64;
    let mean = sum as f64 / length;
    let variance = squares as f64 / length - mean * mean;
    let (peak, dispersion) = (most_within(times, scale), (variance / mean).max(0.0));
    Burst { scale: Duration::from_nanos(scale), mean, peak, dispersion }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(times: impl Iterator<Item = u64>) -> Vec<Burst> {
        bursts(times.collect::<Vec<_>>().into_iter())
    }

    #[test]
    fn what_comes_by_the_clock_has_no_bursts() {
        // Four a second for 200 seconds, after a while without records.
        let found = found((0..800).map(|i| 7 * SECOND + i * SECOND / 4));
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
        let bursts = found((0..500).map(|i| i / 10 * 10 * SECOND));
        assert_eq!((bursts[0].scale, bursts[0].peak), (Duration::from_secs(10), 10));
        let bursts = found((0..500).map(|i| i / 10 * 10 * SECOND).chain([491 * SECOND]));
        let second = bursts.iter().find(|burst| burst.scale == Duration::from_secs(1)).unwrap();
        assert_eq!(second.peak, 10);
        assert!((second.dispersion - 9.0).abs() < 0.2 && (second.mean - 1.0).abs() < 0.03, "{second:?}");
    }

    #[test]
    fn a_burst_counts_wherever_stretches_would_begin() {
        // Twenty within a second, once a minute; and a record that moves where the first one is.
        let minutes = || (0..20 * 20).map(|i| 100 * SECOND + i / 20 * 60 * SECOND + i % 20 * SECOND / 20);
        for early in [0, 1, SECOND / 7, SECOND / 2, 30 * SECOND, 59 * SECOND] {
            let found = found(std::iter::once(99 * SECOND - early).chain(minutes()));
            let second = found.iter().find(|burst| burst.scale == Duration::from_secs(1)).unwrap();
            assert_eq!(second.peak, 20, "{early} ns earlier");
        }
    }

    /// Generates sorted times, from quarters of a second on.
    fn times() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec(0_u64..200, 2..80).prop_map(|mut quarters| {
            quarters.sort_unstable();
            quarters.into_iter().map(|quarter| quarter * SECOND / 4).collect()
        })
    }

    proptest! {
        #[test]
        fn it_is_as_counted_naively_and_the_same_at_another_time(times in times(), offset in 0_u64..1 << 62) {
            let bursts = found(times.iter().copied());
            prop_assert_eq!(&bursts, &found(times.iter().map(|time| time + offset)));
            let (first, last) = (times[0], times[times.len() - 1]);
            for burst in bursts {
                let scale = burst.scale.as_nanos() as u64;
                let within = |from: u64| times.iter().filter(|time| (from..from + scale).contains(time)).count() as u64;
                prop_assert_eq!(burst.peak, times.iter().map(|time| within(*time)).max().unwrap());
                // The number changes only behind a quarter of a second, or a scale before one.
                let step = scale.min(SECOND / 4);
                let counts = (first..last - scale).step_by(step as usize).map(|from| within(from + 1) as f64);
                let counts: Vec<f64> = counts.collect();
                let mean = counts.iter().sum::<f64>() / counts.len() as f64;
                let squares = counts.iter().map(|n| n * n).sum::<f64>() / counts.len() as f64;
                prop_assert!((burst.mean - mean).abs() < 1e-9 * (1.0 + mean), "{burst:?}, {mean}");
                let dispersion = (squares - mean * mean) / mean;
                prop_assert!((burst.dispersion - dispersion).abs() < 1e-6, "{burst:?}, {dispersion}");
            }
        }
    }
}
