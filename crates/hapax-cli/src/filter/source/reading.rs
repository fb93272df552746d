//! An input that is being read, and the seam between the first stage and those who open inputs.

use super::blocks::Blocks;
use super::checkpoint::Checkpoint;
use super::encoding::Encoding;
use super::input::Source;
use super::lines::{Header, Lines};
use crate::error::CommandError;

/// An input that is being read.
pub struct Reading {
    pub blocks: Blocks,
    /// The input, and the part of it that was printed before this run.
    pub place: Checkpoint,
    /// True if the file may have to be read from its beginning after all: only the end of a
    /// compressed file shows that it was cut short.
    pub may_be_short: bool,
    /// The header, if it is new and in the part that was printed.
    pub header: Option<Header>,
}

/// A way to open inputs, one after the other.
pub trait Inputs: Send {
    /// Opens an input, whose header may have to be shown to `lines`. If `anew`, it is the same one
    /// once more, at its beginning.
    fn read(&mut self, source: &Source, lines: &mut Lines, anew: bool) -> Result<Reading, CommandError>;
}

/// The first input that has lines, and its encoding, which the output has.
#[derive(Default)]
pub struct Encodings {
    first: Option<(Source, Encoding)>,
}

impl Encodings {
    /// Returns an error for an input with lines whose encoding is not the one of the first.
    pub fn agree(&mut self, source: &Source, encoding: Encoding) -> Result<(), CommandError> {
        let (first, other) = self.first.get_or_insert_with(|| (source.clone(), encoding));
        if encoding.goes_with(*other) {
            return Ok(());
        }
        let not_utf8 = if encoding.is_utf16() { encoding } else { *other };
        Err(CommandError::BadInput(format!(
            "{} is {} and {} is {}, and the output has one encoding: convert one of them, as by \
             `iconv -f {} -t UTF-8 FILE`",
            first.name().display(),
            other.name(),
            source.name().display(),
            encoding.name(),
            not_utf8.name(),
        )))
    }
}
