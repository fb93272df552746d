//! Parsers for the other values of options.

use super::units::bytes;

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
        assert!(pointer("/a/0").is_ok() && pointer("").is_ok() && pointer("a").is_err());
        assert_eq!((line_bytes("16M"), line_bytes("1")), (Ok(16 << 20), Ok(1)));
        assert!(line_bytes("0").is_err() && line_bytes("2G").is_err());
        for (path, says) in [("id", "/id"), (".a.id", "/a/id"), ("$.a[0].id", "/a/0/id"), ("#/a/id", "/a/id")] {
            assert!(pointer(path).unwrap_err().ends_with(&format!(" {says}")), "{path}");
        }
    }
}
