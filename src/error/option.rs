//! The one way in which options are checked.

use std::fmt;

/// An option with a value that it cannot have, as every error of options says it.
#[derive(Debug)]
pub(crate) struct InvalidOption {
    pub(crate) option: &'static str,
    pub(crate) got: String,
    pub(crate) expected: String,
}

impl InvalidOption {
    pub(crate) fn new(option: &'static str, got: impl fmt::Debug, expected: impl Into<String>) -> Self {
        InvalidOption { option, got: format!("{got:?}"), expected: expected.into() }
    }
}

/// Returns an error, unless an option's value is valid.
pub(crate) fn check(
    is_valid: bool,
    option: &'static str,
    got: impl fmt::Debug,
    expected: impl Into<String>,
) -> Result<(), InvalidOption> {
    if is_valid { Ok(()) } else { Err(InvalidOption::new(option, got, expected)) }
}
