//! What the journal does to the disk, so that tests can make any of it fail.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

/// What the journal's writer needs. An error is the end of it: nothing is tried twice.
pub(super) trait Disk: Send + 'static {
    /// A new file, empty.
    fn create(&mut self, path: &Path) -> io::Result<File>;
    /// Appends; how much of it.
    fn write(&mut self, file: &mut File, bytes: &[u8]) -> io::Result<usize>;
    /// What was written to a file is on the disk.
    fn sync(&mut self, file: &File) -> io::Result<()>;
    /// That a file is in a directory is on the disk.
    fn sync_directory(&mut self, path: &Path) -> io::Result<()>;
    fn remove(&mut self, path: &Path) -> io::Result<()>;

    fn write_all(&mut self, file: &mut File, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write(file, bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => bytes = &bytes[n..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The true one.
pub(super) struct System {
    pub(super) file_mode: u32,
}

impl Disk for System {
    fn create(&mut self, path: &Path) -> io::Result<File> {
        private(self.file_mode).create_new(true).open(path)
    }

    fn write(&mut self, file: &mut File, bytes: &[u8]) -> io::Result<usize> {
        file.write(bytes)
    }

    fn sync(&mut self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn sync_directory(&mut self, path: &Path) -> io::Result<()> {
        // Elsewhere a directory cannot be opened, and need not be.
        if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }
}

/// How files are opened for writing that others must not read.
pub(super) fn private(file_mode: u32) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, file_mode);
    #[cfg(not(unix))]
    let _ = file_mode;
    options
}
