//! The interface of the journal to a disk, so that tests can put another one there: one in memory,
//! any call to which fails.

use super::full_read::read_all;
use super::pages::PageFile;
use super::trust::{Writers, has_one_name};
use crate::journal::options::JournalOptions;
use crate::process::{LockFile, Origin};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The disk that a journal needs. An error ends the operation: nothing is tried twice.
pub(crate) trait Disk: Send + Sync + 'static {
    /// Creates a directory, and those above it, durably. An existing one is no error.
    fn create_directory(&self, path: &Path) -> io::Result<()>;
    /// Keeps others out of a directory, by a file in it that names the holder.
    fn lock(&self, path: &Path, holder: &str) -> Result<Box<dyn Held>, NotLocked>;
    /// Returns the files of a directory, in any order.
    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>>;
    /// Opens a file, for reading.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Opens a file, for reading from several threads at once.
    fn open_pages(&self, path: &Path) -> io::Result<Box<dyn PageFile>>;
    /// Opens a file, for truncating and appending.
    fn open_to_append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Creates a new file, empty. An existing one is an error.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Makes the names of a directory's files durable.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
    /// Renames a file, atomically; a file of the new name is replaced.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives a file a second name, which no file may have.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Returns the identity of a path, which tells whether it is still the same file.
    fn identity(&self, path: &Path) -> io::Result<Identity>;
}

/// An open file.
pub(crate) trait DiskFile: Send {
    fn size(&mut self) -> io::Result<u64>;
    /// Reads bytes from an offset. Returns the number of bytes that were read; 0 at the end.
    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> io::Result<usize>;
    /// Appends bytes. Returns how many of them were written.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Makes written data durable.
    fn sync(&mut self) -> io::Result<()>;
    /// Cuts the file off; later writes continue there.
    fn truncate(&mut self, bytes: u64) -> io::Result<()>;
    fn identity(&mut self) -> io::Result<Identity>;
}

/// The lock of a directory, which is ours until this is dropped.
pub(crate) trait Held: Send + Sync {
    /// Returns the identity of the lock file.
    fn identity(&self) -> io::Result<Identity>;
}

/// The reason why a directory is not ours.
#[derive(Debug)]
pub(crate) enum NotLocked {
    /// The directory is in use. Has what its holder says of itself, if anything.
    InUse(String),
    Io(io::Error),
}

/// The device and number of a file, where there is such a thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity(pub(crate) u64, pub(crate) u64);

/// Creates a new file in the place of one that was left by an attempt that failed, or by a process
/// that died.
pub(crate) fn create_anew(disk: &dyn Disk, path: &Path) -> io::Result<Box<dyn DiskFile>> {
    match disk.create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            disk.remove(path)?;
            disk.create(path)
        }
        created => created,
    }
}

/// Appends all bytes.
pub(crate) fn write_all(file: &mut dyn DiskFile, mut bytes: &[u8]) -> io::Result<()> {
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
pub(crate) fn read_full(file: &mut dyn DiskFile, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
    read_all(|at, rest| file.read_at(at, rest), offset, bytes)
}

/// The most bytes that a lock file may say of its holder.
const HOLDER_BYTES_MAX: u64 = 256;

/// The number of attempts to take a lock that is deleted meanwhile.
const TRIES_MAX: u32 = 8;

/// The real disk.
pub(crate) struct System {
    file_mode: u32,
    origin: Origin,
    writers: Writers,
}

impl System {
    pub(in crate::journal) fn new(options: &JournalOptions) -> io::Result<Self> {
        Self::with_mode(options.file_mode)
    }

    /// Returns a disk whose new files have this mode.
    pub(crate) fn with_mode(file_mode: u32) -> io::Result<Self> {
        Ok(System { file_mode, origin: Origin::here()?, writers: Writers::Mode(file_mode) })
    }

    /// Returns a disk for inspection: for looking at files, whoever owns them.
    pub(in crate::journal) fn to_look_at() -> io::Result<Self> {
        Ok(System { writers: Writers::Anybody, ..Self::new(&JournalOptions::new())? })
    }

    /// Returns the file that the lock is on, if that still has its name.
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
        // A user who may read may also enter.
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
        // Another process may delete the file between two steps of ours; hardly ever twice.
        let taken = (0..TRIES_MAX).find_map(|_| self.take_lock(path).transpose());
        let deleted = || NotLocked::Io(io::Error::other("it is deleted or replaced again and again"));
        let mut lock = taken.unwrap_or_else(|| Err(deleted()))?;
        let written = lock.set_len(0).and_then(|()| lock.write_all(holder.as_bytes()));
        let lock = Lock(LockFile::new(lock, self.origin));
        written.map_err(NotLocked::Io)?;
        Ok(Box::new(lock))
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path())).collect()
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(self.writers.open(OpenOptions::new().read(true), path)?))
    }

    fn open_pages(&self, path: &Path) -> io::Result<Box<dyn PageFile>> {
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
        // On other systems a directory cannot be opened, and need not be.
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
        // The directory may be named by a link; its files may not be links.
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

/// Returns a fixed identity: on other systems it must be enough that the file is there.
#[cfg(not(unix))]
fn identity(_: &fs::Metadata) -> Identity {
    Identity(0, 0)
}

struct Lock(LockFile);

impl Held for Lock {
    fn identity(&self) -> io::Result<Identity> {
        let file = self.0.file().ok_or_else(|| io::Error::other("the lock is the parent's"))?;
        file.metadata().map(|metadata| identity(&metadata))
    }
}

/// Returns the options for opening files for writing that others must not read.
pub(crate) fn private(file_mode: u32) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, file_mode);
    #[cfg(not(unix))]
    let _ = file_mode;
    options
}

#[cfg(all(test, not(any(modelled, alone))))]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_given_up_also_if_a_child_still_has_the_lock_open() {
        let path = std::env::temp_dir().join(format!("hapax-lock-{}", std::process::id()));
        let disk = System::new(&JournalOptions::new()).unwrap();
        let file = private(0o600).read(true).create(true).truncate(true).open(&path).unwrap();
        file.try_lock().unwrap();
        let of_a_child = file.try_clone().unwrap();
        let held = Lock(LockFile::new(file, disk.origin));
        assert!(matches!(disk.lock(&path, "me"), Err(NotLocked::InUse(_))));
        drop(held);
        assert!(disk.lock(&path, "me").is_ok());
        drop(of_a_child);
        fs::remove_file(&path).unwrap();
    }

    /// A file whose calls are interrupted, every other one, and do three bytes at most.
    #[derive(Default)]
    struct Interrupted {
        bytes: Vec<u8>,
        calls: usize,
    }

    impl Interrupted {
        fn call(&mut self) -> io::Result<()> {
            self.calls += 1;
            if self.calls.is_multiple_of(2) { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
        }
    }

    impl DiskFile for Interrupted {
        fn size(&mut self) -> io::Result<u64> {
            Ok(self.bytes.len() as u64)
        }

        fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
            self.call()?;
            let rest = &self.bytes[usize::try_from(offset).unwrap()..];
            let n = rest.len().min(bytes.len()).min(3);
            bytes[..n].copy_from_slice(&rest[..n]);
            Ok(n)
        }

        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.call()?;
            let n = bytes.len().min(3);
            self.bytes.extend_from_slice(&bytes[..n]);
            Ok(n)
        }

        fn sync(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn truncate(&mut self, _: u64) -> io::Result<()> {
            Ok(())
        }

        fn identity(&mut self) -> io::Result<Identity> {
            Ok(Identity(0, 0))
        }
    }

    #[test]
    fn a_call_that_a_signal_interrupts_is_made_again() {
        let mut file = Interrupted::default();
        write_all(&mut file, b"ten bytes.").unwrap();
        let mut read = [0; 16];
        assert_eq!(read_full(&mut file, 0, &mut read).unwrap(), 10);
        assert_eq!(&read[..10], b"ten bytes.");
    }
}
