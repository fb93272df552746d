//! Hints for lines that the options do not fit. Pure.

use super::fields::{Dialect, Splitter};
use crate::args::delimiter;
use std::borrow::Cow;

/// Delimiters that people use.
const DELIMITERS: [u8; 4] = [b',', b'\t', b';', b'|'];

/// Returns `; there is WHAT with --delimiter ,` if a line has what it lacks with that delimiter.
pub fn with_another_delimiter(
    what: &str,
    line: &[u8],
    dialect: Dialect,
    is_there: impl Fn(&[Cow<[u8]>]) -> bool,
) -> String {
    let others = DELIMITERS.into_iter().filter(|other| *other != dialect.delimiter);
    let found = others.into_iter().find(|&other| {
        let quote = dialect.quote.or_else(|| Dialect::quote_of(other)).filter(|quote| *quote != other);
        let fields: Result<Vec<_>, _> = Splitter::new(Dialect { delimiter: other, quote }).split(line).collect();
        fields.is_ok_and(|fields| is_there(&fields))
    });
    found.map_or_else(String::new, |found| format!("; there is {what} with {}", delimiter::option(found)))
}

/// Returns the unit in which a decimal number is a time from 1990 to 2100: how many are a second,
/// its name for `--time-format`, and its name. These ranges do not overlap.
pub fn unit_of(number: &[u8]) -> Option<(u64, &'static str, &'static str)> {
    const UNITS: [(u64, &str, &str); 4] = [
        (1, "s", "seconds"),
        (1_000, "ms", "milliseconds"),
        (1_000_000, "us", "microseconds"),
        (1_000_000_000, "ns", "nanoseconds"),
    ];
    const SECONDS: std::ops::Range<u64> = 631_152_000..4_102_444_800;
    let whole = number.split(|byte| *byte == b'.').next()?;
    let whole: u64 = std::str::from_utf8(whole).ok()?.parse().ok()?;
    UNITS.into_iter().find(|(a_second, ..)| SECONDS.contains(&(whole / a_second)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_told_by_the_number_of_digits() {
        let unit = |text: &str| unit_of(text.as_bytes()).map(|(_, option, _)| option);
        assert_eq!(unit("1686440593"), Some("s"));
        assert_eq!(unit("1686440593.25"), Some("s"));
        assert_eq!(unit("1686440593000"), Some("ms"));
        assert_eq!(unit("1686440593000000"), Some("us"));
        assert_eq!(unit("1686440593000000000"), Some("ns"));
        for text in ["", "17", "x", "99999999999", "-1686440593", "18446744073709551616"] {
            assert_eq!(unit(text), None, "{text}");
        }
    }

    #[test]
    fn another_delimiter_is_named_if_it_helps() {
        let tabs = Dialect { delimiter: b'\t', quote: None };
        let hint = |line: &str| with_another_delimiter("a field 2", line.as_bytes(), tabs, |fields| fields.len() >= 2);
        assert_eq!(hint("a,b"), "; there is a field 2 with --delimiter ,");
        assert_eq!(hint("a;b"), "; there is a field 2 with --delimiter ';'");
        assert_eq!(hint("a|b"), "; there is a field 2 with --delimiter '|'");
        assert_eq!((hint("a b"), hint("")), (String::new(), String::new()));
        assert_eq!(hint("\"a,b\""), "", "a comma within quotes divides nothing");
    }
}
