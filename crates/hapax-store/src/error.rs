//! What can go wrong with a store.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// What kind of thing went wrong: whether asking again may help, and whether the store may have done what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The store could not be reached, or said that it cannot answer now. It may have done what it was asked.
    Unavailable,
    /// No answer in time. It may have done what it was asked.
    Timeout,
    /// Somebody else has what was asked for (the store's ownership, a lock), or stood in the way. Nothing was done.
    Conflict,
    /// What the store has kept is not what hapax keeps.
    Corrupt,
    /// It cannot work like this: wrong address, password, permission, option. Nothing was done.
    Misconfigured,
}

impl ErrorKind {
    /// Whether asking the same again may help.
    pub fn is_transient(self) -> bool {
        matches!(self, ErrorKind::Unavailable | ErrorKind::Timeout)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ErrorKind::Unavailable => "unavailable",
            ErrorKind::Timeout => "no answer in time",
            ErrorKind::Conflict => "conflict",
            ErrorKind::Corrupt => "corrupt",
            ErrorKind::Misconfigured => "misconfigured",
        })
    }
}

/// Why a store did not do what it was asked.
///
/// Cloning one costs a reference count, since all who asked in one batch get it.
#[derive(Clone)]
pub struct StoreError(Arc<Inner>);

struct Inner {
    kind: ErrorKind,
    backend: &'static str,
    what: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl StoreError {
    /// An error of a backend: `what` says what was expected and what was got.
    pub fn new(kind: ErrorKind, backend: &'static str, what: impl Into<String>) -> Self {
        StoreError(Arc::new(Inner { kind, backend, what: what.into(), source: None }))
    }

    /// The same with its cause.
    pub fn caused(
        kind: ErrorKind,
        backend: &'static str,
        what: impl Into<String>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        StoreError(Arc::new(Inner { kind, backend, what: what.into(), source: Some(source.into()) }))
    }

    /// What kind of thing went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whose error it is: the backend's name.
    pub fn backend(&self) -> &'static str {
        self.0.backend
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.0.backend, self.0.kind, self.0.what)?;
        // Drivers' errors say little without their causes, and many who log errors print no sources.
        let mut cause = self.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl fmt::Debug for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreError")
            .field("kind", &self.0.kind)
            .field("backend", &self.0.backend)
            .field("what", &self.0.what)
            .field("source", &self.0.source)
            .finish()
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
