//! Everything that the journal does to a disk, so that tests can put another one there: one in
//! memory, any call to which fails.

use super::options::JournalOptions;
use super::trust::{Writers, has_one_name};
use crate::process::{Kept, Origin};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The disk that a journal needs. An error ends what was being done: nothing is tried twice.
pub(crate) trait Disk: Send + Sync + 'static {
    /// Makes a directory, and those above it, which are there for good then. One that is there is
    /// no error.
    fn create_directory(&self, path: &Path) -> io::Result<()>;
    /// Keeps others out of a directory, by a file in it that says who does.
    fn lock(&self, path: &Path, holder: &str) -> Result<Box<dyn Held>, NotLocked>;
    /// The files of a directory, in any order.
    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>>;
    /// A file, for reading.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// A file, for truncating and appending.
    fn open_to_append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// A new file, empty. One that is there is an error.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Makes the names of a directory's files durable.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
    /// Gives a file another name, at once; what had that is replaced.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives a file a second name, which nothing must have.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Tells whether a path still is what it was.
    fn identity(&self, path: &Path) -> io::Result<Identity>;
}

/// A file that is open.
pub(crate) trait DiskFile: Send {
    fn size(&mut self) -> io::Result<u64>;
    /// Returns the number of bytes that were read; nothing at the end.
    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> io::Result<usize>;
    /// Appends; how much of it.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Makes what was written durable.
    fn sync(&mut self) -> io::Result<()>;
    /// Cuts it off; what is written from now on comes there.
    fn truncate(&mut self, bytes: u64) -> io::Result<()>;
    fn identity(&mut self) -> io::Result<Identity>;
}

/// A directory is ours until this is dropped.
pub(crate) trait Held: Send + Sync {
    /// Of the file that says so.
    fn identity(&self) -> io::Result<Identity>;
}

/// Why a directory is not ours.
#[derive(Debug)]
pub(crate) enum NotLocked {
    /// It is in use. Has what the one who has it says of itself, if anything.
    InUse(String),
    Io(io::Error),
}

/// Device and number of a file, where there is such a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity(pub(crate) u64, pub(crate) u64);

/// Appends all of it.
pub(super) fn write_all(file: &mut dyn DiskFile, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => bytes = &bytes[n..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads as many of these bytes as there are, from an offset on: all, unless the file ends.
pub(super) fn read_full(file: &mut dyn DiskFile, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        match file.read_at(offset + done as u64, &mut bytes[done..]) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// The longest that a lock says of whoever has it.
const HOLDER_BYTES_MAX: u64 = 256;

/// So often it is tried to take a lock that is deleted meanwhile.
const TRIES_MAX: u32 = 8;

/// The true one.
pub(super) struct System {
    file_mode: u32,
    origin: Origin,
    writers: Writers,
}

impl System {
    pub(super) fn new(options: &JournalOptions) -> io::Result<Self> {
        let file_mode = options.file_mode;
        Ok(System { file_mode, origin: Origin::here()?, writers: Writers::Mode(file_mode) })
    }

    /// For looking at what there is, whosever that is.
    pub(super) fn to_look_at() -> io::Result<Self> {
        Ok(System { writers: Writers::Anybody, ..Self::new(&JournalOptions::new())? })
    }

    /// The file that a lock is on, if that has its name still.
    fn take_lock(&self, path: &Path) -> Result<Option<File>, NotLocked> {
        let options = private(self.file_mode).read(true).create(true).truncate(false).clone();
        let mut lock = self.writers.open(&options, path).map_err(NotLocked::Io)?;
        lock.metadata().and_then(|metadata| has_one_name(&metadata)).map_err(NotLocked::Io)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let read = (&mut lock).take(HOLDER_BYTES_MAX).read_to_string(&mut holder);
                return Err(NotLocked::InUse(if read.is_ok() { holder } else { String::new() }));
            }
            Err(TryLockError::Error(error)) => return Err(NotLocked::Io(error)),
        }
        let ours = lock.metadata().map(|metadata| identity(&metadata)).map_err(NotLocked::Io)?;
        let is_ours = fs::symlink_metadata(path).is_ok_and(|metadata| identity(&metadata) == ours);
        Ok(is_ours.then_some(lock))
    }
}

impl Disk for System {
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        let missing: Vec<_> = path.ancestors().take_while(|p| !p.as_os_str().is_empty() && !p.exists()).collect();
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        // Whoever may read may also enter.
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, self.file_mode | (self.file_mode & 0o444) >> 2);
        builder.create(path)?;
        self.writers.judge_directory(path)?;
        missing.iter().try_for_each(|made| match made.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => self.sync_directory(parent),
            _ => self.sync_directory(Path::new(".")),
        })
    }

    fn lock(&self, path: &Path, holder: &str) -> Result<Box<dyn Held>, NotLocked> {
        // Somebody may delete it between two steps of ours; hardly ever twice.
        let taken = (0..TRIES_MAX).find_map(|_| self.take_lock(path).transpose());
        let deleted = || NotLocked::Io(io::Error::other("it is deleted or replaced again and again"));
        let mut lock = taken.unwrap_or_else(|| Err(deleted()))?;
        let written = lock.set_len(0).and_then(|()| lock.write_all(holder.as_bytes()));
        let lock = Lock(Kept::new(lock, self.origin));
        written.map_err(NotLocked::Io)?;
        Ok(Box::new(lock))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path())).collect()
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(self.writers.open(OpenOptions::new().read(true), path)?))
    }

    fn open_to_append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = self.writers.open(OpenOptions::new().read(true).append(true), path)?;
        has_one_name(&file.metadata()?)?;
        Ok(Box::new(file))
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(private(self.file_mode).create_new(true).open(path)?))
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        // Elsewhere a directory cannot be opened, and need not be.
        if cfg!(unix) { File::open(path)?.sync_all() } else { Ok(()) }
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        let metadata = fs::symlink_metadata(path)?;
        // The directory may be named by a link; what is in it is none.
        let followed = metadata.is_symlink().then(|| fs::metadata(path)).transpose()?;
        Ok(identity(&followed.filter(fs::Metadata::is_dir).unwrap_or(metadata)))
    }
}

impl DiskFile for File {
    fn size(&mut self) -> io::Result<u64> {
        self.metadata().map(|metadata| metadata.len())
    }

    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        self.seek(SeekFrom::Start(offset))?;
        self.read(bytes)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Write::write(self, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }

    fn truncate(&mut self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)?;
        self.seek(SeekFrom::Start(bytes)).map(|_| ())
    }

    fn identity(&mut self) -> io::Result<Identity> {
        self.metadata().map(|metadata| identity(&metadata))
    }
}

#[cfg(unix)]
fn identity(metadata: &fs::Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    Identity(metadata.dev(), metadata.ino())
}

/// Elsewhere that it is there must do.
#[cfg(not(unix))]
fn identity(_: &fs::Metadata) -> Identity {
    Identity(0, 0)
}

struct Lock(Kept);

impl Held for Lock {
    fn identity(&self) -> io::Result<Identity> {
        let file = self.0.file().ok_or_else(|| io::Error::other("the lock is the parent's"))?;
        file.metadata().map(|metadata| identity(&metadata))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_given_up_also_if_a_child_still_has_the_lock_open() {
        let path = std::env::temp_dir().join(format!("hapax-lock-{}", std::process::id()));
        let disk = System::new(&JournalOptions::new()).unwrap();
        let file = private(0o600).read(true).create(true).truncate(true).open(&path).unwrap();
        file.try_lock().unwrap();
        let of_a_child = file.try_clone().unwrap();
        let held = Lock(Kept::new(file, disk.origin));
        assert!(matches!(disk.lock(&path, "me"), Err(NotLocked::InUse(_))));
        drop(held);
        assert!(disk.lock(&path, "me").is_ok());
        drop(of_a_child);
        fs::remove_file(&path).unwrap();
    }
}
