//! What a store can be asked, each a batch of its own kind.

use super::lane::Lane;
use super::observe::Asked;
use crate::store::*;
use std::future::Future;
use std::time::Duration;

/// A kind of question.
pub(super) trait Operation: Sized + Send + Sync + 'static {
    type Request: Clone + Send + Sync + 'static;
    type Answer: Clone + Send + Sync + 'static;

    /// Which it is.
    const ASKED: Asked;
    /// Whether those who ask about one id at a time share one question.
    const SHARES: bool = false;

    /// Where these wait.
    fn lane(lanes: &Lanes) -> &Lane<Self>;

    /// What it weighs, besides its key.
    fn bytes(_request: &Self::Request) -> usize {
        0
    }

    fn call<S: Store>(store: &S, requests: &[Self::Request]) -> impl Future<Output = Answers<Self::Answer>> + Send;

    /// What somebody learns who asks the same of an id while this is under way. `None`: nothing, so that it must ask for itself.
    fn shared(_answer: &Self::Answer, _asked: &Self::Request, _also_asked: &Self::Request) -> Option<Self::Answer> {
        None
    }

    /// What an answer means to one that has asked before, and does not know what came of that.
    fn when_asked_again(answer: Self::Answer) -> Self::Answer {
        answer
    }

    /// How much longer an id is a duplicate, if this says so.
    fn completed(_request: &Self::Request, _answer: &Self::Answer) -> Option<Duration> {
        None
    }

    /// Gives back what was granted to somebody who is gone.
    fn undo<S: Store>(_store: &S, _request: &Self::Request, _answer: &Self::Answer) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Whether somebody who is gone must be cleaned up after.
    fn needs_undo(_answer: &Self::Answer) -> bool {
        false
    }

    /// The number of the attempt, where there is one.
    fn attempt(_request: &mut Self::Request) -> Option<&mut u64> {
        None
    }
}

/// One lane for each kind.
pub(super) struct Lanes {
    pub(super) marks: Lane<Marks>,
    pub(super) claims: Lane<Claims>,
    pub(super) completions: Lane<Completions>,
    pub(super) releases: Lane<Releases>,
    pub(super) failures: Lane<Failures>,
    pub(super) renewals: Lane<Renewals>,
    pub(super) looks: Lane<Looks>,
    pub(super) records: Lane<Records>,
    pub(super) forgets: Lane<Forgets>,
}

impl Lanes {
    /// How many requests wait or are under way.
    pub(super) fn len(&self) -> usize {
        self.marks.len()
            + self.claims.len()
            + self.completions.len()
            + self.releases.len()
            + self.failures.len()
            + self.renewals.len()
            + self.looks.len()
            + self.records.len()
            + self.forgets.len()
    }

    /// Lets nobody in any more.
    pub(super) fn close(&self) {
        self.marks.close();
        self.claims.close();
        self.completions.close();
        self.releases.close();
        self.failures.close();
        self.renewals.close();
        self.looks.close();
        self.records.close();
        self.forgets.close();
    }
}

pub(super) struct Marks;
pub(super) struct Claims;
pub(super) struct Completions;
pub(super) struct Releases;
pub(super) struct Failures;
pub(super) struct Renewals;
pub(super) struct Looks;
pub(super) struct Records;
pub(super) struct Forgets;

impl Operation for Marks {
    type Request = Mark;
    type Answer = Marked;
    const ASKED: Asked = Asked::Mark;
    const SHARES: bool = true;

    fn lane(lanes: &Lanes) -> &Lane<Self> {
        &lanes.marks
    }

    fn call<S: Store>(store: &S, marks: &[Mark]) -> impl Future<Output = Answers<Marked>> + Send {
        store.mark(marks)
    }

    fn shared(marked: &Marked, mark: &Mark, _: &Mark) -> Option<Marked> {
        Some(match marked {
            Marked::Fresh => Marked::Duplicate { expires_in: mark.retention },
            other => *other,
        })
    }

    fn completed(mark: &Mark, marked: &Marked) -> Option<Duration> {
        match marked {
            Marked::Fresh => Some(mark.retention),
            Marked::Duplicate { expires_in } => Some(*expires_in),
            Marked::InProgress { .. } => None,
        }
    }

    fn needs_undo(marked: &Marked) -> bool {
        *marked == Marked::Fresh
    }

    /// Nobody was told that the id is fresh, so nobody handles it: its next delivery must be.
    async fn undo<S: Store>(store: &S, mark: &Mark, _: &Marked) {
        // If this fails, the id is a duplicate that nobody has handled, as it is when a process dies after a check.
        let _ = store.forget(std::slice::from_ref(&mark.key)).await;
    }

    fn attempt(mark: &mut Mark) -> Option<&mut u64> {
        Some(&mut mark.attempt)
    }
}

impl Operation for Claims {
    type Request = ClaimRequest;
    type Answer = Claimed;
    const ASKED: Asked = Asked::Claim;
    const SHARES: bool = true;

    fn lane(lanes: &Lanes) -> &Lane<Self> {
        &lanes.claims
    }

    fn call<S: Store>(store: &S, claims: &[ClaimRequest]) -> impl Future<Output = Answers<Claimed>> + Send {
        store.claim(claims)
    }

    fn shared(claimed: &Claimed, asked: &ClaimRequest, also_asked: &ClaimRequest) -> Option<Claimed> {
        if asked.fingerprint != also_asked.fingerprint {
            return None;
        }
        Some(match claimed {
            Claimed::Claimed { .. } => Claimed::InProgress { lease_left: asked.lease },
            other => other.clone(),
        })
    }

    fn completed(_: &ClaimRequest, claimed: &Claimed) -> Option<Duration> {
        match claimed {
            Claimed::Duplicate(completed) => Some(completed.expires_in),
            _ => None,
        }
    }

    fn needs_undo(claimed: &Claimed) -> bool {
        matches!(claimed, Claimed::Claimed { .. })
    }

    async fn undo<S: Store>(store: &S, claim: &ClaimRequest, claimed: &Claimed) {
        if let Claimed::Claimed { token } = claimed {
            // If this fails, the lease expires.
            let _ = store.release(&[Hold { key: claim.key.clone(), token: *token }]).await;
        }
    }

    fn attempt(claim: &mut ClaimRequest) -> Option<&mut u64> {
        Some(&mut claim.attempt)
    }
}

impl Operation for Completions {
    type Request = Completion;
    type Answer = Held;
    const ASKED: Asked = Asked::Complete;

    fn lane(lanes: &Lanes) -> &Lane<Self> {
        &lanes.completions
    }

    fn bytes(completion: &Completion) -> usize {
        completion.result.as_ref().map_or(0, Vec::len)
    }

    fn call<S: Store>(store: &S, completions: &[Completion]) -> impl Future<Output = Answers<Held>> + Send {
        store.complete(completions)
    }

    fn completed(completion: &Completion, held: &Held) -> Option<Duration> {
        (*held == Held::Done).then_some(completion.retention)
    }
}

/// A release or failure that is asked for again finds nothing to end if it was done the first time.
fn ended(_: Held) -> Held {
    Held::Done
}

impl Operation for Releases {
    type Request = Hold;
    type Answer = Held;
    const ASKED: Asked = Asked::Release;

    fn lane(lanes: &Lanes) -> &Lane<Self> {
        &lanes.releases
    }

    fn call<S: Store>(store: &S, holds: &[Hold]) -> impl Future<Output = Answers<Held>> + Send {
        store.release(holds)
    }

    fn when_asked_again(held: Held) -> Held {
        ended(held)
    }
}

impl Operation for Failures {
    type Request = Failure;
    type Answer = Held;
    const ASKED: Asked = Asked::Fail;

    fn lane(lanes: &Lanes) -> &Lane<Self> {
        &lanes.failures
    }

    fn call<S: Store>(store: &S, failures: &[Failure]) -> impl Future<Output = Answers<Held>> + Send {
        store.fail(failures)
    }

    fn when_asked_again(held: Held) -> Held {
        ended(held)
    }
}

impl Operation for Renewals {
    type Request = Renewal;
    type Answer = Held;
    const ASKED: Asked = Asked::Renew;

    fn lane(lanes: &Lanes) -> &Lane<Self> {
        &lanes.renewals
    }

    fn call<S: Store>(store: &S, renewals: &[Renewal]) -> impl Future<Output = Answers<Held>> + Send {
        store.renew(renewals)
    }
}

impl Operation for Looks {
    type Request = RecordKey;
    type Answer = Known;
    const ASKED: Asked = Asked::LookUp;
    const SHARES: bool = true;

    fn lane(lanes: &Lanes) -> &Lane<Self> {
        &lanes.looks
    }

    fn call<S: Store>(store: &S, keys: &[RecordKey]) -> impl Future<Output = Answers<Known>> + Send {
        store.look_up(keys)
    }

    fn shared(known: &Known, _: &RecordKey, _: &RecordKey) -> Option<Known> {
        Some(known.clone())
    }

    fn completed(_: &RecordKey, known: &Known) -> Option<Duration> {
        match known {
            Known::Completed(completed) => Some(completed.expires_in),
            _ => None,
        }
    }
}

impl Operation for Records {
    type Request = Record;
    type Answer = ();
    const ASKED: Asked = Asked::Record;

    fn lane(lanes: &Lanes) -> &Lane<Self> {
        &lanes.records
    }

    fn bytes(record: &Record) -> usize {
        record.result.as_ref().map_or(0, Vec::len)
    }

    fn call<S: Store>(store: &S, records: &[Record]) -> impl Future<Output = Answers<()>> + Send {
        store.record(records)
    }

    fn completed(record: &Record, (): &()) -> Option<Duration> {
        Some(record.retention)
    }
}

impl Operation for Forgets {
    type Request = RecordKey;
    type Answer = bool;
    const ASKED: Asked = Asked::Forget;

    fn lane(lanes: &Lanes) -> &Lane<Self> {
        &lanes.forgets
    }

    fn call<S: Store>(store: &S, keys: &[RecordKey]) -> impl Future<Output = Answers<bool>> + Send {
        store.forget(keys)
    }
}
