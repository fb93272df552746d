//! Parsers for numbers with units. [`hapax_plan`] prints them, and they read back what it prints,
//! except for the commas in thousands. Sizes are binary in both.

use jiff::{Span, SpanRelativeTo};
use std::time::Duration;

/// Parses a duration. Days have 24 hours here.
pub fn duration(text: &str) -> Result<Duration, String> {
    const LIKE: &str = "(like 10s, 10m, 1h30m or 7d)";
    let span: Span = text.parse().map_err(|_| match number(text) {
        Ok(_) => format!("it lacks a unit {LIKE}"),
        Err(_) => format!("it is no duration {LIKE}"),
    })?;
    let signed = span.to_duration(SpanRelativeTo::days_are_24_hours());
    let signed = signed.map_err(|_| format!("months and years are not always as long: say days {LIKE}"))?;
    Duration::try_from(signed).map_err(|_| "a duration cannot be negative".to_string())
}

const TOO_MANY: &str = "that is more than there can be";

/// Parses a whole number, with a decimal suffix or exponent, or none.
pub fn capacity(text: &str) -> Result<usize, String> {
    const LIKE: &str = "(like 20000, 20_000, 5M or 1e9)";
    // Not as a float, which has 16 digits.
    if let Ok(number) = text.trim().replace('_', "").parse() {
        return Ok(number);
    }
    let number = decimal(text).ok_or_else(|| format!("it is no number {LIKE}"))?;
    if number < 0.0 || number.fract() != 0.0 {
        return Err(format!("it has to be a whole number {LIKE}"));
    }
    if number < usize::MAX as f64 { Ok(number as usize) } else { Err(TOO_MANY.to_string()) }
}

/// Parses a number, with a decimal suffix or none.
pub fn rate(text: &str) -> Result<f64, String> {
    decimal(text).ok_or_else(|| "it is no number (like 20000, 20k or 1.5M)".to_string())
}

/// Parses a finite number.
pub fn number(text: &str) -> Result<f64, String> {
    let number = text.trim().replace('_', "").parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| "it is no number".to_string())
}

/// Parses a number with k, M or G behind it, or nothing.
fn decimal(text: &str) -> Option<f64> {
    let text = text.trim();
    let exponent = match text.chars().next_back() {
        Some('k') => "e3",
        Some('M') => "e6",
        Some('G') => "e9",
        _ => return number(text).ok(),
    };
    // As text, so that 1.001k is 1001, and not what is left of it after a multiplication.
    number(&format!("{}{exponent}", &text[..text.len() - 1])).ok()
}

/// Parses a number of bytes, with a binary suffix or none.
pub fn bytes(text: &str) -> Result<usize, String> {
    const LIKE: &str = "(like 512M or 16G; a K is 1024 bytes)";
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &text[digits.len()..];
    let factor = match &*unit.to_ascii_uppercase() {
        _ if digits.is_empty() => return Err(format!("it is no number {LIKE}")),
        "" | "B" => 1_u64,
        "K" | "KIB" => 1 << 10,
        "M" | "MIB" => 1 << 20,
        "G" | "GIB" => 1 << 30,
        "T" | "TIB" => 1 << 40,
        "P" | "PIB" => 1 << 50,
        _ => return Err(format!("`{unit}` is none of K, M, G, T and P {LIKE}")),
    };
    let bytes = match digits.trim().replace('_', "").parse::<u64>() {
        Ok(number) => number.checked_mul(factor),
        Err(_) => {
            let number = number(digits).ok().filter(|number| *number >= 0.0);
            let bytes = number.ok_or_else(|| format!("it is no number {LIKE}"))? * factor as f64;
            if factor == 1 && bytes.fract() != 0.0 {
                return Err(format!("it has to be a whole number of bytes, or have a unit {LIKE}"));
            }
            (bytes < u64::MAX as f64).then_some(bytes as u64)
        }
    };
    bytes.and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(|| TOO_MANY.to_string())
}

/// Parses a share, also in percent.
pub fn share(text: &str) -> Result<f64, String> {
    let share = match text.strip_suffix('%') {
        // The percentage is parsed as text, so that 99.9 % is exactly 0.999, without the rounding
        // of a division.
        Some(digits) => number(&format!("{}e-2", digits.trim()))?,
        None => number(text)?,
    };
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err("a share is from 0 to 1".to_string()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hapax_plan::{Bytes, BytesNeeded, Time};

    #[test]
    fn values_are_understood() {
        assert_eq!(duration("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2w 1d"), Ok(Duration::from_secs(15 * 86_400)));
        assert!(duration("1 month").is_err());
        assert_eq!([capacity("20_000"), capacity("20k"), capacity("1.5M")], [20_000, 20_000, 1_500_000].map(Ok));
        assert_eq!([capacity("1e9"), capacity("1.001k"), capacity("1E3")], [1_000_000_000, 1_001, 1_000].map(Ok));
        assert_eq!(capacity("9007199254740993"), Ok(9_007_199_254_740_993));
        assert!(
            ["", "k", "1.0005k", "-1k", "1e30G", "20K", "1.5", "1e-3", "nan", "inf"]
                .iter()
                .all(|text| capacity(text).is_err())
        );
        assert!(duration("-1s").is_err() && duration("10").is_err() && duration("").is_err());
    }

    #[test]
    fn sizes_are_binary() {
        let sizes = ["12 B", "1e9", "12k", "1.5M", "12G", "12GiB", "1_000 ", "2T", "0.5P"].map(bytes);
        let expected = [12, 1_000_000_000, 12 << 10, 3 << 19, 12 << 30, 12 << 30, 1_000, 2 << 40, 1 << 49]
            .map(|size: usize| Ok(size));
        assert_eq!(sizes, expected);
        assert!(
            ["", "M", "1.5", "1GB", "-1", "-1M", "1e30", "99999999999P", "x"].iter().all(|text| bytes(text).is_err())
        );
    }

    #[test]
    fn errors_say_what_to_type() {
        for text in ["10", "10 apples", "soon", "", "99999999999999999999h", "1 year"] {
            let said = duration(text).unwrap_err();
            assert!(said.contains("(like 10s, 10m, ") && !said.contains("friendly"), "{text}: {said}");
        }
        assert_eq!(duration("10 minutes ago"), Err("a duration cannot be negative".to_string()));
        assert!(duration("10").unwrap_err().starts_with("it lacks a unit"));
    }

    #[test]
    fn rates_and_shares_are_understood() {
        assert_eq!([rate("20000"), rate("20_000"), rate("20k"), rate("1.5M")], [2e4, 2e4, 2e4, 1.5e6].map(Ok));
        assert_eq!([share("0.05"), share("5%"), share("99.9 %")], [0.05, 0.05, 0.999].map(Ok));
        for wrong in ["", "k", "x", "nan", "inf", "1e999", "5 apples"] {
            assert!(rate(wrong).is_err() && share(wrong).is_err(), "{wrong}");
        }
        assert!(share("1.5").is_err() && share("-1").is_err() && share("120%").is_err());
    }

    #[test]
    fn what_is_printed_is_read_back() {
        let sizes =
            (0..=50).flat_map(|bit| [1_u64 << bit, 3 << bit, (1 << bit) + (1 << bit) / 8, (1 << bit) * 999 / 1_000]);
        for size in sizes {
            let shown = Bytes(size as f64).to_string().replace(',', "");
            let read = bytes(&shown).unwrap_or_else(|why| panic!("{shown}: {why}")) as u64;
            assert!(read.abs_diff(size) <= size / 180, "{size} is shown as {shown}, which is {read}");
            let again = Bytes(read as f64).to_string().replace(',', "");
            assert_eq!(again, shown, "what was read is shown as it was");
            let needed = BytesNeeded(size as f64).to_string().replace(',', "");
            assert!(bytes(&needed).unwrap() as u64 >= size, "{needed} suffices for {size}");
        }
        for nanos in [0, 7, 1_500, 20_000, 1_250_000, 999_999_999, 90_500_000_000, 5_400_000_000_000, u64::MAX >> 1] {
            let time = Duration::from_nanos(nanos);
            assert_eq!(duration(&Time(time).to_string()), Ok(time), "{}", Time(time));
        }
    }
}
