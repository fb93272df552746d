//! A file without a name: nothing is left of it, however the process ends.

use crate::error::CommandError;
use crate::filter::source::input::read_full_at;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file in the directory of `--spill`, which is appended to and read again.
pub struct Nameless {
    directory: PathBuf,
    file: File,
    written: u64,
}

impl Nameless {
    pub fn new(directory: &Path) -> Result<Self, CommandError> {
        let file = tempfile::tempfile_in(directory).map_err(|error| failed(directory, &error))?;
        Ok(Nameless { directory: directory.to_path_buf(), file, written: 0 })
    }

    /// Returns the number of bytes in it.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Appends bytes, and returns their offset.
    pub fn append(&mut self, bytes: &[u8]) -> Result<u64, CommandError> {
        self.file.write_all(bytes).map_err(|error| match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => CommandError::Io(format!(
                "--spill {}: {error}, after {} of temporary data; nothing is printed. Give a directory with more room: \
                 18 bytes for each line, and as much as the input has if it is a pipe",
                self.directory.display(),
                hapax_plan::Bytes(self.written as f64)
            )),
            _ => failed(&self.directory, &error),
        })?;
        self.written += bytes.len() as u64;
        Ok(self.written - bytes.len() as u64)
    }

    /// Reads bytes that were appended.
    pub fn read(&self, bytes: &mut [u8], at: u64) -> Result<(), CommandError> {
        match read_full_at(&self.file, bytes, at) {
            Ok(read) if read == bytes.len() => Ok(()),
            Ok(_) => Err(self.damaged()),
            Err(error) => Err(failed(&self.directory, &error)),
        }
    }

    /// Returns the failure for bytes that are not those that were written.
    pub fn damaged(&self) -> CommandError {
        CommandError::Io(format!(
            "--spill {}: the disk has not returned what was written to it; nothing is printed. Run again with another \
             directory",
            self.directory.display()
        ))
    }

    /// Returns the file, to read it from elsewhere.
    pub fn share(self) -> Arc<File> {
        Arc::new(self.file)
    }
}

fn failed(directory: &Path, error: &io::Error) -> CommandError {
    CommandError::Io(format!("--spill {}: {error}", directory.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_appended_is_read_and_has_no_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().to_owned();
        let mut file = Nameless::new(&path).unwrap();
        assert_eq!((file.append(b"abc").unwrap(), file.append(b"defg").unwrap(), file.written()), (0, 3, 7));
        let mut bytes = [0; 4];
        file.read(&mut bytes, 3).unwrap();
        assert_eq!((&bytes, std::fs::read_dir(&path).unwrap().count()), (b"defg", 0));
        assert!(file.read(&mut bytes, 4).unwrap_err().message().unwrap().contains("has not returned"));
        drop(directory);
        let missing = Nameless::new(&path).err().unwrap();
        assert!(missing.message().unwrap().contains(path.to_str().unwrap()), "{missing:?}");
    }
}
