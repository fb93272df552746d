//! The one way in which options are checked.

use std::fmt;

/// An option with a value that it cannot have, as every error of options says it.
#[derive(Debug)]
pub struct InvalidOption {
    /// The name of the option.
    pub option: &'static str,
    /// The value that it has.
    pub got: String,
    /// Values that it can have.
    pub expected: String,
}

impl InvalidOption {
    /// Returns an error of this option.
    pub fn new(option: &'static str, got: impl fmt::Debug, expected: impl Into<String>) -> Self {
        InvalidOption { option, got: format!("{got:?}"), expected: expected.into() }
    }
}

/// Returns an error, unless an option's value is valid.
pub fn check(
    is_valid: bool,
    option: &'static str,
    got: impl fmt::Debug,
    expected: impl Into<String>,
) -> Result<(), InvalidOption> {
    if is_valid { Ok(()) } else { Err(InvalidOption::new(option, got, expected)) }
}
