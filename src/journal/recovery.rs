//! Opens a journal's directory, and reads what is valid of its files.

use super::append::Positions;
use super::disk::private;
use super::error::JournalError;
use super::format::{BLOCK_HEADER_BYTES, BlockHeader, HEADER_BYTES, Header, Run, runs};
use super::options::JournalOptions;
use super::writer::{Segment, is_segment, unix_nanos};
use crate::Timestamp;
use std::fs::{self, File, TryLockError};
use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What was found when a journal was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovery {
    /// Files that were read.
    pub segments: u64,
    /// Blocks, each of which was written at once.
    pub blocks: u64,
    /// Ids that were accepted.
    pub ids: u64,
    /// Bytes of all that.
    pub bytes: u64,
    /// Ends of files that were no blocks, as a crash leaves them.
    pub torn: Vec<Torn>,
    /// How long it took.
    pub took: Duration,
}

/// The end of a file that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Torn {
    /// The file.
    pub path: PathBuf,
    /// From where on.
    pub offset: u64,
    /// How many bytes that is.
    pub bytes: u64,
    /// What is wrong there.
    pub reason: &'static str,
    /// Whether it was cut off: it is, if nothing comes after it.
    pub truncated: bool,
}

/// Keeps others out of a directory.
pub(super) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing it is not enough: a child that was forked just now has it open as well, until its own program begins.
        let _ = self.0.unlock();
    }
}

/// A directory that is ours, and its files.
pub(super) struct Found {
    pub(super) directory: PathBuf,
    /// Held for as long as it is open.
    pub(super) lock: Lock,
    segments: Vec<(PathBuf, Header)>,
}

/// What is left to go on with.
pub(super) struct Recovered {
    pub(super) recovery: Recovery,
    pub(super) segments: Vec<Segment>,
    /// Of the next block.
    pub(super) number: u64,
    pub(super) positions: Positions,
}

impl Found {
    /// Opens a directory, which need not exist, for this process alone.
    pub(super) fn open(directory: &Path, options: &JournalOptions) -> Result<Self, JournalError> {
        create_directory(directory, options).map_err(JournalError::io("create", directory))?;
        let lock = lock(directory, options)?;
        let segments = find(directory, |path, empty| match empty {
            // Created, and then the process died.
            true => fs::remove_file(path).map_err(JournalError::io("delete", path)),
            false => Ok(()),
        })?;
        Ok(Found { directory: directory.into(), lock, segments })
    }

    /// The seed of the digests in it, if there are any; `wanted`, if somebody insists on one.
    pub(super) fn seed(&self, wanted: Option<u64>) -> Result<Option<u64>, JournalError> {
        let mut seed = wanted;
        for (path, header) in &self.segments {
            if *seed.get_or_insert(header.seed) != header.seed {
                return Err(JournalError::NotOurs {
                    path: path.clone(),
                    what: "seed",
                    // Secret, as it is.
                    got: "another one".into(),
                    expected: "that of the engine, and of the other files".into(),
                });
            }
        }
        Ok(seed)
    }

    /// Reads what is valid of each file, in order, and cuts off what is not at the end of the last.
    pub(super) fn replay(&self, mut each: impl FnMut(&Run<'_>)) -> Result<Recovered, JournalError> {
        let began = Instant::now();
        let (mut recovery, mut segments, mut number) = (Recovery::default(), Vec::new(), 0);
        let (mut latest, mut positions) = (Timestamp::default(), Positions::default());
        let mut each = |run: &Run<'_>| {
            if let Some((source, position)) = run.position() {
                positions.set(source, position);
            }
            each(run);
        };
        for (i, (path, header)) in self.segments.iter().enumerate() {
            let is_last = i + 1 == self.segments.len();
            let read = read_segment(path, header, &mut each)?;
            recovery.segments += 1;
            recovery.blocks += read.blocks;
            recovery.ids += read.ids;
            recovery.bytes += read.bytes;
            if let Some(mut torn) = read.torn {
                torn.truncated = is_last;
                if is_last {
                    truncate(path, torn.offset)?;
                }
                recovery.torn.push(torn);
            }
            number = header.number + read.blocks;
            // What could not be read of it is no older than what came before.
            latest = latest.max(read.latest);
            if is_last && read.blocks == 0 {
                // Its name is that of the file that is written next.
                fs::remove_file(path).map_err(JournalError::io("delete", path))?;
            } else {
                segments.push(Segment { path: path.clone(), bytes: read.bytes, latest });
            }
        }
        recovery.took = began.elapsed();
        Ok(Recovered { recovery, segments, number, positions })
    }
}

fn create_directory(directory: &Path, options: &JournalOptions) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    // Whoever may read may also enter.
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, options.file_mode | (options.file_mode & 0o444) >> 2);
    #[cfg(not(unix))]
    let _ = options;
    builder.create(directory)
}

fn lock(directory: &Path, options: &JournalOptions) -> Result<Lock, JournalError> {
    let path = directory.join("lock");
    let opened = private(options.file_mode).read(true).create(true).open(&path);
    let mut lock = opened.map_err(JournalError::io("open", &path))?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            let read = lock.read_to_string(&mut holder);
            let holder = if read.is_ok() && !holder.is_empty() { holder } else { "another process".into() };
            return Err(JournalError::InUse { path: directory.into(), holder });
        }
        Err(TryLockError::Error(error)) => return Err(JournalError::io("lock", &path)(error)),
    }
    let since = unix_nanos() / 1_000_000_000;
    let holder = format!("process {} (since second {since} of the Unix epoch)", std::process::id());
    let written = lock.set_len(0).and_then(|()| lock.write_all(holder.as_bytes()));
    let lock = Lock(lock);
    written.map_err(JournalError::io("write", &path))?;
    Ok(lock)
}

/// The files of a directory, by number. What was created and never written, as the last of them may be, goes to `empty`.
pub(super) fn find(
    directory: &Path,
    mut visit: impl FnMut(&Path, bool) -> Result<(), JournalError>,
) -> Result<Vec<(PathBuf, Header)>, JournalError> {
    let entries = fs::read_dir(directory).map_err(JournalError::io("read", directory))?;
    let mut segments = Vec::new();
    for entry in entries {
        let path = entry.map_err(JournalError::io("read", directory))?.path();
        if !is_segment(&path) {
            continue;
        }
        let header = read_header(&path)?;
        visit(&path, header.is_none())?;
        segments.extend(header.map(|header| (path, header)));
    }
    segments.sort_by_key(|(_, header)| header.number);
    Ok(segments)
}

/// `None` if it was not written, or not to its end.
fn read_header(path: &Path) -> Result<Option<Header>, JournalError> {
    let mut bytes = [0; HEADER_BYTES];
    let mut file = File::open(path).map_err(JournalError::io("open", path))?;
    match file.read_exact(&mut bytes) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        read => read.map_err(JournalError::io("read", path))?,
    }
    if bytes == [0; HEADER_BYTES] {
        return Ok(None);
    }
    let header = Header::decode(&bytes);
    header.map(Some).map_err(|wrong| JournalError::NotOurs {
        path: path.into(),
        what: wrong.what,
        got: wrong.got,
        expected: wrong.expected,
    })
}

/// What there is in a file.
#[derive(Default)]
pub(super) struct Contents {
    pub(super) blocks: u64,
    pub(super) ids: u64,
    pub(super) bytes: u64,
    pub(super) latest: Timestamp,
    pub(super) torn: Option<Torn>,
}

/// Reads the blocks of a file until one is not valid.
pub(super) fn read_segment(
    path: &Path,
    header: &Header,
    each: &mut impl FnMut(&Run<'_>),
) -> Result<Contents, JournalError> {
    let mut file = File::open(path).map_err(JournalError::io("open", path))?;
    let size = file.metadata().map_err(JournalError::io("read", path))?.len();
    file.seek(SeekFrom::Start(HEADER_BYTES as u64)).map_err(JournalError::io("read", path))?;
    let mut file = BufReader::with_capacity(1 << 20, file);
    let mut read = Contents { bytes: HEADER_BYTES as u64, ..Contents::default() };
    let mut payload = Vec::new();
    while read.bytes < size {
        let left = size - read.bytes;
        let number = header.number + read.blocks;
        let block = match read_block(&mut file, left, number, header.salt, &mut payload) {
            Ok(block) => block,
            Err(Bad::Io(error)) => return Err(JournalError::io("read", path)(error)),
            Err(Bad::Block(reason)) => {
                let torn = Torn { path: path.into(), offset: read.bytes, bytes: left, reason, truncated: false };
                read.torn = Some(torn);
                break;
            }
        };
        runs(&payload).flatten().for_each(|run| {
            read.ids += if run.kind == super::format::Kind::Accepted { run.len() } else { 0 };
            each(&run);
        });
        read.blocks += 1;
        read.bytes += (BLOCK_HEADER_BYTES + payload.len()) as u64;
        read.latest = read.latest.max(block.latest);
    }
    Ok(read)
}

/// Why there is no next block.
enum Bad {
    Io(std::io::Error),
    Block(&'static str),
}

fn read_block(
    file: &mut impl Read,
    left: u64,
    number: u64,
    salt: u64,
    payload: &mut Vec<u8>,
) -> Result<BlockHeader, Bad> {
    let Some(left) = left.checked_sub(BLOCK_HEADER_BYTES as u64) else {
        return Err(Bad::Block("the header of a block is cut off"));
    };
    let mut header = [0; BLOCK_HEADER_BYTES];
    file.read_exact(&mut header).map_err(Bad::Io)?;
    let block = BlockHeader::decode(&header).ok_or(Bad::Block("this is no block"))?;
    if u64::from(block.payload_bytes) > left {
        return Err(Bad::Block("a block is cut off"));
    }
    payload.resize(block.payload_bytes as usize, 0);
    file.read_exact(payload).map_err(Bad::Io)?;
    if !block.holds(payload, salt) {
        return Err(Bad::Block("the checksum of a block is wrong"));
    }
    if block.number != number {
        return Err(Bad::Block("a block has another number than the next"));
    }
    if runs(payload).any(|run| run.is_none()) {
        return Err(Bad::Block("a block has what is no run"));
    }
    Ok(block)
}

fn truncate(path: &Path, bytes: u64) -> Result<(), JournalError> {
    let cut = || {
        let file = fs::OpenOptions::new().write(true).open(path)?;
        file.set_len(bytes)?;
        file.sync_all()
    };
    cut().map_err(JournalError::io("truncate", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_given_up_also_if_a_child_still_has_the_lock_open() {
        let directory = std::env::temp_dir().join(format!("hapax-lock-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let options = JournalOptions::new();
        let held = lock(&directory, &options).unwrap();
        let of_a_child = held.0.try_clone().unwrap();
        assert!(matches!(lock(&directory, &options), Err(JournalError::InUse { .. })));
        drop(held);
        assert!(lock(&directory, &options).is_ok());
        drop(of_a_child);
        fs::remove_dir_all(&directory).unwrap();
    }
}
