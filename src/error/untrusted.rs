//! The reasons for which a file or a directory is not trusted.

use std::{fmt, io};

/// A fault of a file or a directory, as the source of an [`io::Error`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Untrusted {
    pub(crate) what: &'static str,
    pub(crate) got: String,
    pub(crate) expected: &'static str,
    pub(crate) remedy: &'static str,
}

impl fmt::Display for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}, expected {}", self.what, self.got, self.expected)
    }
}

impl std::error::Error for Untrusted {}

impl From<Untrusted> for io::Error {
    fn from(fault: Untrusted) -> Self {
        io::Error::other(fault)
    }
}

impl Untrusted {
    /// Returns the fault that is the reason of an error, if there is one.
    pub(crate) fn of(error: &io::Error) -> Option<&Untrusted> {
        error.get_ref()?.downcast_ref()
    }
}
