//! Parsers for the other values of options.

use super::units::bytes;
use clap::ValueEnum;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The form in which something is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Text,
    /// For programs
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Quote {
    None,
    With(u8),
}

/// Parses the length of a line, which fits into a batch.
pub fn line_bytes(text: &str) -> Result<u32, String> {
    let bytes = bytes(text)?;
    if (1..=1 << 30).contains(&bytes) { Ok(bytes as u32) } else { Err("it has to be from 1 to 1G".to_string()) }
}

/// Parses a whole number within a range.
pub fn whole<N: FromStr + PartialOrd + Display>(text: &str, range: RangeInclusive<N>) -> Result<N, String> {
    let number = text.trim().replace('_', "").parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("expected a whole number from {} to {}", range.start(), range.end()))
}

/// Parses the number of a field.
pub fn field(text: &str) -> Result<u32, String> {
    whole(text, 1..=u32::MAX)
        .map_err(|_| "expected the number of a field, counted from 1 (one with a name: --column)".to_string())
}

/// Parses a seed.
pub fn seed(text: &str) -> Result<u64, String> {
    whole(text, 0..=u64::MAX)
}

/// Parses a factor, such as that of a peak.
pub fn factor(text: &str) -> Result<f64, String> {
    super::units::number(text).map_err(|_| "expected a number, such as 3 or 1.5".to_string())
}

pub fn pointer(text: &str) -> Result<String, String> {
    if text.is_empty() || text.starts_with('/') {
        return Ok(text.to_string());
    }
    // As other programs have it: `id`, `.a.id`, `$.a[0].id`, `#/a/id`.
    let path = text.trim_start_matches(['$', '#', '.', '/']).replace(['.', '['], "/").replace(']', "");
    Err(format!("a JSON pointer begins with a slash: /{path}"))
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
        assert_eq!((byte("\\t"), byte(",")), (Ok(b'\t'), Ok(b',')));
        assert!(byte("").is_err() && byte("ab").is_err() && byte("\n").is_err());
        assert_eq!((quote("none"), quote("'")), (Ok(Quote::None), Ok(Quote::With(b'\''))));
        assert_eq!(
            (whole("1_000", 1..=1_000), field("3"), seed("0"), factor("1.5")),
            (Ok(1_000), Ok(3), Ok(0), Ok(1.5))
        );
        for wrong in [field("0").err(), field("x").err(), seed("abc").err(), factor("much").err()] {
            assert!(wrong.is_some_and(|why| why.starts_with("expected ")));
        }
        assert!(pointer("/a/0").is_ok() && pointer("").is_ok() && pointer("a").is_err());
        assert_eq!((line_bytes("16M"), line_bytes("1")), (Ok(16 << 20), Ok(1)));
        assert!(line_bytes("0").is_err() && line_bytes("2G").is_err());
        for (path, says) in [("id", "/id"), (".a.id", "/a/id"), ("$.a[0].id", "/a/0/id"), ("#/a/id", "/a/id")] {
            assert!(pointer(path).unwrap_err().ends_with(&format!(" {says}")), "{path}");
        }
    }
}
