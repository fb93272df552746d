//! The files of a journal up to what is durable: for those who carry them elsewhere.

use crate::error::JournalError;
use crate::journal::encoding::format::Mark;
use crate::journal::write::commit::Shared;
use crate::journal::write::writer::{Segment, Writer};
use std::path::{Path, PathBuf};

/// The durable part of a journal, as [`files`](crate::JournalHandle::files) returns it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DurableFiles {
    /// The files, oldest first.
    pub files: Vec<DurableFile>,
    /// The contents of the file that is named [`MARK`](DurableFiles::MARK) in a copy: they say how
    /// far these files go, so that a copy which lacks a part is damage, never a shorter journal.
    pub mark: Vec<u8>,
    /// The position of each source that these files have, in the order of the sources' names.
    pub positions: Vec<(Vec<u8>, Vec<u8>)>,
    /// The segments of a [long memory](crate::Builder::long_memory), if the engine has one. All
    /// that is in them was in the journal before the position.
    pub segments: Option<DurableSegments>,
}

/// The segments of a long memory, as [`files`](crate::JournalHandle::files) returns them: a
/// directory with a copy of them, and with the manifest, is a long memory's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DurableSegments {
    /// The files, oldest first. None of them ever changes.
    pub files: Vec<DurableFile>,
    /// The contents of the file that is named [`MANIFEST`](DurableSegments::MANIFEST) in a copy:
    /// they name these files, so that a copy which lacks one is damage.
    pub manifest: Vec<u8>,
}

impl DurableSegments {
    /// The name of the file with the manifest.
    pub const MANIFEST: &'static str = "manifest";
}

/// One file of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DurableFile {
    /// The file. No other file of this journal ever has its name.
    pub path: PathBuf,
    /// The number of its bytes that are durable. They never change; what comes behind them may.
    pub bytes: u64,
    /// True if nothing is written to it any more, so that it is these bytes until it expires.
    pub is_closed: bool,
}

impl DurableFiles {
    /// The name of the file with the mark.
    pub const MARK: &'static str = crate::journal::write::mark::NAME;
}

impl Shared {
    /// Returns the files as they are when no block is being written.
    pub(crate) fn durable_files(&self) -> Result<DurableFiles, JournalError> {
        let files = self.durable_files_since(u64::MAX)?;
        Ok(files.unwrap_or_default())
    }

    /// Returns the files, if they have all blocks from a number on.
    pub(crate) fn durable_files_since(&self, block: u64) -> Result<Option<DurableFiles>, JournalError> {
        self.must_be_here()?;
        let writer = self.lock_writer();
        if let Some(failed) = self.status().failed {
            // Nobody knows what the disk has behind the last block.
            return Err(failed);
        }
        Ok((writer.first_block() <= block).then(|| writer.durable_files()))
    }
}

impl Writer {
    pub(in crate::journal) fn first_block(&self) -> u64 {
        self.segments().next().map_or(self.number, |oldest| oldest.first)
    }

    fn durable_files(&self) -> DurableFiles {
        let current = self.current.as_ref().map(|current| &*current.segment.path);
        let file = |segment: &Segment| DurableFile {
            path: segment.path.clone(),
            bytes: segment.bytes,
            is_closed: current != Some(Path::new(&segment.path)),
        };
        let mark = Mark { is_clean: true, ..self.mark() };
        let positions = self.positions().to_vec();
        DurableFiles {
            files: self.segments().map(file).collect(),
            mark: mark.encode().into(),
            positions,
            segments: None,
        }
    }
}

#[cfg(all(test, not(any(modelled, alone))))]
mod tests {
    use super::*;
    use crate::journal::JournalOptions;
    use crate::journal::files::simulated::{Call, Fault, Simulated};
    use crate::journal::tests::faults::directory;
    use crate::journal::tests::restarts::{builder, clock};
    use crate::{Dedup, Error, ManualClock};
    use std::time::Duration;

    fn open(disk: &Simulated, clock: &ManualClock) -> Result<Dedup, Error> {
        let options = JournalOptions::new().checkpoints(true).segment_length(Duration::from_secs(20));
        builder(disk, clock, options).window(Duration::from_secs(300)).build()
    }

    fn checkpoint(dedup: &Dedup, position: u64) {
        dedup.journal().unwrap().checkpoint([("log", position.to_be_bytes())]).unwrap();
        dedup.journal().unwrap().flush().unwrap();
    }

    /// Returns a disk with the durable part of a journal alone.
    fn copied(disk: &Simulated, durable: &DurableFiles) -> Simulated {
        let copy = Simulated::new();
        for file in &durable.files {
            let mut bytes = disk.read(&file.path).unwrap();
            assert!(bytes.len() as u64 >= file.bytes);
            bytes.truncate(usize::try_from(file.bytes).unwrap());
            copy.put(&file.path, bytes);
        }
        copy.put(&directory().join(DurableFiles::MARK), durable.mark.clone());
        copy
    }

    #[test]
    fn a_copy_of_the_durable_files_is_the_journal_at_its_last_durable_checkpoint() {
        let (disk, clock) = (Simulated::new(), clock());
        let mut copies = Vec::new();
        let mut dedup = open(&disk, &clock).unwrap();
        let none = dedup.journal().unwrap().files().unwrap();
        assert_eq!((none.files.len(), none.positions.len()), (0, 0));
        for n in 0..40_u64 {
            if n == 25 {
                drop(dedup);
                dedup = open(&disk, &clock).unwrap();
            }
            let _ = dedup.check(n.to_le_bytes());
            checkpoint(&dedup, n);
            clock.advance(Duration::from_secs(7));
            let _ = dedup.check((1_000 + n).to_le_bytes()); // in no checkpoint yet
            let durable = dedup.journal().unwrap().files().unwrap();
            assert_eq!(durable.positions, [(b"log".to_vec(), n.to_be_bytes().to_vec())]);
            assert!(durable.files.iter().rev().skip(1).all(|file| file.is_closed));
            copies.push((n, copied(&disk, &durable), durable));
            dedup.forget((1_000 + n).to_le_bytes());
        }
        assert!(copies.last().unwrap().2.files.len() > 5, "there are several files");
        for (n, copy, durable) in &copies {
            let again = open(copy, &clock).unwrap();
            assert_eq!(again.journal().unwrap().positions().unwrap(), durable.positions);
            let recovery = again.stats().journal.unwrap().recovery;
            assert!(recovery.torn.is_empty() && recovery.damage.is_empty(), "after {n}: {recovery:?}");
            let known = |id: u64| again.contains(id.to_le_bytes()).is_some();
            assert!((n.saturating_sub(1)..=*n).all(known) && !known(n + 1) && !known(1_000 + n), "after {n}");
        }
    }

    #[test]
    fn closed_files_and_the_durable_bytes_of_the_last_never_change() {
        let (disk, clock) = (Simulated::new(), clock());
        let dedup = open(&disk, &clock).unwrap();
        let mut before: Vec<(DurableFile, Vec<u8>)> = Vec::new();
        for n in 0..30_u64 {
            let _ = dedup.check(n.to_le_bytes());
            checkpoint(&dedup, n);
            clock.advance(Duration::from_secs(7));
            let files = dedup.journal().unwrap().files().unwrap().files;
            for (old, bytes) in &before {
                let Some(new) = files.iter().find(|file| file.path == old.path) else { continue };
                assert!(new.bytes >= old.bytes && (!old.is_closed || new == old));
                assert!(disk.read(&new.path).unwrap().starts_with(bytes));
            }
            let read = |file: &DurableFile| disk.read(&file.path).unwrap();
            before = files.into_iter().map(|file| (file.clone(), read(&file))).collect();
        }
    }

    #[test]
    fn a_copy_that_lacks_something_is_damage() {
        let (disk, clock) = (Simulated::new(), clock());
        let dedup = open(&disk, &clock).unwrap();
        for n in 0..10_u64 {
            let _ = dedup.check(n.to_le_bytes());
            checkpoint(&dedup, n);
            clock.advance(Duration::from_secs(7));
        }
        let durable = dedup.journal().unwrap().files().unwrap();
        for file in &durable.files {
            let copy = copied(&disk, &durable);
            copy.cut(&file.path, file.bytes - 1);
            assert!(open(&copy, &clock).is_err(), "{} is a byte short", file.path.display());
            let copy = copied(&disk, &durable);
            copy.delete(&file.path);
            assert!(open(&copy, &clock).is_err(), "{} is missing", file.path.display());
        }
    }

    #[test]
    fn after_a_failure_there_is_no_durable_part_until_it_goes_on() {
        let (disk, clock) = (Simulated::new(), clock());
        let dedup = open(&disk, &clock).unwrap();
        let _ = dedup.check("a");
        disk.plan(Some(Call::Sync), 0, Fault::Error(5));
        dedup.journal().unwrap().checkpoint([("log", [1])]).unwrap();
        assert!(dedup.journal().unwrap().flush().is_err() && dedup.journal().unwrap().files().is_err());
        disk.heal();
        dedup.journal().unwrap().reopen().unwrap();
        let durable = dedup.journal().unwrap().files().unwrap();
        assert_eq!(durable.positions, [(b"log".to_vec(), vec![1])]);
        assert!(open(&copied(&disk, &durable), &clock).unwrap().contains("a").is_some());
    }
}
