//! Regular expressions, in a command that is compiled with them (feature `regex`).

use crate::error::CommandError;

/// A regular expression, and the group of it that counts.
#[cfg(feature = "regex")]
#[derive(Clone, Debug)]
pub struct Pattern {
    /// Its clones share the memory that it searches with.
    regex: std::sync::Arc<regex::bytes::Regex>,
    group: usize,
}

#[cfg(feature = "regex")]
impl Pattern {
    /// Compiles a regular expression, of which the group of this name counts, or else the first
    /// group, or else the whole match.
    pub fn new(text: &str, group: &str) -> Result<Self, CommandError> {
        let regex = regex::bytes::Regex::new(text).map_err(|e| CommandError::Usage(e.to_string()))?;
        let named = regex.capture_names().position(|name| name == Some(group));
        let group = named.unwrap_or(usize::from(regex.captures_len() > 1));
        Ok(Pattern { regex: regex.into(), group })
    }

    /// Returns what the group matches in a line.
    pub fn find<'a>(&self, line: &'a [u8]) -> Option<&'a [u8]> {
        let found = match self.group {
            0 => self.regex.find(line),
            group => self.regex.captures(line).and_then(|captures| captures.get(group)),
        };
        found.map(|found| found.as_bytes())
    }
}

/// A regular expression in a command that is compiled without them: there is none.
#[cfg(not(feature = "regex"))]
#[derive(Clone, Debug)]
pub enum Pattern {}

#[cfg(not(feature = "regex"))]
impl Pattern {
    /// Returns an error that says how to get a command with regular expressions.
    pub fn new(_: &str, _: &str) -> Result<Self, CommandError> {
        Err(CommandError::Usage(crate::error::left_out("regular expressions", "take long to compile", "regex")))
    }

    pub fn find<'a>(&self, _: &'a [u8]) -> Option<&'a [u8]> {
        match *self {}
    }
}
