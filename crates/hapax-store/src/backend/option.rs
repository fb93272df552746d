//! Refuses an option in the same words everywhere: its name, what it got, and what it expects.

use crate::{ErrorKind, StoreError};
use std::fmt::Debug;
use std::ops::RangeInclusive;

/// Returns an error of `backend` unless the value of an option is valid.
pub fn check(
    backend: &'static str,
    valid: bool,
    option: &str,
    got: &dyn Debug,
    expected: &str,
) -> Result<(), StoreError> {
    if valid {
        Ok(())
    } else {
        let wrong = format!("option `{option}`: got {got:?}, expected {expected}");
        Err(StoreError::new(ErrorKind::Misconfigured, backend, wrong))
    }
}

/// Returns the value of an option, or an error of `backend` unless it is in this range.
pub fn within<T: PartialOrd + Debug>(
    backend: &'static str,
    option: &str,
    got: T,
    range: RangeInclusive<T>,
) -> Result<T, StoreError> {
    let expected = format!("{:?} to {:?}", range.start(), range.end());
    check(backend, range.contains(&got), option, &got, &expected).map(|()| got)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_option_what_it_got_and_what_it_expects() {
        assert_eq!(within("postgres", "connections", 4, 1..=8).unwrap(), 4);
        let error = within("postgres", "connections", 9, 1..=8).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert!(error.to_string().contains("option `connections`: got 9, expected 1 to 8"), "{error}");
    }
}
