//! Complete files, for whoever makes segments of a long memory of them. None is deleted before
//! that.

use crate::Timestamp;
use crate::error::{JournalError, Loss};
use crate::journal::encoding::gap::Gap;
use crate::journal::encoding::payload::{Run, runs};
use crate::journal::files::disk::Disk;
use crate::journal::recover::scan::{Item, scan};
use crate::journal::write::commit::Shared;
use crate::journal::write::writer::ClosedFile;
use std::path::Path;
use std::sync::Arc;

/// The files that are complete and not sealed, the oldest first.
pub(crate) struct Unsealed {
    pub(crate) files: Vec<ClosedFile>,
    disk: Arc<dyn Disk>,
    salt: u64,
}

impl Unsealed {
    /// Goes through all runs, in order, each with the number of its block.
    pub(crate) fn read(&self, each: &mut dyn FnMut(u64, &Run<'_>)) -> Result<(), JournalError> {
        self.files.iter().try_for_each(|file| self.read_file(file, each))
    }

    fn read_file(
        &self,
        ClosedFile { path, .. }: &ClosedFile,
        each: &mut dyn FnMut(u64, &Run<'_>),
    ) -> Result<(), JournalError> {
        let mut file = self.disk.open(path).map_err(JournalError::io("open", path))?;
        let mut bad = None;
        let scanned = scan(file.as_mut(), self.salt, &mut |item| match item {
            Item::Block { header, payload, .. } => runs(payload).flatten().for_each(|run| each(header.number, &run)),
            Item::Bad { offset, reason, .. } => drop(bad.get_or_insert((offset, reason))),
        });
        scanned.map_err(JournalError::io("read", path))?;
        let Some((offset, what)) = bad else { return Ok(()) };
        let (path, ids_lost) = (path.clone(), Loss::AtLeast(0));
        Err(JournalError::Damaged { path, what, offset, defects: 1, files_lost: 0, blocks_lost: 0, ids_lost })
    }
}

impl Shared {
    /// Makes everything durable that was appended, and completes the file that has it.
    pub(crate) fn close_file(&self) -> Result<(), JournalError> {
        self.flush()?;
        self.lock_writer().close_file();
        Ok(())
    }

    /// Returns the complete files of which no segment was made.
    pub(crate) fn unsealed(&self) -> Unsealed {
        let writer = self.lock_writer();
        Unsealed { files: writer.unsealed(), disk: writer.disk(), salt: writer.rules.salt }
    }

    /// Notes that segments have what is in blocks of smaller numbers than this.
    pub(crate) fn note_sealed(&self, end: u64) {
        let mut writer = self.lock_writer();
        writer.sealed = writer.sealed.max(Some(end));
        // A journal over its budget goes on when these files have expired.
        let mut state = self.lock();
        state.heals_after(writer.next_expiry());
        self.wake_writer(&state);
    }

    /// Returns a random number that all files of this journal have, and no other journal: also when
    /// they are copied, or made again while an engine has it open.
    pub(crate) fn identity(&self) -> u64 {
        self.lock_writer().rules.salt
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the number of the block that is written next.
    pub(crate) fn next_block(&self) -> u64 {
        self.lock_writer().number
    }

    /// Returns the latest time of anything that was appended.
    pub(crate) fn latest(&self) -> Timestamp {
        self.lock().latest
    }

    /// Returns true if what is appended waits for a checkpoint.
    pub(crate) fn holds(&self) -> bool {
        self.lock().held.is_some()
    }

    /// Returns the number of the oldest block that there is; that of the next one, if there is
    /// none.
    pub(crate) fn first_block(&self) -> u64 {
        self.lock_writer().first_block()
    }

    /// Returns the blocks that were lost, as somebody was told.
    pub(crate) fn gap(&self) -> Gap {
        self.lock_writer().gap
    }

    /// Returns the time of the first of the ids that wait for a checkpoint.
    pub(crate) fn earliest_held(&self) -> Option<Timestamp> {
        self.lock().held.as_ref().and_then(|held| held.earliest())
    }
}
