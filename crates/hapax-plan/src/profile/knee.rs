//! The knee of the curve: the window from which more length hardly catches more.

use super::Profile;
use super::replay::{Axis, RECORDS, TIME};
use std::time::Duration;

/// The share of the repeats that a window must catch for each doubling to be worth it.
const WORTH_A_DOUBLING: f64 = 0.001;

/// The number of lengths that are looked at for each doubling.
const STEPS: usize = 8;

impl Profile {
    /// Returns the knee of the curve: the shortest window from which no longer one catches a
    /// further thousandth of the repeats for each time that it is doubled; none if there are no
    /// repeats, or no times.
    ///
    /// It is the window to choose if nothing else is known. What it leaves uncaught takes windows
    /// out of all proportion: two repeats of 250 that are a thousand times as far apart as the
    /// others are not a thousandth for each of ten doublings. It may be up to 9 % longer than that,
    /// and is no shorter than the shortest time between two records: coarse times show no more.
    ///
    /// Idea: a knee is where a curve's gain no longer pays for its length (Satopaa, Albrecht, Irwin
    /// and Raghavan, Finding a "Kneedle" in a Haystack, 2011), here with a fixed price for each
    /// doubling.
    ///
    /// ```
    /// use hapax_plan::Profile;
    /// use hapax::Timestamp;
    /// use std::time::Duration;
    ///
    /// let mut profile = Profile::new(1_000)?;
    /// for n in 0..400 {
    ///     // Each id comes again after a second, and the first one, too, when all have come.
    ///     profile.see((n / 2).to_string(), Some(Timestamp::from_secs(n)))?;
    /// }
    /// profile.see("0", Some(Timestamp::from_secs(400)))?;
    /// assert_eq!(profile.knee(), Some(Duration::from_nanos(1_000_000_001)));
    /// assert_eq!(profile.window_for(1.0), Some(Duration::from_nanos(400_000_000_001)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn knee(&self) -> Option<Duration> {
        self.span()?;
        let grain = super::rates::grain(self.times()).unwrap_or(0);
        Some(Duration::from_nanos(self.knee_of(TIME, grain)?.max(grain)))
    }

    /// Returns the knee in records: the shortest memory from which no longer one catches a further
    /// thousandth of the repeats for each doubling.
    pub fn knee_in_records(&self) -> Option<u64> {
        self.knee_of(RECORDS, 1).map(|length| length - 1)
    }

    /// Returns the knee that is no shorter than `least`: doublings of what the records cannot show
    /// are worth nothing.
    fn knee_of(&self, axis: Axis, least: u64) -> Option<u64> {
        let distances = self.distances(axis);
        let longest = self.shortest(&distances, 1.0)?;
        let length = |step: usize| 2_f64.powf(step as f64 / STEPS as f64) as u64;
        let first = (0..).find(|step| length(*step) >= least)?;
        let top = (first..).find(|step| length(*step) >= longest)?;
        let caught: Vec<u64> = (first..=top).map(|step| self.caught_by(axis, length(step))).collect();
        let knee = knee(&caught, WORTH_A_DOUBLING * self.repeats() as f64);
        Some(self.shortest_for(&distances, caught[knee].max(1) as usize))
    }
}

/// Returns the first step from which no later one catches `worth` for each doubling in between.
fn knee(caught: &[u64], worth: f64) -> usize {
    let pays = |from: usize, to: usize| {
        let doublings = (to - from) as f64 / STEPS as f64;
        (caught[to] - caught[from]) as f64 >= worth * doublings
    };
    (0..caught.len()).find(|&from| !(from + 1..caught.len()).any(|to| pays(from, to))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax::Timestamp;
    use proptest::prelude::*;

    /// Returns a profile in which each id comes twice, so many milliseconds apart.
    fn with_distances(millis: &[u64]) -> Profile {
        let mut records: Vec<(u64, usize)> = millis
            .iter()
            .enumerate()
            .flat_map(|(id, &apart)| [(7 * id as u64, id), (7 * id as u64 + apart, id)])
            .collect();
        records.sort_unstable();
        let mut profile = Profile::new(records.len()).unwrap();
        for (time, id) in records {
            profile.see(id.to_string(), Some(Timestamp::from_millis(time))).unwrap();
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
        // As many of them as a thousandth for each of the eleven doublings count.
        let many = [&near[..], &[1_176 * HOUR; 6]].concat();
        assert_eq!(with_distances(&many).knee(), just_beyond(1_176 * HOUR));
    }

    #[test]
    fn doublings_of_what_records_cannot_show_are_worth_nothing() {
        // Times in steps of half a minute: of 1,000 repeats 980 come at once, 20 after two steps.
        let mut profile = Profile::new(2_000).unwrap();
        for id in 0..1_000_u64 {
            let step = id / 100;
            profile.see(id.to_string(), Some(Timestamp::from_secs(30 * step))).unwrap();
            if id % 50 != 0 {
                profile.see(id.to_string(), Some(Timestamp::from_secs(30 * step))).unwrap();
            }
            if id % 100 == 99 && step >= 2 {
                for late in [100 * step - 200, 100 * step - 150] {
                    profile.see(late.to_string(), Some(Timestamp::from_secs(30 * step))).unwrap();
                }
            }
        }
        assert_eq!(profile.repeats(), 980 + 16);
        assert_eq!(profile.knee(), just_beyond(60_000));
    }

    #[test]
    fn each_doubling_has_its_price() {
        // Eight steps are a doubling. A repeat a step ahead pays, one two doublings away does not.
        let curve = |first: u64, at: usize| (0..40).map(|step| first + u64::from(step >= at)).collect::<Vec<u64>>();
        assert_eq!((knee(&curve(9, 1), 1.0), knee(&curve(9, 8), 1.0)), (1, 8));
        assert_eq!((knee(&curve(9, 9), 1.0), knee(&curve(9, 16), 1.0)), (0, 0));
        assert_eq!((knee(&[7; 40], 1.0), knee(&[7], 1.0)), (0, 0));
    }

    #[test]
    fn none_one_and_all_the_same() {
        assert_eq!((Profile::new(9).unwrap().knee(), Profile::new(9).unwrap().knee_in_records()), (None, None));
        assert_eq!(with_distances(&[5_000]).knee(), just_beyond(5_000));
        assert_eq!(with_distances(&[5_000; 300]).knee(), just_beyond(5_000));
        assert_eq!(with_distances(&[5_000]).knee_in_records(), Some(1));
        // Where repeats have the times of their ids, the times' own steps are the window.
        assert_eq!(with_distances(&[0; 300]).knee(), Some(Duration::from_millis(7)));
        assert_eq!(with_distances(&[0]).knee(), Some(Duration::from_nanos(1)));
    }

    proptest! {
        #[test]
        fn no_longer_window_pays_for_its_doublings_and_from_a_shorter_one_some_does(
            exponents in prop::collection::vec(0.0..30.0_f64, 1..400), offset in 0_u64..1_000_000
        ) {
            let distances: Vec<u64> = exponents.iter().map(|exponent| exponent.exp2() as u64 + offset).collect();
            let profile = with_distances(&distances);
            let knee = profile.knee().unwrap();
            let gain = |from: Duration, to: Duration| {
                let doublings = (to.as_secs_f64() / from.as_secs_f64()).log2();
                (profile.caught(to) - profile.caught(from)) as f64 / profile.repeats() as f64 / doublings
            };
            let lengths = distances.iter().map(|&millis| Duration::from_millis(millis) + Duration::from_nanos(1));
            // A step is the tolerance.
            let step = 2_f64.powf(1.01 / STEPS as f64);
            let beyond = lengths.clone().filter(|to| *to > knee.mul_f64(step));
            for to in beyond {
                prop_assert!(gain(knee.mul_f64(step), to.mul_f64(step)) < WORTH_A_DOUBLING, "{knee:?}: {to:?} pays");
            }
            let shorter = knee.mul_f64(1.0 / (step * step));
            let grain = Duration::from_nanos(super::super::rates::grain(profile.times()).unwrap_or(0));
            let least = profile.window_for(0.0).unwrap().max(grain.mul_f64(step));
            let some_pays = lengths.filter(|to| *to > shorter).any(|to| gain(shorter, to) >= WORTH_A_DOUBLING);
            prop_assert!(some_pays || shorter < least, "{knee:?} is too long");
        }
    }
}
