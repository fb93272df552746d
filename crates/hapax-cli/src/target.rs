//! A file that is written beside, and put in its place when all of it is there.

use crate::error::CommandError;
use std::fs::File;
use std::io::{self, ErrorKind};
#[cfg(unix)]
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use tempfile::TempPath;

/// A file that is to be written.
pub struct Target {
    pub path: PathBuf,
    /// The file that is written, which is removed unless it is put in its place; none if the
    /// output is written as it is, as a device or a named pipe.
    beside: Option<TempPath>,
}

impl Target {
    /// Opens a file to write to: a new one in the same directory, with the permissions of the one
    /// that it is to replace. A link is followed.
    pub fn open(path: &Path) -> Result<(File, Self), CommandError> {
        let failed = |error: io::Error| CommandError::input(path, error);
        // Only whoever may write to a file replaces it.
        let there = match File::options().write(true).open(path) {
            Ok(file) => Some((file.metadata().map_err(failed)?, file)),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        let (path, there) = match there {
            Some((meta, _)) if meta.is_file() => (path.canonicalize().map_err(failed)?, Some(meta)),
            Some((_, file)) => return Ok((file, Target { path: path.to_path_buf(), beside: None })),
            None => (path.to_path_buf(), None),
        };
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut builder = tempfile::Builder::new();
        #[cfg(unix)]
        builder.permissions(PermissionsExt::from_mode(0o666));
        let (file, beside) = builder.prefix(".hapax-").tempfile_in(directory).map_err(failed)?.into_parts();
        if let Some(meta) = there {
            // Of another owner, as far as that is allowed; before the permissions, which it takes.
            #[cfg(unix)]
            let _ = fchown(&file, Some(meta.uid()), Some(meta.gid()));
            file.set_permissions(meta.permissions()).map_err(failed)?;
        }
        Ok((file, Target { path, beside: Some(beside) }))
    }

    /// Puts the file in its place, once it is on the disk.
    pub fn replace(self, file: &File) -> Result<(), CommandError> {
        let Target { path, beside: Some(beside) } = self else { return Ok(()) };
        let replaced = file.sync_all().and_then(|()| beside.persist(&path).map_err(|failed| failed.error));
        replaced.map_err(|error| CommandError::input(&path, error))
    }
}
