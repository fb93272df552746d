//! First stage, in a thread of its own: turns files into batches of lines whose ids are digested.

use super::blocks::{Block, Blocks};
use super::checkpoint::Checkpoint;
use super::encoding::Encoding;
use super::input::Source;
use super::lines::{BadLine, Header, Line, Lines, Unchecked, each_record, without_end};
use super::reading::{Encodings, Inputs, Reading};
use crate::error::CommandError;
use hapax::seam::Digester;
use hapax::seam::digested;
use hapax::{Dedup, Prepared, Timestamp, Verdict};
use std::sync::mpsc::{Receiver, SyncSender};

/// The memory of a batch above which no other one is on its way at the same time. Without long
/// lines a batch has a block, which is a fraction of it.
pub const LONG_BYTES: usize = 2 << 20;

/// Some lines on their way through the command. Batches are used again and again.
#[derive(Debug, Default)]
pub struct Batch {
    /// The lines, each with its end.
    pub bytes: Vec<u8>,
    /// The end of each line in `bytes`.
    pub ends: Vec<u32>,
    /// Lines that are not checked, by number within the batch, and their treatment.
    pub unchecked: Vec<(u32, Unchecked)>,
    /// The ids of all other lines, for an engine.
    pub ids: Vec<Prepared>,
    /// Their digests, where there is no engine.
    pub digests: Vec<u128>,
    /// Their times, unless the time of arrival counts.
    pub times: Vec<Timestamp>,
    /// Their verdicts, once they are checked.
    pub verdicts: Vec<Verdict>,
    /// The ends of runs of ids that were checked at one time, and that time, if times of events
    /// count.
    pub runs: Vec<(usize, Timestamp)>,
    /// Lines that were dropped while they were read, as too long.
    pub too_long: u64,
    /// The name of its input in messages.
    pub name: String,
    /// The word for a record of it in messages.
    pub record: &'static str,
    /// The encoding of its input, in which its lines are printed.
    pub encoding: Encoding,
    /// The place that its input has reached when this batch is done.
    pub place: Checkpoint,
    /// With `--merge`, the places of others that have reached another one.
    pub others: Vec<Checkpoint>,
    /// Events that were checked as of a later time than their own.
    pub late: u64,
    /// The header that its records have, if it is new: its first record, or in a part of the input
    /// that an earlier run has printed, perhaps to another output.
    pub header: Option<Header>,
}

impl Batch {
    /// Returns true if its lines take much memory, or one took it that was too long.
    fn is_long(&self) -> bool {
        self.bytes.capacity() > LONG_BYTES
    }

    fn clear(&mut self) {
        if self.is_long() {
            self.bytes = Vec::new();
        }
        self.bytes.clear();
        self.ends.clear();
        self.unchecked.clear();
        self.ids.clear();
        self.digests.clear();
        self.times.clear();
        self.verdicts.clear();
        self.runs.clear();
        self.too_long = 0;
        self.others.clear();
        self.late = 0;
        self.header = None;
    }

    /// Ends the batch before the record of this checked id, as if it had not been read. Returns the
    /// number of its line.
    pub fn cut_before(&mut self, id: usize) -> u64 {
        let mut record = id;
        for (at, _) in &self.unchecked {
            record += usize::from(*at as usize <= record);
        }
        let start = if record > 0 { self.ends[record - 1] as usize } else { 0 };
        let end = self.ends.last().map_or(0, |end| *end as usize);
        let lines = lines_in(&self.bytes[start..end]);
        let added = u64::from(self.place.unended > 0);
        self.place.offset = self.place.offset + added - (end - start) as u64;
        self.place.unended = 0;
        self.place.lines -= lines;
        self.place.ended = false;
        self.ends.truncate(record);
        self.unchecked.retain(|(at, _)| (*at as usize) < record);
        self.ids.truncate(id);
        self.times.truncate(id);
        self.verdicts.truncate(id);
        self.runs.retain(|(end, _)| *end <= id);
        self.place.lines + 1
    }
}

/// Returns the number of lines, or of records that end as the last one of these does.
pub fn lines_in(records: &[u8]) -> u64 {
    records.last().map_or(0, |end| memchr::memchr_iter(*end, records).count() as u64)
}

/// The channels from which empty batches come, and to which full ones go.
pub struct Channels {
    pub empty: Receiver<Batch>,
    /// The number of all batches.
    pub batches: usize,
    /// Full batches, or the reason why there are no more.
    pub full: SyncSender<Result<Batch, CommandError>>,
    /// Empty batches that are not used yet.
    pub spare: Vec<Batch>,
}

impl Channels {
    /// Takes an empty batch, when there is one.
    pub fn take(&mut self) -> Result<Batch, Gone> {
        let mut batch = match self.spare.pop() {
            Some(batch) => batch,
            None => self.empty.recv().map_err(|_| Gone)?,
        };
        batch.clear();
        Ok(batch)
    }

    /// Sends a full batch. After a long one it waits until all have come back, and gives the memory
    /// of long lines back. So several long lines take no more memory than one.
    pub fn send(&mut self, batch: Batch) -> Result<(), Gone> {
        let is_long = batch.is_long();
        self.full.send(Ok(batch)).map_err(|_| Gone)?;
        while is_long && self.spare.len() < self.batches {
            let mut batch = self.empty.recv().map_err(|_| Gone)?;
            batch.clear();
            self.spare.push(batch);
        }
        Ok(())
    }
}

/// Reads files into batches.
pub struct Parser {
    lines: Lines,
    digests: Digests,
    inputs: Box<dyn Inputs>,
    /// The encoding that the output has.
    encodings: Encodings,
}

/// The form in which the next stage wants ids.
pub enum Digests {
    /// Prepared for an engine.
    Prepared(Dedup),
    /// As digests.
    Bare(Digester),
    /// Not at all: their verdicts are known.
    None,
}

/// The next stage has ended; it reports the reason itself.
pub struct Gone;

/// The reason why reading ends early.
pub enum Stop {
    Failed(CommandError),
    Gone,
}

impl From<Gone> for Stop {
    fn from(_: Gone) -> Self {
        Stop::Gone
    }
}

impl From<CommandError> for Stop {
    fn from(failure: CommandError) -> Self {
        Stop::Failed(failure)
    }
}

impl Parser {
    pub fn new(lines: Lines, digests: Digests, inputs: Box<dyn Inputs>) -> Self {
        Parser { lines, digests, inputs, encodings: Encodings::default() }
    }

    /// Reads all files.
    pub fn run(mut self, sources: &[Source], mut channels: Channels) {
        for source in sources {
            match self.read(source, &mut channels) {
                Ok(()) => {}
                Err(Stop::Gone) => return,
                Err(Stop::Failed(failure)) => {
                    let _ = channels.full.send(Err(failure)); // whoever has gone away needs no reason
                    return;
                }
            }
        }
    }

    fn read(&mut self, source: &Source, channels: &mut Channels) -> Result<(), Stop> {
        let before = self.lines.clone();
        if self.read_once(source, channels, false)? {
            return Ok(());
        }
        // The file was cut short since an earlier run has read it, and may be another one.
        self.lines = before;
        self.read_once(source, channels, true).map(drop)
    }

    /// Reads a file. Returns false if it is shorter than the part that an earlier run has printed
    /// of it.
    fn read_once(&mut self, source: &Source, channels: &mut Channels, anew: bool) -> Result<bool, Stop> {
        self.lines.begin_file(source);
        let Reading { mut blocks, place: mut before, may_be_short, mut header } =
            self.inputs.read(source, &mut self.lines, anew)?;
        loop {
            let mut batch = channels.take()?;
            let next =
                blocks.next(&mut batch.bytes, &mut batch.ends).map_err(|e| CommandError::reading(source.name(), e))?;
            self.lines.skipped(blocks.take_skipped());
            batch.header = header.take();
            let parsed = match next {
                Block::End if may_be_short && blocks.read() < before.offset => {
                    channels.spare.push(batch);
                    return Ok(false);
                }
                Block::End => {
                    before.ended = true;
                    Ok(())
                }
                Block::Records => {
                    self.encodings.agree(source, blocks.encoding())?;
                    self.parse(&mut batch, &mut before, &blocks)
                }
                Block::TooLong | Block::Unterminated => self
                    .lines
                    .no_record((next == Block::Unterminated).then_some(&batch.bytes))
                    .map(|()| batch.too_long += 1),
            };
            blocks.note(&[], 0, &mut before);
            before.lines = self.lines.read();
            header = batch.header.take();
            if batch.ends.is_empty() && batch.too_long == 0 && !before.ended && parsed.is_ok() {
                // All of it was printed before.
                channels.spare.push(batch);
                continue;
            }
            batch.header = header.take();
            batch.place.clone_from(&before);
            batch.encoding = blocks.encoding();
            batch.name = source.name().display().to_string();
            batch.record = source.record();
            // The lines before a bad one are still printed.
            channels.send(batch)?;
            parsed.map_err(|bad| bad.of(source))?;
            if before.ended {
                return Ok(true);
            }
        }
    }

    /// Finds the records of a batch, and digests their ids. Records that were printed `before` are
    /// taken out. If a line is bad and that is an error, the lines before it stay.
    fn parse(&mut self, batch: &mut Batch, before: &mut Checkpoint, blocks: &Blocks) -> Result<(), BadLine> {
        if blocks.start() < before.offset {
            let header = skip(&mut self.lines, &mut batch.bytes, &mut batch.ends, before, blocks.start())?;
            batch.header = header.or(batch.header.take());
        }
        let mut bytes = std::mem::take(&mut batch.bytes);
        let mut ends = std::mem::take(&mut batch.ends);
        let mut records = 0;
        let parsed = each_record(&bytes, &ends, |record| {
            match self.lines.next(record)? {
                Line::Event { id, at } => {
                    match &self.digests {
                        Digests::Prepared(dedup) => batch.ids.push(digested(dedup, id)),
                        Digests::Bare(digester) => batch.digests.push(digester.digest(id).into()),
                        Digests::None => {}
                    }
                    batch.times.extend(at);
                }
                Line::Unchecked(unchecked) => {
                    if unchecked.is_new_header() {
                        batch.header = Some((unchecked, bytes[..ends[0] as usize].to_vec()));
                    }
                    batch.unchecked.push((records as u32, unchecked));
                }
            }
            records += 1;
            Ok(())
        });
        blocks.note(&ends, records, before);
        ends.truncate(records);
        self.lines.put_in_order(&mut bytes, &ends);
        batch.ends = ends;
        batch.bytes = bytes;
        parsed
    }
}

/// Takes out the records of a block that were printed before. The first of them may be a header
/// that names the columns: it is returned if it is new.
pub fn skip(
    lines: &mut Lines,
    bytes: &mut Vec<u8>,
    ends: &mut Vec<u32>,
    before: &Checkpoint,
    start: u64,
) -> Result<Option<Header>, BadLine> {
    let (mut at, mut covered, mut header) = (0, 0, None);
    for &end in &*ends {
        let record = &bytes[at..end as usize];
        if !before.covers(start + at as u64, record) {
            break;
        }
        if lines.is_at_header() {
            header = lines.next(without_end(record))?.header(record);
        } else {
            lines.skipped(lines_in(record));
        }
        at = end as usize;
        covered += 1;
    }
    bytes.drain(..at);
    ends.drain(..covered);
    ends.iter_mut().for_each(|end| *end -= at as u32);
    Ok(header)
}
