//! The knee of the curve: the window beyond which more length hardly catches more.

use super::Profile;
use super::replay::{Axis, RECORDS, TIME};
use std::time::Duration;

/// The share of the repeats that a doubling of the window must catch to be worth it.
const WORTH_A_DOUBLING: f64 = 0.01;

/// The number of lengths that are looked at for each doubling.
const STEPS: i32 = 8;

impl Profile {
    /// Returns the knee of the curve: the shortest window beyond which no doubling catches a
    /// further hundredth of the repeats; none if there are no repeats, or no times.
    ///
    /// It is the window to choose if nothing else is known. What it leaves uncaught takes windows
    /// out of all proportion. With fewer than a hundred repeats each of them is more than a
    /// hundredth, and the knee is where all are caught. It may be up to 19 % longer than that, and
    /// is no shorter than the shortest time between two records: coarse times show no more.
    ///
    /// Idea: a knee is where a curve's gain no longer pays for its length (Satopaa, Albrecht, Irwin
    /// and Raghavan, Finding a "Kneedle" in a Haystack, 2011), here with a fixed price for each
    /// doubling, so that a few repeats far away do not move it.
    ///
    /// ```
    /// use hapax::plan::Profile;
    /// use hapax::{Digester, Timestamp};
    /// use std::time::Duration;
    ///
    /// let (digester, mut profile) = (Digester::random()?, Profile::new(1_000));
    /// for n in 0..400 {
    ///     // Each id comes again after a second, and the first one, too, when all have come.
    ///     profile.see(digester.digest((n / 2).to_string()), Some(Timestamp::from_secs(n)))?;
    /// }
    /// profile.see(digester.digest("0"), Some(Timestamp::from_secs(400)))?;
    /// assert_eq!(profile.knee(), Some(Duration::from_nanos(1_000_000_001)));
    /// assert_eq!(profile.window_for(1.0), Some(Duration::from_nanos(400_000_000_001)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn knee(&self) -> Option<Duration> {
        self.span()?;
        let grain = super::rates::grain(self.times()).unwrap_or(0);
        Some(Duration::from_nanos(self.knee_of(TIME)?.max(grain)))
    }

    /// Returns the knee in records: the shortest memory beyond which no doubling catches a further
    /// hundredth of the repeats.
    pub fn knee_in_records(&self) -> Option<u64> {
        self.knee_of(RECORDS).map(|length| length - 1)
    }

    fn knee_of(&self, axis: Axis) -> Option<u64> {
        let distances = self.distances(axis);
        let longest = self.shortest(&distances, 1.0)?;
        let all = self.repeats();
        let is_worth_it = |gain: u64| gain as f64 >= WORTH_A_DOUBLING * all as f64;
        // From the longest length down, as long as a doubling from there is not worth it. To be
        // sure of each doubling between two lengths it is measured from the shorter to the double
        // of the longer one.
        let length = |step: i32| 2_f64.powf(f64::from(step) / f64::from(STEPS)) as u64;
        let mut top = 0;
        while length(top) < longest {
            top += 1;
        }
        let mut longer = std::collections::VecDeque::from([all]);
        let mut knee = top;
        for step in (0..top).rev() {
            let caught = self.caught_by(axis, length(step));
            if is_worth_it(longer.back().map_or(0, |most| most - caught)) {
                break;
            }
            knee = step;
            longer.push_front(caught);
            longer.truncate(STEPS as usize + 1);
        }
        let caught = self.caught_by(axis, length(knee));
        Some(self.shortest_for(&distances, caught.max(1) as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Digester, Timestamp};
    use proptest::prelude::*;

    /// Returns a profile in which each id comes twice, so many milliseconds apart.
    fn with_distances(millis: &[u64]) -> Profile {
        let mut records: Vec<(u64, usize)> = millis
            .iter()
            .enumerate()
            .flat_map(|(id, &apart)| [(7 * id as u64, id), (7 * id as u64 + apart, id)])
            .collect();
        records.sort_unstable();
        let (digester, mut profile) = (Digester::with_seed(1), Profile::new(records.len()));
        for (time, id) in records {
            profile.see(digester.digest(id.to_string()), Some(Timestamp::from_millis(time))).unwrap();
        }
        profile
    }

    fn just_beyond(millis: u64) -> Option<Duration> {
        Some(Duration::from_millis(millis) + Duration::from_nanos(1))
    }

    #[test]
    fn a_few_repeats_far_away_do_not_move_it() {
        const HOUR: u64 = 3_600_000;
        let near: Vec<u64> = (0..242).map(|i| 20_000 + 7_500 * i).collect();
        let far = [&near[..], &[1_100 * HOUR, 1_176 * HOUR]].concat();
        let knee = with_distances(&near).knee().unwrap();
        assert_eq!(with_distances(&far).knee(), Some(knee));
        assert!((1_500..=1_830).contains(&knee.as_secs()), "{knee:?}");
        assert!(with_distances(&far).window_for(0.999).unwrap() > Duration::from_millis(1_176 * HOUR));
        // Three of them are more than a hundredth, and count.
        let three = [&near[..], &[1_176 * HOUR; 3]].concat();
        assert_eq!(with_distances(&three).knee(), just_beyond(1_176 * HOUR));
    }

    #[test]
    fn none_one_and_all_the_same() {
        assert_eq!((Profile::new(9).knee(), Profile::new(9).knee_in_records()), (None, None));
        assert_eq!(with_distances(&[5_000]).knee(), just_beyond(5_000));
        assert_eq!(with_distances(&[5_000; 300]).knee(), just_beyond(5_000));
        assert_eq!(with_distances(&[5_000]).knee_in_records(), Some(1));
        // Where repeats have the times of their ids, the times' own steps are the window.
        assert_eq!(with_distances(&[0; 300]).knee(), Some(Duration::from_millis(7)));
        assert_eq!(with_distances(&[0]).knee(), Some(Duration::from_nanos(1)));
    }

    proptest! {
        #[test]
        fn no_longer_window_doubles_with_profit_and_a_shorter_one_does(
            exponents in prop::collection::vec(0.0..30.0_f64, 1..400), offset in 0_u64..1_000_000
        ) {
            let distances: Vec<u64> = exponents.iter().map(|exponent| exponent.exp2() as u64 + offset).collect();
            let profile = with_distances(&distances);
            let knee = profile.knee().unwrap();
            let gain = |window: Duration, factor: f64| {
                (profile.caught(window.mul_f64(factor)) - profile.caught(window)) as f64 / profile.repeats() as f64
            };
            let beyond = distances.iter().flat_map(|&millis| [millis, millis / 2 + 1]).map(Duration::from_millis);
            for window in beyond.chain([knee]).filter(|window| *window >= knee) {
                prop_assert!(gain(window, 2.0) < WORTH_A_DOUBLING, "{knee:?}: {window:?} gains");
            }
            // Two steps of a doubling are the tolerance.
            let shorter = knee.mul_f64(0.5_f64.powf(2.01 / f64::from(STEPS)));
            let least = profile.window_for(0.0).unwrap();
            prop_assert!(gain(shorter, 2.7) >= WORTH_A_DOUBLING || shorter < least, "{knee:?} is too long");
        }
    }
}
