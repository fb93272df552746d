//! Errors of opening or writing a journal.

use super::loss::Loss;
use super::untrusted::Untrusted;
use std::path::PathBuf;
use std::sync::Arc;
use std::{fmt, io};

/// An error of opening, reading or writing a journal.
///
/// ```
/// let dedup = hapax::Dedup::builder().build()?;
/// assert_eq!(dedup.journal().unwrap_err().to_string(), "nothing is durable: the engine was built without a journal");
/// # Ok::<(), hapax::Error>(())
/// ```
///
/// After an error while writing nothing is acknowledged as durable any more: all waiting callers
/// and every later [`flush`](crate::JournalHandle::flush) get that error, until
/// [`reopen`](crate::JournalHandle::reopen) has succeeded, or the engine is built again. A
/// journal that is over its budget goes on by itself when files have expired.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum JournalError {
    /// The engine has no journal.
    NotConfigured,
    /// Another engine has the journal open.
    InUse {
        /// The journal's directory.
        path: PathBuf,
        /// The holder's description of itself.
        holder: String,
    },
    /// This process is a child that was forked when the engine was built already: the journal is
    /// its parent's. Checks go on in the child's own memory; nothing of them is durable, and the
    /// parent does not know of it. Build the engine after the fork.
    Forked {
        /// The journal's directory.
        path: PathBuf,
        /// The number of the process that has the journal.
        process: u32,
    },
    /// A file cannot be read, written, …
    Io {
        /// The operation that failed.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// A file does not belong to a journal, or belongs to another engine. Nothing was changed.
    NotOurs {
        /// The file.
        path: PathBuf,
        /// The property that is wrong.
        what: &'static str,
        /// Its value.
        got: String,
        /// The value that it should have.
        expected: String,
    },
    /// A file or a directory that others may have put there, or can change: a link, a pipe, one of
    /// another owner, or one that others may write to. Nothing was changed.
    Untrusted {
        /// The file or directory.
        path: PathBuf,
        /// The property that is wrong.
        what: &'static str,
        /// Its value.
        got: String,
        /// The value that it should have.
        expected: &'static str,
        /// The remedy.
        remedy: &'static str,
    },
    /// The next block would take the journal over its budget.
    OverBudget {
        /// The journal's directory.
        path: PathBuf,
        /// The number of bytes that it would take.
        bytes: u64,
        /// The number of bytes that it may take.
        max_disk_bytes: u64,
    },
    /// The directory, its lock, or the file that is being written, was deleted or replaced: data
    /// that is written there is lost, or another process may have come.
    /// [`reopen`](crate::JournalHandle::reopen) begins again.
    Gone {
        /// The path of the original.
        path: PathBuf,
    },
    /// Files are damaged or missing, in a way that no crash leaves. Nothing was changed.
    Damaged {
        /// The first damaged file.
        path: PathBuf,
        /// A description of the defect.
        what: &'static str,
        /// The offset at which the defect begins.
        offset: u64,
        /// The number of defects in all; `hapax journal inspect` lists them.
        defects: usize,
        /// The number of files that are missing.
        files_lost: u64,
        /// The number of blocks that are lost.
        blocks_lost: u64,
        /// The number of ids that are lost.
        ids_lost: Loss,
    },
    /// The journal has no checkpoints: see
    /// [`JournalOptions::checkpoints`](crate::JournalOptions::checkpoints).
    NoCheckpoints {
        /// The journal's directory.
        path: PathBuf,
    },
    /// The events to be appended are too large; nothing of them was appended.
    TooLarge {
        /// The part of it that is too large.
        what: &'static str,
        /// The size that it has.
        got: u64,
        /// The size that it may have.
        max: u64,
    },
}

impl JournalError {
    /// Returns a conversion of an I/O error, for `map_err`.
    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| match Untrusted::of(&source) {
            Some(fault) => {
                let Untrusted { what, got, expected, remedy } = fault.clone();
                JournalError::Untrusted { path, what, got, expected, remedy }
            }
            None => JournalError::Io { doing, path, source: Arc::new(source) },
        }
    }
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JournalError::NotConfigured => f.write_str("nothing is durable: the engine was built without a journal"),
            JournalError::InUse { path, holder } => write!(f, "the journal {} is in use by {holder}", path.display()),
            JournalError::Forked { path, process } => write!(
                f,
                "the journal {} is that of process {process}, of which process {} is a fork: nothing is durable here. Build the \
                 engine after the fork, with a directory for each process",
                path.display(),
                std::process::id()
            ),
            JournalError::Io { doing, path, source } => write!(f, "cannot {doing} {}: {source}", path.display()),
            JournalError::NotOurs { path, what, got, expected } => {
                write!(f, "{}: {what} is {got}, expected {expected}", path.display())
            }
            JournalError::Untrusted { path, what, got, expected, remedy } => write!(
                f,
                "{}: {what} is {got}, expected {expected}. Nothing was changed. {}{}",
                path.display(),
                remedy[..1].to_uppercase(),
                &remedy[1..]
            ),
            JournalError::OverBudget { path, bytes, max_disk_bytes } => write!(
                f,
                "the journal {} would take {bytes} bytes, option `journal.max_disk_bytes` is {max_disk_bytes}",
                path.display()
            ),
            JournalError::Gone { path } => write!(
                f,
                "{} was deleted or replaced while it was in use: what is written there is lost, or another process may have \
                 come",
                path.display()
            ),
            JournalError::Damaged { path, what, offset, defects, files_lost, blocks_lost, ids_lost } => write!(
                f,
                "{}: {what}, at offset {offset} ({defects} defects in all): {files_lost} files, {blocks_lost} blocks, {ids_lost} are \
                 lost. Nothing was changed. Bring the files back; or go on without what is lost, with option `journal.damage` = Keep, \
                 which moves damaged files aside",
                path.display()
            ),
            JournalError::NoCheckpoints { path } => write!(
                f,
                "the journal {} has no checkpoints: build the engine with option `journal.checkpoints`",
                path.display()
            ),
            JournalError::TooLarge { what, got, max } => {
                write!(f, "{what}: {got}, expected at most {max}; nothing of it was appended")
            }
        }
    }
}

impl std::error::Error for JournalError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            JournalError::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
