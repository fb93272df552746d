//! Errors of building an engine, and of its journal.

mod journal;
mod loss;
mod option;
mod segments;
mod untrusted;

pub use journal::JournalError;
pub use loss::Loss;
pub use option::{InvalidOption, check};
pub use segments::SegmentError;
pub(crate) use untrusted::Untrusted;

use std::{fmt, io};

/// An error of building an engine; or of a key's text.
///
/// ```
/// use std::time::Duration;
///
/// let error = hapax::Dedup::builder().window(Duration::ZERO).build().unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "option `window`: got 0ns, expected a duration from 100ns to 100 years"
/// );
/// ```
///
/// Nothing else in the memory tiers fails: once built, every call answers.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// An option has a value that it cannot have.
    InvalidOption {
        /// The option, as the builder's method is called.
        option: &'static str,
        /// The value that was given.
        got: String,
        /// The values that would be valid.
        expected: String,
    },
    /// The memory that the options ask for is not available.
    OutOfMemory {
        /// The part that needed the memory: `window`, `history`, `segments` or `memory of
        /// versions`.
        tier: &'static str,
        /// The number of bytes that were asked for.
        bytes: usize,
        /// The system's error.
        source: io::Error,
    },
    /// The system has no random bytes for the secret key of the digests. An engine that is given a
    /// [key](crate::Builder::key) needs none.
    NoRandomness {
        /// The system's error.
        source: io::Error,
    },
    /// A text is that of no [key](crate::Key).
    KeyText {
        /// The place where it is not, in bytes.
        at: usize,
        /// The reason, and what was expected there.
        what: &'static str,
    },
    /// The journal cannot be opened.
    Journal(JournalError),
    /// The segments of a long memory cannot be opened, or made.
    Segments(SegmentError),
}

impl From<JournalError> for Error {
    fn from(error: JournalError) -> Self {
        Error::Journal(error)
    }
}

impl From<SegmentError> for Error {
    fn from(error: SegmentError) -> Self {
        Error::Segments(error)
    }
}

impl From<InvalidOption> for Error {
    fn from(InvalidOption { option, got, expected }: InvalidOption) -> Self {
        Error::InvalidOption { option, got, expected }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::InvalidOption { option, got, expected } => {
                write!(f, "option `{option}`: got {got}, expected {expected}")
            }
            Error::OutOfMemory { tier, bytes, source } => {
                write!(f, "the {tier} needs {bytes} bytes of memory: {source}")
            }
            Error::NoRandomness { source } => {
                write!(f, "the operating system gives no random key for the digests: {source}; set option `key`")
            }
            Error::KeyText { at, what } => write!(f, "byte {at}: {what}"),
            Error::Journal(error) => error.fmt(f),
            Error::Segments(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::InvalidOption { .. } | Error::KeyText { .. } => None,
            Error::OutOfMemory { source, .. } | Error::NoRandomness { source } => Some(source),
            Error::Journal(error) => error.source(),
            Error::Segments(error) => error.source(),
        }
    }
}
