//! Parses times of events. Pure.

use super::hints::unit_of;
use crate::args::TimeFormat;
use hapax::Timestamp;

/// Returns the time that a text means, counted from 1970.
pub fn parse(text: &[u8], format: TimeFormat) -> Result<Timestamp, String> {
    let text = text.trim_ascii();
    let unit_nanos = match format {
        TimeFormat::Rfc3339 => return rfc3339(text),
        TimeFormat::S => 1_000_000_000,
        TimeFormat::Ms => 1_000_000,
        TimeFormat::Us => 1_000,
        TimeFormat::Ns => 1,
    };
    number(text, unit_nanos).ok_or_else(|| {
        let hint = match (unit_of(text).filter(|_| is_number(text)), rfc3339(text)) {
            (Some((option, unit)), _) => format!(": it looks like {unit} since 1970 (--time-format {option})"),
            (None, Ok(_)) => ": it looks like a date (--time-format rfc3339)".to_string(),
            (None, Err(_)) => String::new(),
        };
        format!("`{}` is no time from 1970 to 2262{hint}", text.escape_ascii())
    })
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

fn rfc3339(text: &[u8]) -> Result<Timestamp, String> {
    if is_number(text) {
        let hint = match unit_of(text) {
            Some((option, unit)) => format!("it looks like {unit} since 1970 (--time-format {option})"),
            None => "say what it counts since 1970 (--time-format s, ms, us or ns)".to_string(),
        };
        return Err(format!("`{}` is a number, not a date: {hint}", text.escape_ascii()));
    }
    let wrong = |why: String| format!("`{}` is no RFC 3339 time: {why}", text.escape_ascii());
    let text = std::str::from_utf8(text).map_err(|e| wrong(e.to_string()))?;
    let time: jiff::Timestamp = text.parse().map_err(|e: jiff::Error| wrong(e.to_string()))?;
    let nanos = u64::try_from(time.as_nanosecond()).ok().and_then(within_range);
    nanos.ok_or_else(|| wrong("it is not from 1970 to 2262".to_string()))
}

/// Refuses a time beyond this, which would silently count as this.
fn within_range(nanos: u64) -> Option<Timestamp> {
    (nanos < i64::MAX as u64).then_some(Timestamp::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;
    use TimeFormat::*;

    #[test]
    fn times_are_understood() {
        let nanos = |text: &str, format| parse(text.as_bytes(), format).map(Timestamp::as_nanos);
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
    fn what_is_no_time_is_refused() {
        for text in ["", "-1", "+1", "1e3", "1.", ".5", "1,5", "99999999999999999999", "9223372037", "x", "1 2"] {
            assert!(parse(text.as_bytes(), S).is_err(), "{text}");
        }
        for text in [
            "",
            "1969-12-31T23:59:59Z",
            "2021-10-01",
            "2021-13-01T00:00:00Z",
            "2021-10-01T00:00:00",
            "3000-01-01T00:00:00Z",
        ] {
            assert!(parse(text.as_bytes(), Rfc3339).is_err(), "{text}");
        }
        assert!(parse(b"\xff", Rfc3339).is_err() && parse(b"\xff", S).is_err());
    }
}
