//! The limits of a plan, since records are only an excerpt of what comes. Pure.

use crate::units::{Share, Time, rough};
use std::time::Duration;

/// The extent of the records that a plan comes from.
///
/// ```
/// use hapax_plan::Excerpt;
/// use std::time::Duration;
///
/// let (hour, week) = (Duration::from_secs(3_600), Duration::from_secs(7 * 86_400));
/// let excerpt = |span| Excerpt { span, repeats: 5_000, has_times: true };
/// assert!(excerpt(week).cautions(hour).is_empty());
/// let cautions = excerpt(5 * hour).cautions(hour);
/// assert!(cautions[0].starts_with("An excerpt: these records cover 5 h, less than 10 times"));
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

/// The repeats below which a single one is more than a hundredth of them.
const REPEATS_MIN: u64 = 100;
/// The windows below which a tenth of the repeats that are a window apart do not show.
const WINDOWS_MIN: u32 = 10;
const DAY: Duration = Duration::from_secs(86_400);
const WEEK: Duration = Duration::from_secs(7 * 86_400);

impl Excerpt {
    /// Returns the reasons why a plan from these records, by which ids are remembered for so long,
    /// may be wrong: each says what is not known, and what to do.
    pub fn cautions(&self, remembered: Duration) -> Vec<String> {
        let &Excerpt { span, repeats, has_times } = self;
        let few_repeats = (repeats < REPEATS_MIN).then(|| few_repeats(repeats));
        // One record of a repeat that far apart may lie before them, or after them.
        let is_short = span < remembered.saturating_mul(WINDOWS_MIN);
        let few_windows = is_short.then(|| few_windows(span, remembered));
        let peak = match span {
            _ if !has_times => None,
            _ if span < DAY => Some(missed_peak(span, "a day", "hours")),
            _ => (span < WEEK).then(|| missed_peak(span, "a week", "days")),
        };
        [few_repeats, few_windows, peak].into_iter().flatten().collect()
    }
}

fn few_repeats(repeats: u64) -> String {
    match repeats {
        0 => "No id came twice: these records do not show for how long ids must be remembered. \
              Plan again with records of a time in which messages were delivered again."
            .to_string(),
        _ => format!(
            "Few repeats: with {repeats} each is {} of them, so one more could move the window. \
             Plan again with records of a longer time, or choose a longer window.",
            Share(1.0 / repeats as f64)
        ),
    }
}

fn few_windows(span: Duration, remembered: Duration) -> String {
    let cut = (remembered.as_secs_f64() / span.as_secs_f64().max(f64::MIN_POSITIVE)).min(1.0);
    format!(
        "An excerpt: these records cover {}, less than {WINDOWS_MIN} times the {} for which ids are \
         remembered. Of ids that come again after so long, {} have one of their records \
         outside; later ones do not show at all. Plan again with longer records.",
        rough(span),
        Time(remembered),
        Share(cut)
    )
}

fn missed_peak(span: Duration, whole: &str, parts: &str) -> String {
    let covered = rough(span);
    format!(
        "Less than {whole}: these records cover {covered}, and the capacity is for the busiest window in \
         them. Other {parts} may be busier. Plan again with records of {whole}, or leave the window room to grow."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);
    const NANO: Duration = Duration::from_nanos(1);

    fn cautions(span: Duration, repeats: u64, remembered: Duration) -> Vec<String> {
        Excerpt { span, repeats, has_times: true }.cautions(remembered)
    }

    #[test]
    fn each_begins_at_its_edge() {
        for (span, repeats, remembered, expected) in [
            (WEEK, 100, HOUR, &[][..]),
            (WEEK, 99, HOUR, &["Few repeats: with 99 "]),
            (WEEK, 0, HOUR, &["No id came twice: "]),
            (WEEK, 100, WEEK / 10, &[]),
            (WEEK, 100, WEEK / 10 + NANO, &["An excerpt: "]),
            (WEEK - NANO, 100, HOUR, &["Less than a week: "]),
            (DAY, 100, HOUR, &["Less than a week: "]),
            (DAY - NANO, 100, HOUR, &["Less than a day: "]),
            (HOUR, 0, HOUR, &["No id came twice: ", "An excerpt: ", "Less than a day: "]),
            (Duration::ZERO, 1, Duration::MAX, &["Few repeats: ", "An excerpt: ", "Less than a day: "]),
        ] {
            let said = cautions(span, repeats, remembered);
            assert_eq!(said.len(), expected.len(), "{span:?}: {said:?}");
            for (text, begins) in said.iter().zip(expected) {
                let is_right = text.starts_with(begins) && text.contains("Plan again with ") && !text.contains("NaN");
                assert!(is_right, "{span:?}: {text}");
            }
        }
        // Records without times show no peaks; the rate that they are given has one.
        assert!(Excerpt { span: DAY, repeats: 100, has_times: false }.cautions(HOUR).is_empty());
    }

    #[test]
    fn an_excerpt_says_what_it_leaves_out() {
        let quarter = &cautions(4 * HOUR, 100, HOUR)[0];
        assert!(quarter.contains("cover 4 h") && quarter.contains(" 25 % have one"), "{quarter}");
        let all = &cautions(HOUR, 100, 2 * HOUR)[0];
        assert!(all.contains(" 100 % have one"), "{all}");
    }
}
