//! Errors of segments.

use super::journal::JournalError;
use super::untrusted::Untrusted;
use std::path::PathBuf;
use std::sync::Arc;
use std::{fmt, io};

/// An error of opening, reading or writing segments.
///
/// After any of them the directory has what it had: nothing that was sealed is lost, and the
/// operation can be tried again.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SegmentError {
    /// Another engine has the directory open.
    InUse {
        /// The directory.
        path: PathBuf,
        /// The holder's description of itself.
        holder: String,
    },
    /// This process is a child that was forked when the directory was open already: it is its
    /// parent's, and nothing of it is known here.
    Forked {
        /// The directory.
        path: PathBuf,
        /// The number of the process that has it.
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
    /// A file is not of these segments, or of another version of the format. Nothing was changed.
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
    /// The segments were made of another journal, which has the same key: they end where nothing
    /// ends in this one. Nothing of them was changed.
    ///
    /// [`Damage::Keep`](crate::Damage::Keep) goes on with both if this journal begins behind what
    /// was sealed of the other: then nothing in it is taken for sealed.
    AnotherJournal {
        /// The directory of the segments.
        segments: PathBuf,
        /// The directory of the journal.
        journal: PathBuf,
    },
    /// A file is damaged or missing, in a way that no crash leaves. Nothing was changed.
    Damaged {
        /// The file.
        path: PathBuf,
        /// The offset at which the defect begins.
        offset: u64,
        /// A description of the defect.
        what: &'static str,
    },
    /// There is no memory for a segment's filter.
    OutOfMemory {
        /// The number of bytes that were asked for.
        bytes: u64,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// The ids that were to be sealed cannot be read.
    Journal(JournalError),
}

impl SegmentError {
    /// Returns a conversion of an I/O error, for `map_err`.
    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| match Untrusted::of(&source) {
            Some(Untrusted { what, got, expected, .. }) => {
                SegmentError::NotOurs { path, what, got: got.clone(), expected: (*expected).into() }
            }
            None => SegmentError::Io { doing, path, source: Arc::new(source) },
        }
    }

    /// Returns the error of a file that is damaged.
    pub(crate) fn damaged(path: impl Into<PathBuf>, offset: u64, what: &'static str) -> Self {
        SegmentError::Damaged { path: path.into(), offset, what }
    }
}

impl From<JournalError> for SegmentError {
    fn from(error: JournalError) -> Self {
        SegmentError::Journal(error)
    }
}

impl fmt::Display for SegmentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SegmentError::InUse { path, holder } => {
                write!(f, "the segments in {} are in use by {holder}", path.display())
            }
            SegmentError::Forked { path, process } => write!(
                f,
                "the segments in {} are those of process {process}, of which this one is a fork. Open a directory after the fork",
                path.display()
            ),
            SegmentError::Io { doing, path, source } => write!(f, "cannot {doing} {}: {source}", path.display()),
            SegmentError::NotOurs { path, what, got, expected } => {
                write!(f, "{}: {what} is {got}, expected {expected}. Nothing was changed", path.display())
            }
            SegmentError::AnotherJournal { segments, journal } => write!(
                f,
                "the segments in {} were made of another journal than the one in {}, which has the same key. Open them \
                 with the journal that they were made of; or this one with an empty directory for segments",
                segments.display(),
                journal.display()
            ),
            SegmentError::Damaged { path, offset, what } => write!(
                f,
                "{}: {what}, at offset {offset}. Nothing was changed. Bring the file back; or begin with an empty directory, \
                 and without the ids that were in this one",
                path.display()
            ),
            SegmentError::OutOfMemory { bytes, source } => {
                write!(f, "a segment's filter needs {bytes} bytes of memory: {source}")
            }
            SegmentError::Journal(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for SegmentError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SegmentError::Io { source, .. } | SegmentError::OutOfMemory { source, .. } => Some(source),
            SegmentError::Journal(error) => error.source(),
            _ => None,
        }
    }
}
