//! A profile for people: 80 columns of plain characters.

use super::summary::{CurvePoint, Length, Summary};
use crate::units::{Count, Share, Time, rough};
use hapax::seam::sizing::nanos_of;
use std::fmt;
use std::time::Duration;

/// The width of names.
const NAME: usize = 26;

/// The lines of the curve: a column has a mark in those whose share it reaches. Narrower at the
/// top, where windows differ.
const ROWS: [f64; 13] = [1.0, 0.9999, 0.999, 0.99, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1];

/// The width of the margin before the curve.
const MARGIN: usize = 9;

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.counts(f)?;
        self.unevenness(f)?;
        self.shares(f)?;
        curve(f, &self.curve)
    }
}

impl Summary {
    fn counts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = |name: &str, value: String| writeln!(f, "  {name:<width$}{value}", width = NAME - 2);
        let exact = |number: u64| crate::units::with_commas(&number.to_string());
        row("records", exact(self.records))?;
        row("ids", exact(self.distinct))?;
        let share = Share(self.repeats as f64 / self.records.max(1) as f64);
        row("repeats", format!("{} ({share} of the records)", exact(self.repeats)))?;
        if let Some((span, rate)) = self.span.zip(self.records_per_second) {
            row("time", format!("{} from the first to the last", rough(span)))?;
            row("rate", format!("{} records/s on average", Count(rate)))?;
        }
        if self.late > 0 {
            row("late", format!("{}: they count as the latest before them", exact(self.late)))?;
        }
        Ok(())
    }

    fn unevenness(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.bursts.is_empty() {
            return Ok(());
        }
        writeln!(f, "Bursts")?;
        writeln!(
            f,
            "  {:<16}{:>10}{:>12}{:>15}{:>23}",
            "records in each", "mean", "busiest", "/ mean", "index of dispersion"
        )?;
        for burst in &self.bursts {
            let (scale, mean, peak) = (Time(burst.scale), Count(burst.mean), Count(burst.peak as f64));
            let (ratio, dispersion) = (Count(burst.peak as f64 / burst.mean), Count(burst.dispersion));
            writeln!(f, "  {scale:<16}{mean:>10}{peak:>12}{ratio:>15}{dispersion:>23}")?;
        }
        Ok(())
    }

    fn shares(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.quantiles.is_empty() {
            return writeln!(f, "No id came twice.");
        }
        writeln!(f, "Distance of repeats from the last record with their id; and, since a window")?;
        writeln!(f, "counts from the last that it accepted, the shortest one that catches as many")?;
        let has_times = self.quantiles.iter().all(|quantile| quantile.window.is_some());
        if has_times {
            writeln!(f, "  {:<10}{:>14}{:>14}{:>17}{:>17}", "share", "distance", "window", "in records", "window")?;
        } else {
            writeln!(f, "  {:<10}{:>17}{:>17}", "share", "in records", "window")?;
        }
        for quantile in &self.quantiles {
            write!(f, "  {:<10}", format!("{} %", (quantile.share * 1e4).round() / 100.0))?;
            if let (Some(distance), Some(window)) = (quantile.distance, quantile.window) {
                write!(
                    f,
                    "{:>14}{:>14}",
                    rough(distance),
                    format!("> {}", rough(window.saturating_sub(Duration::from_nanos(1))))
                )?;
            }
            let (distance, window) = (Count(quantile.distance_records as f64), Count(quantile.window_records as f64));
            writeln!(f, "{distance:>17}{window:>17}")?;
        }
        Ok(())
    }
}

/// Draws a curve.
fn curve(f: &mut fmt::Formatter<'_>, points: &[CurvePoint]) -> fmt::Result {
    if points.is_empty() {
        return Ok(());
    }
    let what = match points[0].length {
        Length::Time(_) => "a window of this length",
        Length::Records(_) => "a memory of so many records",
    };
    writeln!(f, "Share of the repeats that {what} catches")?;
    for row in ROWS {
        let line: String = points.iter().map(|point| if point.share >= row { '#' } else { ' ' }).collect();
        let label = format!("{} %", (row * 1e4).round() / 100.0);
        writeln!(f, "{}", format!("{label:>width$} |{line}", width = MARGIN - 2).trim_end())?;
    }
    writeln!(f, "{:>MARGIN$}{}", "0 % +", "-".repeat(points.len()))?;
    writeln!(f, "{:MARGIN$}{}", "", axis(points))
}

/// Returns the labels under the columns, each beginning under its column, as far as there is room.
fn axis(points: &[CurvePoint]) -> String {
    let mut line = String::new();
    for (at, length) in marks(points) {
        let label = match length {
            Length::Time(time) => Time(time).to_string(),
            Length::Records(records) => Count(records as f64).to_string(),
        };
        let has_room = (line.is_empty() || at > line.len() + 1) && at + label.len() <= points.len();
        if has_room {
            line += &" ".repeat(at - line.len());
            line += &format!("|{label}");
        }
    }
    line
}

/// Returns round lengths within the curve, and the first columns that reach them.
fn marks(points: &[CurvePoint]) -> Vec<(usize, Length)> {
    let size = |length: Length| match length {
        Length::Time(time) => nanos_of(time),
        Length::Records(records) => records,
    };
    let round: Vec<u64> = match points[0].length {
        Length::Records(_) => (0..19).map(|exponent| 10_u64.pow(exponent)).collect(),
        Length::Time(_) => {
            const SECOND: u64 = 1_000_000_000;
            let seconds = [10, 60, 600, 3_600, 36_000, 360_000, 3_600_000, 36_000_000, 360_000_000];
            (0..10).map(|exponent| 10_u64.pow(exponent)).chain(seconds.map(|s| s * SECOND)).collect()
        }
    };
    let column = |mark: u64| {
        let at = points.iter().position(|point| size(point.length) >= mark)?;
        // A length below the first column is not in the picture.
        (at > 0 || size(points[0].length) == mark).then(|| {
            let length = match points[0].length {
                Length::Time(_) => Length::Time(Duration::from_nanos(mark)),
                Length::Records(_) => Length::Records(mark),
            };
            (at, length)
        })
    };
    round.into_iter().filter_map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;
    use hapax::Timestamp;

    fn profile(has_times: bool) -> Profile {
        let mut profile = Profile::new(10_000).unwrap();
        // Ids come again after 1, 2, 4, … 2048 seconds, each distance equally often.
        let mut records: Vec<(u64, u64)> = (0..12)
            .flat_map(|i| {
                (0..20).flat_map(move |n| {
                    let id = 100 * i + n;
                    [(10_000 * n, id), (10_000 * n + (1 << i), id)]
                })
            })
            .collect();
        records.sort_unstable();
        for (second, id) in records {
            let time = has_times.then_some(Timestamp::from_secs(second));
            profile.see(id.to_string(), time).unwrap();
        }
        profile
    }

    #[test]
    fn it_is_legible_in_80_columns() {
        for has_times in [true, false] {
            let text = profile(has_times).summary().to_string();
            println!("{text}");
            assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
            assert!(text.is_ascii());
        }
    }

    #[test]
    fn the_curve_is_a_staircase() {
        let text = profile(true).summary().to_string();
        let rows: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("  100 % |")).take(ROWS.len()).collect();
        let starts: Vec<_> = rows.iter().map(|row| row.find('#').unwrap()).collect();
        // Twelve distances in equal ratios: a tenth of the repeats takes the first of them, a half
        // the sixth, 99 % the last.
        let step = (starts[3] - starts[12]) as f64 / 11.0;
        let expected = [11, 11, 11, 11, 10, 9, 8, 7, 5, 4, 3, 2, 1].map(|steps| f64::from(steps) * step);
        for (start, expected) in starts.iter().zip(expected) {
            assert!((*start as f64 - starts[12] as f64 - expected).abs() <= 1.5 + step, "{text}");
        }
        assert!(starts.is_sorted_by(|above, below| above >= below), "{text}");
        let axis = text.lines().last().unwrap();
        assert_eq!(axis.split_whitespace().collect::<Vec<_>>(), ["|1s", "|10s", "|1m", "|10m"], "{text}");
    }

    #[test]
    fn without_repeats_there_is_no_curve() {
        let mut profile = Profile::new(10).unwrap();
        profile.see("a", None).unwrap();
        let summary = profile.summary();
        assert!(summary.curve.is_empty() && summary.quantiles.is_empty());
        assert!(summary.to_string().contains("No id came twice"));
        assert_eq!(Profile::new(1).unwrap().summary().records, 0);
    }
}
