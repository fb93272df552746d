//! The stand-in for metrics without the feature `metrics`.

use super::observe::{Asked, End, Renewal};
use crate::ErrorKind;
use std::time::Duration;

pub(super) struct StoreMeters;

impl StoreMeters {
    pub(super) fn new(_: &'static str) -> Self {
        StoreMeters
    }

    pub(super) fn called(&self, _: Asked, _: usize, _: Duration, _: Option<ErrorKind>) {}

    pub(super) fn request_failed(&self, _: ErrorKind) {}

    pub(super) fn retried(&self, _: Asked) {}

    pub(super) fn refused(&self, _: Asked) {}

    pub(super) fn opened(&self) {}

    pub(super) fn expired(&self, _: u64) {}

    pub(super) fn warmed(&self, _: u64) {}
}

pub(super) struct PolicyMeters;

impl PolicyMeters {
    pub(super) fn new(_: &str) -> Self {
        PolicyMeters
    }

    pub(super) fn verdict(&self, _: usize, _: usize) {}

    pub(super) fn admitted(&self) {}

    pub(super) fn shadowed(&self) {}

    pub(super) fn mismatched(&self) {}

    pub(super) fn refused(&self) {}

    pub(super) fn ended(&self, _: End, _: Duration) {}

    pub(super) fn renewed(&self, _: Renewal) {}
}
