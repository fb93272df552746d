//! An input that is being read, and the seam between the first stage and those who open inputs.

use super::blocks::Blocks;
use super::checkpoint::Checkpoint;
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
