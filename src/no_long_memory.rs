//! The long memory of an engine that is built without one: there is none, and nothing asks it.

use crate::digest::Digest;
use crate::journal::{DurableFiles, Shared};
use crate::{JournalError, Timestamp};

/// Nobody has one.
pub(crate) enum LongTier {}

/// The knowledge of an id that the window does not have.
#[allow(dead_code, reason = "nobody knows anything")]
#[derive(Clone, Copy)]
pub(crate) enum Beyond {
    Unknown,
    Known,
    InDoubt,
    Unsettled,
}

/// The times of a question that nobody asks.
#[allow(dead_code, reason = "nobody asks")]
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) at: Timestamp,
    pub(crate) latest: Timestamp,
    pub(crate) window: Timestamp,
}

/// Nothing is known before, either.
pub(crate) struct Before;

impl LongTier {
    pub(crate) fn before(&self, _: &[Digest]) -> Before {
        match *self {}
    }

    pub(crate) fn look(&self, _: &[Digest], _: &[usize], _: &Before, _: Asked, _: &mut dyn FnMut(usize, Beyond)) {
        match *self {}
    }

    pub(crate) fn forget(&self, _: Digest, _: impl FnOnce()) {
        match *self {}
    }

    pub(crate) fn clear(&self) {
        match *self {}
    }

    pub(crate) fn durable_files(&self, _: &Shared) -> Result<DurableFiles, JournalError> {
        match *self {}
    }
}
