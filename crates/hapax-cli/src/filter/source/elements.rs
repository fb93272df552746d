//! An array of JSON as lines: each element is one.

use crate::error::CommandError;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Hands on each element of an array as a line: as it is, except for line breaks within it, which
/// become spaces. What is not within an element is checked, and dropped; elements are checked by
/// whoever reads them.
pub struct Elements<R> {
    content: R,
    name: PathBuf,
    at: At,
    /// The brackets and braces of the element under way that are open.
    depth: u64,
    /// The place of the last byte that was read, counted from 1.
    line: u64,
    column: u64,
    /// The reason why nothing more can be read.
    failure: Option<&'static str>,
}

/// The place of the next byte.
#[derive(Clone, Copy, PartialEq)]
enum At {
    Start,
    /// Behind the array's bracket.
    First,
    /// Behind a comma.
    Next,
    Element,
    /// In a string of an element.
    Text,
    /// Behind a backslash of a string.
    Escaped,
    /// Behind an element.
    Behind,
    End,
}

/// The most blank bytes that are looked at before an array.
pub const BLANK_MAX: usize = 4 << 10;

/// Returns true if content that begins like this is an array; none if it takes more bytes to tell.
pub fn is_array(beginning: &[u8]) -> Option<bool> {
    match beginning.trim_ascii_start().first() {
        Some(first) => Some(*first == b'['),
        None if beginning.len() >= BLANK_MAX => Some(false),
        None => None,
    }
}

impl<R: Read> Elements<R> {
    /// Reads the elements of the array that the content is, which has this name in messages.
    pub fn new(content: R, name: &Path) -> Self {
        let name = name.to_path_buf();
        Elements { content, name, at: At::Start, depth: 0, line: 1, column: 0, failure: None }
    }

    /// Returns the byte that stands for the next one, if any does.
    fn step(&mut self, byte: u8) -> Result<Option<u8>, &'static str> {
        self.column += 1;
        let is_blank = matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        let is_whole = self.depth == 0;
        let (at, stands_for) = match (self.at, byte) {
            (At::Text | At::Escaped, b'\n') => return Err("a string has a line break"),
            (At::Text, b'\\') => (At::Escaped, Some(byte)),
            (At::Text, b'"') => (At::Element, Some(byte)),
            (At::Text | At::Escaped, _) => (At::Text, Some(byte)),
            (At::Element, b'\r' | b'\n') if !is_whole => (At::Element, Some(b' ')),
            (At::Element, _) if is_blank && is_whole => (At::Behind, None),
            (At::First | At::Next | At::Behind | At::End, _) if is_blank => (self.at, None),
            (At::Start, b'[') | (At::First, b']') => (if byte == b'[' { At::First } else { At::End }, None),
            // What is blank.
            (At::Start, _) => (At::Start, None),
            (At::Element | At::Behind, b',' | b']') if is_whole => {
                (if byte == b',' { At::Next } else { At::End }, Some(b'\n'))
            }
            (At::First | At::Next, b',' | b']') => return Err("an element is missing"),
            (At::Behind, _) => return Err("there is no comma between two elements"),
            (At::End, _) => return Err("there is something behind the array (jq -c .[] makes lines of several)"),
            (_, b'"') => (At::Text, Some(byte)),
            (_, b'[' | b'{') => {
                self.depth += 1;
                (At::Element, Some(byte))
            }
            (_, b']' | b'}') => {
                self.depth = self.depth.saturating_sub(1);
                (if self.depth == 0 { At::Behind } else { At::Element }, Some(byte))
            }
            _ => (At::Element, Some(byte)),
        };
        if byte == b'\n' {
            (self.line, self.column) = (self.line + 1, 0);
        }
        self.at = at;
        Ok(stands_for)
    }
}

impl<R: Read> Read for Elements<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(why) = self.failure {
                let place = format!("{}, line {}, column {}", self.name.display(), self.line, self.column);
                return Err(io::Error::other(CommandError::BadInput(format!(
                    "{place}: it is no array of JSON: {why}"
                ))));
            }
            let read = self.content.read(buffer)?;
            if read == 0 && self.at == At::End {
                return Ok(0);
            }
            self.failure = (read == 0).then_some("it does not end");
            let mut kept = 0;
            for at in 0..read {
                match self.step(buffer[at]) {
                    Ok(byte) => {
                        buffer[kept] = byte.unwrap_or_default();
                        kept += usize::from(byte.is_some());
                    }
                    Err(why) => {
                        self.failure = Some(why);
                        break;
                    }
                }
            }
            if kept > 0 {
                return Ok(kept);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::fuzzing::Trickle;

    /// Returns the lines of a text that comes this many bytes at once, and how it ended.
    fn lines(text: &str, at_once: usize) -> (String, Result<(), String>) {
        let content = Trickle(io::Cursor::new(text.as_bytes().to_vec()), at_once);
        let mut lines = Vec::new();
        let ended = Elements::new(content, Path::new("a.json")).read_to_end(&mut lines);
        (String::from_utf8(lines).unwrap(), ended.map(drop).map_err(|error| error.to_string()))
    }

    #[test]
    fn elements_are_lines_however_they_come() {
        for (text, expected) in [
            ("[]", ""),
            ("\u{feff}\n [ \n ] \n", ""),
            ("[{\"a\":1},{\"b\":2}]", "{\"a\":1}\n{\"b\":2}\n"),
            ("[\n  {\r\n\t\"a\": [1, {}]\n  } ,\n 2\n,\"],\\\"[\" ]\n", "{  \t\"a\": [1, {}]   }\n2\n\"],\\\"[\"\n"),
            ("[\"\\\\\",[[]],-1e5,null]", "\"\\\\\"\n[[]]\n-1e5\nnull\n"),
            // Whoever reads the elements finds that they are none.
            ("[{\"a\":1],tru,}]", "{\"a\":1]\ntru\n}\n"),
        ] {
            for at_once in [1, 2, 3, 1 << 20] {
                assert_eq!(lines(text, at_once), (expected.to_string(), Ok(())), "{text} {at_once}");
            }
        }
    }

    #[test]
    fn what_is_no_array_is_refused_with_its_place_behind_the_elements_before() {
        for (text, before, place) in [
            ("[", "", "line 1, column 1: it is no array of JSON: it does not end"),
            ("[1,\n{\"a\":", "1\n{\"a\":", "line 2, column 5: it is no array of JSON: it does not end"),
            ("[1,]", "1\n", "line 1, column 4: it is no array of JSON: an element is missing"),
            ("[,1]", "", "line 1, column 2: it is no array of JSON: an element is missing"),
            ("[1\n  2]", "1", "line 2, column 3: it is no array of JSON: there is no comma"),
            ("[{}{}]", "{}", "line 1, column 4: it is no array of JSON: there is no comma"),
            ("[1]\n[2]\n", "1\n", "line 2, column 1: it is no array of JSON: there is something behind the array"),
            ("[\"a\nb\"]", "\"a", "line 1, column 4: it is no array of JSON: a string has a line break"),
        ] {
            for at_once in [1, 3, 1 << 20] {
                let (lines, ended) = lines(text, at_once);
                let said = ended.unwrap_err();
                assert!(lines == before && said.starts_with(&format!("a.json, {place}")), "{text}: {lines} {said}");
            }
        }
    }

    #[test]
    fn the_first_byte_that_is_not_blank_tells() {
        for (text, told) in [
            ("", None),
            (" \n\t", None),
            ("[", Some(true)),
            ("\r\n [1", Some(true)),
            ("{}", Some(false)),
            ("a", Some(false)),
            ("é", Some(false)),
        ] {
            assert_eq!(is_array(text.as_bytes()), told, "{text:?}");
        }
        assert_eq!(is_array(&[b' '; BLANK_MAX]), Some(false));
    }
}
