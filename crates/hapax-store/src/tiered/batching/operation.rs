//! A kind of request to a store, with what is special about it.

use crate::dyn_store::{Answering, Erased};
use crate::tiered::lost_answers::LostMarks;
use crate::tiered::observe::RequestKind;
use crate::{Answers, Fingerprint, RecordKey};
use std::time::Duration;

/// The number of an attempt that has none yet. It gets one when it is sent: a follower, or a
/// request that gets no permit, needs none.
pub(crate) const UNNUMBERED: u64 = 0;

/// A kind of request.
pub(crate) trait Operation: Sized + Send + Sync + 'static {
    type Request: Clone + Send + Sync + 'static;
    type Answer: Clone + Send + Sync + 'static;

    /// The kind.
    const KIND: RequestKind;
    /// True if it may grant an id to its caller, under the number of an attempt.
    const GRANTS: bool = false;

    /// Returns the size of a request, besides its key.
    fn bytes(_request: &Self::Request) -> usize {
        0
    }

    fn call<'a>(store: &'a dyn Erased, requests: &'a [Self::Request]) -> Answering<'a, Answers<Self::Answer>>;

    /// Returns the key of the id that it concerns.
    fn key(request: &Self::Request) -> &RecordKey;

    /// Returns the content of the message: two requests for an id are the same if that is equal.
    fn fingerprint(_request: &Self::Request) -> Option<Fingerprint> {
        None
    }

    /// Returns the answer for a follower, which has asked the same while the request was under way.
    fn for_follower(answer: Self::Answer, _also_asked: &Self::Request) -> Self::Answer {
        answer
    }

    /// Returns the answer for an attempt that is repeated because its outcome was unknown.
    fn when_asked_again(answer: Self::Answer) -> Self::Answer {
        answer
    }

    /// Returns the time for which an id is still a duplicate, if this answer says so, and came
    /// after `took`.
    fn completed(_request: &Self::Request, _answer: &Self::Answer, _took: Duration) -> Option<Duration> {
        None
    }

    /// Returns the answer as this engine understands it, which may know more than the store.
    fn judged(_lost: &LostMarks, _request: &Self::Request, answer: Self::Answer) -> Self::Answer {
        answer
    }

    /// Returns the time for which the id is still in progress, if this answer says so.
    fn in_progress(_answer: &Self::Answer) -> Option<Duration> {
        None
    }

    /// Returns the attempt of a mark that this engine meets, if the mark is its own and in doubt.
    fn met(_lost: &LostMarks, _answer: &Self::Answer) -> Option<u64> {
        None
    }

    /// Returns true if an attempt may use this number, whose outcome is unknown.
    fn goes_by(_lost: &LostMarks, _number: u64) -> bool {
        true
    }

    /// Notes a request with an unknown outcome. `undone`: the store may have been asked to give it
    /// back.
    fn lost(_lost: &LostMarks, _request: &Self::Request, _undone: bool) {}

    /// Gives back grants to callers that are gone, in one call. Returns true for each that was
    /// given back.
    fn undo(_store: &dyn Erased, _granted: &[(Self::Request, Self::Answer)]) -> impl Future<Output = Vec<bool>> + Send {
        async { Vec::new() }
    }

    /// Returns true if the id is the caller's, and nobody else's: if the caller is gone, it must be
    /// given back.
    fn is_granted(_answer: &Self::Answer) -> bool {
        false
    }

    /// Returns the number of the attempt, where there is one.
    fn attempt(_request: &mut Self::Request) -> Option<&mut u64> {
        None
    }
}
