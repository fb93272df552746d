//! The rules of attributes' names and values.

use super::error::EventError;

/// The version of the specification.
pub(super) const SPECVERSION: &str = "1.0";

const NAME: &str = "a name of a-z and 0-9";
const TEXT: &str = "text without control characters and noncharacters";

/// Checks the name of an extension.
pub(super) fn name(name: &str) -> Result<(), EventError> {
    let is_valid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if !name.is_empty() && name.bytes().all(is_valid) { Ok(()) } else { Err(EventError::invalid(name, NAME, name)) }
}

/// Checks a value.
pub(super) fn text(attribute: &str, value: &str) -> Result<(), EventError> {
    let is_valid = |char: char| !char.is_control() && u32::from(char) & 0xfffe != 0xfffe && !is_noncharacter(char);
    if value.chars().all(is_valid) { Ok(()) } else { Err(EventError::invalid(attribute, TEXT, value)) }
}

fn is_noncharacter(char: char) -> bool {
    ('\u{fdd0}'..='\u{fdef}').contains(&char)
}

/// Checks the value of an attribute that is required.
pub(super) fn required(attribute: &'static str, value: &str) -> Result<(), EventError> {
    if value.is_empty() { Err(EventError::Missing { attribute }) } else { text(attribute, value) }
}

/// Checks the value of an attribute that must not be empty if it is there.
pub(super) fn optional(attribute: &str, value: &str) -> Result<(), EventError> {
    if value.is_empty() {
        Err(EventError::invalid(attribute, "no attribute, or one that is not empty", value))
    } else {
        text(attribute, value)
    }
}

/// Checks the version.
pub(super) fn specversion(value: &str) -> Result<(), EventError> {
    match value {
        "" => Err(EventError::Missing { attribute: "specversion" }),
        SPECVERSION => Ok(()),
        other => Err(EventError::invalid("specversion", "\"1.0\"", other)),
    }
}

/// Checks a time: RFC 3339, section 5.6.
pub(super) fn time(value: &str) -> Result<(), EventError> {
    if is_time(value.as_bytes()) {
        Ok(())
    } else {
        Err(EventError::invalid("time", "a time as of RFC 3339, such as 2026-11-26T16:20:00Z", value))
    }
}

fn is_time(value: &[u8]) -> bool {
    let Some((date, rest)) = value.split_at_checked(19) else { return false };
    let shape = date.iter().zip(b"0000-00-00T00:00:00").all(|(byte, shape)| match shape {
        b'0' => byte.is_ascii_digit(),
        separator => byte.eq_ignore_ascii_case(separator),
    });
    if !shape {
        return false;
    }
    let number =
        |from: usize, to: usize| date[from..to].iter().fold(0_u32, |n, digit| n * 10 + u32::from(digit - b'0'));
    let (year, month, day) = (number(0, 4), number(5, 7), number(8, 10));
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u32::from(is_leap),
        _ => return false,
    };
    let is_valid = (1..=days).contains(&day) && number(11, 13) < 24 && number(14, 16) < 60 && number(17, 19) <= 60;
    is_valid && is_zone(without_fraction(rest))
}

/// Returns what follows the fraction of a second; nothing if it is a point without digits.
fn without_fraction(rest: &[u8]) -> &[u8] {
    let Some(fraction) = rest.strip_prefix(b".") else { return rest };
    match fraction.iter().position(|byte| !byte.is_ascii_digit()) {
        None | Some(0) => &[],
        Some(digits) => &fraction[digits..],
    }
}

fn is_zone(zone: &[u8]) -> bool {
    match *zone {
        [b'Z' | b'z'] => true,
        [b'+' | b'-', a @ b'0'..=b'2', b @ b'0'..=b'9', b':', b'0'..=b'5', b'0'..=b'9'] => a < b'2' || b < b'4',
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_rfc_3339() {
        let valid = [
            "2018-04-05T17:31:00Z",
            "2024-02-29t23:59:60.123456789z",
            "2000-02-29T00:00:00.0+23:59",
            "0000-01-01T00:00:00-00:00",
        ];
        for time in valid {
            assert!(is_time(time.as_bytes()), "{time}");
        }
        let invalid = [
            "",
            "2018-04-05",
            "2018-04-05 17:31:00Z",
            "2018-04-05T17:31:00",
            "2018-04-05T17:31:00.Z",
            "2018-04-05T17:31:00,5Z",
            "2018-04-05T17:31:00+2400",
            "2018-04-05T17:31:00+24:00",
            "2018-04-05T17:31:00+01:60",
            "2018-04-05T24:00:00Z",
            "2018-04-31T00:00:00Z",
            "2018-13-01T00:00:00Z",
            "2018-00-01T00:00:00Z",
            "1900-02-29T00:00:00Z",
            "2018-04-05T17:31:00ZZ",
            "2018-04-05T17:31:00é",
            "18-04-05T17:31:00Z",
        ];
        for time in invalid {
            assert!(!is_time(time.as_bytes()), "{time}");
        }
    }

    #[test]
    fn names_and_values_have_their_characters() {
        assert!(name("a9").is_ok());
        for wrong in ["", "A", "a-b", "a_b", "ä"] {
            assert_eq!(name(wrong).unwrap_err().attribute(), Some(wrong));
        }
        assert!(text("id", "ä € 😀").is_ok());
        for wrong in ["a\nb", "\u{0}", "\u{7f}", "\u{9f}", "\u{fffe}", "\u{1ffff}", "\u{fdd0}"] {
            assert_eq!(text("id", wrong).unwrap_err().attribute(), Some("id"), "{wrong:?}");
        }
    }
}
