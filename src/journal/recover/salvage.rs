//! Salvage: keeps the whole blocks of damaged files. It writes them to new files, moves the damaged
//! ones aside, and lets the new ones take their place. Whenever it is broken off, every block that
//! was whole is still in a file that the next open reads.

use super::listing::Keys;
use super::verdict::{Judged, Missing, Part, Verdict};
use crate::error::JournalError;
use crate::journal::encoding::format::{BLOCK_HEADER_BYTES, HEADER_BYTES, Header};
use crate::journal::files::disk::{Disk, DiskFile, create_anew, read_full, write_all};
use crate::journal::options::Reopening;
use crate::journal::write::writer::{Segment, name};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Mends everything that the verdict finds damaged. Returns the paths of the damaged files now.
pub(in crate::journal) fn salvage(
    disk: &dyn Disk,
    directory: &Path,
    verdict: &Verdict,
    keys: Keys,
    rules: &Reopening,
) -> Result<Vec<PathBuf>, JournalError> {
    let mender = Mender { disk, directory, keys, rules };
    let mut aside = Vec::new();
    for file in verdict.files.iter().filter(|file| file.is_damaged) {
        aside.push(mender.mend(file)?);
    }
    for missing in &verdict.stand_ins {
        mender.stand_in(missing)?;
    }
    Ok(aside)
}

struct Mender<'d> {
    disk: &'d dyn Disk,
    directory: &'d Path,
    keys: Keys,
    rules: &'d Reopening,
}

impl Mender<'_> {
    /// Mends a file. (A file of which nothing is kept gets a header, which shows whose directory it
    /// is, until the mark says so.)
    fn mend(&self, file: &Judged) -> Result<PathBuf, JournalError> {
        let path = &file.path;
        let Keys { key, salt } = self.keys;
        let (number, ids) = (file.number, file.first_ids);
        let header = file.header.map_or_else(
            || Header { key, salt, number, created: self.rules.wall_nanos, ids, boot: 0, time: Default::default() },
            |header| Header { number, ids, ..header },
        );
        let new = self.write_new(path, &header, |to| self.copy(file, to))?;
        let aside = self.set_aside(path)?;
        self.replace(&new, path)?;
        Ok(aside)
    }

    /// Writes a file in the place of a missing one.
    fn stand_in(&self, missing: &Missing) -> Result<(), JournalError> {
        let Keys { key, salt } = self.keys;
        let Segment { path, first: number, first_ids: ids, .. } = segment_of(self.directory, missing);
        let created = self.rules.wall_nanos;
        let header = Header { key, salt, number, created, ids, boot: 0, time: Default::default() };
        let new =
            self.write_new(&path, &header, |to| self.write(to, &path, &missing.block.seal(&[], salt).encode()))?;
        self.replace(&new, &path)
    }

    /// Writes a file under another name.
    fn write_new(
        &self,
        path: &Path,
        header: &Header,
        fill: impl FnOnce(&mut dyn DiskFile) -> Result<(), JournalError>,
    ) -> Result<PathBuf, JournalError> {
        let new = with_suffix(path, "new");
        // What a process has left that died with it is elsewhere, too.
        let mut file = create_anew(self.disk, &new).map_err(JournalError::io("create", &new))?;
        self.write(file.as_mut(), &new, &header.encode())?;
        fill(file.as_mut())?;
        self.rules.sync.sync_file(file.as_mut(), &new)?;
        Ok(new)
    }

    fn write(&self, to: &mut dyn DiskFile, path: &Path, bytes: &[u8]) -> Result<(), JournalError> {
        write_all(to, bytes).map_err(JournalError::io("write", path))
    }

    /// Copies the parts of a file that are to be kept.
    fn copy(&self, file: &Judged, to: &mut dyn DiskFile) -> Result<(), JournalError> {
        let path = &file.path;
        let mut from = self.disk.open(path).map_err(JournalError::io("open", path))?;
        for part in &file.parts {
            match *part {
                Part::Bytes { offset, bytes } => self.copy_bytes(from.as_mut(), path, to, offset, bytes)?,
                Part::StandIn(block) => self.write(to, path, &block.seal(&[], self.keys.salt).encode())?,
            }
        }
        Ok(())
    }

    fn copy_bytes(
        &self,
        from: &mut dyn DiskFile,
        path: &Path,
        to: &mut dyn DiskFile,
        mut offset: u64,
        bytes: u64,
    ) -> Result<(), JournalError> {
        let end = offset + bytes;
        let mut buffer = vec![0; bytes.min(1 << 20) as usize];
        while offset < end {
            let length = usize::try_from(end - offset).map_or(buffer.len(), |left| left.min(buffer.len()));
            let read = read_full(from, offset, &mut buffer[..length]).map_err(JournalError::io("read", path))?;
            if read == 0 {
                return Err(JournalError::io("read", path)(ErrorKind::UnexpectedEof.into()));
            }
            self.write(to, path, &buffer[..read])?;
            offset += read as u64;
        }
        Ok(())
    }

    /// Gives a file a second name, that of a damaged one.
    fn set_aside(&self, path: &Path) -> Result<PathBuf, JournalError> {
        let aside = self.free_name(path)?;
        if self.disk.identity(&aside).is_ok() {
            // It was given that name before.
            return Ok(aside);
        }
        if self.disk.link(path, &aside).is_err() {
            // Not every file system can do that.
            let mut from = self.disk.open(path).map_err(JournalError::io("open", path))?;
            let size = from.size().map_err(JournalError::io("read", path))?;
            let mut to = self.disk.create(&aside).map_err(JournalError::io("create", &aside))?;
            self.copy_bytes(from.as_mut(), path, to.as_mut(), 0, size)?;
            to.sync().map_err(JournalError::io("sync", &aside))?;
        }
        self.sync_directory()?;
        Ok(aside)
    }

    /// Returns a name that no file has, or this very file.
    fn free_name(&self, path: &Path) -> Result<PathBuf, JournalError> {
        let look = |path: &Path| match self.disk.identity(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            looked => looked.map(Some).map_err(JournalError::io("look at", path)),
        };
        let this = look(path)?;
        let mut aside = with_suffix(path, "damaged");
        for n in 1_u32.. {
            match look(&aside)? {
                // (Where files have no identity, an existing file counts as another one.)
                Some(there) if Some(there) != this || cfg!(not(unix)) => {
                    aside = with_suffix(path, &format!("damaged.{n}"));
                }
                _ => break,
            }
        }
        Ok(aside)
    }

    fn replace(&self, new: &Path, path: &Path) -> Result<(), JournalError> {
        self.disk.rename(new, path).map_err(JournalError::io("rename to", path))?;
        self.sync_directory()
    }

    fn sync_directory(&self) -> Result<(), JournalError> {
        self.rules.sync.sync_directory(self.disk, self.directory)
    }
}

/// Returns the file that stands for a missing one.
pub(in crate::journal) fn segment_of(directory: &Path, Missing { block, first_ids }: &Missing) -> Segment {
    Segment {
        path: directory.join(name(block.start())),
        bytes: (HEADER_BYTES + BLOCK_HEADER_BYTES) as u64,
        latest: block.latest,
        first: block.start(),
        first_ids: *first_ids,
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{suffix}"));
    path.with_file_name(name)
}

impl Judged {
    /// Returns the number of the file's bytes that are kept.
    pub(in crate::journal) fn kept_bytes(&self) -> u64 {
        let bytes = self.parts.iter().map(|part| match part {
            Part::Bytes { bytes, .. } => *bytes,
            Part::StandIn(_) => BLOCK_HEADER_BYTES as u64,
        });
        HEADER_BYTES as u64 + bytes.sum::<u64>()
    }
}
