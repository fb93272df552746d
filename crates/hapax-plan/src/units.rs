//! Numbers with their units, for people. Pure. The command `hapax` prints with these, too.

use std::fmt;
use std::time::Duration;

/// A number, to three digits: `950`, `12,300`, `4.5 M`.
pub struct Count(pub f64);

/// A number of bytes in binary units, as options are read, to three digits: `950 B`, `17.5 MiB`.
pub struct Bytes(pub f64);

/// A number of bytes that are needed at least: as [`Bytes`], but rounded up, so that what is shown
/// suffices.
pub struct BytesNeeded(pub f64);

/// A duration in the form in which options are given: `10m`, `1h30m`, `1.5s`.
pub struct Time(pub Duration);

/// A share or a rate: `0`, `1.2e-6`, `0.034 %`.
pub struct Share(pub f64);

/// A frequency a day, or, if it is rare, one in this many days or years: `12 a day`,
/// `one in 3.1 years`.
pub(super) struct ADay(pub(super) f64);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&match self.0 {
            n if n < 100_000.0 => with_commas(&three_digits(n)),
            n => scaled(n, &["", " k", " M", " G", " T", " P"]),
        })
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, unit) = in_binary_units(self.0);
        f.pad(&format!("{} {unit}", with_commas(&three_digits(number))))
    }
}

impl fmt::Display for BytesNeeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, unit) = in_binary_units(self.0);
        let step = 0.1_f64.powi(digits_behind(number));
        // What the divisions have left over is no step more.
        let up = step * (number / step - 1e-9).ceil();
        f.pad(&format!("{} {unit}", with_commas(&three_digits(up))))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&time(self.0))
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&match self.0 {
            0.0 => "0".to_string(),
            share if share < 1e-4 => format!("{share:.1e}"),
            share => format!("{} %", three_digits(100.0 * share)),
        })
    }
}

impl fmt::Display for ADay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DAYS_A_YEAR: f64 = 365.25;
        f.pad(&match self.0 {
            n if n >= 1.0 => format!("{} a day", Count(n)),
            0.0 => "none".to_string(),
            n if n * DAYS_A_YEAR >= 1.0 => format!("one in {} days", Count(1.0 / n)),
            n if n * DAYS_A_YEAR > 1e-6 => format!("one in {} years", Count(1.0 / n / DAYS_A_YEAR)),
            _ => "less than one in a million years".to_string(),
        })
    }
}

/// Formats a number in the largest unit that leaves a digit before the point.
fn scaled(number: f64, units: &[&str]) -> String {
    // 999.5 would round to the next unit.
    let larger = |&(n, unit): &(f64, usize)| (n >= 999.5 && unit + 1 < units.len()).then(|| (n / 1e3, unit + 1));
    let steps = std::iter::successors(Some((number, 0)), larger);
    let (number, unit) = steps.last().unwrap_or((number, 0));
    format!("{}{}", three_digits(number), units[unit])
}

/// Scales a number of bytes to the largest binary unit that leaves a digit before the point.
fn in_binary_units(bytes: f64) -> (f64, &'static str) {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    // 1023.5 is written with the next unit already.
    let larger = |&(n, unit): &(f64, usize)| (n >= 1023.5 && unit + 1 < UNITS.len()).then(|| (n / 1024.0, unit + 1));
    let (number, unit) = std::iter::successors(Some((bytes, 0)), larger).last().unwrap_or((bytes, 0));
    (number, UNITS[unit])
}

/// Returns the number of digits behind the point that make three in all.
fn digits_behind(number: f64) -> i32 {
    let whole_digits = number.abs().max(f64::MIN_POSITIVE).log10().floor() as i32 + 1;
    (3 - whole_digits).clamp(0, 6)
}

/// Formats a number with three digits, or as many as a whole number has; no zeros behind the point.
fn three_digits(number: f64) -> String {
    let text = format!("{number:.0$}", digits_behind(number) as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

pub(super) fn with_commas(text: &str) -> String {
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut out = String::new();
    for (i, digit) in whole.char_indices() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out + fraction
}

/// Formats a duration with three digits in its largest unit, for people: `1.25 ms`, `36.4 s`,
/// `2.5 days`.
pub fn rough(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    const UNITS: [(f64, &str); 6] =
        [(86_400.0, "days"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "us")];
    // Days, hours and minutes are used only from two of them on.
    let least = |unit: f64| if unit > 1.0 { 2.0 * unit } else { unit };
    match UNITS.iter().find(|(unit, _)| seconds >= least(*unit)) {
        Some((unit, name)) => format!("{} {name}", Count(seconds / unit)),
        None if duration.is_zero() => "0 s".to_string(),
        None => format!("{} ns", duration.as_nanos()),
    }
}

fn time(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let decimal = |unit_nanos: u128, unit: &str| {
        let (whole, rest) = (nanos / unit_nanos, nanos % unit_nanos);
        let digits = unit_nanos.ilog10() as usize;
        let fraction = format!("{rest:0digits$}");
        let text = format!("{whole}.{fraction}");
        format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
    };
    match nanos {
        0..1_000 => format!("{nanos}ns"),
        1_000..1_000_000 => decimal(1_000, "us"),
        1_000_000..1_000_000_000 => decimal(1_000_000, "ms"),
        1_000_000_000..60_000_000_000 => decimal(1_000_000_000, "s"),
        _ => {
            let seconds = duration.as_secs();
            let parts = [(seconds / 3600, "h"), (seconds / 60 % 60, "m")];
            let mut text: String = parts.iter().filter(|(n, _)| *n > 0).map(|(n, unit)| format!("{n}{unit}")).collect();
            let rest = Duration::new(seconds % 60, duration.subsec_nanos());
            if !rest.is_zero() {
                text += &time(rest);
            }
            text
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn twelve_gib() -> f64 {
        12.0 * 1024.0 * 1024.0 * 1024.0
    }

    #[test]
    fn numbers_are_legible() {
        let counts = [0.0, 0.05, 7.0, 12.34, 950.0, 1_234.0, 99_999.0, 123_456.0, 4.5e6, 999_600.0]
            .map(|n| Count(n).to_string());
        assert_eq!(counts, ["0", "0.05", "7", "12.3", "950", "1,234", "99,999", "123 k", "4.5 M", "1 M"]);
        assert_eq!(
            [0.0, 1.23e-6, 3.4e-4, 0.05, 1.0].map(|n| Share(n).to_string()),
            ["0", "1.2e-6", "0.034 %", "5 %", "100 %"]
        );
        let often = [0.0, 12.0, 0.5, 0.001, 1e-30].map(|n| ADay(n).to_string());
        assert_eq!(
            often,
            ["none", "12 a day", "one in 2 days", "one in 2.74 years", "less than one in a million years"]
        );
    }

    #[test]
    fn bytes_are_binary_as_they_are_read() {
        let sizes = [0.0, 950.0, 1_012.0, 1_023.6, 1_536.0, 18.4e6, twelve_gib(), 1e30].map(|n| Bytes(n).to_string());
        assert_eq!(
            sizes[..7],
            ["0 B", "950 B", "1,012 B", "1 KiB", "1.5 KiB", "17.5 MiB", "12 GiB"].map(str::to_string)
        );
        assert!(sizes[7].ends_with(" PiB"), "{sizes:?}");
    }

    #[test]
    fn what_is_needed_is_never_shown_as_less() {
        let shown = [128.0, 1_840_000.0, 1_835_008.0, 1_047_552.0, twelve_gib() + 1.0, twelve_gib()];
        let shown = shown.map(|n| BytesNeeded(n).to_string());
        assert_eq!(shown, ["128 B", "1.76 MiB", "1.75 MiB", "1,023 KiB", "12.1 GiB", "12 GiB"]);
    }

    #[test]
    fn durations_are_as_they_are_typed() {
        let seconds =
            [600.0, 5_400.0, 90.5, 86_400.0, 1.5, 0.25, 0.000_02].map(|s| Time(Duration::from_secs_f64(s)).to_string());
        assert_eq!(seconds, ["10m", "1h30m", "1m30.5s", "24h", "1.5s", "250ms", "20us"]);
        assert_eq!(Time(Duration::from_nanos(7)).to_string(), "7ns");
        assert_eq!(Time(Duration::from_millis(60_001)).to_string(), "1m1ms");
        let rough = [0.0, 7e-9, 1.234e-3, 90.0, 150.0, 7_200.0, 1e6].map(|s| rough(Duration::from_secs_f64(s)));
        assert_eq!(rough, ["0 s", "7 ns", "1.23 ms", "90 s", "2.5 min", "2 h", "11.6 days"]);
    }
}
