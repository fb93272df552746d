//! Replays records, and finds which repeats a window would have caught. Each id is on its own in a
//! window that forgets nothing early, so only repeats must be looked at.

use super::rates::most_within;
use super::{PlanError, Profile, Seen, merged};
use hapax::Timestamp;
use hapax::seam::sizing::Ticks;
use std::time::Duration;

/// The measure of a distance.
pub(super) type Axis = fn(Seen) -> u64;

pub(super) const TIME: Axis = |seen| seen.nanos;
pub(super) const RECORDS: Axis = |seen| seen.record;

impl Profile {
    /// Returns how many repeats a window of exactly this length catches.
    pub fn caught(&self, window: Duration) -> u64 {
        self.caught_by(TIME, saturating_nanos(window))
    }

    /// Returns how many repeats an engine with this window calls duplicates: it remembers ids for
    /// up to two ticks longer, depending on where in a tick they came.
    ///
    /// # Errors
    ///
    /// [`PlanError::Invalid`] for a window outside 100 ns to 100 years.
    pub fn caught_by_engine(&self, window: Duration) -> Result<u64, PlanError> {
        let ticks = Ticks::of_window(window)?;
        let time = Timestamp::from_nanos;
        Ok(self.replay(TIME, |then, now| ticks.remembers(time(then), time(now)), |_| ()))
    }

    /// Returns how many repeats are caught by a memory of the last `records` records: one that
    /// remembers each accepted id until that many more have come.
    pub fn caught_within(&self, records: u64) -> u64 {
        self.caught_by(RECORDS, records.saturating_add(1))
    }

    /// Returns the shortest window that catches this share of the repeats; none if there are no
    /// repeats, or no times.
    pub fn window_for(&self, share: f64) -> Option<Duration> {
        self.span()?;
        self.shortest(&self.distances(TIME), share).map(Duration::from_nanos)
    }

    /// Returns [`window_for`](Self::window_for) this share, rounded up to a duration that people
    /// would choose: at most a fifth longer.
    pub fn round_window_for(&self, share: f64) -> Option<Duration> {
        self.window_for(share).map(rounded_up)
    }

    /// Returns the shortest window that catches this share, in records.
    pub fn records_for(&self, share: f64) -> Option<u64> {
        self.shortest(&self.distances(RECORDS), share).map(|length| length - 1)
    }

    /// Returns the distance, in time, that this share of the repeats does not exceed; none if there
    /// are no repeats, or no times.
    pub fn distance(&self, share: f64) -> Option<Duration> {
        self.span()?;
        self.distances(TIME).at(share).map(Duration::from_nanos)
    }

    /// Returns the most ids that a window of this length accepts within any time of length
    /// `within`.
    pub fn accepted_at_most(&self, window: Duration, within: Duration) -> u64 {
        let (window, within) = (saturating_nanos(window), saturating_nanos(within));
        let mut again = Vec::new();
        self.replay(TIME, |then, now| now - then < window, |nanos| again.push(nanos));
        most_within(merged(self.firsts.iter().map(|seen| seen.nanos), again.iter().copied()), within)
    }

    pub(super) fn caught_by(&self, axis: Axis, length: u64) -> u64 {
        self.replay(axis, |then, now| now - then < length, |_| ())
    }

    /// Returns how many repeats are known, given when their id was accepted and when they come; the
    /// others are accepted.
    fn replay(&self, axis: Axis, is_known: impl Fn(u64, u64) -> bool, mut accept: impl FnMut(u64)) -> u64 {
        let mut accepted: Vec<u64> = self.firsts.iter().map(|&seen| axis(seen)).collect();
        let mut known = 0;
        for repeat in &self.repeats {
            let (then, now) = (&mut accepted[repeat.id as usize], axis(repeat.at));
            if is_known(*then, now) {
                known += 1;
            } else {
                *then = now;
                accept(now);
            }
        }
        known
    }

    pub(super) fn distances(&self, axis: Axis) -> Distances {
        let mut last: Vec<u64> = self.firsts.iter().map(|&seen| axis(seen)).collect();
        let distance = |repeat: &super::Repeat| {
            let now = axis(repeat.at);
            now - std::mem::replace(&mut last[repeat.id as usize], now)
        };
        let mut sorted: Vec<u64> = self.repeats.iter().map(distance).collect();
        sorted.sort_unstable();
        Distances { axis, sorted }
    }

    /// Returns the least length that catches a share of the repeats. The number caught never
    /// decreases with the length: accepting an id when it has been forgotten covers its records
    /// with the fewest possible windows, and longer ones can only need fewer.
    pub(super) fn shortest(&self, distances: &Distances, share: f64) -> Option<u64> {
        Some(self.shortest_for(distances, wanted(share, self.repeats.len())?))
    }

    /// Returns the least length that catches so many of the repeats.
    pub(super) fn shortest_for(&self, distances: &Distances, wanted: usize) -> u64 {
        let suffices = |length: u64| self.caught_by(distances.axis, length) >= wanted as u64;
        // Each repeat that is caught is less than the window's length from the last record with its
        // id, too.
        let least = distances.sorted[wanted - 1].saturating_add(1);
        let (mut low, mut high) = (least - 1, least);
        while !suffices(high) {
            (low, high) = (high, high.saturating_mul(2));
        }
        while high - low > 1 {
            let middle = low.midpoint(high);
            if suffices(middle) { high = middle } else { low = middle }
        }
        high
    }
}

/// The distances of all repeats, along an axis.
pub(super) struct Distances {
    pub(super) axis: Axis,
    sorted: Vec<u64>,
}

impl Distances {
    pub(super) fn shortest_above_0(&self) -> Option<u64> {
        self.sorted.last().map(|longest| self.sorted.iter().copied().find(|distance| *distance > 0).unwrap_or(*longest))
    }

    pub(super) fn at(&self, share: f64) -> Option<u64> {
        wanted(share, self.sorted.len()).map(|wanted| self.sorted[wanted - 1])
    }
}

/// Returns a duration that people would choose: the least multiple of a round unit that is no
/// shorter, and at most a fifth longer.
///
/// ```
/// use hapax_plan::rounded_up;
/// use std::time::Duration;
///
/// assert_eq!(rounded_up(Duration::from_secs(1_234)), Duration::from_secs(1_260));
/// ```
pub fn rounded_up(duration: Duration) -> Duration {
    const SECOND: u64 = 1_000_000_000;
    const LONG: [u64; 9] = [10, 30, 60, 300, 600, 1_800, 3_600, 21_600, 86_400];
    let short = (0..10).flat_map(|exponent| [1, 2, 5].map(|digit| digit * 10_u64.pow(exponent)));
    let nanos = saturating_nanos(duration);
    let units = short.chain(LONG.map(|seconds| seconds * SECOND));
    let unit = units.take_while(|unit| unit.saturating_mul(5) <= nanos).last().unwrap_or(1);
    Duration::from_nanos(nanos.div_ceil(unit).saturating_mul(unit))
}

/// Returns how many of `of` are this share: at least one, if there is one.
fn wanted(share: f64, of: usize) -> Option<usize> {
    // In floating point, 0.999 x 1,000 is a little more than 999.
    (of > 0).then(|| ((share * of as f64 - 1e-6).ceil() as usize).clamp(1, of))
}

fn saturating_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax::{Dedup, Int};
    use proptest::prelude::*;

    fn profile(records: &[(u64, u8)]) -> Profile {
        let mut profile = Profile::new(records.len()).unwrap();
        for &(millis, id) in records {
            profile.see([id], Some(Timestamp::from_millis(millis))).unwrap();
        }
        profile
    }

    /// Generates times that mostly increase, and few ids.
    fn records() -> impl Strategy<Value = Vec<(u64, u8)>> {
        let steps = prop::collection::vec((-2_i64..40, 0_u8..12), 1..120);
        steps.prop_map(|steps| {
            let mut time = 1_000_i64;
            let step = |(step, id)| {
                time += step;
                (time as u64, id)
            };
            steps.into_iter().map(step).collect()
        })
    }

    proptest! {
        #[test]
        fn an_engine_answers_as_the_replay_does(records in records(), window_ms in 1_u64..2_000) {
            let window = Duration::from_millis(window_ms);
            let profile = profile(&records);
            let dedup = Dedup::builder().window(window).capacity(1_000).build().unwrap();
            let check = |&(millis, id): &(u64, u8)| dedup.check_at(Int::from(id), Timestamp::from_millis(millis));
            let duplicates = records.iter().filter(|record| check(record).is_duplicate()).count() as u64;
            prop_assert_eq!(profile.caught_by_engine(window).unwrap(), duplicates);
            prop_assert!(profile.caught(window) <= duplicates);
        }

        #[test]
        fn the_window_for_a_share_is_the_shortest(records in records(), share in 0.0..=1.0_f64) {
            let profile = profile(&records);
            let Some(window) = profile.window_for(share) else {
                prop_assert_eq!(profile.repeats(), 0);
                return Ok(());
            };
            let enough = |caught: u64| caught as f64 >= share * profile.repeats() as f64 - 1e-6 && caught > 0;
            prop_assert!(enough(profile.caught(window)), "{:?}", window);
            prop_assert!(!enough(profile.caught(window - Duration::from_nanos(1))), "{:?}", window);
            prop_assert!(profile.distance(share).unwrap() < window);
            let within = profile.records_for(share).unwrap();
            prop_assert!(enough(profile.caught_within(within)) && !enough(profile.caught_within(within - 1)));
        }

        #[test]
        fn longer_windows_catch_no_less(records in records(), a in 0_u64..500, b in 0_u64..500) {
            let profile = profile(&records);
            let caught = |millis: u64| profile.caught(Duration::from_millis(millis));
            prop_assert!(caught(a.min(b)) <= caught(a.max(b)));
        }

        #[test]
        fn the_busiest_window_is_as_counted_naively(
            records in records(), window_ms in 1_u64..200, within_ms in 1_u64..400
        ) {
            let profile = profile(&records);
            let (mut accepted, mut latest) = (std::collections::HashMap::new(), 0);
            let mut times = Vec::new();
            for &(millis, id) in &records {
                latest = latest.max(millis);
                if accepted.get(&id).is_none_or(|then| latest - then >= window_ms) {
                    accepted.insert(id, latest);
                    times.push(latest);
                }
            }
            let live = |now: u64| times.iter().filter(|then| **then <= now && now - **then < within_ms).count();
            let most = times.iter().map(|now| live(*now)).max().unwrap() as u64;
            let (window, within) = (Duration::from_millis(window_ms), Duration::from_millis(within_ms));
            prop_assert_eq!(profile.accepted_at_most(window, within), most);
        }
    }

    #[test]
    fn a_window_counts_from_what_was_accepted() {
        // An id every second: a window of 1.5 s catches every second one, though all are a second
        // apart.
        let profile = profile(&[(0, 1), (1_000, 1), (2_000, 1), (3_000, 1), (4_000, 1)]);
        assert_eq!(profile.distance(1.0), Some(Duration::from_secs(1)));
        assert_eq!(profile.caught(Duration::from_millis(1_500)), 2);
        assert_eq!(profile.window_for(0.5), Some(Duration::from_nanos(1_000_000_001)));
        assert_eq!(profile.window_for(1.0), Some(Duration::from_nanos(4_000_000_001)));
        assert_eq!(profile.records_for(1.0), Some(4));
    }

    #[test]
    fn windows_are_rounded_up_to_what_people_choose() {
        let rounded =
            [7e-9, 1.000_000_001, 59.2, 61.0, 3_601.0, 100_000.0, 1e7].map(|s| rounded_up(Duration::from_secs_f64(s)));
        let hours = |hours: u64| Duration::from_secs(3_600 * hours);
        let expected = [
            Duration::from_nanos(7),
            Duration::from_millis(1_200),
            Duration::from_secs(60),
            Duration::from_secs(70),
            Duration::from_secs(4_200),
            hours(28),
            hours(24 * 116),
        ];
        assert_eq!(rounded, expected);
    }

    #[test]
    fn what_cannot_be_told_is_refused() {
        let none = profile(&[(0, 1), (5, 2)]);
        assert_eq!((none.window_for(0.9), none.records_for(0.9), none.distance(0.9)), (None, None, None));
        assert!(Profile::new(9).unwrap().demand(Duration::from_secs(1)).is_err());
        assert!(none.caught_by_engine(Duration::ZERO).is_err());
        let mut small = Profile::new(1).unwrap();
        small.see("a", None).unwrap();
        assert_eq!(small.see("a", None), Err(PlanError::TooManyRecords { records_max: 1 }));
        let mut mixed = Profile::new(9).unwrap();
        mixed.see("a", None).unwrap();
        assert!(matches!(
            mixed.see("a", Some(Timestamp::from_secs(1))),
            Err(PlanError::Invalid { option: "time", .. })
        ));
        assert_eq!((mixed.span(), mixed.records_per_second()), (None, None));
    }
}
