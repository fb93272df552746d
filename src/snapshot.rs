//! Snapshots: the memory tiers in one file, written while checks go on, read by the next engine.
//!
//! ```text
//! file      header as that of a segment, with a magic of its own, then blocks as in a segment
//! payload   section, section, …
//! section   24 bytes: kind 4 | words 4 | a 8 | b 8, then the words, 8 bytes each
//!
//! window    a = nanoseconds a tick                        the window begins
//! table     a = buckets                                   a table of it, older ones first
//! ids       a = tick they were stamped with; words: place, mark, place, mark, …
//! history   a = how many words there are; words: what the other history must be like
//! bits      words of the history
//! prints    words: place, mark, 2 of the digest with its fingerprint, until when (ns), and so on
//! end       a = ids, b = sections so far                  nothing is missing
//! ```

#[cfg(any(fuzzing, all(test, not(modelled))))]
pub(crate) mod fuzzing;
mod reading;
mod writing;

pub(crate) use self::reading::Snapshot;

use self::writing::write;
use crate::error::JournalError;
use crate::{Dedup, random};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The first bytes of a snapshot, in contrast to a segment of a journal.
const MAGIC: [u8; 8] = *b"HAPAXSNP";
const SECTION_BYTES: usize = 24;
/// The size from which on a block is written.
const BLOCK_BYTES: usize = 1 << 20;
/// The most words in a section.
const WORDS_MAX: usize = 1 << 16;
/// The number of words of a fingerprint.
const FINGERPRINT_WORDS: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum Kind {
    Window = 1,
    Table,
    Ids,
    History,
    Bits,
    End,
    Fingerprints,
}

impl Kind {
    fn of(number: u32) -> Option<Self> {
        [Kind::Window, Kind::Table, Kind::Ids, Kind::History, Kind::Bits, Kind::End, Kind::Fingerprints]
            .into_iter()
            .find(|&k| k as u32 == number)
    }
}

impl Dedup {
    /// Writes the engine's memory into a file, which [`restore`](crate::Builder::restore) reads:
    /// for a restart that is clean and fast. An older file is replaced when the new one is on the
    /// disk, atomically. Returns the number of ids in the file.
    ///
    /// ```
    /// # let path = std::env::temp_dir().join(format!("hapax-doc-snapshot-{}", std::process::id()));
    /// use hapax::Dedup;
    ///
    /// let dedup = Dedup::builder().build()?;
    /// dedup.check("a");
    /// dedup.snapshot(&path)?;
    /// drop(dedup);
    ///
    /// let dedup = Dedup::builder().restore(&path).build()?;
    /// assert!(dedup.check("a").is_duplicate());
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Guarantees
    ///
    /// - Every id that was accepted before the call is in it, unless it had to go early, and with
    ///   it its [fingerprint](crate::ClaimOptions::fingerprint); of the ids that are accepted
    ///   meanwhile, some are. Checks do not wait.
    /// - Ids that are only claimed are not in it.
    /// - The file is private to the user, and has checksums: it is read as a whole or refused.
    ///
    /// # Errors
    ///
    /// [`JournalError::Io`]; then an older file is as it was. [`JournalError::Forked`] for a file
    /// in the journal's directory, in a child of the process that has that journal.
    ///
    /// # Cost
    ///
    /// The file has about 17 bytes per id, and the history as it is. Writing it reads the window's
    /// whole memory once.
    pub fn snapshot(&self, path: impl AsRef<Path>) -> Result<u64, JournalError> {
        let path = path.as_ref();
        if let Some(journal) = &self.engine.journal {
            journal.shared.may_write_beside(directory_of(path))?;
        }
        let temporary = sibling(path);
        let written = write(&self.engine, &temporary).and_then(|ids| {
            fs::rename(&temporary, path).map_err(JournalError::io("rename to", path))?;
            sync_directory(path)?;
            Ok(ids)
        });
        if written.is_err() {
            // The rest of the file is of no use; that it cannot be deleted is not the error to
            // report.
            let _ = fs::remove_file(&temporary);
        }
        written
    }
}

/// Returns the path at which a file is written before it is renamed to its own.
fn sibling(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.{:x}.new", std::process::id(), random::any()));
    path.with_file_name(name)
}

fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn sync_directory(path: &Path) -> Result<(), JournalError> {
    let directory = directory_of(path);
    if !cfg!(unix) {
        return Ok(());
    }
    File::open(directory).and_then(|directory| directory.sync_all()).map_err(JournalError::io("sync", directory))
}
