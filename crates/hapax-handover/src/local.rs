//! The local side: a directory for each epoch, with the files of a journal.

use crate::HandoverError;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

const PREFIX: &str = "epoch-";

/// Makes an empty directory for an epoch, which nobody else may enter.
pub(crate) fn make(directory: &Path, epoch: u64) -> Result<PathBuf, HandoverError> {
    let path = directory.join(format!("{PREFIX}{epoch:020}"));
    match fs::remove_dir_all(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(HandoverError::io("delete", &path)(error));
        }
        _ => {}
    }
    create_directory(&path)?;
    Ok(path)
}

pub(crate) fn create_directory(path: &Path) -> Result<(), HandoverError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(HandoverError::io("create", path))
}

/// Returns the directory of an epoch's segments.
pub(crate) fn segments(directory: &Path) -> PathBuf {
    directory.join("segments")
}

/// Deletes the directories of earlier epochs: their owners are fenced.
pub(crate) fn forget_earlier(directory: &Path, epoch: u64) -> Result<(), HandoverError> {
    for entry in fs::read_dir(directory).map_err(HandoverError::io("read", directory))? {
        let path = entry.map_err(HandoverError::io("read", directory))?.path();
        let named = path.file_name().and_then(|name| name.to_str()?.strip_prefix(PREFIX)?.parse::<u64>().ok());
        if named.is_some_and(|named| named < epoch) {
            fs::remove_dir_all(&path).map_err(HandoverError::io("delete", &path))?;
        }
    }
    Ok(())
}

/// Creates a file that its owner alone may read: it has the key of the digests.
pub(crate) fn create(path: &Path) -> Result<File, HandoverError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(HandoverError::io("create", path))
}

/// Writes a new file.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), HandoverError> {
    create(path)?;
    write_at(path, 0, bytes)
}

/// Writes bytes at an offset of a file that is there.
pub(crate) fn write_at(path: &Path, offset: u64, bytes: &[u8]) -> Result<(), HandoverError> {
    let write = || {
        let mut file = OpenOptions::new().write(true).open(path)?;
        file.seek(SeekFrom::Start(offset))?;
        file.write_all(bytes)
    };
    write().map_err(HandoverError::io("write", path))
}

/// A file that is open: it can be read also when its name is gone.
pub(crate) struct Source {
    path: PathBuf,
    file: File,
}

impl Source {
    pub(crate) fn open(path: &Path) -> Result<Self, HandoverError> {
        let file = File::open(path).map_err(HandoverError::io("open", path))?;
        Ok(Source { path: path.into(), file })
    }

    /// Reads a stretch of it.
    pub(crate) fn read(&self, range: &Range<u64>) -> Result<Vec<u8>, HandoverError> {
        let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap_or(usize::MAX)];
        read_exact_at(&self.file, &mut bytes, range.start).map_err(HandoverError::io("read", &self.path))?;
        Ok(bytes)
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => (bytes, offset) = (&mut bytes[read..], offset + read as u64),
        }
    }
    Ok(())
}

#[cfg(not(any(unix, windows)))]
fn read_exact_at(_: &File, _: &mut [u8], _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
