//! The files that must still be there for a journal to be durable, and this process's.

use super::disk::{Disk, Held, Identity};
use crate::error::JournalError;
use crate::mutation::{Rule, obeys};
use std::io::ErrorKind;
use std::path::PathBuf;

/// The name of the file that is locked in a directory.
pub(in crate::journal) const LOCK: &str = "lock";

/// The directory and the file that must still be there so that written data can be found again, and
/// the lock, so that they are this process's alone.
#[derive(Clone)]
pub(in crate::journal) struct Watch {
    pub(in crate::journal) directory: (PathBuf, Identity),
    pub(in crate::journal) lock: (PathBuf, Identity),
    pub(in crate::journal) file: Option<(PathBuf, Identity)>,
}

impl Watch {
    /// Returns the watch of a directory without a file that is being written.
    pub(in crate::journal) fn of(lock: &dyn Held, directory: (PathBuf, Identity)) -> Result<Self, JournalError> {
        let path = directory.0.join(LOCK);
        let identity = lock.identity().map_err(JournalError::io("look at", &path))?;
        Ok(Watch { directory, lock: (path, identity), file: None })
    }

    pub(in crate::journal) fn verify(&self, disk: &dyn Disk) -> Result<(), JournalError> {
        if !obeys(Rule::LookForDirectory) {
            return Ok(());
        }
        for (path, identity) in [&self.directory, &self.lock].into_iter().chain(&self.file) {
            match disk.identity(path) {
                Ok(now) if now == *identity => {}
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(JournalError::io("look at", path)(error));
                }
                _ => return Err(JournalError::Gone { path: path.clone() }),
            }
        }
        Ok(())
    }
}
