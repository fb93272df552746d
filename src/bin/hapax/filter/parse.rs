//! First stage, in a thread of its own: from files to batches of lines whose ids are digested.

use super::input::{Block, Blocks, Source};
use super::lines::{BadLine, Line, Lines, Unchecked, each_record};
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

/// Reads files into batches.
pub struct Parser {
    lines: Lines,
    dedup: Dedup,
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
    pub fn new(lines: Lines, dedup: Dedup) -> Self {
        Parser { lines, dedup, spare: None }
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
        let mut blocks = Blocks::new(source.read(bytes_read)?, self.lines.cutter(), self.lines.line_bytes_max());
        self.lines.begin_file();
        loop {
            let mut batch = match self.spare.take() {
                Some(batch) => batch,
                None => channels.empty.recv().map_err(|_| Gone)?,
            };
            batch.clear();
            let next = blocks.next(&mut batch.bytes, &mut batch.ends).map_err(|e| Failure::input(source.name(), e))?;
            self.lines.skipped(blocks.take_skipped());
            let parsed = match next {
                Block::End => {
                    self.spare = Some(batch);
                    return Ok(());
                }
                Block::Records => self.parse(&mut batch),
                Block::TooLong => self.lines.too_long().map(|()| batch.too_long += 1),
            };
            // What comes before a bad line is still done.
            channels.full.send(Ok(batch)).map_err(|_| Gone)?;
            parsed.map_err(|bad| bad.of(source))?;
        }
    }

    /// Finds the lines of a batch, and digests their ids. If a line is bad and that is an error, what comes before it stays.
    fn parse(&mut self, batch: &mut Batch) -> Result<(), BadLine> {
        let bytes = std::mem::take(&mut batch.bytes);
        let mut ends = std::mem::take(&mut batch.ends);
        let mut records = 0;
        let parsed = each_record(&bytes, &ends, |record| {
            match self.lines.next(record)? {
                Line::Event { id, at } => {
                    batch.ids.push(self.dedup.digest(id));
                    batch.times.extend(at);
                }
                Line::Unchecked(unchecked) => batch.unchecked.push((records as u32, unchecked)),
            }
            records += 1;
            Ok(())
        });
        ends.truncate(records);
        batch.ends = ends;
        batch.bytes = bytes;
        parsed
    }
}
