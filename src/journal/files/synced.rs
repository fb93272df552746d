//! Syncs, as far as a journal is to survive more than its process.

use super::disk::{Disk, DiskFile};
use crate::error::JournalError;
use crate::journal::options::SyncMode;
use std::path::Path;

impl SyncMode {
    /// Makes what was written to a file durable.
    pub(in crate::journal) fn sync_file(self, file: &mut dyn DiskFile, path: &Path) -> Result<(), JournalError> {
        match self {
            SyncMode::Disk => file.sync().map_err(JournalError::io("sync", path)),
            SyncMode::System => Ok(()),
        }
    }

    /// Makes the names of a directory's files durable.
    pub(in crate::journal) fn sync_directory(self, disk: &dyn Disk, directory: &Path) -> Result<(), JournalError> {
        match self {
            SyncMode::Disk => disk.sync_directory(directory).map_err(JournalError::io("sync", directory)),
            SyncMode::System => Ok(()),
        }
    }

    /// Cuts a file off, durably.
    pub(in crate::journal) fn truncate(self, disk: &dyn Disk, path: &Path, bytes: u64) -> Result<(), JournalError> {
        let mut file = disk.open_to_append(path).map_err(JournalError::io("open", path))?;
        file.truncate(bytes).map_err(JournalError::io("truncate", path))?;
        self.sync_file(file.as_mut(), path)
    }
}
