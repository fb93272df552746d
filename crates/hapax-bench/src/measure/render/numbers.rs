//! Numbers for people: three digits, and a unit.

/// Formats a count: 1,234,567.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Formats a number with three digits, or all in front of the point.
pub fn digits(number: f64) -> String {
    if !number.is_finite() {
        return "–".into();
    }
    if number == 0.0 {
        return "0".into();
    }
    // The number is rounded first: 9.996 has one digit less behind the point than it seems.
    let magnitude = format!("{:.2e}", number.abs());
    let magnitude: i32 = magnitude.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
    match magnitude {
        2.. if number.abs() < 1e15 => {
            let sign = if number < 0.0 { "-" } else { "" };
            format!("{sign}{}", count(number.abs().round() as u64))
        }
        -6..2 => format!("{number:.*}", (2 - magnitude).unsigned_abs() as usize),
        _ => format!("{number:.2e}"),
    }
}

/// Formats a number without zeros at the end.
pub fn trimmed(number: f64) -> String {
    let digits = digits(number);
    match digits.contains('.') && !digits.contains('e') {
        true => digits.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => digits,
    }
}

const SI: [(f64, &str); 4] = [(1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, "")];

/// Returns the factor and the letter for numbers of this size. Those that would be rounded up to
/// the next get the next.
fn scale(number: f64, scales: &[(f64, &'static str)]) -> (f64, &'static str) {
    let fits = |(factor, _): &&(f64, &str)| number.abs() >= 0.9995 * factor;
    *scales.iter().find(fits).or(scales.last()).unwrap_or(&(1.0, ""))
}

/// Formats a large number: 41.2 M.
pub fn large(number: f64) -> String {
    let (factor, letter) = scale(number, &SI);
    format!("{}{letter}", digits(number / factor))
}

/// Formats a chosen rather than measured number: 10 M, as `large`, without zeros at the end.
pub fn round(number: f64) -> String {
    let (factor, letter) = scale(number, &SI);
    format!("{}{letter}", trimmed(number / factor))
}

/// Formats a time: 27.3 ns, 1.20 ms.
pub fn time(nanos: f64) -> String {
    let (factor, unit) = scale(nanos, &[(1e9, " s"), (1e6, " ms"), (1e3, " µs"), (1.0, " ns")]);
    format!("{}{unit}", digits(nanos / factor))
}

/// Formats a size: 18.4 GiB.
pub fn bytes(bytes: f64) -> String {
    const SCALES: [(f64, &str); 5] = [
        ((1_u64 << 40) as f64, " TiB"),
        ((1_u64 << 30) as f64, " GiB"),
        ((1_u64 << 20) as f64, " MiB"),
        ((1_u64 << 10) as f64, " KiB"),
        (1.0, " B"),
    ];
    let (factor, unit) = scale(bytes, &SCALES);
    format!("{}{unit}", trimmed(bytes / factor))
}

/// Formats a share: 0.1 %, 2.5 in a million.
pub fn share(share: f64) -> String {
    match share {
        0.0 => "0".into(),
        _ if share >= 0.9995e-3 => format!("{} %", trimmed(100.0 * share)),
        _ if share >= 0.9995e-7 => format!("{} in a million", trimmed(1e6 * share)),
        _ => format!("{} in a billion", trimmed(1e9 * share)),
    }
}

/// Formats seconds since 1970 as the date and time of day, in UTC.
pub fn date(unix_seconds: u64) -> String {
    let (days, second) = (unix_seconds / 86_400, unix_seconds % 86_400);
    // Hinnant's calendar: years begin in March, so that leap days are at their end, and repeat
    // every 400 years.
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = 400 * era + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", second / 3600, second / 60 % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits() {
        let found = [0.0, 1.0, 9.996, 99.96, 999.6, 1234.0, 0.01234, 1e-9, -5.0, f64::NAN].map(digits);
        assert_eq!(found, ["0", "1.00", "10.0", "100", "1,000", "1,234", "0.0123", "1.00e-9", "-5.00", "–"]);
        assert_eq!([1.0, 10.0, 18.4, 0.1, 120.0].map(trimmed), ["1", "10", "18.4", "0.1", "120"]);
    }

    #[test]
    fn units() {
        assert_eq!([999_600.0, 41_234_567.0, 12.0].map(large), ["1.00 M", "41.2 M", "12.0"]);
        assert_eq!([1e7, 65_536.0, 3.0].map(round), ["10 M", "65.5 k", "3"]);
        assert_eq!([0.5, 27.34, 1.2e6, 9.9999e9].map(time), ["0.500 ns", "27.3 ns", "1.20 ms", "10.0 s"]);
        assert_eq!([17.0, 24.0 * 1073741824.0].map(bytes), ["17 B", "24 GiB"]);
        assert_eq!(
            [0.0, 0.25, 0.001, 2.5e-6, 3e-9].map(share),
            ["0", "25 %", "0.1 %", "2.5 in a million", "3 in a billion"]
        );
    }

    #[test]
    fn dates() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_399), "2000-02-28 23:59 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(date(4_107_542_399), "2100-02-28 23:59 UTC");
        assert_eq!(date(4_107_542_400), "2100-03-01 00:00 UTC");
        assert!(date(u64::MAX).ends_with("UTC"));
    }
}
