//! Errors of a hand-over.

use hapax::JournalError;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

/// An error of acquiring, publishing or keeping a partition.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum HandoverError {
    /// Another owner has acquired the partition. Nothing is published any more: drop the engine,
    /// commit nothing, and acquire again if the partition is yours again.
    Fenced {
        /// The partition.
        partition: String,
        /// The epoch of this owner.
        epoch: u64,
        /// The epoch of the other one; 0 if there is no manifest any more.
        by: u64,
    },
    /// The store has not confirmed for a lease that this still is the owner. It is asked again
    /// meanwhile: go on when [`engine`](crate::Owned::engine) returns one.
    LeaseOver {
        /// The partition.
        partition: String,
        /// The lease.
        lease: Duration,
    },
    /// The store does not refuse a put over a version that is not there, so it cannot fence.
    /// Nothing was written. Use S3, GCS, Azure, or another store with conditional puts.
    NotConditional {
        /// The store's description of itself.
        store: String,
        /// Its answer.
        answer: String,
    },
    /// The store has answered with an error, as often as was asked.
    Store {
        /// The operation.
        doing: &'static str,
        /// The object.
        path: String,
        /// The last error.
        source: Arc<object_store::Error>,
    },
    /// The store has not answered in time, as often as was asked.
    TimedOut {
        /// The operation.
        doing: &'static str,
        /// The object.
        path: String,
        /// The time-out of one request.
        after: Duration,
    },
    /// The manifest was replaced by others each time before this owner did. Try again later.
    Contended {
        /// The partition.
        partition: String,
        /// The number of times.
        puts: u32,
    },
    /// An object is not what was published. Nothing was changed.
    Damaged {
        /// The object, or the file that was made of it.
        path: String,
        /// A description of the defect.
        what: String,
    },
    /// The last owner had a long memory, whose segments are not to be left behind. Open it with
    /// `open_with_long_memory`.
    LongMemory {
        /// The partition.
        partition: String,
    },
    /// A local file cannot be read, written, …
    Io {
        /// The operation.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: Arc<io::Error>,
    },
    /// The engine's journal has failed, or is not one with checkpoints.
    Journal(JournalError),
    /// The engine cannot be built.
    Engine(Arc<hapax::Error>),
    /// An option has a value that makes no sense.
    InvalidOption {
        /// The option.
        option: &'static str,
        /// Its value.
        got: String,
        /// The values that make sense.
        expected: &'static str,
    },
}

impl HandoverError {
    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| HandoverError::Io { doing, path, source: Arc::new(source) }
    }
}

impl From<JournalError> for HandoverError {
    fn from(error: JournalError) -> Self {
        HandoverError::Journal(error)
    }
}

impl fmt::Display for HandoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HandoverError::Fenced { partition, epoch, by: 0 } => {
                write!(f, "partition {partition}: the manifest of epoch {epoch} is gone; acquire it again")
            }
            HandoverError::Fenced { partition, epoch, by } => write!(
                f,
                "partition {partition}: fenced in epoch {epoch} by the owner of epoch {by}; commit nothing, and acquire \
                 it again if it is yours"
            ),
            HandoverError::LeaseOver { partition, lease } => {
                write!(f, "partition {partition}: the store has not confirmed for {lease:?} that this is its owner")
            }
            HandoverError::NotConditional { store, answer } => write!(
                f,
                "{store} has no conditional put over a version (it answered: {answer}), so no owner can be fenced; use \
                 S3, GCS, Azure, or another store that has it"
            ),
            HandoverError::Store { doing, path, source } => write!(f, "cannot {doing} {path}: {source}"),
            HandoverError::TimedOut { doing, path, after } => {
                write!(f, "cannot {doing} {path}: no answer within {after:?}, each time")
            }
            HandoverError::Contended { partition, puts } => {
                write!(
                    f,
                    "partition {partition}: {puts} puts of the manifest were overtaken by others; try again later"
                )
            }
            HandoverError::Damaged { path, what } => write!(f, "{path} is not what was published: {what}"),
            HandoverError::LongMemory { partition } => write!(
                f,
                "partition {partition}: its last owner had a long memory; open it with `open_with_long_memory`, so that \
                 nothing is forgotten"
            ),
            HandoverError::Io { doing, path, source } => write!(f, "cannot {doing} {}: {source}", path.display()),
            HandoverError::Journal(error) => error.fmt(f),
            HandoverError::Engine(error) => error.fmt(f),
            HandoverError::InvalidOption { option, got, expected } => {
                write!(f, "option `{option}` is {got}, expected {expected}")
            }
        }
    }
}

impl std::error::Error for HandoverError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            HandoverError::Store { source, .. } => Some(&**source),
            HandoverError::Io { source, .. } => Some(&**source),
            HandoverError::Journal(error) => Some(error),
            HandoverError::Engine(error) => Some(&**error),
            _ => None,
        }
    }
}
