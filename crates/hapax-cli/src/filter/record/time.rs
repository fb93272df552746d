//! Parses times of events. Pure, except for the year of times that have none: the clock says it.

use super::hints::unit_of;
use crate::args::TimeFormat;
use hapax::Timestamp;
use jiff::SignedDuration;
use jiff::civil::{DateTime, date};
use jiff::fmt::strtime::{self, BrokenDownTime};
use jiff::fmt::temporal::DateTimeParser;
use jiff::tz::TimeZone;
use std::cell::Cell;

/// The way in which the times of an input are written.
#[derive(Debug)]
pub struct Times {
    format: TimeFormat,
    /// The zone of times that do not say theirs.
    zone: Option<TimeZone>,
    /// The latest time, where none says its year.
    latest: Cell<jiff::Timestamp>,
}

impl Clone for Times {
    /// Returns a parser for another input, whose times may be earlier.
    fn clone(&self) -> Self {
        Times { format: self.format.clone(), zone: self.zone.clone(), latest: Cell::default() }
    }
}

/// A reason why a text is no time.
type Wrong = Box<dyn std::error::Error>;

/// Times that go back by more than this were given different years, since neither says its own.
const NEARLY_A_YEAR: SignedDuration = SignedDuration::from_hours(300 * 24);

impl Times {
    /// Creates a parser. An error says what is wrong with the options.
    pub fn new(format: &TimeFormat, zone: Option<&TimeZone>) -> Result<Self, String> {
        let times = Times { format: format.clone(), zone: zone.cloned(), latest: Cell::default() };
        let tried = match format {
            TimeFormat::Syslog => times.zoned(DateTime::default()).map(drop),
            TimeFormat::Pattern(pattern) => times.try_out(pattern),
            _ if zone.is_some() && format.unit_nanos().is_some() => {
                Err("numbers count from 1970 in UTC, whatever --time-zone says".into())
            }
            _ => Ok(()),
        };
        tried.map(|()| times).map_err(|error| format!("--time-format: {error}"))
    }

    /// Checks that a time that is written by a pattern can be read by it.
    fn try_out(&self, pattern: &str) -> Result<(), Wrong> {
        let some = date(2026, 11, 27).at(22, 0, 0, 0).to_zoned(self.zone.clone().unwrap_or(TimeZone::UTC))?;
        let read = BrokenDownTime::parse(pattern, strtime::format(pattern, &some)?)?;
        let time = self.of(&read)?;
        let is_whole = [some.timestamp(), some.start_of_day()?.timestamp()].contains(&time);
        if is_whole && read.iana_time_zone().is_none() {
            return Ok(());
        }
        Err(format!("`{pattern}` does not tell a time: {some} would be read as {time}").into())
    }

    /// Returns the time that a text means, counted from 1970.
    pub fn parse(&self, text: &[u8]) -> Result<Timestamp, String> {
        let text = text.trim_ascii();
        let Some(unit_nanos) = self.format.unit_nanos() else { return self.dated(text) };
        number(text, unit_nanos).ok_or_else(|| {
            let hint = match (unit_of(text).filter(|_| is_number(text)), self.dated(text)) {
                (Some((_, option, unit)), _) => format!(": it looks like {unit} since 1970 (--time-format {option})"),
                (None, Ok(_)) => ": it looks like a date (--time-format rfc3339)".to_string(),
                (None, Err(_)) => String::new(),
            };
            format!("`{}` is no time from 1970 to 2262{hint}", text.escape_ascii())
        })
    }

    /// Parses a date with its time of day.
    fn dated(&self, text: &[u8]) -> Result<Timestamp, String> {
        let is_rfc3339 = !matches!(self.format, TimeFormat::Apache | TimeFormat::Syslog | TimeFormat::Pattern(_));
        if is_rfc3339 && is_number(text) {
            let hint = match unit_of(text) {
                Some((_, option, unit)) => format!("it looks like {unit} since 1970 (--time-format {option})"),
                None => "say what it counts since 1970 (--time-format s, ms, us or ns)".to_string(),
            };
            return Err(format!("`{}` is a number, not a date: {hint}", text.escape_ascii()));
        }
        let name = if is_rfc3339 { "RFC 3339 time" } else { "time of --time-format" };
        let wrong = |why: String| format!("`{}` is no {name}: {why}", text.escape_ascii());
        let text = std::str::from_utf8(text).map_err(|e| wrong(e.to_string()))?;
        let time = match &self.format {
            TimeFormat::Apache => {
                // Where spaces divide fields, the zone is another field, and brackets are left.
                let pattern = if text.contains(' ') { "%d/%b/%Y:%H:%M:%S %z" } else { "%d/%b/%Y:%H:%M:%S" };
                self.like(pattern, text.trim_matches(['[', ']']))
            }
            TimeFormat::Syslog => self.syslog(text, jiff::Timestamp::now()),
            TimeFormat::Pattern(pattern) => self.like(pattern, text),
            _ => self.rfc3339(text),
        };
        let nanos = time.map_err(|error| wrong(error.to_string()))?.as_nanosecond();
        let nanos = u64::try_from(nanos).ok().and_then(within_range);
        nanos.ok_or_else(|| wrong("it is not from 1970 to 2262".to_string()))
    }

    fn rfc3339(&self, text: &str) -> Result<jiff::Timestamp, Wrong> {
        let time = text.parse();
        let pieces = if time.is_ok() { None } else { Some(DateTimeParser::new().parse_pieces(text)?) };
        let unzoned = pieces.filter(|time| time.offset().is_none() && time.time_zone_annotation().is_none());
        match unzoned.and_then(|pieces| Some(pieces.date().to_datetime(pieces.time()?))) {
            Some(unzoned) => self.zoned(unzoned),
            None => Ok(time?),
        }
    }

    /// Parses a time that does not say its year.
    fn syslog(&self, text: &str, now: jiff::Timestamp) -> Result<jiff::Timestamp, Wrong> {
        let mut time = BrokenDownTime::parse("%b %e %H:%M:%S", text)?;
        let next = now.to_zoned(TimeZone::UTC).year() + 1;
        // The last 29th of February may be eight years ago.
        let mut years = (next - 9..=next).rev().map(|year| {
            time.set_year(Some(year))?;
            self.of(&time)
        });
        let found = years.find(|time| time.as_ref().is_ok_and(|time| time.duration_since(now).as_hours() < 24));
        let time = found.ok_or("there is no year that has it")??;
        if self.latest.get().duration_since(time) > NEARLY_A_YEAR {
            return Err(
                "its year is unknown, since the one before is months later: is the log older than a year?".into()
            );
        }
        self.latest.set(self.latest.get().max(time));
        Ok(time)
    }

    fn like(&self, pattern: &str, text: &str) -> Result<jiff::Timestamp, Wrong> {
        self.of(&BrokenDownTime::parse(pattern, text)?)
    }

    /// Returns the time that was read, in its own zone if it says one.
    fn of(&self, read: &BrokenDownTime) -> Result<jiff::Timestamp, Wrong> {
        if read.offset().is_some() || read.timestamp().is_some() {
            return Ok(read.to_timestamp()?);
        }
        self.zoned(read.to_datetime()?)
    }

    /// Returns the time in the zone that is given. An error says that there are two such times, or
    /// none.
    fn zoned(&self, time: DateTime) -> Result<jiff::Timestamp, Wrong> {
        let zone = self.zone.as_ref().ok_or("it has no time zone: say which (like --time-zone UTC)")?;
        Ok(zone.to_ambiguous_timestamp(time).unambiguous()?)
    }
}

/// Returns true for digits, and perhaps a fraction.
fn is_number(text: &[u8]) -> bool {
    let mut parts = text.splitn(2, |byte| *byte == b'.');
    parts.all(|digits| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
}

/// Parses a decimal number of units, in nanoseconds; digits beyond these are cut off.
fn number(text: &[u8], unit_nanos: u64) -> Option<Timestamp> {
    let (whole, fraction) = match memchr::memchr(b'.', text) {
        Some(point) => (&text[..point], &text[point + 1..]),
        None => (text, &b"0"[..]),
    };
    let digits = |digits: &[u8]| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let whole = std::str::from_utf8(whole).ok()?.parse::<u64>().ok()?;
    let mut nanos = whole.checked_mul(unit_nanos)?;
    let mut place = unit_nanos;
    for digit in fraction {
        place /= 10;
        nanos = nanos.checked_add(u64::from(digit - b'0') * place)?;
    }
    within_range(nanos)
}

/// Refuses a time beyond this, which would silently count as this.
fn within_range(nanos: u64) -> Option<Timestamp> {
    (nanos < i64::MAX as u64).then_some(Timestamp::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;
    use TimeFormat::{Apache, Ms, Ns, Pattern, Rfc3339, S, Syslog, Us};

    fn times(format: &TimeFormat, zone: &str) -> Times {
        let zone = DateTimeParser::new().parse_time_zone(zone).ok();
        Times::new(format, zone.as_ref()).unwrap()
    }

    /// Returns the time as RFC 3339 has it.
    fn shown(format: &TimeFormat, zone: &str, text: &str) -> Result<String, String> {
        let time = times(format, zone).parse(text.as_bytes())?;
        Ok(jiff::Timestamp::from_nanosecond(time.as_nanos().into()).unwrap().to_string())
    }

    #[test]
    fn times_are_understood() {
        let nanos = |text: &str, format| times(&format, "").parse(text.as_bytes()).map(Timestamp::as_nanos);
        assert_eq!(nanos("1633117022000", Ms), Ok(1_633_117_022_000_000_000));
        assert_eq!(nanos("1633117022", S), Ok(1_633_117_022_000_000_000));
        assert_eq!(nanos(" 1633117022.25 ", S), Ok(1_633_117_022_250_000_000));
        assert_eq!(nanos("1.2345678919", S), Ok(1_234_567_891));
        assert_eq!(nanos("7.5", Us), Ok(7_500));
        assert_eq!(nanos("0", Ns), Ok(0));
        assert_eq!(nanos("1970-01-01T00:00:01.5Z", Rfc3339), Ok(1_500_000_000));
        assert_eq!(nanos("1970-01-01T02:00:01+02:00", Rfc3339), Ok(1_000_000_000));
        assert_eq!(nanos("2021-10-01 19:37:02Z", Rfc3339), Ok(1_633_117_022_000_000_000));
    }

    #[test]
    fn dates_of_other_programs_are_understood_in_their_zone_or_the_given_one() {
        let pattern = |pattern: &str| Pattern(pattern.to_string());
        for (format, zone, text, expected) in [
            (Rfc3339, "UTC", "2026-11-27 10:00:00,123", "2026-11-27T10:00:00.123Z"),
            (Rfc3339, "+02:00", "2026-11-27T10:00:00.123", "2026-11-27T08:00:00.123Z"),
            (Rfc3339, "+02:00", "2026-11-27 10:00:00", "2026-11-27T08:00:00Z"),
            (Rfc3339, "+02:00", "2026-11-27 10:00:00,5+00:00", "2026-11-27T10:00:00.5Z"),
            (Apache, "", "10/Oct/2026:13:55:36 +0200", "2026-10-10T11:55:36Z"),
            (Apache, "+01:00", "[10/Oct/2026:13:55:36 -0700]", "2026-10-10T20:55:36Z"),
            (Apache, "+01:00", "[10/Oct/2026:13:55:36", "2026-10-10T12:55:36Z"),
            (pattern("%d.%m.%Y %H:%M:%S"), "UTC", "27.11.2026 10:00:00", "2026-11-27T10:00:00Z"),
            (pattern("%m/%d/%y %I:%M %p"), "-05:00", "11/27/26 10:00 PM", "2026-11-28T03:00:00Z"),
            (pattern("%Y%m%d"), "UTC", "20261127", "2026-11-27T00:00:00Z"),
            (pattern("%s"), "", "1633117022", "2021-10-01T19:37:02Z"),
            (pattern("%Y-%m-%d %H:%M:%S,%f %z"), "UTC", "2026-11-27 10:00:00,123 +0100", "2026-11-27T09:00:00.123Z"),
        ] {
            assert_eq!(shown(&format, zone, text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_year_that_is_not_said_is_the_latest_one_up_to_tomorrow() {
        let at = |text: &str| text.parse::<jiff::Timestamp>().unwrap();
        for (now, text, expected) in [
            ("2026-11-27T12:00:00Z", "Nov 27 10:00:00", "2026-11-27T10:00:00Z"),
            ("2026-11-27T12:00:00Z", "Nov 28 10:00:00", "2026-11-28T10:00:00Z"),
            ("2026-11-27T12:00:00Z", "Nov 29 10:00:00", "2025-11-29T10:00:00Z"),
            ("2027-01-01T00:00:01Z", "Dec 31 23:59:59", "2026-12-31T23:59:59Z"),
            ("2026-12-31T23:59:59Z", "Jan  1 00:00:00", "2027-01-01T00:00:00Z"),
            ("2027-01-01T00:00:01Z", "Feb 29 00:00:00", "2024-02-29T00:00:00Z"),
        ] {
            assert_eq!(times(&Syslog, "UTC").syslog(text, at(now)).unwrap(), at(expected), "{now} {text}");
        }
        // Of a log that is older than a year, nobody knows where one ends.
        let (old, now) = (times(&Syslog, "UTC"), at("2026-11-27T12:00:00Z"));
        assert!(old.syslog("Nov 27 10:00:00", now).is_ok() && old.syslog("Nov 1 10:00:00", now).is_ok());
        assert!(old.syslog("Nov 30 10:00:00", now).unwrap_err().to_string().contains("older than a year"));
        assert!(old.clone().syslog("Nov 30 10:00:00", now).is_ok(), "of another input");
    }

    #[test]
    fn options_that_do_not_tell_the_time_are_refused() {
        for (pattern, says) in [
            ("%d.%m.%Y %H:%M:%S", "--time-zone"),
            ("%d.%m. %H:%M:%S %z", "year"),
            ("%d.%m.%Y %I:%M %z", "22:00:00+00:00[UTC] would be read as 2026-11-27T10:00:00Z"),
            ("%Q %Y-%m-%d", "--time-zone"),
            ("%Y-%m-%d %Z", "time zone abbreviation"),
            ("%!", "unrecognized"),
        ] {
            let said = Times::new(&Pattern(pattern.to_string()), None).unwrap_err();
            assert!(said.starts_with("--time-format: ") && said.contains(says), "{pattern}: {said}");
        }
        let name = Times::new(&Pattern("%Y-%m-%d %H:%M %Q".to_string()), Some(&TimeZone::UTC));
        assert!(name.unwrap_err().contains("does not tell a time"));
        assert!(Times::new(&Ms, Some(&TimeZone::UTC)).unwrap_err().contains("--time-zone"));
        assert!(Times::new(&Syslog, None).unwrap_err().contains("--time-zone"));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in ["", "-1", "+1", "1e3", "1.", ".5", "1,5", "99999999999999999999", "9223372037", "x", "1 2"] {
            assert!(times(&S, "").parse(text.as_bytes()).is_err(), "{text}");
        }
        for text in [
            "",
            "1969-12-31T23:59:59Z",
            "2021-10-01",
            "2021-13-01T00:00:00Z",
            "2021-10-01T00:00:00",
            "3000-01-01T00:00:00Z",
        ] {
            assert!(times(&Rfc3339, "").parse(text.as_bytes()).is_err(), "{text}");
        }
        let said = |format: &TimeFormat, text| shown(format, "", text).unwrap_err();
        assert!(said(&Rfc3339, "2026-11-27 10:00:00,123").contains("--time-zone UTC"));
        assert!(said(&Apache, "[10/Oct/2026:13:55:36").contains("--time-zone UTC"));
        assert!(said(&Apache, "10/Foo/2026:13:55:36 +0000").contains("no time of --time-format"));
        assert!(shown(&Rfc3339, "UTC", "2026-11-27T10:00:00[Europe/Berlin]").is_err(), "another zone");
        assert!(shown(&Rfc3339, "UTC", "2026-11-27").is_err());
        // By this rule, which is Berlin's, clocks are put back and forward.
        let berlin = "CET-1CEST,M3.5.0,M10.5.0/3";
        assert_eq!(shown(&Rfc3339, berlin, "2026-07-01 12:00:00").as_deref(), Ok("2026-07-01T10:00:00Z"));
        for text in ["2026-10-25 02:30:00", "2026-03-29 02:30:00"] {
            assert!(shown(&Rfc3339, berlin, text).unwrap_err().contains("ambiguous"), "{text}");
        }
        assert!(times(&Rfc3339, "").parse(b"\xff").is_err() && times(&S, "").parse(b"\xff").is_err());
    }
}
