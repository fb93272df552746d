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

/// Raises what a call of the library returned as an error.
pub fn raise<T, E: std::error::Error + 'static>(result: Result<T, E>) -> PyResult<T> {
    result.map_err(|error| raised(&error))
}

fn raised(error: &(dyn std::error::Error + 'static)) -> PyErr {
    match error.downcast_ref() {
        Some(ClaimError::LostLease(lost)) => return raised(lost),
        Some(ClaimError::Store(error)) => return raised(error),
        _ => {}
    }
    if let Some(error) = error.downcast_ref::<StoreError>() {
        return exception("StoreError", (error.to_string(), error.kind().to_string()));
    }
    let class = match error.downcast_ref() {
        Some(Error::InvalidOption { .. }) => "OptionError",
        Some(Error::Journal(_) | Error::Segments(_)) => "JournalError",
        _ if error.is::<JournalError>() => "JournalError",
        _ if error.is::<LostLease>() => "LostLease",
        _ => "HapaxError",
    };
    exception(class, (error.to_string(),))
}
