//! Going on after a failure, without building the engine again.

use super::commit::Shared;
use super::writer::{Current, Segment, Writer, is_segment, lock, number_of};
use crate::Timestamp;
use crate::error::JournalError;
use crate::journal::damage::Lost;
use crate::journal::encoding::format::HEADER_BYTES;
use crate::journal::encoding::gap::Gap;
use crate::journal::encoding::payload::Payload;
use crate::journal::files::disk::Identity;
use crate::journal::files::watch::{LOCK, Watch};
use crate::mutation::{Rule, obeys};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The fate of ids that were accepted while a journal had failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reopened {
    /// The time of the failure, since the Unix epoch; `None` if there was none.
    pub failed_at: Option<Duration>,
    /// The number of ids, and of other appended events, that had waited, and are durable now.
    pub written_late: u64,
    /// The number of those that were not kept, since too much waited: they are not durable, and
    /// will not be.
    pub dropped: u64,
    /// The number of files that were durable and are gone, with their directory. They are not
    /// written again: until the next [checkpoint](crate::JournalHandle::checkpoint) is durable, a
    /// crash goes back to the last one that is left, or to none.
    pub files_lost: u64,
    /// The number of ids that were accepted in them.
    pub ids_lost: u64,
}

impl Shared {
    pub(crate) fn reopen(&self) -> Result<Reopened, JournalError> {
        let mut writer = self.lock_writer();
        if let Err(gone) = writer.watch().verify(&*writer.disk()) {
            self.fail(gone, writer.wall_nanos());
        }
        let Some(failed_at) = self.lock().failed.as_ref().map(|failed| failed.wall_nanos) else {
            return Ok(Reopened::default());
        };
        // What is gone is noted first: it is not found again, if the rest fails and is tried again.
        let reopened = writer.find_directory().and_then(|lost| {
            self.lock().lose(lost);
            writer.make_fit()
        });
        if let Err(error) = reopened {
            self.fail(error.clone(), writer.wall_nanos());
            return Err(error);
        }
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

impl Writer {
    /// Makes the writer fit to write again after a failure.
    fn make_fit(&mut self) -> Result<(), JournalError> {
        if let Some(segment) = self.current.as_ref().map(|current| current.segment.clone()) {
            if self.is_broken {
                // What is not known to be durable is written again, elsewhere.
                self.rules.sync.truncate(&*self.disk, &segment.path, segment.bytes)?;
            }
            if segment.first == self.number {
                self.discard(&segment.path)?;
            } else {
                self.old.push_back(segment);
            }
            // Not before, since all of this may fail, and is tried again.
            self.current = None;
        }
        self.watch = Arc::new(Watch { file: None, ..Watch::clone(&self.watch) });
        if !self.is_marked {
            // Otherwise the next process that opens a directory that was created again would miss
            // its mark, and refuse segments for what this one tells.
            self.write_mark(true)?;
        }
        self.is_broken = false;
        Ok(())
    }

    /// Writes how time is counted, where no file is left that says so: a segment that was made of
    /// what was in them has times of a kind that the next process would not know.
    pub(in crate::journal) fn say_time(&mut self, latest: Timestamp) -> Result<(), JournalError> {
        let is_gone = self.sealed.is_some_and(|sealed| sealed > 0) && self.segments().next().is_none();
        if !is_gone || !obeys(Rule::TimeIsSaid) {
            return Ok(());
        }
        let mut payload = Payload::default();
        payload.push_time_base(self.rules.time.get());
        // In a file of its own, without the positions: where they are a checkpoint's, what belongs
        // to it is gone.
        let positions = std::mem::take(&mut self.positions);
        let written = self.commit(&payload, latest);
        self.positions = positions;
        self.close_file();
        written
    }

    /// Creates and locks the directory again if it is not the one that it was, and looks which
    /// files are still there. Returns the durable data that is gone.
    fn find_directory(&mut self) -> Result<Lost, JournalError> {
        let directory = self.rules.directory.clone();
        self.disk.create_directory(&directory).map_err(JournalError::io("create", &directory))?;
        let lock_path = directory.join(LOCK);
        let held = self.lock.as_ref().and_then(|lock| lock.identity().ok());
        let held = match self.lock.take() {
            Some(lock) if held.is_some() && held == self.disk.identity(&lock_path).ok() => lock,
            _ => {
                let taken = lock(&*self.disk, &directory, &self.rules.machine)?;
                self.is_marked = false;
                self.nobody_else_has_written()?;
                taken
            }
        };
        let identity = self.disk.identity(&directory).map_err(JournalError::io("look at", &directory))?;
        self.watch = Arc::new(Watch::of(&*held, (directory, identity))?);
        self.lock = Some(held);
        self.drop_lost()
    }

    /// Drops the files that are not there any more. Returns how much that is. On an error nothing
    /// is dropped.
    fn drop_lost(&mut self) -> Result<Lost, JournalError> {
        let old: Result<Vec<_>, _> = self.old.iter().map(|segment| self.exists(&segment.path, None)).collect();
        let is_current = |current: &Current| self.exists(&current.segment.path, Some(current.identity));
        let (old, is_current) = (old?, self.current.as_ref().map_or(Ok(true), is_current)?);

        let (mut lost, mut upto, mut from) = (Lost::default(), self.ids, self.number);
        if let Some(current) = self.current.take() {
            let Segment { first, first_ids, .. } = current.segment;
            let ids = upto - first_ids;
            upto = first_ids;
            if is_current {
                self.current = Some(current);
            } else {
                (lost, from) = (Lost { files: 1, ids }, first);
            }
        }
        for (segment, is_there) in std::mem::take(&mut self.old).into_iter().zip(old).rev() {
            let ids = upto - segment.first_ids;
            upto = segment.first_ids;
            if is_there {
                self.old.push_front(segment);
            } else {
                (lost, from) = (Lost { files: lost.files + 1, ids: lost.ids + ids }, segment.first);
            }
        }
        // What is in segments is not lost; and what is behind a file that is left, the next process
        // misses by itself.
        let gap = Gap { from: self.sealed.map_or(from, |sealed| from.max(sealed)), upto: self.first_block() };
        if lost.files > 0 && obeys(Rule::LossIsMarked) {
            self.gap = self.gap.and(gap);
            self.is_marked = false;
        }
        Ok(lost)
    }

    /// Checks that there are no files of another process, which came while the lock was gone: its
    /// data would be overwritten.
    fn nobody_else_has_written(&self) -> Result<(), JournalError> {
        let directory = &self.rules.directory;
        let paths = self.disk.list(directory).map_err(JournalError::io("read", directory))?;
        let is_known = |path: &PathBuf| self.segments().any(|segment| segment.path == *path);
        for path in paths.into_iter().filter(|path| is_segment(path) && !is_known(path)) {
            let mut file = self.disk.open(&path).map_err(JournalError::io("open", &path))?;
            let size = file.size().map_err(JournalError::io("read", &path))?;
            // A file of ours that could not be begun has no more than a header.
            if size > HEADER_BYTES as u64 || number_of(&path) != Some(self.number) {
                return Err(JournalError::NotOurs {
                    path,
                    what: "its writer",
                    got: "another process, which came while the lock was gone".into(),
                    expected: "this one: build the engine again".into(),
                });
            }
        }
        Ok(())
    }

    fn exists(&self, path: &Path, expected: Option<Identity>) -> Result<bool, JournalError> {
        match self.disk.identity(path) {
            Ok(identity) => Ok(expected.is_none_or(|expected| expected == identity)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(JournalError::io("look at", path)(error)),
        }
    }
}
