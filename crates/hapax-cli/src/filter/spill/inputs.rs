//! Reads inputs twice, and makes sure that both times are the same.
//!
//! An ordinary file is read as far as it was long at first. Of what can be read once only a copy is
//! made. All is read in chunks, whose hashes of the first time are compared the second time before
//! any of their bytes is handed on.

use super::nameless::Nameless;
use crate::error::CommandError;
use crate::filter::source::blocks::Blocks;
use crate::filter::source::checkpoint::Checkpoint;
use crate::filter::source::encoding::Content;
use crate::filter::source::input::{Source, read_full, read_full_at};
use crate::filter::source::lines::Lines;
use crate::filter::source::reading::{Inputs, Reading};
use hapax_plan::Bytes;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard};
use xxhash_rust::xxh3::xxh3_64;

/// The bytes that are hashed, and compared, together.
const CHUNK_BYTES: usize = 256 << 10;

/// All inputs, as they were read at first.
#[derive(Default)]
pub struct Recorded {
    inputs: Vec<Input>,
    /// The copy of everything that can be read once only.
    copy: Option<Nameless>,
}

/// One input, as it was read at first.
#[derive(Clone, Debug, PartialEq)]
struct Input {
    /// Its beginning, in itself or in the copy.
    start: u64,
    is_copied: bool,
    length: u64,
    hashes: Vec<u64>,
}

impl Recorded {
    /// Returns the bytes that were copied.
    pub fn copied(&self) -> u64 {
        self.copy.as_ref().map_or(0, Nameless::written)
    }
}

/// Opens inputs for the first time.
pub struct First {
    directory: PathBuf,
    recorded: Arc<Mutex<Recorded>>,
    bytes_read: Arc<AtomicU64>,
}

impl First {
    /// Copies to this directory, and counts what is read.
    pub fn new(directory: &Path, bytes_read: Arc<AtomicU64>) -> Self {
        First { directory: directory.to_path_buf(), recorded: Arc::default(), bytes_read }
    }

    /// Returns what is going to be recorded.
    pub fn recorded(&self) -> Arc<Mutex<Recorded>> {
        self.recorded.clone()
    }
}

/// Returns the guard, also after a panic, which is reported elsewhere.
pub fn lock(recorded: &Mutex<Recorded>) -> MutexGuard<'_, Recorded> {
    recorded.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Inputs for First {
    fn read(&mut self, source: &Source, lines: &mut Lines, _anew: bool) -> Result<Reading, CommandError> {
        let failed = |error| CommandError::reading(source.name(), error);
        let mut file = source.open()?;
        let meta = file.metadata().map_err(failed)?;
        // Some files of the system say that they are empty.
        let length = (meta.is_file() && meta.len() > 0).then_some(meta.len());
        let at = if length.is_some() { file.stream_position().map_err(failed)? } else { 0 };
        let mut recorded = lock(&self.recorded);
        if length.is_none() && recorded.copy.is_none() {
            recorded.copy = Some(Nameless::new(&self.directory)?);
        }
        let start = if length.is_some() { at } else { recorded.copied() };
        recorded.inputs.push(Input { start, is_copied: length.is_none(), length: 0, hashes: Vec::new() });
        drop(recorded);
        let input = file.take(length.map_or(u64::MAX, |length| length.saturating_sub(at)));
        let chunks = Chunks::new(Recording { input, recorded: self.recorded.clone() }, self.bytes_read.clone());
        opened(source.decompress(chunks).map_err(failed)?, lines)
    }
}

/// Opens inputs once more, in the same order.
pub struct Again {
    inputs: std::vec::IntoIter<Input>,
    copy: Option<Arc<File>>,
    bytes_read: Arc<AtomicU64>,
}

impl Again {
    /// Opens what was recorded, and counts what is read.
    pub fn new(recorded: &mut Recorded, bytes_read: Arc<AtomicU64>) -> Self {
        let Recorded { inputs, copy } = std::mem::take(recorded);
        Again { inputs: inputs.into_iter(), copy: copy.map(Nameless::share), bytes_read }
    }
}

impl Inputs for Again {
    fn read(&mut self, source: &Source, lines: &mut Lines, _anew: bool) -> Result<Reading, CommandError> {
        let failed = |error| CommandError::reading(source.name(), error);
        let missing = || CommandError::input(source.name(), "it was not read before");
        let input = self.inputs.next().ok_or_else(missing)?;
        let file = if input.is_copied { self.copy.clone().ok_or_else(missing)? } else { Arc::new(source.open()?) };
        let comparing = Comparing { file, name: source.name().to_path_buf(), input, chunk: 0 };
        opened(source.decompress(Chunks::new(comparing, self.bytes_read.clone())).map_err(failed)?, lines)
    }
}

fn opened(content: Content, lines: &mut Lines) -> Result<Reading, CommandError> {
    let blocks = Blocks::new(content, lines.cutter(), lines.line_bytes_max());
    Ok(Reading { blocks, place: Checkpoint::default(), may_be_short: false, header: None })
}

/// A source of whole chunks, of which only the last one is shorter.
trait Fill: Send {
    /// Fills the buffer as far as possible. Returns the number of bytes, zero at the end.
    fn fill(&mut self, chunk: &mut [u8]) -> Result<usize, CommandError>;
}

/// Hands the bytes of chunks on.
struct Chunks<F> {
    source: F,
    chunk: Vec<u8>,
    at: usize,
    filled: usize,
    bytes_read: Arc<AtomicU64>,
}

impl<F: Fill> Chunks<F> {
    fn new(source: F, bytes_read: Arc<AtomicU64>) -> Self {
        Chunks { source, chunk: vec![0; CHUNK_BYTES], at: 0, filled: 0, bytes_read }
    }
}

impl<F: Fill> Read for Chunks<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.filled {
            (self.at, self.filled) = (0, 0);
            self.filled = self.source.fill(&mut self.chunk).map_err(io::Error::other)?;
            self.bytes_read.fetch_add(self.filled as u64, Relaxed);
        }
        let n = buffer.len().min(self.filled - self.at);
        buffer[..n].copy_from_slice(&self.chunk[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

/// Chunks of an input that is read for the first time, the last of those that are recorded.
struct Recording {
    input: io::Take<File>,
    recorded: Arc<Mutex<Recorded>>,
}

impl Fill for Recording {
    fn fill(&mut self, chunk: &mut [u8]) -> Result<usize, CommandError> {
        let read = read_full(&mut self.input, chunk).map_err(CommandError::Unnamed)?;
        if read == 0 {
            return Ok(0);
        }
        let Recorded { inputs, copy } = &mut *lock(&self.recorded);
        if let Some(input) = inputs.last_mut() {
            input.length += read as u64;
            input.hashes.push(xxh3_64(&chunk[..read]));
            if let Some(copy) = copy.as_mut().filter(|_| input.is_copied) {
                copy.append(&chunk[..read])?;
            }
        }
        Ok(read)
    }
}

/// Chunks of an input that is read once more.
struct Comparing {
    file: Arc<File>,
    name: PathBuf,
    input: Input,
    /// The number of the next chunk.
    chunk: usize,
}

impl Fill for Comparing {
    fn fill(&mut self, chunk: &mut [u8]) -> Result<usize, CommandError> {
        let Comparing { file, name, input, chunk: number } = self;
        let Some(hash) = input.hashes.get(*number) else { return Ok(0) };
        let at = *number as u64 * CHUNK_BYTES as u64;
        let expected = usize::try_from(input.length - at).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
        let chunk = &mut chunk[..expected];
        let read = read_full_at(file, chunk, input.start + at).map_err(|error| CommandError::input(name, error))?;
        if read != expected || xxh3_64(chunk) != *hash {
            let changed = if read == expected {
                format!("{} from {} on were changed", Bytes(expected as f64), Bytes(at as f64))
            } else {
                format!("it had {} bytes, and has {} now", input.length, at + read as u64)
            };
            let why = "--spill reads it twice. What is printed is right, and not all: run again when nobody changes it, \
                       or give a pipe (`cat FILE |`), of which a copy is made";
            return Err(CommandError::input(name, format!("it was changed while it was read: {changed}. {why}")));
        }
        *number += 1;
        Ok(expected)
    }
}
