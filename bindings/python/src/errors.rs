//! The library's errors as Python's exceptions, with the library's texts.

use hapax::{Error, JournalError, LostLease};
use hapax_store::{ClaimError, StoreError};
use pyo3::call::PyCallArgs;
use pyo3::prelude::*;

/// Returns an exception of `hapax._errors`.
pub fn exception<A: for<'py> PyCallArgs<'py>>(class: &str, args: A) -> PyErr {
    Python::attach(|py| {
        let made = py.import("hapax._errors").and_then(|errors| errors.call_method1(class, args));
        made.map_or_else(|error| error, PyErr::from_value)
    })
}

pub fn wrong_option(text: String) -> PyErr {
    exception("OptionError", (text,))
}

/// An error of the library that Python gets as an exception.
pub trait Raised: std::error::Error {
    const CLASS: &'static str = "HapaxError";

    fn raised(self) -> PyErr
    where
        Self: Sized,
    {
        exception(Self::CLASS, (self.to_string(),))
    }
}

impl Raised for Error {
    fn raised(self) -> PyErr {
        let class = match &self {
            Error::InvalidOption { .. } => "OptionError",
            Error::Journal(_) | Error::Segments(_) => "JournalError",
            _ => Self::CLASS,
        };
        exception(class, (self.to_string(),))
    }
}

impl Raised for JournalError {
    const CLASS: &'static str = "JournalError";
}

impl Raised for LostLease {
    const CLASS: &'static str = "LostLease";
}

impl Raised for StoreError {
    fn raised(self) -> PyErr {
        exception("StoreError", (self.to_string(), self.kind().to_string()))
    }
}

impl Raised for ClaimError {
    fn raised(self) -> PyErr {
        match self {
            ClaimError::LostLease(lost) => lost.raised(),
            ClaimError::Store(error) => error.raised(),
            other => exception(Self::CLASS, (other.to_string(),)),
        }
    }
}

/// Raises what a call of the library returned as an error.
pub fn raise<T, E: Raised>(result: Result<T, E>) -> PyResult<T> {
    result.map_err(Raised::raised)
}
