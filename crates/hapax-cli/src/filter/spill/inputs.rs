//! Reads inputs twice, and makes sure that both times are the same.
//!
//! An ordinary file is read as far as it was long at first. Of what can be read once only a copy is
//! made. All is read in chunks, whose hashes of the first time are compared the second time before
//! any of their bytes is handed on.

use super::nameless::Nameless;
use crate::error::CommandError;
use crate::filter::source::blocks::Blocks;
use crate::filter::source::checkpoint::Checkpoint;
use crate::filter::source::input::{Source, read_full, read_full_at};
use crate::filter::source::lines::Lines;
use crate::filter::source::reading::{Inputs, Reading};
use hapax_plan::Bytes;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
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
        let (recorded, bytes_read) = (self.recorded.clone(), self.bytes_read.clone());
        opened(source, Recording { input, recorded, bytes_read }, lines)
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
        let missing = || CommandError::input(source.name(), "it was not read before");
        let input = self.inputs.next().ok_or_else(missing)?;
        let file = if input.is_copied { self.copy.clone().ok_or_else(missing)? } else { Arc::new(source.open()?) };
        opened(source, Comparing { file, input, chunk: 0, bytes_read: self.bytes_read.clone() }, lines)
    }
}

/// Opens an input that is read in chunks.
fn opened(source: &Source, chunks: impl Read + Send + 'static, lines: &Lines) -> Result<Reading, CommandError> {
    let content = source.decompress(BufReader::with_capacity(CHUNK_BYTES, chunks));
    let content = content.map_err(|error| CommandError::reading(source.name(), error))?;
    let blocks = Blocks::new(content, lines.cutter(), lines.line_bytes_max());
    Ok(Reading { blocks, place: Checkpoint::default(), may_be_short: false, header: None })
}

/// Reads an input for the first time, the last of those that are recorded.
struct Recording {
    input: io::Take<File>,
    recorded: Arc<Mutex<Recorded>>,
    bytes_read: Arc<AtomicU64>,
}

impl Read for Recording {
    /// Reads a chunk, for which there is room.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let chunk = &mut buffer[..CHUNK_BYTES];
        let read = read_full(&mut self.input, chunk)?;
        if read == 0 {
            return Ok(0);
        }
        self.bytes_read.fetch_add(read as u64, Relaxed);
        let Recorded { inputs, copy } = &mut *lock(&self.recorded);
        if let Some(input) = inputs.last_mut() {
            input.length += read as u64;
            input.hashes.push(xxh3_64(&chunk[..read]));
            if let Some(copy) = copy.as_mut().filter(|_| input.is_copied) {
                copy.append(&chunk[..read]).map_err(io::Error::other)?;
            }
        }
        Ok(read)
    }
}

/// Reads an input once more.
struct Comparing {
    file: Arc<File>,
    input: Input,
    /// The number of the next chunk.
    chunk: usize,
    bytes_read: Arc<AtomicU64>,
}

impl Read for Comparing {
    /// Reads a chunk, for which there is room.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Comparing { file, input, chunk: number, bytes_read } = self;
        let Some(hash) = input.hashes.get(*number) else { return Ok(0) };
        let at = *number as u64 * CHUNK_BYTES as u64;
        let expected = usize::try_from(input.length - at).map_or(CHUNK_BYTES, |left| left.min(CHUNK_BYTES));
        let chunk = &mut buffer[..expected];
        let read = read_full_at(file, chunk, input.start + at)?;
        if read != expected || xxh3_64(chunk) != *hash {
            let changed = if read == expected {
                format!("{} from {} on were changed", Bytes(expected as f64), Bytes(at as f64))
            } else {
                format!("it had {} bytes, and has {} now", input.length, at + read as u64)
            };
            let why = "--spill reads it twice. What is printed is right, and not all: run again when nobody changes it, \
                       or give a pipe (`cat FILE |`), of which a copy is made";
            return Err(io::Error::other(format!("it was changed while it was read: {changed}. {why}")));
        }
        *number += 1;
        bytes_read.fetch_add(expected as u64, Relaxed);
        Ok(expected)
    }
}
