//! First stage with `--merge`: reads all inputs at once, in order of time.
//!
//! A heap has the next event of each input. The earliest goes on, of those of one time the one of
//! the first input, and the one behind it takes its place. Lines without a time go with the line
//! before them, and so do events that are too far ahead: they would wait for the end of all others.

use super::blocks::{BLOCK_BYTES, Block};
use super::input::Source;
use super::lines::{Header, Line, Lines, Unchecked, without_end};
use super::parse::{Batch, Channels, Gone, LONG_BYTES, Stop, lines_in, skip};
use super::reading::{Encodings, Inputs, Reading};
use crate::error::CommandError;
use crate::printable::tell;
use hapax::seam::digested;
use hapax::{Dedup, Prepared, Timestamp};
use hapax_plan::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, SystemTime};

/// The memory of all blocks of inputs together, and the least for one.
const BLOCKS_BYTES: usize = 64 << 20;
const BLOCK_BYTES_MIN: usize = 16 << 10;

/// The files that the command itself has open at most.
const OWN_FILES: u64 = 32;

/// The order of inputs, and of their batches.
pub struct Order {
    /// The time by which an event of an input may be earlier than the one before.
    pub lateness: Duration,
    /// The time by which an event may be ahead of the clock; any time without it.
    pub skew: Option<Duration>,
    /// True if a batch has lines of one input only, so that it can be cut.
    pub apart: bool,
}

/// An input, and its next event.
struct Input<'s> {
    source: &'s Source,
    lines: Lines,
    reading: Reading,
    bytes: Vec<u8>,
    ends: Vec<u32>,
    /// The records of the block that are in a batch.
    done: usize,
    /// The record behind them, if it was looked at: an event, or something else.
    next: Option<Result<(Prepared, Timestamp), Unchecked>>,
    latest: Timestamp,
    /// The time by which an event may be earlier than the latest one without being told.
    lateness: Duration,
}

/// Returns an error if not all inputs can be read at once.
pub fn check(sources: &[Source]) -> Result<(), CommandError> {
    if sources.iter().filter(|source| source.is_stdin()).count() > 1 {
        return Err(CommandError::Usage("--merge: standard input is named twice, and can be read once".to_string()));
    }
    let needed = sources.len() as u64 + OWN_FILES;
    match files_max() {
        Some(most) if needed > most => Err(CommandError::Usage(format!(
            "--merge: {} inputs are read at once, and this process may open {most} files, {OWN_FILES} of them for itself: allow more \
             (`ulimit -n {needed}`), or merge some of them first",
            sources.len()
        ))),
        _ => Ok(()),
    }
}

/// Returns the number of files that may be open, if there is a limit.
#[cfg(unix)]
fn files_max() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: it writes one `rlimit`, to where there is one.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    (result == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

#[cfg(not(unix))]
fn files_max() -> Option<u64> {
    None
}

/// The merge under way.
struct Merge<'s> {
    /// The rules for lines, with the header of the inputs so far.
    lines: Lines,
    dedup: Dedup,
    opener: Box<dyn Inputs>,
    order: Order,
    encodings: Encodings,
    channels: Channels,
    inputs: Vec<Input<'s>>,
    /// The times of the next events, and the numbers of their inputs.
    heap: BinaryHeap<Reverse<(Timestamp, usize)>>,
    /// Times up to here are not too far ahead.
    limit: Timestamp,
    batch: Batch,
    /// The input of the last line of the batch.
    of: usize,
}

/// Reads all files.
pub fn run(
    lines: Lines,
    dedup: Dedup,
    opener: Box<dyn Inputs>,
    order: Order,
    sources: &[Source],
    mut channels: Channels,
) {
    let Ok(batch) = channels.take() else { return };
    let (inputs, heap, limit) = (Vec::new(), BinaryHeap::new(), Timestamp::default());
    let encodings = Encodings::default();
    let mut merge = Merge { lines, dedup, opener, order, encodings, channels, inputs, heap, limit, batch, of: 0 };
    // The lines before a bad one are still printed.
    if let Err(Stop::Failed(failure)) = merge.run(sources)
        && merge.flush().is_ok()
    {
        let _ = merge.channels.full.send(Err(failure)); // whoever has gone away needs no reason
    }
}

impl<'s> Merge<'s> {
    fn run(&mut self, sources: &'s [Source]) -> Result<(), Stop> {
        let block_bytes = (BLOCKS_BYTES / sources.len().max(1)).clamp(BLOCK_BYTES_MIN, BLOCK_BYTES);
        for (number, source) in sources.iter().enumerate() {
            self.flush()?;
            self.open(source, block_bytes)?;
            self.advance(number)?;
            // With the header, if it was the first.
            self.lines = self.inputs[number].lines.clone();
        }
        while let Some(Reverse((_, number))) = self.heap.pop() {
            self.take(number)?;
            self.advance(number)?;
        }
        Ok(self.flush()?)
    }

    fn open(&mut self, source: &'s Source, block_bytes: usize) -> Result<(), Stop> {
        self.lines.begin_file(source);
        let mut lines = self.lines.clone();
        let mut reading = self.opener.read(source, &mut lines, false)?;
        reading.blocks.set_block_bytes(block_bytes);
        one_header(&mut self.batch, source, reading.header.take())?;
        self.inputs.push(Input {
            source,
            lines,
            reading,
            bytes: Vec::new(),
            ends: Vec::new(),
            done: 0,
            next: None,
            latest: Timestamp::default(),
            lateness: self.order.lateness,
        });
        Ok(())
    }

    /// Brings the next event of an input into the heap, if there is one.
    fn advance(&mut self, number: usize) -> Result<(), Stop> {
        loop {
            let input = &mut self.inputs[number];
            if input.done == input.ends.len() {
                // Nobody waits for lines while an input is waited for.
                self.flush()?;
                if !self.read(number)? {
                    return Ok(());
                }
                continue;
            }
            let line = input.lines.read() + 1;
            let next = input.lines.next(without_end(&input.bytes[input.range()]));
            let next = match next.map_err(|bad| bad.of(input.source))? {
                Line::Event { id, at } => Ok((digested(&self.dedup, id), at.unwrap_or_default())),
                Line::Unchecked(unchecked) => Err(unchecked),
            };
            input.next = Some(next);
            if let Ok((_, at)) = next
                && !self.is_ahead(at)
            {
                self.inputs[number].compare(at, line);
                self.heap.push(Reverse((at, number)));
                return Ok(());
            }
            self.take(number)?;
        }
    }

    /// Returns true if an event is so far ahead that it is refused.
    fn is_ahead(&mut self, at: Timestamp) -> bool {
        let Some(skew) = self.order.skew.filter(|_| at > self.limit) else { return false };
        self.limit = Timestamp::from(SystemTime::now()) + skew;
        at > self.limit
    }

    /// Reads the next block of an input. Returns false at its end.
    fn read(&mut self, number: usize) -> Result<bool, Stop> {
        let input = &mut self.inputs[number];
        loop {
            if input.bytes.capacity() > LONG_BYTES {
                input.bytes = Vec::new();
            }
            let Input { source, lines, reading, bytes, ends, .. } = input;
            let block = reading.blocks.next(bytes, ends).map_err(|e| CommandError::reading(source.name(), e))?;
            input.done = 0;
            lines.skipped(reading.blocks.take_skipped());
            match block {
                Block::End if reading.may_be_short && reading.blocks.read() < reading.place.offset => {
                    // The file was cut short since an earlier run has read it.
                    lines.clone_from(&self.lines);
                    *reading = self.opener.read(source, lines, true)?;
                }
                Block::End => return Ok(false),
                Block::TooLong | Block::Unterminated => {
                    lines.no_record((block == Block::Unterminated).then_some(bytes)).map_err(|bad| bad.of(source))?;
                    self.batch.too_long += 1;
                }
                Block::Records => {
                    self.encodings.agree(source, reading.blocks.encoding())?;
                    let start = reading.blocks.start();
                    if start < reading.place.offset {
                        let header = skip(lines, bytes, ends, &reading.place, start);
                        one_header(&mut self.batch, source, header.map_err(|bad| bad.of(source))?)?;
                    }
                    if !ends.is_empty() {
                        return Ok(true);
                    }
                }
            }
        }
    }

    /// Takes the next record of an input into the batch.
    fn take(&mut self, number: usize) -> Result<(), Stop> {
        let range = self.inputs[number].range();
        let is_full = self.batch.bytes.len() + range.len() > BLOCK_BYTES;
        if is_full || self.order.apart && number != self.of {
            self.flush()?;
        }
        let (batch, input) = (&mut self.batch, &mut self.inputs[number]);
        let start = batch.bytes.len();
        if start == 0 {
            batch.encoding = input.reading.blocks.encoding();
        }
        batch.bytes.extend_from_slice(&input.bytes[range]);
        match input.next.take() {
            Some(Ok((id, at))) => {
                batch.ids.push(id);
                batch.times.push(at);
            }
            Some(Err(unchecked)) => {
                let header = Line::Unchecked(unchecked).header(&batch.bytes[start..]);
                one_header(batch, input.source, header)?;
                batch.unchecked.push((batch.ends.len() as u32, unchecked));
            }
            None => {}
        }
        let record = &mut batch.bytes[start..];
        input.lines.put_in_order(record, &[record.len() as u32]);
        batch.ends.push(batch.bytes.len() as u32);
        input.done += 1;
        self.of = number;
        Ok(())
    }

    /// Sends the batch, if there is something in it, with the places that its inputs have reached.
    fn flush(&mut self) -> Result<(), Gone> {
        if self.batch.ends.is_empty() && self.batch.too_long == 0 {
            return Ok(());
        }
        let mut batch = std::mem::take(&mut self.batch);
        for (number, input) in self.inputs.iter_mut().enumerate() {
            let has_moved = input.settle();
            if number == self.of {
                batch.place.clone_from(&input.reading.place);
                batch.name = input.source.name().display().to_string();
                batch.record = input.source.record();
            } else if has_moved {
                batch.others.push(input.reading.place.clone());
            }
        }
        self.channels.send(batch)?;
        self.batch = self.channels.take()?;
        Ok(())
    }
}

/// Takes the header of an input, if it is the first one.
fn one_header(batch: &mut Batch, source: &Source, header: Option<Header>) -> Result<(), CommandError> {
    if let Some((Unchecked::OwnHeader, _)) = header {
        return Err(CommandError::BadInput(format!(
            "{}, line 1: its header is another one than that of the first input, and --merge prints one (see --header-mismatch)",
            source.name().display()
        )));
    }
    batch.header = header.or(batch.header.take());
    Ok(())
}

impl Input<'_> {
    /// Returns the range of the next record.
    fn range(&self) -> std::ops::Range<usize> {
        let start = if self.done > 0 { self.ends[self.done - 1] as usize } else { 0 };
        start..self.ends[self.done] as usize
    }

    /// Notes the place that was reached. Returns true if it is another one.
    fn settle(&mut self) -> bool {
        let Reading { blocks, place, .. } = &mut self.reading;
        let before = place.offset;
        blocks.note(&self.ends, self.done, place);
        let next = if self.next.is_some() { &self.bytes[self.range()] } else { &[] };
        self.reading.place.lines = self.lines.read() - lines_in(next);
        self.reading.place.offset != before
    }

    /// Compares the next event with those before it, and says if it is out of order.
    fn compare(&mut self, at: Timestamp, line: u64) {
        let late = self.latest.since(at);
        self.latest = self.latest.max(at);
        if late > self.lateness {
            self.lateness = Duration::MAX;
            tell(format_args!(
                "hapax: warning: {}, line {line}: its time is {} earlier than one before it, and --merge needs each input in order (within \
                 --allowed-lateness): duplicates may pass",
                self.source.name().display(),
                Time(late)
            ));
        }
    }
}
