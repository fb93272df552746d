//! Parsers for the values of options.

use super::{History, Quote};
use jiff::{Span, SpanRelativeTo};
use std::time::Duration;

/// Parses a duration. Days have 24 hours here.
pub fn duration(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<Span>().and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()));
    let signed = parsed.map_err(|e| format!("{e}; a duration looks like 10m, 1h 30m or 7d"))?;
    Duration::try_from(signed).map_err(|_| "a duration cannot be negative".to_string())
}

/// Parses a whole number, with a decimal suffix or none.
pub fn capacity(text: &str) -> Result<usize, String> {
    if !text.ends_with(['k', 'M', 'G']) {
        return text.replace('_', "").parse().map_err(|e| format!("{e}"));
    }
    let number = rate(text)?;
    match number >= 0.0 && number.fract() == 0.0 && number < usize::MAX as f64 {
        true => Ok(number as usize),
        false => Err("it is no whole number".to_string()),
    }
}

/// Parses a number, with a decimal suffix or none.
pub fn rate(text: &str) -> Result<f64, String> {
    let (digits, factor) = match text.char_indices().next_back() {
        Some((at, 'k')) => (&text[..at], 1e3),
        Some((at, 'M')) => (&text[..at], 1e6),
        Some((at, 'G')) => (&text[..at], 1e9),
        _ => (text, 1.0),
    };
    number(digits).map(|number| number * factor)
}

pub fn number(text: &str) -> Result<f64, String> {
    let number: f64 = text.trim().replace('_', "").parse().map_err(|e| format!("{e}"))?;
    number.is_finite().then_some(number).ok_or_else(|| "it is no number".to_string())
}

/// Parses a number of bytes, with a binary suffix or none.
pub fn bytes(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &*text[digits.len()..].to_ascii_uppercase() {
        "" => 1,
        "K" | "KIB" => 1_usize << 10,
        "M" | "MIB" => 1 << 20,
        "G" | "GIB" => 1 << 30,
        "T" | "TIB" => 1 << 40,
        unknown => return Err(format!("{unknown} is none of K, M, G and T")),
    };
    let number = capacity(digits)?;
    number.checked_mul(factor).ok_or_else(|| "that is more than there can be".to_string())
}

pub fn history(text: &str) -> Result<History, String> {
    let mut parts = text.split(':');
    let (Some(horizon), Some(rate)) = (parts.next(), parts.next()) else {
        return Err("it looks like 24h:1e-6 or 24h:1e-6:50000000".to_string());
    };
    let ids = parts.next().map(capacity).transpose()?;
    if parts.next().is_some() {
        return Err("there is something after the number of ids".to_string());
    }
    let false_positive_rate = rate.parse().map_err(|e| format!("the rate {rate}: {e}"))?;
    Ok(History { horizon: duration(horizon)?, false_positive_rate, ids })
}

pub fn pointer(text: &str) -> Result<String, String> {
    match text.is_empty() || text.starts_with('/') {
        true => Ok(text.to_string()),
        false => Err("a JSON pointer begins with /".to_string()),
    }
}

pub fn byte(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        _ if text == "\\t" => Ok(b'\t'),
        [byte] if !matches!(byte, b'\n' | b'\r') => Ok(*byte),
        _ => Err("it must be a single byte, and not the end of a line".to_string()),
    }
}

pub fn quote(text: &str) -> Result<Quote, String> {
    match text {
        "none" => Ok(Quote::None),
        _ => byte(text).map(Quote::With),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_understood() {
        assert_eq!(duration("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("2w 1d"), Ok(Duration::from_secs(15 * 86_400)));
        assert!(duration("1 month").is_err());
        assert_eq!([capacity("20_000"), capacity("20k"), capacity("1.5M")], [20_000, 20_000, 1_500_000].map(Ok));
        assert!(["", "k", "1.0005k", "-1k", "1e30G", "20K"].iter().all(|text| capacity(text).is_err()));
        assert!(duration("-1s").is_err() && duration("10").is_err() && duration("").is_err());
        let horizon = Duration::from_secs(86_400);
        assert_eq!(history("24h:1e-6"), Ok(History { horizon, false_positive_rate: 1e-6, ids: None }));
        assert_eq!(history("24h:0.01:5_000").unwrap().ids, Some(5_000));
        assert!(history("24h").is_err() && history("24h:x").is_err() && history("24h:0.1:1:2").is_err());
        assert_eq!((byte("\\t"), byte(",")), (Ok(b'\t'), Ok(b',')));
        assert!(byte("").is_err() && byte("ab").is_err() && byte("\n").is_err());
        assert_eq!((quote("none"), quote("'")), (Ok(Quote::None), Ok(Quote::With(b'\''))));
        assert!(pointer("/a/0").is_ok() && pointer("").is_ok() && pointer("a").is_err());
    }
}
