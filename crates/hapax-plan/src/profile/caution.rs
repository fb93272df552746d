//! The limits of a plan, since records are only an excerpt of what comes. Pure.

use crate::units::{Share, Time, rough};
use std::fmt;
use std::time::Duration;

/// The extent of the records that a plan comes from.
///
/// ```
/// use hapax_plan::{Caution, Excerpt};
/// use std::time::Duration;
///
/// let (hour, week) = (Duration::from_secs(3_600), Duration::from_secs(7 * 86_400));
/// let excerpt = |span| Excerpt { span, repeats: 5_000, has_times: true };
/// assert_eq!(excerpt(week).cautions(hour), []);
/// let cautions = excerpt(5 * hour).cautions(hour);
/// assert_eq!(cautions[0], Caution::FewWindows { span: 5 * hour, remembered: hour });
/// println!("{}", cautions[0]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// The time from the first record to the last, or the time that they take at a given rate.
    pub span: Duration,
    /// Records whose id had come before.
    pub repeats: u64,
    /// True if the records have times, which show when more of them come.
    pub has_times: bool,
}

/// A reason why a plan that comes from records may be wrong. Its `Display` says what is not known,
/// and what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Caution {
    /// There are too few repeats to tell how far they are apart.
    FewRepeats {
        /// Their number.
        repeats: u64,
    },
    /// The records are not much longer than ids are to be remembered for: of repeats that far
    /// apart, one record may lie before them or after them.
    FewWindows {
        /// The time that they cover.
        span: Duration,
        /// The time for which ids are to be remembered.
        remembered: Duration,
    },
    /// They cover less than a day: its peak may not be among them.
    LessThanADay {
        /// The time that they cover.
        span: Duration,
    },
    /// They cover less than a week: its busiest day may not be among them.
    LessThanAWeek {
        /// The time that they cover.
        span: Duration,
    },
}

/// The repeats below which a single one is more than a hundredth of them.
const REPEATS_MIN: u64 = 100;
/// The windows below which a tenth of the repeats that are a window apart do not show.
const WINDOWS_MIN: u32 = 10;
const DAY: Duration = Duration::from_secs(86_400);
const WEEK: Duration = Duration::from_secs(7 * 86_400);

impl Excerpt {
    /// Returns what is to be said about a plan from these records, by which ids are remembered for
    /// so long.
    pub fn cautions(&self, remembered: Duration) -> Vec<Caution> {
        let &Excerpt { span, repeats, has_times } = self;
        let few_repeats = (repeats < REPEATS_MIN).then_some(Caution::FewRepeats { repeats });
        let is_short = span < remembered.saturating_mul(WINDOWS_MIN);
        let few_windows = is_short.then_some(Caution::FewWindows { span, remembered });
        let peak = match span {
            _ if !has_times => None,
            _ if span < DAY => Some(Caution::LessThanADay { span }),
            _ => (span < WEEK).then_some(Caution::LessThanAWeek { span }),
        };
        [few_repeats, few_windows, peak].into_iter().flatten().collect()
    }
}

impl fmt::Display for Caution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Caution::FewRepeats { repeats: 0 } => write!(
                f,
                "No id came twice: these records do not show for how long ids must be remembered. \
                 Plan again with records of a time in which messages were delivered again."
            ),
            Caution::FewRepeats { repeats } => write!(
                f,
                "Few repeats: with {repeats} each is {} of them, so one more could move the window. \
                 Plan again with records of a longer time, or choose a longer window.",
                Share(1.0 / repeats as f64)
            ),
            Caution::FewWindows { span, remembered } => {
                let cut = (remembered.as_secs_f64() / span.as_secs_f64().max(f64::MIN_POSITIVE)).min(1.0);
                write!(
                    f,
                    "An excerpt: these records cover {}, less than {WINDOWS_MIN} times the {} for which ids are \
                     remembered. Of ids that come again after so long, {} have one of their records \
                     outside; later ones do not show at all. Plan again with longer records.",
                    rough(span),
                    Time(remembered),
                    Share(cut)
                )
            }
            Caution::LessThanADay { span } => missed_peak(f, span, "a day", "hours"),
            Caution::LessThanAWeek { span } => missed_peak(f, span, "a week", "days"),
        }
    }
}

fn missed_peak(f: &mut fmt::Formatter<'_>, span: Duration, whole: &str, parts: &str) -> fmt::Result {
    let covered = rough(span);
    write!(
        f,
        "Less than {whole}: these records cover {covered}, and the capacity is for the busiest window in \
         them. Other {parts} may be busier. Plan again with records of {whole}, or leave the window room to grow."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);
    const NANO: Duration = Duration::from_nanos(1);

    fn cautions(span: Duration, repeats: u64, remembered: Duration) -> Vec<Caution> {
        Excerpt { span, repeats, has_times: true }.cautions(remembered)
    }

    #[test]
    fn each_begins_at_its_edge() {
        assert_eq!(cautions(WEEK, 100, HOUR), []);
        assert_eq!(cautions(WEEK, 99, HOUR), [Caution::FewRepeats { repeats: 99 }]);
        assert_eq!(cautions(WEEK, 100, WEEK / 10), []);
        let remembered = WEEK / 10 + NANO;
        assert_eq!(cautions(WEEK, 100, remembered), [Caution::FewWindows { span: WEEK, remembered }]);
        let span = WEEK - NANO;
        assert_eq!(cautions(span, 100, HOUR), [Caution::LessThanAWeek { span }]);
        assert_eq!(cautions(DAY, 100, HOUR), [Caution::LessThanAWeek { span: DAY }]);
        let span = DAY - NANO;
        assert_eq!(cautions(span, 100, HOUR), [Caution::LessThanADay { span }]);
        // Records without times show no peaks; the rate that they are given has one.
        assert_eq!(Excerpt { span: DAY, repeats: 100, has_times: false }.cautions(HOUR), []);
        assert_eq!(cautions(HOUR, 0, HOUR).len(), 3);
        assert_eq!(cautions(Duration::ZERO, 0, Duration::MAX).len(), 3);
    }

    #[test]
    fn they_say_what_is_not_known_and_what_to_do() {
        for (span, repeats, remembered) in [(HOUR, 0, HOUR), (4 * HOUR, 7, HOUR), (3 * DAY, 50, DAY), (NANO, 1, WEEK)] {
            for caution in cautions(span, repeats, remembered) {
                let text = caution.to_string();
                assert!(text.contains("Plan again with ") && !text.contains("NaN"), "{text}");
            }
        }
        let quarter = Caution::FewWindows { span: 4 * HOUR, remembered: HOUR }.to_string();
        assert!(quarter.contains("cover 4 h") && quarter.contains(" 25 % have one"), "{quarter}");
        let none = Caution::FewWindows { span: HOUR, remembered: 2 * HOUR }.to_string();
        assert!(none.contains(" 100 % have one"), "{none}");
    }
}
