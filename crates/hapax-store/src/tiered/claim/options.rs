//! The options of a claim, and what is said of an id that is done.

use crate::{Fingerprint, HeldBy};
use hapax::Verdict;
use std::time::Duration;

/// Options of a single claim, where they differ from the policy's.
#[derive(Clone, Debug, Default)]
pub struct TieredClaimOptions {
    pub(crate) lease: Option<Duration>,
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) wants_result: bool,
    pub(crate) retention: Option<Duration>,
    pub(crate) held_by: Option<HeldBy>,
}

impl TieredClaimOptions {
    /// Creates the default options: the policy's lease, no fingerprint.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the time for which the id is the caller's: up to 100 years. Zero or more than that
    /// makes the claim an error that says so. Default: the policy's.
    #[must_use]
    pub fn lease(self, lease: Duration) -> Self {
        TieredClaimOptions { lease: Some(lease), ..self }
    }

    /// Sets the content of the message besides its id: a claim of the same id with another
    /// fingerprint is a [mismatch](crate::TieredAttempt::Mismatch). Such claims ask the store even
    /// if memory knows the id, since memory does not know the message.
    #[must_use]
    pub fn fingerprint(self, message: impl AsRef<[u8]>) -> Self {
        TieredClaimOptions { fingerprint: Some(Fingerprint::of(message)), ..self }
    }

    /// Sets the time for which the store remembers the id once it is completed. Default: the
    /// policy's.
    ///
    /// For less than the window, memory does not remember it, and the store is asked each time. An
    /// exclusive engine's history is made for the policy's retention, so a longer one is an error
    /// there ([`ErrorKind::Misconfigured`](crate::ErrorKind::Misconfigured)). Zero and more than
    /// 100 years are errors everywhere.
    #[must_use]
    pub fn retention(self, retention: Duration) -> Self {
        TieredClaimOptions { retention: Some(retention), ..self }
    }

    /// Sets the name of the caller, the id of its trace say, for this claim; see
    /// [`TieredBuilder::held_by`](crate::TieredBuilder::held_by).
    #[must_use]
    pub fn held_by(self, name: HeldBy) -> Self {
        TieredClaimOptions { held_by: Some(name), ..self }
    }

    /// Requests the result of an id that is done: then the store is asked even if memory knows that
    /// it is done.
    #[must_use]
    pub fn wants_result(self) -> Self {
        TieredClaimOptions { wants_result: true, ..self }
    }
}

/// An id that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Done {
    /// The verdict, with its source.
    pub verdict: Verdict,
    /// The result that was stored with the completion, if there was one and the store was asked:
    /// memory does not know results. A claim that [wants it](TieredClaimOptions::wants_result) asks
    /// the store.
    pub result: Option<Vec<u8>>,
    /// The time for which the store still has it, if the store was asked.
    pub expires_in: Option<Duration>,
}
