//! The options that say how times are written.

use clap::ValueEnum;
use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::TimeZone;

/// The form of a time.
#[derive(Clone, Debug, PartialEq, ValueEnum)]
pub enum TimeFormat {
    S,
    Ms,
    Us,
    Ns,
    #[value(alias = "python")]
    Rfc3339,
    Apache,
    Syslog,
    /// A pattern of strftime
    #[value(skip)]
    Pattern(String),
}

impl TimeFormat {
    /// Returns the nanoseconds of a unit, if times are numbers of them.
    pub fn unit_nanos(&self) -> Option<u64> {
        match self {
            TimeFormat::S => Some(1_000_000_000),
            TimeFormat::Ms => Some(1_000_000),
            TimeFormat::Us => Some(1_000),
            TimeFormat::Ns => Some(1),
            _ => None,
        }
    }
}

/// Parses the name of a format, or takes a pattern as it is.
pub fn time_format(text: &str) -> Result<TimeFormat, String> {
    if text.contains('%') {
        return Ok(TimeFormat::Pattern(text.to_string()));
    }
    const EXPECTED: &str = "it is none of s, ms, us, ns, rfc3339, python, apache, syslog, and no pattern like %d.%m.%Y";
    TimeFormat::from_str(text, false).map_err(|_| EXPECTED.to_string())
}

pub fn time_zone(text: &str) -> Result<TimeZone, String> {
    let zone = DateTimeParser::new().parse_time_zone(text);
    zone.map_err(|error| format!("it is no zone like UTC, +02:00 or Europe/Berlin: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_understood() {
        let pattern = TimeFormat::Pattern("%s".to_string());
        assert_eq!([time_format("python"), time_format("%s")], [Ok(TimeFormat::Rfc3339), Ok(pattern)]);
        assert!(time_format("iso").is_err() && time_zone("").is_err() && time_zone("Nowhere/Near").is_err());
        for zone in ["UTC", "+02:00", "-05:00"] {
            assert!(time_zone(zone).is_ok(), "{zone}");
        }
    }
}
