//! Going on after a failure, without building the engine again.

use super::commit::Shared;
use super::error::JournalError;
use crate::Dedup;
use std::time::Duration;

/// What became of what was accepted while a journal had failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reopened {
    /// When it failed, since the Unix epoch; `None` if it had not.
    pub failed_at: Option<Duration>,
    /// Ids, and other things that were appended, that had waited, and are durable now.
    pub written_late: u64,
    /// Such that were not kept, since too much waited: they are not durable, and will not be.
    pub dropped: u64,
    /// Files that were durable and are gone, with their directory.
    pub files_lost: u64,
    /// Ids that were accepted in them.
    pub ids_lost: u64,
}

impl Dedup {
    /// Goes on with a journal that has failed, when what was wrong is mended: writes what was accepted meanwhile, up to 64 MiB of it, and says
    /// what was not kept. A directory that was deleted is made again. What is in doubt after the failure is cut off and written again.
    ///
    /// Without a failure it does nothing but look whether the directory still is what it was.
    ///
    /// ```
    /// # let directory = std::env::temp_dir().join(format!("hapax-doc-reopen-{}", std::process::id()));
    /// use hapax::{Dedup, JournalOptions};
    ///
    /// let dedup = Dedup::builder().journal(&directory, JournalOptions::new()).build()?;
    /// dedup.check("a");
    /// dedup.flush()?;
    /// std::fs::remove_dir_all(&directory)?;
    /// dedup.check("b");
    /// assert!(dedup.flush().is_err());
    ///
    /// let reopened = dedup.reopen_journal()?;
    /// assert_eq!((reopened.written_late, reopened.ids_lost), (1, 1));
    /// dedup.flush()?;
    /// # drop(dedup);
    /// # std::fs::remove_dir_all(directory)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Why it cannot go on; then it is as it was, and can be tried again. [`JournalError::NotConfigured`] without a journal.
    pub fn reopen_journal(&self) -> Result<Reopened, JournalError> {
        self.journal()?.shared.reopen()
    }
}

impl Shared {
    pub(super) fn reopen(&self) -> Result<Reopened, JournalError> {
        let mut writer = self.lock_writer();
        if let Err(gone) = writer.watch().verify(&*writer.disk()) {
            self.fail(gone, writer.wall_nanos());
        }
        let Some(failed_at) = self.lock().failed.as_ref().map(|failed| failed.wall_nanos) else {
            return Ok(Reopened::default());
        };
        let lost = match writer.reopen() {
            Ok(lost) => lost,
            Err(error) => {
                self.fail(error.clone(), writer.wall_nanos());
                return Err(error);
            }
        };
        self.lock().lose(lost);
        let written_late = self.commit_late(&mut writer)?;
        let (dropped, lost) = self.go_on();
        Ok(Reopened {
            failed_at: Some(Duration::from_nanos(failed_at)),
            written_late,
            dropped,
            files_lost: lost.files,
            ids_lost: lost.ids,
        })
    }
}
