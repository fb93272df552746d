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
    /// Where runs end that were checked at one time, and at which, if their times count.
    pub runs: Vec<(usize, Timestamp)>,
    /// Lines that were dropped while they were read, as too long.
    pub too_long: u64,
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
    /// Those of other files are not.
    OtherHeader,
    /// A bad line is dropped.
    Bad,
}

impl Batch {
    fn clear(&mut self) {
        self.ends.clear();
        self.unchecked.clear();
        self.ids.clear();
        self.times.clear();
        self.verdicts.clear();
        self.too_long = 0;
    }
}

/// Where batches come from, and where they go.
pub struct Channels {
    pub empty: Receiver<Batch>,
    /// Full ones, or why there are no more.
    pub full: SyncSender<Result<Batch, Failure>>,
}

/// What becomes of lines that cannot be checked.
#[derive(Clone, Copy, Debug)]
struct Rules {
    missing: Missing,
    on_bad: OnBad,
    line_bytes_max: usize,
    has_header: bool,
}

/// Reads files into batches.
pub struct Parser {
    rules: Rules,
    extractor: Extractor,
    dedup: Dedup,
    /// Whether the next line is a file's header.
    at_header: bool,
    header_printed: bool,
    /// The number of the next line in its file.
    line_number: u64,
    /// An empty batch that the end of a file has left.
    spare: Option<Batch>,
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

impl Parser {
    pub fn new(args: &FilterArgs, extractor: Extractor, dedup: Dedup) -> Self {
        let rules = Rules {
            missing: args.missing,
            on_bad: args.on_bad,
            line_bytes_max: args.line_bytes_max as usize,
            has_header: args.format.header || extractor.needs_header(),
        };
        Parser { rules, extractor, dedup, at_header: false, header_printed: false, line_number: 1, spare: None }
    }

    /// Reads all files.
    pub fn run(mut self, sources: &[Source], bytes_read: &Arc<AtomicU64>, channels: &Channels) {
        for source in sources {
            match self.read(source, bytes_read.clone(), channels) {
                Ok(()) => {}
                Err(Stop::Gone) => return,
                Err(Stop::Failure(failure)) => {
                    let _ = channels.full.send(Err(failure)); // whoever has gone away needs no reason
                    return;
                }
            }
        }
    }

    fn read(&mut self, source: &Source, bytes_read: Arc<AtomicU64>, channels: &Channels) -> Result<(), Stop> {
        let mut blocks = Blocks::new(source.read(bytes_read)?, self.rules.line_bytes_max);
        self.at_header = self.rules.has_header;
        self.line_number = 1;
        loop {
            let mut batch = match self.spare.take() {
                Some(batch) => batch,
                None => channels.empty.recv().map_err(|_| Gone)?,
            };
            batch.clear();
            let parsed = match blocks.next(&mut batch.bytes).map_err(|e| Failure::input(source.name(), e))? {
                Block::End => {
                    self.spare = Some(batch);
                    return Ok(());
                }
                Block::Lines => self.parse(&mut batch),
                Block::TooLong => self.too_long(&mut batch),
            };
            // What comes before a bad line is still done.
            channels.full.send(Ok(batch)).map_err(|_| Gone)?;
            parsed.map_err(|bad| {
                let (file, line) = (source.name().display(), bad.line_number);
                Failure::BadInput(format!("{file}, line {line}: {}", bad.reason))
            })?;
        }
    }

    /// A line that did not become part of a block.
    fn too_long(&mut self, batch: &mut Batch) -> Result<(), BadLine> {
        if self.at_header {
            return Err(self.bad_line(self.longer_than_allowed()));
        }
        self.bad(self.longer_than_allowed())?;
        self.line_number += 1;
        batch.too_long += 1;
        Ok(())
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
        Ok(if first { Unchecked::Header } else { Unchecked::OtherHeader })
    }

    /// Digests a line's id. What becomes of the line if it is not checked.
    #[inline]
    fn line(&self, line: &[u8], batch: &mut Batch) -> Result<Option<Unchecked>, BadLine> {
        if line.len() > self.rules.line_bytes_max {
            return self.bad(self.longer_than_allowed()).map(Some);
        }
        match self.extractor.extract(line) {
            Ok(Extracted::Event { id, at }) => {
                batch.ids.push(self.dedup.digest(id));
                batch.times.extend(at);
                Ok(None)
            }
            Ok(Extracted::Missing) => match self.rules.missing {
                Missing::Error => Err(self.bad_line("the id is missing or blank (see --missing)".to_string())),
                Missing::Pass => Ok(Some(Unchecked::Pass)),
                Missing::Drop => Ok(Some(Unchecked::DropMissing)),
            },
            Err(reason) => self.bad(reason).map(Some),
        }
    }

    fn bad(&self, reason: String) -> Result<Unchecked, BadLine> {
        match self.rules.on_bad {
            OnBad::Error => Err(self.bad_line(reason)),
            OnBad::Skip => Ok(Unchecked::Bad),
        }
    }

    fn longer_than_allowed(&self) -> String {
        format!("it is longer than {} bytes (see --line-bytes-max)", self.rules.line_bytes_max)
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
