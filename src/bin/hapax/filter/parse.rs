//! First stage, in a thread of its own: from files to batches of lines whose ids are digested.

use super::extract::{Extracted, Extractor};
use super::input::{Block, Blocks, Source};
use crate::args::{FilterArgs, Missing, OnBad};
use crate::failure::Failure;
use hapax::{Dedup, Prepared, Timestamp, Verdict};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, SyncSender};

/// Some lines on their way through the command. Used again and again.
#[derive(Debug, Default)]
pub struct Batch {
    /// The lines, each with its end.
    pub bytes: Vec<u8>,
    /// Where each line ends in `bytes`.
    pub ends: Vec<u32>,
    /// Lines that are not checked, by number within the batch, and what becomes of them.
    pub unchecked: Vec<(u32, Unchecked)>,
    /// The ids of all other lines.
    pub ids: Vec<Prepared>,
    /// Their times, unless the time of arrival counts.
    pub times: Vec<Timestamp>,
    /// Their verdicts, once they are checked.
    pub verdicts: Vec<Verdict>,
    /// Lines dropped because they are malformed or too long.
    pub bad: u64,
}

/// What becomes of a line that is not checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unchecked {
    /// The id is missing, and the line is printed.
    Pass,
    /// The id is missing, and the line is dropped.
    DropMissing,
    /// The first header is printed.
    Header,
    /// A bad line, or another header.
    Drop,
}

impl Batch {
    fn clear(&mut self) {
        self.ends.clear();
        self.unchecked.clear();
        self.ids.clear();
        self.times.clear();
        self.bad = 0;
    }
}

/// Reads files into batches.
pub struct Parser<'a> {
    args: &'a FilterArgs,
    extractor: Extractor,
    dedup: &'a Dedup,
    /// Whether the next line is a file's header.
    at_header: bool,
    header_printed: bool,
    /// The number of the next line in its file.
    line_number: u64,
}

/// Whoever wants batches has gone away, and says why himself.
struct Gone;

/// How reading ends early.
enum Stop {
    Failure(Failure),
    Gone,
}

impl From<Gone> for Stop {
    fn from(_: Gone) -> Self {
        Stop::Gone
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Failure(failure)
    }
}

impl<'a> Parser<'a> {
    pub fn new(args: &'a FilterArgs, extractor: Extractor, dedup: &'a Dedup) -> Self {
        Parser { args, extractor, dedup, at_header: false, header_printed: false, line_number: 1 }
    }

    /// Reads all files. Empty batches come from `empty`; full ones, or why there are no more, go to `full`.
    pub fn run(
        mut self,
        sources: &[Source],
        bytes_read: &Arc<AtomicU64>,
        empty: &Receiver<Batch>,
        full: &SyncSender<Result<Batch, Failure>>,
    ) {
        for source in sources {
            match self.read(source, bytes_read.clone(), empty, full) {
                Ok(()) => {}
                Err(Stop::Gone) => return,
                Err(Stop::Failure(failure)) => {
                    let _ = full.send(Err(failure)); // whoever has gone away needs no reason
                    return;
                }
            }
        }
    }

    fn read(
        &mut self,
        source: &Source,
        bytes_read: Arc<AtomicU64>,
        empty: &Receiver<Batch>,
        full: &SyncSender<Result<Batch, Failure>>,
    ) -> Result<(), Stop> {
        let mut blocks = Blocks::new(source.read(bytes_read)?, self.args.line_bytes_max as usize);
        self.at_header = self.args.format.header || self.extractor.needs_header();
        self.line_number = 1;
        loop {
            let mut batch = empty.recv().map_err(|_| Gone)?;
            batch.clear();
            let block = blocks.next(&mut batch.bytes).map_err(|e| Failure::input(source.name(), e))?;
            let parsed = match block {
                Block::End => return Ok(()),
                Block::Lines => self.parse(&mut batch),
                Block::TooLong => {
                    let bad = self.bad(&mut batch, self.too_long());
                    self.line_number += 1;
                    bad.map(drop)
                }
            };
            // What comes before a bad line is still done.
            full.send(Ok(batch)).map_err(|_| Gone)?;
            parsed.map_err(|bad| {
                let (file, line) = (source.name().display(), bad.line_number);
                Failure::BadInput(format!("{file}, line {line}: {}", bad.reason))
            })?;
        }
    }

    /// Finds the lines of a batch, and their ids. If a line is bad and that is an error, what comes before it stays.
    fn parse(&mut self, batch: &mut Batch) -> Result<(), BadLine> {
        let bytes = std::mem::take(&mut batch.bytes);
        let mut start = 0;
        let parsed = memchr::memchr_iter(b'\n', &bytes).try_for_each(|end| {
            let line = bytes[start..end].strip_suffix(b"\r").unwrap_or(&bytes[start..end]);
            start = end + 1;
            let unchecked = if self.at_header { Some(self.header(line)?) } else { self.line(line, batch)? };
            batch.unchecked.extend(unchecked.map(|unchecked| (batch.ends.len() as u32, unchecked)));
            batch.ends.push(start as u32);
            self.line_number += 1;
            Ok(())
        });
        batch.bytes = bytes;
        parsed
    }

    fn header(&mut self, line: &[u8]) -> Result<Unchecked, BadLine> {
        self.at_header = false;
        // Never skipped: with a bad header every line of the file is bad.
        self.extractor.read_header(line).map_err(|reason| self.bad_line(reason))?;
        let first = !std::mem::replace(&mut self.header_printed, true);
        Ok(if first { Unchecked::Header } else { Unchecked::Drop })
    }

    /// Digests a line's id. What becomes of the line if it is not checked.
    #[inline]
    fn line(&self, line: &[u8], batch: &mut Batch) -> Result<Option<Unchecked>, BadLine> {
        if line.len() > self.args.line_bytes_max as usize {
            return self.bad(batch, self.too_long()).map(Some);
        }
        match self.extractor.extract(line) {
            Ok(Extracted::Event { id, at }) => {
                batch.ids.push(self.dedup.digest(id));
                batch.times.extend(at);
                Ok(None)
            }
            Ok(Extracted::Missing) => match self.args.missing {
                Missing::Error => Err(self.bad_line("the id is missing or blank (see --missing)".to_string())),
                Missing::Pass => Ok(Some(Unchecked::Pass)),
                Missing::Drop => Ok(Some(Unchecked::DropMissing)),
            },
            Err(reason) => self.bad(batch, reason).map(Some),
        }
    }

    fn bad(&self, batch: &mut Batch, reason: String) -> Result<Unchecked, BadLine> {
        match self.args.on_bad {
            OnBad::Error => Err(self.bad_line(reason)),
            OnBad::Skip => {
                batch.bad += 1;
                Ok(Unchecked::Drop)
            }
        }
    }

    fn too_long(&self) -> String {
        format!("it is longer than {} bytes (see --line-bytes-max)", self.args.line_bytes_max)
    }

    fn bad_line(&self, reason: String) -> BadLine {
        BadLine { line_number: self.line_number, reason }
    }
}

/// A line that ends everything.
struct BadLine {
    line_number: u64,
    reason: String,
}
