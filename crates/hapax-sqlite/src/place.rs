//! The place of the open file: a check that others who open the path open the same file.

use super::BACKEND;
use hapax_store::{ErrorKind, StoreError};
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

/// A path, and the file that was there when it was opened.
pub(super) struct Place {
    /// Absolute: the program may change its directory, which SQLite does not notice either.
    path: PathBuf,
    file: FileId,
}

/// The number of a file on its disk. Where the system has none, an open file cannot be removed.
type FileId = Option<(u64, u64)>;

impl Place {
    /// Notes the file at a path, which must have just been opened.
    pub(super) fn of(path: &Path) -> Result<Self, StoreError> {
        let noted = std::path::absolute(path).and_then(|path| Ok(Place { file: file_id(&fs::metadata(&path)?), path }));
        noted.map_err(unknown)
    }

    /// Returns an error if another file is at the path now, or none.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match fs::metadata(&self.path) {
            Ok(there) if file_id(&there) == self.file => Ok(()),
            Ok(_) => Err(moved("another file is in its place")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(moved("it is not there any more")),
            Err(error) => Err(unknown(error)),
        }
    }
}

fn moved(how: &str) -> StoreError {
    let what = format!(
        "expected the file that was opened, but {how}: it was removed, moved or replaced while it was open, and other \
         processes do not see what this one stores; open the store again"
    );
    StoreError::new(ErrorKind::Misconfigured, BACKEND, what)
}

fn unknown(error: io::Error) -> StoreError {
    StoreError::caused(ErrorKind::Unavailable, BACKEND, "looking whether the open file is still there failed", error)
}

#[cfg(unix)]
fn file_id(file: &Metadata) -> FileId {
    use std::os::unix::fs::MetadataExt as _;
    Some((file.dev(), file.ino()))
}

#[cfg(not(unix))]
fn file_id(_: &Metadata) -> FileId {
    None
}
