//! The request for a claim, and those of its holder.

use super::operation::Operation;
use crate::dyn_store::{Answering, Erased};
use crate::tiered::lost_answers::LostMarks;
use crate::tiered::observe::RequestKind;
use crate::*;
use std::time::Duration;

pub(crate) struct Claims;
pub(crate) struct Completions;
pub(crate) struct Releases;
pub(crate) struct Failures;
pub(crate) struct Renewals;

impl Operation for Claims {
    type Request = ClaimRequest;
    type Answer = Claimed;
    const KIND: RequestKind = RequestKind::Claim;
    const GRANTS: bool = true;

    fn key(claim: &ClaimRequest) -> &RecordKey {
        &claim.key
    }

    type Sameness = Option<Fingerprint>;
    fn sameness(claim: &ClaimRequest) -> Option<Fingerprint> {
        claim.fingerprint
    }

    fn call<'a>(store: &'a dyn Erased, claims: &'a [ClaimRequest]) -> Answering<'a, Answers<Claimed>> {
        store.claim(claims)
    }

    fn for_follower(claimed: Claimed, claim: &ClaimRequest) -> Claimed {
        match claimed {
            // Its lease is young, and in all likelihood as long.
            Claimed::Claimed { .. } => Claimed::InProgress { lease_left: claim.lease },
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
            Claimed::InProgress { lease_left } => Some(*lease_left),
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
            Claimed::Claimed { token } => Some(Hold { key: claim.key.clone(), token: *token }),
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
    type Request = Completion;
    type Answer = Held;
    const KIND: RequestKind = RequestKind::Complete;

    fn bytes(completion: &Completion) -> usize {
        completion.result.as_ref().map_or(0, Vec::len)
    }

    fn key(completion: &Completion) -> &RecordKey {
        &completion.hold.key
    }

    type Sameness = ();
    fn sameness(_: &Completion) {}

    fn call<'a>(store: &'a dyn Erased, completions: &'a [Completion]) -> Answering<'a, Answers<Held>> {
        store.complete(completions)
    }

    fn completed(completion: &Completion, held: &Held, _: Duration) -> Option<Duration> {
        (*held == Held::Done).then_some(completion.retention)
    }
}

/// Returns `Done` for every answer: a release or failure that is repeated finds nothing to end if
/// it was done the first time.
fn ended(_: Held) -> Held {
    Held::Done
}

impl Operation for Releases {
    type Request = Hold;
    type Answer = Held;
    const KIND: RequestKind = RequestKind::Release;

    fn key(hold: &Hold) -> &RecordKey {
        &hold.key
    }

    type Sameness = ();
    fn sameness(_: &Hold) {}

    fn call<'a>(store: &'a dyn Erased, holds: &'a [Hold]) -> Answering<'a, Answers<Held>> {
        store.release(holds)
    }

    fn when_asked_again(held: Held) -> Held {
        ended(held)
    }
}

impl Operation for Failures {
    type Request = ClaimFailure;
    type Answer = Held;
    const KIND: RequestKind = RequestKind::Fail;

    fn key(failure: &ClaimFailure) -> &RecordKey {
        &failure.hold.key
    }

    type Sameness = ();
    fn sameness(_: &ClaimFailure) {}

    fn call<'a>(store: &'a dyn Erased, failures: &'a [ClaimFailure]) -> Answering<'a, Answers<Held>> {
        store.fail(failures)
    }

    fn when_asked_again(held: Held) -> Held {
        ended(held)
    }
}

impl Operation for Renewals {
    type Request = Renewal;
    type Answer = Held;
    const KIND: RequestKind = RequestKind::Renew;

    fn key(renewal: &Renewal) -> &RecordKey {
        &renewal.hold.key
    }

    type Sameness = ();
    fn sameness(_: &Renewal) {}

    fn call<'a>(store: &'a dyn Erased, renewals: &'a [Renewal]) -> Answering<'a, Answers<Held>> {
        store.renew(renewals)
    }
}
