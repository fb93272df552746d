//! Errors of a store.

use std::error::Error;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The kind of an error. It says whether another try may help, and whether the store may have
/// carried out the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The store could not be reached, or reported that it cannot answer now. It may have carried
    /// out the request.
    Unavailable,
    /// There was no answer in time. The store may have carried out the request.
    Timeout,
    /// Another party has what was requested (the ownership of the store, a lock), or was in the
    /// way. Nothing was done.
    Conflict,
    /// The stored data is not hapax's data.
    Corrupt,
    /// The store cannot work with this configuration: wrong address, password, permission, option.
    /// Nothing was done.
    Misconfigured,
}

impl ErrorKind {
    /// Returns true if repeating the same request may help.
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

/// The reason for which a store did not carry out a request.
///
/// Cloning one costs a reference count, since all callers in one batch get it.
#[derive(Clone, Debug)]
pub struct StoreError(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    kind: ErrorKind,
    backend: &'static str,
    what: String,
    source: Option<Arc<dyn Error + Send + Sync>>,
}

impl StoreError {
    /// Creates an error of a backend: `what` says what was expected and what was found.
    pub fn new(kind: ErrorKind, backend: &'static str, what: impl Into<String>) -> Self {
        StoreError(Arc::new(Inner { kind, backend, what: what.into(), source: None }))
    }

    /// Creates an error with its cause.
    pub fn caused(
        kind: ErrorKind,
        backend: &'static str,
        what: impl Into<String>,
        source: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Self {
        let source: Box<dyn Error + Send + Sync> = source.into();
        StoreError(Arc::new(Inner { kind, backend, what: what.into(), source: Some(source.into()) }))
    }

    /// Returns the error with the path of the file or directory that it is about.
    pub(crate) fn at(self, path: &Path) -> Self {
        let Inner { kind, backend, ref what, ref source } = *self.0;
        StoreError(Arc::new(Inner {
            kind,
            backend,
            what: format!("{}: {what}", path.display()),
            source: source.clone(),
        }))
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the name of the backend that reported the error.
    pub fn backend(&self) -> &'static str {
        self.0.backend
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.0.backend, self.0.kind, self.0.what)?;
        // Drivers' errors say little without their causes, and much code that logs errors prints no
        // sources.
        let mut cause = self.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}
