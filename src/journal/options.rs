//! The options of a journal.

use crate::digest::DigestKey;
use crate::error::{InvalidOption, check};
use std::time::Duration;

/// The options of a [journal](crate::Builder::journal).
///
/// ```
/// use hapax::{JournalOptions, SyncMode};
/// use std::time::Duration;
///
/// let options = JournalOptions::new().commit_interval(Duration::from_millis(2)).max_disk_bytes(1 << 30);
/// let fast = JournalOptions::new().sync(SyncMode::System); // survives the process, not the power
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalOptions {
    pub(crate) commit_interval: Duration,
    pub(super) commit_bytes: usize,
    pub(super) sync: SyncMode,
    pub(super) segment_length: Option<Duration>,
    pub(super) max_disk_bytes: Option<u64>,
    pub(super) file_mode: u32,
    pub(super) deferred: bool,
    pub(crate) checkpoints: bool,
    pub(super) damage: Damage,
}

/// The moment from which written data counts as durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SyncMode {
    /// Durability by the disk, when it reports that it has the data (`fdatasync`): the data
    /// survives the loss of power.
    #[default]
    Disk,
    /// Durability by the system, when it has the data: the data survives the end of the process,
    /// but not of the system. (When the power fails, files may be left as no crash of a process
    /// leaves them: that is [damage](JournalOptions::damage).)
    System,
}

/// The answer to files that are damaged or missing, in a way that no crash leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Damage {
    /// The engine is not built, and nothing is changed:
    /// [`JournalError::Damaged`](crate::JournalError::Damaged) says what is lost.
    #[default]
    Refuse,
    /// Every block that is whole is kept; damaged files are moved aside, under their name with
    /// `.damaged` behind it. [`Recovery`](crate::Recovery) says what is lost. So it does of blocks
    /// that a long memory would have to have, and has not: of a time without it, say.
    Keep,
}

impl Default for JournalOptions {
    fn default() -> Self {
        JournalOptions {
            commit_interval: Duration::from_millis(5),
            commit_bytes: COMMIT_BYTES,
            sync: SyncMode::Disk,
            segment_length: None,
            max_disk_bytes: None,
            file_mode: 0o600,
            deferred: false,
            checkpoints: false,
            damage: Damage::Refuse,
        }
    }
}

/// The rules for opening a journal again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reopening {
    pub(super) damage: Damage,
    pub(super) sync: SyncMode,
    pub(super) key: DigestKey,
    pub(super) boot: u64,
    pub(super) wall_nanos: u64,
    /// The age, before the latest time, from which on everything has expired.
    pub(super) retention: Duration,
}

/// The number of waiting bytes that are written without delay, unless the options set another.
pub const COMMIT_BYTES: usize = 1 << 20;

/// The most bytes that may wait to be written; with more, callers that append wait.
pub(crate) const MAX_PENDING_BYTES: usize = 64 << 20;

impl JournalOptions {
    /// Returns the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how long accepted ids wait for company at most before they are written and synced, if
    /// nobody asks for it by [`flush`](crate::JournalHandle::flush). Default: 5 ms.
    #[must_use]
    pub fn commit_interval(self, commit_interval: Duration) -> Self {
        JournalOptions { commit_interval, ..self }
    }

    /// Sets the number of waiting bytes, at 16 per id, that are written without delay: up to 64
    /// MiB. Default: 1 MiB.
    #[must_use]
    pub fn commit_bytes(self, commit_bytes: usize) -> Self {
        JournalOptions { commit_bytes, ..self }
    }

    /// Sets when written data counts as durable. Default: when the disk has it.
    #[must_use]
    pub fn sync(self, sync: SyncMode) -> Self {
        JournalOptions { sync, ..self }
    }

    /// Sets how much time a file covers, and so in which portions expired data is deleted. Default:
    /// a 16th of the time that is remembered.
    #[must_use]
    pub fn segment_length(self, segment_length: Duration) -> Self {
        JournalOptions { segment_length: Some(segment_length), ..self }
    }

    /// Limits how much of the disk the journal may take. Beyond the limit the journal fails, as it
    /// does when the disk is full, and goes on when files have expired. Default: no limit.
    #[must_use]
    pub fn max_disk_bytes(self, max_disk_bytes: u64) -> Self {
        JournalOptions { max_disk_bytes: Some(max_disk_bytes), ..self }
    }

    /// Sets the permissions of the journal's files, on Unix; its directory gets the same, and a
    /// user who may read may enter. The files hold the key of the digests, with which one can
    /// construct ids that collide. Default: 0o600, the user alone.
    ///
    /// Users whom it lets write are trusted with the directory, too. With 0o660 the directory may
    /// be writable by its group, as volumes of a container often are, and files may belong to
    /// another user of the group; with 0o666 owner and mode are not looked at, for file systems
    /// that do not store them. A directory of its own within the volume is better: if it does not
    /// exist yet, it is created.
    ///
    /// ```
    /// use hapax::JournalOptions;
    ///
    /// let options = JournalOptions::new().file_mode(0o660); // whoever is in the group may write
    /// # let _ = options;
    /// ```
    #[must_use]
    pub fn file_mode(self, file_mode: u32) -> Self {
        JournalOptions { file_mode, ..self }
    }

    /// Sets whether ids that a check accepts are held back until
    /// [`append_batch_at`](crate::JournalHandle::append_batch_at) says that they were
    /// handled, too: for pipelines that check early and work later, and want ids that were not
    /// worked on to be fresh after a crash. (Completed claims are appended in any case.) Default:
    /// accepted ids are appended at once.
    #[must_use]
    pub fn deferred(self, deferred: bool) -> Self {
        JournalOptions { deferred, ..self }
    }

    /// Sets whether what is accepted is held back until the next
    /// [checkpoint](crate::JournalHandle::checkpoint): a crash, and the end of the engine as well,
    /// takes back what was accepted since, so that a consumer that goes on from the checkpoint's
    /// positions handles it again. Default: whatever is accepted becomes durable by itself.
    ///
    /// It holds for everything that the journal records: accepted ids, completed claims, forgotten
    /// ids. [`flush`](crate::JournalHandle::flush) makes the last checkpoint durable, and nothing
    /// that came after it.
    #[must_use]
    pub fn checkpoints(self, checkpoints: bool) -> Self {
        JournalOptions { checkpoints, ..self }
    }

    /// Sets the answer to damage, other than the torn end that a crash leaves. Default:
    /// [`build`](crate::Builder::build) refuses.
    #[must_use]
    pub fn damage(self, damage: Damage) -> Self {
        JournalOptions { damage, ..self }
    }

    pub(super) fn validate(&self) -> Result<(), InvalidOption> {
        let bytes = self.commit_bytes;
        let fits = (1..=MAX_PENDING_BYTES).contains(&bytes);
        check(fits, "journal.commit_bytes", bytes, format!("1 to {MAX_PENDING_BYTES}"))?;
        if let Some(length) = self.segment_length {
            check(!length.is_zero(), "journal.segment_length", length, "a duration above 0")?;
        }
        let mode = self.file_mode;
        let lets_us = mode & !0o777 == 0 && mode & 0o600 == 0o600;
        let expected = "permissions with which the user may read and write";
        check(lets_us, "journal.file_mode", format_args!("{mode:#o}"), expected)
    }
}
