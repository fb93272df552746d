//! The stand-in for metrics without the feature `metrics`.

use super::labels::{End, Renewal, RequestKind};
use crate::ErrorKind;
use std::time::Duration;

pub(crate) struct StoreMeters;

impl StoreMeters {
    pub(crate) fn new(_: &'static str) -> Self {
        StoreMeters
    }

    pub(crate) fn called(&self, _: RequestKind, _: usize, _: Duration, _: Option<ErrorKind>) {}

    pub(crate) fn request_failed(&self, _: ErrorKind) {}

    pub(crate) fn retried(&self, _: RequestKind) {}

    pub(crate) fn refused(&self, _: RequestKind) {}

    pub(crate) fn opened(&self) {}

    pub(crate) fn expired(&self, _: u64) {}

    pub(crate) fn warmed(&self, _: u64) {}
}

pub(crate) struct PolicyMeters;

impl PolicyMeters {
    pub(crate) fn new(_: &str) -> Self {
        PolicyMeters
    }

    pub(crate) fn verdict(&self, _: usize, _: usize) {}

    pub(crate) fn admitted(&self) {}

    pub(crate) fn shadowed(&self) {}

    pub(crate) fn mismatched(&self) {}

    pub(crate) fn refused(&self) {}

    pub(crate) fn ended(&self, _: End, _: Duration) {}

    pub(crate) fn renewed(&self, _: Renewal) {}
}
