//! A profile's summary, in numbers.

use super::replay::{Distances, RECORDS, TIME};
use super::{Burst, Profile};
use std::time::Duration;

/// The summary of a [`Profile`]. Its `Display` prints it in 80 columns, with a curve: which window
/// catches which share of the repeats.
///
/// ```
/// use hapax_plan::Profile;
/// use hapax::Timestamp;
///
/// let mut profile = Profile::new(100)?;
/// for (second, id) in [(0, "a"), (1, "b"), (4, "a"), (9, "c")] {
///     profile.see(id, Some(Timestamp::from_secs(second)))?;
/// }
/// let summary = profile.summary();
/// assert_eq!((summary.records, summary.repeats), (4, 1));
/// assert!(summary.curve.iter().is_sorted_by(|a, b| a.share <= b.share));
/// println!("{summary}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Summary {
    /// Records.
    pub records: u64,
    /// Different ids.
    pub distinct: u64,
    /// Records with an id that had come before.
    pub repeats: u64,
    /// Records with an earlier time than one before.
    pub late: u64,
    /// The time from the first record to the last, if they have times.
    pub span: Option<Duration>,
    /// Records a second on average, if they have times.
    pub records_per_second: Option<f64>,
    /// The unevenness of the records.
    pub bursts: Vec<Burst>,
    /// The lengths that catch 50, 90, 99, 99.9, 99.99 and 100 % of the repeats; empty if there are
    /// no repeats.
    pub quantiles: Vec<Quantile>,
    /// The share that each length catches, in equal ratios from hardly any to all; empty if there
    /// are no repeats.
    pub curve: Vec<CurvePoint>,
}

/// The lengths that catch a share of the repeats.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Quantile {
    /// The share.
    pub share: f64,
    /// The distance in time to the last record with the same id that this share does not exceed.
    pub distance: Option<Duration>,
    /// The shortest window that catches it.
    pub window: Option<Duration>,
    /// The distance in records to the last one with the same id that this share does not exceed.
    pub distance_records: u64,
    /// The shortest memory of records that catches it.
    pub window_records: u64,
}

/// A length, and the share of the repeats that it catches.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct CurvePoint {
    /// The length.
    pub length: Length,
    /// The share.
    pub share: f64,
}

/// The length of a memory of ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// A time.
    Time(Duration),
    /// A number of records, where they have no times.
    Records(u64),
}

const SHARES: [f64; 6] = [0.5, 0.9, 0.99, 0.999, 0.9999, 1.0];
/// The number of points of the curve.
const POINTS: usize = 66;

impl Profile {
    /// Computes the summary. Takes some hundred passes over the repeats.
    pub fn summary(&self) -> Summary {
        let (by_time, by_records) = (self.span().map(|_| self.distances(TIME)), self.distances(RECORDS));
        let quantile = |&share: &f64| {
            let time = |find: &dyn Fn(&Distances) -> Option<u64>| Some(Duration::from_nanos(find(by_time.as_ref()?)?));
            Some(Quantile {
                share,
                distance: time(&|distances| distances.at(share)),
                window: time(&|distances| self.shortest(distances, share)),
                distance_records: by_records.at(share)?,
                window_records: self.shortest(&by_records, share)? - 1,
            })
        };
        // Times that are all the same count as no times.
        let drawn = by_time.as_ref().filter(|_| self.records_per_second().is_some());
        Summary {
            records: self.records(),
            distinct: self.distinct(),
            repeats: self.repeats(),
            late: self.late(),
            span: self.span(),
            records_per_second: self.records_per_second(),
            bursts: self.bursts(),
            quantiles: SHARES.iter().filter_map(quantile).collect(),
            curve: self.curve(drawn.unwrap_or(&by_records), drawn.is_some()),
        }
    }

    fn curve(&self, distances: &Distances, is_time: bool) -> Vec<CurvePoint> {
        let Some((longest, shortest)) = self.shortest(distances, 1.0).zip(distances.shortest_above_0()) else {
            return Vec::new();
        };
        // The curve starts below its first step.
        let (low, high) = ((shortest as f64 / 2.0).max(1.0), longest as f64);
        let ratio = (high / low).powf(1.0 / (POINTS - 1) as f64);
        let point = |i: usize| {
            let length = if i + 1 == POINTS { longest } else { (low * ratio.powi(i as i32)) as u64 };
            let share = self.caught_by(distances.axis, length) as f64 / self.repeats.len() as f64;
            let length = if is_time {
                Length::Time(Duration::from_nanos(length))
            } else {
                Length::Records(length.saturating_sub(1))
            };
            CurvePoint { length, share }
        };
        (0..POINTS).map(point).collect()
    }
}
