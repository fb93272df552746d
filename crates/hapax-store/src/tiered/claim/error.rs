//! Errors of claims.

use crate::StoreError;
use crate::tiered::observe::{End, Renewal};
use hapax::LostLease;
use std::fmt;

/// The reason for which a claim could not be completed, released or renewed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ClaimError {
    /// Its lease has expired, and another caller may have taken it over. Nothing was changed.
    LostLease(LostLease),
    /// The store gave no certain answer. If the work was done, it may be done again when the lease
    /// has expired; it may also be recorded.
    Store(StoreError),
}

impl fmt::Display for ClaimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClaimError::LostLease(lost) => lost.fmt(f),
            ClaimError::Store(error) => write!(f, "the claim could not be ended or extended: {error}"),
        }
    }
}

impl std::error::Error for ClaimError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ClaimError::LostLease(lost) => Some(lost),
            ClaimError::Store(error) => Some(error),
        }
    }
}

/// Returns the actual end of a claim that was to end like this.
pub(super) fn actual_end(wanted: End, ended: &Result<(), ClaimError>) -> End {
    match ended {
        Ok(()) => wanted,
        Err(ClaimError::LostLease(_)) => End::Lost,
        Err(ClaimError::Store(_)) => End::Unknown,
    }
}

/// Returns the result of a renewal as it is counted.
pub(super) fn renewal(renewed: &Result<(), ClaimError>) -> Renewal {
    match renewed {
        Ok(()) => Renewal::Renewed,
        Err(ClaimError::LostLease(_)) => Renewal::Lost,
        Err(ClaimError::Store(_)) => Renewal::Unknown,
    }
}
