//! Answers of the store, and those that come of themselves when nobody asks it.

use super::operation::Operation;
use crate::tiered::one_or_many::OneOrMany;
use crate::{ErrorKind, Fingerprint, RecordKey, StoreError};
use hapax::seam::{Digest, Memory};
use std::time::Duration;
use tokio::sync::oneshot::error::RecvError;
use tokio::time::Instant;

pub(crate) type Answer<O> = Result<<O as Operation>::Answer, StoreError>;

/// Requests, and their answers.
pub(super) struct Answered<O: Operation> {
    pub(super) asked: OneOrMany<(O::Request, Answer<O>)>,
    pub(super) asked_at: Instant,
}

/// The answer for a follower, with the request that it answers.
pub(crate) struct SharedAnswer<O: Operation> {
    pub(super) answer: Answer<O>,
    /// Two ids may have one digest.
    pub(super) key: RecordKey,
    pub(super) fingerprint: Option<Fingerprint>,
}

impl<O: Operation> SharedAnswer<O> {
    /// Returns the answer for a follower, given what it was told. `None`: it must ask itself, since
    /// the answer was lost, or is that of another request.
    pub(super) fn told(told: Result<Option<Self>, RecvError>, request: &O::Request) -> Option<Answer<O>> {
        match told {
            Ok(Some(told)) if told.fingerprint == O::fingerprint(request) && told.key == *O::key(request) => {
                Some(told.answer.map(|answer| O::for_follower(answer, request)))
            }
            Ok(_) => None,
            Err(_) => Some(Err(ended())),
        }
    }
}

/// Returns true if the store's answer says that the id is done, for at least as long as this memory
/// remembers.
pub(super) fn is_done<O: Operation>(memory: &Memory, request: &O::Request, answer: &O::Answer, took: Duration) -> bool {
    O::completed(request, answer, took).is_some_and(|expires_in| memory.may_learn(expires_in))
}

/// Returns the ids that the store may have granted without an answer.
pub(super) fn unknown<O: Operation>(ids: &[Digest], answers: &[Answer<O>]) -> impl Iterator<Item = Digest> {
    let unknown = ids.iter().zip(answers).filter(|(_, answer)| O::GRANTS && answer.is_err());
    unknown.map(|(id, _)| *id)
}

pub(crate) fn ended() -> StoreError {
    let what = "the runtime that asks the store has ended, or the store has panicked";
    StoreError::new(ErrorKind::Unavailable, "hapax", what)
}

pub(super) fn closed() -> StoreError {
    StoreError::new(ErrorKind::Unavailable, "hapax", "the engine was shut down")
}
