//! The kinds of requests that there are.

use super::operation::Operation;
use crate::dyn_store::{Answering, Erased};
use crate::tiered::lost_answers::LostMarks;
use crate::tiered::observe::RequestKind;
use crate::*;
use std::time::Duration;

pub(crate) struct Marks;
pub(crate) struct Unmarks;
pub(crate) struct LookUps;
pub(crate) struct Records;
pub(crate) struct Forgets;
pub(crate) struct Claims;
pub(crate) struct Completions;
pub(crate) struct Releases;
pub(crate) struct Failures;
pub(crate) struct Renewals;

/// Says what a kind of request asks the store, what it gets, and which id it concerns.
macro_rules! asks {
    ($kind:ident, $call:ident($request:ty) -> $answer:ty, $key:expr) => {
        type Request = $request;
        type Answer = $answer;
        const KIND: RequestKind = RequestKind::$kind;

        fn key(request: &$request) -> &RecordKey {
            let key: fn(&$request) -> &RecordKey = $key;
            key(request)
        }

        fn call<'a>(store: &'a dyn Erased, requests: &'a [$request]) -> Answering<'a, Answers<$answer>> {
            store.$call(requests)
        }
    };
}

impl Operation for Marks {
    asks!(Mark, mark(Mark) -> Marked, |mark| &mark.key);
    const GRANTS: bool = true;

    fn for_follower(marked: Marked, mark: &Mark) -> Marked {
        match marked {
            Marked::Fresh => Marked::Duplicate { expires_in: mark.retention, attempt: Some(mark.attempt) },
            other => other,
        }
    }

    fn completed(mark: &Mark, marked: &Marked, took: Duration) -> Option<Duration> {
        match marked {
            Marked::Fresh => Some(mark.retention),
            Marked::Duplicate { expires_in, .. } => Some(expires_in.saturating_sub(took)),
            Marked::InProgress { .. } => None,
        }
    }

    fn is_granted(marked: &Marked) -> bool {
        *marked == Marked::Fresh
    }

    /// Takes the marks back: no caller was told that the id is fresh, so it is not handled, and its
    /// next delivery must be. If this fails, it is tried again in the background; until then the id
    /// is in doubt.
    async fn undo(store: &dyn Erased, granted: &[(Mark, Marked)]) -> Vec<bool> {
        let unmark = |(mark, _): &(Mark, Marked)| Unmark { key: mark.key.clone(), attempt: mark.attempt };
        let Ok(answers) = store.unmark(&granted.iter().map(unmark).collect::<Vec<_>>()).await else {
            return Vec::new();
        };
        let is_unknown = |answer: &Result<Unmarked, StoreError>| matches!(answer, Ok(Unmarked::Unknown));
        let unknown = granted.iter().zip(&answers).filter(|(_, answer)| is_unknown(answer));
        let keys: Vec<RecordKey> = unknown.map(|((mark, _), _)| mark.key.clone()).collect();
        // The store cannot tell whose marks these are, but they were this engine's a moment ago.
        let forgotten = if keys.is_empty() { Vec::new() } else { store.forget(&keys).await.unwrap_or_default() };
        let mut forgotten = forgotten.into_iter();
        let is_gone = |answer| match answer {
            Ok(Unmarked::Done | Unmarked::NotThere) => true,
            Ok(Unmarked::Unknown) => forgotten.next().is_some_and(|forgotten| forgotten.is_ok()),
            Err(_) => false,
        };
        answers.into_iter().map(is_gone).collect()
    }

    fn in_progress(marked: &Marked) -> Option<Duration> {
        match marked {
            Marked::InProgress { lease_left } => Some(*lease_left),
            _ => None,
        }
    }

    fn judged(lost: &LostMarks, mark: &Mark, marked: Marked) -> Marked {
        lost.doubted(mark, marked)
    }

    fn met(lost: &LostMarks, marked: &Marked) -> Option<u64> {
        lost.met(marked)
    }

    fn goes_by(lost: &LostMarks, number: u64) -> bool {
        lost.lock().reclaim(number)
    }

    fn lost(lost: &LostMarks, mark: &Mark, undone: bool) {
        lost.insert(mark, undone);
    }

    fn attempt(mark: &mut Mark) -> Option<&mut u64> {
        Some(&mut mark.attempt)
    }
}

impl Operation for Unmarks {
    asks!(Unmark, unmark(Unmark) -> Unmarked, |mark| &mark.key);
}

impl Operation for LookUps {
    asks!(LookUp, look_up(RecordKey) -> Known, |key| key);

    fn completed(key: &RecordKey, known: &Known, took: Duration) -> Option<Duration> {
        match known {
            // Notes are no ids, and would only take the place of some.
            Known::Completed(completed) if !key.scope.is_reserved() => Some(completed.expires_in.saturating_sub(took)),
            _ => None,
        }
    }
}

impl Operation for Records {
    asks!(Record, record(Record) -> (), |record| &record.key);

    fn bytes(record: &Record) -> usize {
        record.result.as_ref().map_or(0, Vec::len)
    }

    // (The caller that records teaches memory, since a claim that is held there must find the id
    // new.)
}

impl Operation for Forgets {
    asks!(Forget, forget(RecordKey) -> bool, |key| key);
}

impl Operation for Claims {
    asks!(Claim, claim(ClaimRequest) -> Claimed, |claim| &claim.key);
    const GRANTS: bool = true;

    fn fingerprint(claim: &ClaimRequest) -> Option<Fingerprint> {
        claim.fingerprint
    }

    fn for_follower(claimed: Claimed, claim: &ClaimRequest) -> Claimed {
        match claimed {
            // Its lease is young, and in all likelihood as long. Its holder is in this process, and
            // may have another name than this claim.
            Claimed::Claimed { .. } => Claimed::InProgress { lease_left: claim.lease, held_by: None },
            other => other,
        }
    }

    fn completed(_: &ClaimRequest, claimed: &Claimed, took: Duration) -> Option<Duration> {
        match claimed {
            Claimed::Duplicate(completed) => Some(completed.expires_in.saturating_sub(took)),
            _ => None,
        }
    }

    fn in_progress(claimed: &Claimed) -> Option<Duration> {
        match claimed {
            Claimed::InProgress { lease_left, .. } => Some(*lease_left),
            _ => None,
        }
    }

    /// Returns true unless the number is that of a mark that is taken back.
    fn goes_by(lost: &LostMarks, number: u64) -> bool {
        !lost.lock().contains(number)
    }

    fn is_granted(claimed: &Claimed) -> bool {
        matches!(claimed, Claimed::Claimed { .. })
    }

    async fn undo(store: &dyn Erased, granted: &[(ClaimRequest, Claimed)]) -> Vec<bool> {
        let hold = |(claim, claimed): &(ClaimRequest, Claimed)| match claimed {
            Claimed::Claimed { token, .. } => Some(Hold { key: claim.key.clone(), token: *token }),
            _ => None,
        };
        // If this fails, the lease expires.
        let released = store.release(&granted.iter().filter_map(hold).collect::<Vec<_>>()).await;
        released.map_or_else(|_| Vec::new(), |released| released.iter().map(Result::is_ok).collect())
    }

    fn attempt(claim: &mut ClaimRequest) -> Option<&mut u64> {
        Some(&mut claim.attempt)
    }
}

impl Operation for Completions {
    asks!(Complete, complete(Completion) -> Held, |completion| &completion.hold.key);

    fn bytes(completion: &Completion) -> usize {
        completion.result.as_ref().map_or(0, Vec::len)
    }

    fn completed(completion: &Completion, held: &Held, _: Duration) -> Option<Duration> {
        (*held == Held::Done).then_some(completion.retention)
    }
}

impl Operation for Releases {
    asks!(Release, release(Hold) -> Held, |hold| &hold.key);

    /// Returns `Done`: what was done the first time is not there to end.
    fn when_asked_again(_: Held) -> Held {
        Held::Done
    }
}

impl Operation for Failures {
    asks!(Fail, fail(ClaimFailure) -> Held, |failure| &failure.hold.key);

    /// Returns `Done`: what was done the first time is not there to end.
    fn when_asked_again(_: Held) -> Held {
        Held::Done
    }
}

impl Operation for Renewals {
    asks!(Renew, renew(Renewal) -> Held, |renewal| &renewal.hold.key);
}
