//! The requests to a store, each in batches of its own kind.

use super::driver::Told;
use super::flights::Flights;
use super::inner::Inner;
use super::lane::Lane;
use super::nodes::NodeOptions;
use super::observe::Asked;
use crate::erased::{Answering, Erased};
use crate::*;
use std::future::Future;
use std::time::Duration;

/// The number of an attempt that has none yet. It gets one when it is sent: a follower, or a
/// request that finds no room, needs none.
pub(super) const UNNUMBERED: u64 = 0;

/// A kind of request.
pub(super) trait Operation: Sized + Send + Sync + 'static {
    type Request: Clone + Send + Sync + 'static;
    type Answer: Clone + Send + Sync + 'static;

    /// The kind.
    const ASKED: Asked;
    /// True if it may grant an id to its caller, under the number of an attempt.
    const GRANTS: bool = false;

    /// Returns the lane in which these requests wait.
    fn lane(lanes: &Lanes) -> &Lane<Self>;

    /// Returns the flights of concurrent requests for one id, if they are a single flight.
    fn flights(_shared: &Shared) -> Option<&Flights<Told<Self>>> {
        None
    }

    /// Returns the size of a request, besides its key.
    fn bytes(_request: &Self::Request) -> usize {
        0
    }

    fn call<'a>(store: &'a dyn Erased, requests: &'a [Self::Request]) -> Answering<'a, Answers<Self::Answer>>;

    /// Returns the key of the id that it concerns.
    fn key(request: &Self::Request) -> &RecordKey;

    /// The value that must be equal so that two requests for an id are the same.
    type Sameness: Copy + PartialEq + Send + Sync + 'static;
    fn sameness(request: &Self::Request) -> Self::Sameness;

    /// Returns the answer for a follower, which has asked the same while the request was under way.
    fn shared(answer: Self::Answer, _also_asked: &Self::Request) -> Self::Answer {
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
    fn judged(_inner: &Inner, _request: &Self::Request, answer: Self::Answer) -> Self::Answer {
        answer
    }

    /// Returns the time for which the id is still in progress, if this answer says so.
    fn in_progress(_answer: &Self::Answer) -> Option<Duration> {
        None
    }

    /// Returns the attempt of a mark that this engine meets, if the mark is its own and in doubt.
    fn met(_inner: &Inner, _answer: &Self::Answer) -> Option<u64> {
        None
    }

    /// Returns true if an attempt may use this number, whose outcome is unknown.
    fn goes_by(_inner: &Inner, _number: u64) -> bool {
        true
    }

    /// Notes a request with an unknown outcome. `undone`: the store may have been asked to give it
    /// back.
    fn lost(_inner: &Inner, _request: &Self::Request, _undone: bool) {}

    /// Gives back grants to callers that are gone, in one call. Returns true for each that was
    /// given back.
    fn undo(_inner: &Inner, _granted: &[(Self::Request, Self::Answer)]) -> impl Future<Output = Vec<bool>> + Send {
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

/// The ids that are being requested, for all nodes.
#[derive(Default)]
pub(super) struct Shared {
    marks: Flights<Told<Marks>>,
    claims: Flights<Told<Claims>>,
    looks: Flights<Told<Looks>>,
}

/// One lane for each kind.
pub(super) struct Lanes {
    pub(super) marks: Lane<Marks>,
    pub(super) unmarks: Lane<Unmarks>,
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
    pub(super) fn new(options: &NodeOptions) -> Self {
        Lanes {
            marks: Lane::new(options),
            unmarks: Lane::new(options),
            claims: Lane::new(options),
            completions: Lane::new(options),
            releases: Lane::new(options),
            failures: Lane::new(options),
            renewals: Lane::new(options),
            looks: Lane::new(options),
            records: Lane::new(options),
            forgets: Lane::new(options),
        }
    }

    /// Returns the number of callers' requests that wait or are under way.
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

    /// Closes all lanes: no further request is let in.
    pub(super) fn close(&self) {
        self.marks.close();
        self.unmarks.close();
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
pub(super) struct Unmarks;
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
    const GRANTS: bool = true;

    fn flights(shared: &Shared) -> Option<&Flights<Told<Self>>> {
        Some(&shared.marks)
    }

    fn lane(lanes: &Lanes) -> &Lane<Self> {
        &lanes.marks
    }

    fn key(mark: &Mark) -> &RecordKey {
        &mark.key
    }

    type Sameness = ();
    fn sameness(_: &Mark) {}

    fn call<'a>(store: &'a dyn Erased, marks: &'a [Mark]) -> Answering<'a, Answers<Marked>> {
        store.mark(marks)
    }

    fn shared(marked: Marked, mark: &Mark) -> Marked {
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
    /// next delivery must be.
    async fn undo(inner: &Inner, granted: &[(Mark, Marked)]) -> Vec<bool> {
        // If this fails, it is tried again in the background; until then the id is in doubt.
        inner.unmark(granted.iter().map(|(mark, _)| mark)).await
    }

    fn in_progress(marked: &Marked) -> Option<Duration> {
        match marked {
            Marked::InProgress { lease_left } => Some(*lease_left),
            _ => None,
        }
    }

    fn judged(inner: &Inner, mark: &Mark, marked: Marked) -> Marked {
        inner.doubted(mark, marked)
    }

    fn met(inner: &Inner, marked: &Marked) -> Option<u64> {
        inner.met(marked)
    }

    fn goes_by(inner: &Inner, number: u64) -> bool {
        inner.doubts().reclaim(number)
    }

    fn lost(inner: &Inner, mark: &Mark, undone: bool) {
        inner.lost(mark, undone);
    }

    fn attempt(mark: &mut Mark) -> Option<&mut u64> {
        Some(&mut mark.attempt)
    }
}

impl Operation for Unmarks {
    type Request = Unmark;
    type Answer = Unmarked;
    const ASKED: Asked = Asked::Unmark;

    fn lane(lanes: &Lanes) -> &Lane<Self> {
        &lanes.unmarks
    }

    fn key(mark: &Unmark) -> &RecordKey {
        &mark.key
    }

    type Sameness = ();
    fn sameness(_: &Unmark) {}

    fn call<'a>(store: &'a dyn Erased, marks: &'a [Unmark]) -> Answering<'a, Answers<Unmarked>> {
        store.unmark(marks)
    }
}

impl Operation for Claims {
    type Request = ClaimRequest;
    type Answer = Claimed;
    const ASKED: Asked = Asked::Claim;
    const GRANTS: bool = true;

    fn flights(shared: &Shared) -> Option<&Flights<Told<Self>>> {
        Some(&shared.claims)
    }

    fn lane(lanes: &Lanes) -> &Lane<Self> {
        &lanes.claims
    }

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

    fn shared(claimed: Claimed, claim: &ClaimRequest) -> Claimed {
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
    fn goes_by(inner: &Inner, number: u64) -> bool {
        !inner.doubts().contains(number)
    }

    fn is_granted(claimed: &Claimed) -> bool {
        matches!(claimed, Claimed::Claimed { .. })
    }

    async fn undo(inner: &Inner, granted: &[(ClaimRequest, Claimed)]) -> Vec<bool> {
        let hold = |(claim, claimed): &(ClaimRequest, Claimed)| match claimed {
            Claimed::Claimed { token } => Some(Hold { key: claim.key.clone(), token: *token }),
            _ => None,
        };
        // If this fails, the lease expires.
        let released = inner.store.release(&granted.iter().filter_map(hold).collect::<Vec<_>>()).await;
        released.map_or_else(|_| Vec::new(), |released| released.iter().map(Result::is_ok).collect())
    }

    fn attempt(claim: &mut ClaimRequest) -> Option<&mut u64> {
        Some(&mut claim.attempt)
    }
}

impl Operation for Looks {
    type Request = RecordKey;
    type Answer = Known;
    const ASKED: Asked = Asked::LookUp;

    fn flights(shared: &Shared) -> Option<&Flights<Told<Self>>> {
        Some(&shared.looks)
    }

    fn lane(lanes: &Lanes) -> &Lane<Self> {
        &lanes.looks
    }

    fn key(key: &RecordKey) -> &RecordKey {
        key
    }

    type Sameness = ();
    fn sameness(_: &RecordKey) {}

    fn call<'a>(store: &'a dyn Erased, keys: &'a [RecordKey]) -> Answering<'a, Answers<Known>> {
        store.look_up(keys)
    }

    fn completed(key: &RecordKey, known: &Known, took: Duration) -> Option<Duration> {
        match known {
            // Notes are no ids, and would only take the place of some.
            Known::Completed(completed) if !key.scope.is_reserved() => Some(completed.expires_in.saturating_sub(took)),
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

    fn key(record: &Record) -> &RecordKey {
        &record.key
    }

    type Sameness = ();
    fn sameness(_: &Record) {}

    fn call<'a>(store: &'a dyn Erased, records: &'a [Record]) -> Answering<'a, Answers<()>> {
        store.record(records)
    }

    /// Returns nothing: the caller that records teaches memory, since a claim that is held there
    /// must find the id new.
    fn completed(_: &Record, (): &(), _: Duration) -> Option<Duration> {
        None
    }
}

impl Operation for Forgets {
    type Request = RecordKey;
    type Answer = bool;
    const ASKED: Asked = Asked::Forget;

    fn lane(lanes: &Lanes) -> &Lane<Self> {
        &lanes.forgets
    }

    fn key(key: &RecordKey) -> &RecordKey {
        key
    }

    type Sameness = ();
    fn sameness(_: &RecordKey) {}

    fn call<'a>(store: &'a dyn Erased, keys: &'a [RecordKey]) -> Answering<'a, Answers<bool>> {
        store.forget(keys)
    }
}
