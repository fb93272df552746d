//! The mark: how far a journal has come for certain. It is replaced as a whole.

use crate::error::JournalError;
use crate::journal::encoding::format::{MARK_BYTES, Mark, NotOurs};
use crate::journal::files::disk::{Disk, create_anew, read_full, write_all};
use crate::journal::options::SyncMode;
use std::io::ErrorKind;
use std::path::Path;

pub(in crate::journal) const NAME: &str = "mark";
const NEW: &str = "mark.new";

/// Writes the mark beside the old one, and lets it replace that when it is on the disk.
pub(in crate::journal) fn write(
    disk: &dyn Disk,
    directory: &Path,
    mark: &Mark,
    sync: SyncMode,
) -> Result<(), JournalError> {
    let (path, new) = (directory.join(NAME), directory.join(NEW));
    let mut file = create_anew(disk, &new).map_err(JournalError::io("create", &new))?;
    write_all(file.as_mut(), &mark.encode()).map_err(JournalError::io("write", &new))?;
    sync.sync_file(file.as_mut(), &new)?;
    disk.rename(&new, &path).map_err(JournalError::io("rename to", &path))?;
    sync.sync_directory(disk, directory)
}

/// The mark as a directory has it.
#[derive(Clone, Debug)]
pub(in crate::journal) enum Found {
    Missing,
    Here(Mark),
    Damaged(NotOurs),
}

pub(in crate::journal) fn read(disk: &dyn Disk, directory: &Path) -> Result<Found, JournalError> {
    let path = directory.join(NAME);
    let mut file = match disk.open(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Missing),
        opened => opened.map_err(JournalError::io("open", &path))?,
    };
    // One byte more, to see that the mark is no longer than it should be.
    let mut bytes = [0; MARK_BYTES + 1];
    let read = read_full(file.as_mut(), 0, &mut bytes).map_err(JournalError::io("read", &path))?;
    let decoded = match bytes.first_chunk() {
        Some(bytes) if read == MARK_BYTES => Mark::decode(bytes),
        _ => Err(NotOurs { what: "length", got: read.to_string(), expected: MARK_BYTES.to_string() }),
    };
    Ok(decoded.map_or_else(Found::Damaged, Found::Here))
}
