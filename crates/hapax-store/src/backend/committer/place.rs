//! The place of an open file: a check that others who open the path open the same file.

use crate::error::{ErrorKind, StoreError};
use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

/// A path, and the file that was there when it was opened.
#[derive(Debug)]
pub struct Place {
    /// Absolute: the program may change its directory, which SQLite does not notice either.
    path: PathBuf,
    file: FileId,
    /// Open, so that no file that is made later gets the number of this one.
    _held: Option<File>,
    backend: &'static str,
}

/// The number of a file on its disk. Where the system has none, an open file cannot be removed.
type FileId = Option<(u64, u64)>;

impl Place {
    /// Notes the file at a path, which must have just been opened, and must stay open: otherwise
    /// its number is given to another file once it is removed.
    pub fn of_open(path: impl AsRef<Path>, backend: &'static str) -> Result<Self, StoreError> {
        let note = |path: PathBuf| Ok(Place { file: file_id(&fs::metadata(&path)?), path, _held: None, backend });
        std::path::absolute(path).and_then(note).map_err(|error| unknown(error, backend))
    }

    /// Notes the file at a path, and holds it open. Not for a file that SQLite has open: closing
    /// it would end the locks of the whole process on it.
    pub fn held(path: impl AsRef<Path>, backend: &'static str) -> Result<Self, StoreError> {
        let note = |path: PathBuf| {
            let held = File::open(&path)?;
            Ok(Place { file: file_id(&held.metadata()?), path, _held: Some(held), backend })
        };
        std::path::absolute(path).and_then(note).map_err(|error| unknown(error, backend))
    }

    /// Returns an error if another file is at the path now, or none.
    pub fn check(&self) -> Result<(), StoreError> {
        match fs::metadata(&self.path) {
            Ok(there) if file_id(&there) == self.file => Ok(()),
            Ok(_) => Err(self.moved("another file is in its place")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(self.moved("it is not there any more")),
            Err(error) => Err(unknown(error, self.backend)),
        }
    }

    fn moved(&self, how: &str) -> StoreError {
        let what = format!(
            "expected the file that was opened, but {how}: it was removed, moved or replaced while it was open, and other \
         processes do not see what this one stores; open the store again"
        );
        StoreError::new(ErrorKind::Misconfigured, self.backend, what)
    }
}

fn unknown(error: io::Error, backend: &'static str) -> StoreError {
    StoreError::caused(ErrorKind::Unavailable, backend, "looking whether the open file is still there failed", error)
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

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use testkit::directory::Directory;

    #[test]
    fn a_file_that_is_made_anew_is_another_one() {
        let directory = Directory::new("place");
        let path = directory.file("marker");
        fs::write(&path, "1").unwrap();
        let place = Place::held(&path, "test").unwrap();
        assert!(place.check().is_ok());
        fs::remove_file(&path).unwrap();
        assert_eq!(place.check().unwrap_err().kind(), ErrorKind::Misconfigured);
        // A disk gives the number of a removed file to one that is made next.
        fs::write(&path, "1").unwrap();
        assert_eq!(place.check().unwrap_err().kind(), ErrorKind::Misconfigured);
    }
}
