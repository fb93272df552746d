//! The contract between the engine and the store that keeps its records.

use super::error::StoreError;
use super::key::RecordKey;
use super::request::*;

/// The largest number of nodes of a store that an engine tells apart; see [`Store::node_of`].
pub const MAX_NODES: u32 = 1_024;

/// A durable, authoritative memory of ids: the trait that a backend implements.
///
/// ```
/// use hapax_store::{ClaimRequest, Claimed, Completion, HeldBy, Hold, InMemoryStore, RecordKey, Scope, Store};
/// use std::time::Duration;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let store = InMemoryStore::new();
/// let key = RecordKey::new(&Scope::new("orders")?, "order-17");
/// let (lease, retention) = (Duration::from_secs(30), Duration::from_secs(3600));
/// let (held_by, doubt) = (Some(HeldBy::of("worker-7")), retention);
/// let claim = ClaimRequest { key: key.clone(), attempt: 4711, lease, fingerprint: None, held_by, doubt };
/// let Claimed::Claimed { token, .. } = store.claim(&[claim.clone()]).await?.remove(0)? else { panic!("nobody else has it") };
/// let done = Completion { hold: Hold { key, token }, retention, result: Some(b"paid".into()) };
/// store.complete(&[done]).await?.remove(0)?;
///
/// let Claimed::Duplicate(completed) = store.claim(&[claim]).await?.remove(0)? else { panic!("it is done") };
/// assert_eq!(completed.result.as_deref(), Some(b"paid".as_slice()));
/// # Ok::<(), hapax_store::StoreError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # The records
///
/// There is at most one record of a [`RecordKey`]. It is *in progress* (an attempt, a token, a
/// lease), *failed* (in progress for everybody, until a time), or *completed* (until a time;
/// perhaps with a fingerprint and a result). A lease that has expired, a failure that is over, and
/// a completion whose retention is over count as no record, whether or not something is still
/// stored; but see *Doubt*.
///
/// | request | in progress, its attempt or token | in progress, another's | failed | completed |
/// |---|---|---|---|---|
/// | mark | in progress | in progress | in progress | duplicate; fresh for its own attempt |
/// | claim | the same token, a whole lease | in progress | in progress | duplicate |
/// | complete | completed | lost | lost | done for the same token, nothing changes |
/// | release | no record | lost | lost | lost |
/// | fail | failed | lost | lost | lost |
/// | renew | a lease from now on | lost | lost | lost |
/// | record | completed | completed | completed | another record |
/// | forget | no record | no record | no record | no record |
///
/// Without a record, a mark and a claim get the id, a record completes it, a forget finds nothing,
/// and everything else is lost. Where fingerprints differ, a claim gets [`Claimed::Mismatch`]
/// instead, in each state.
///
/// # What a backend promises
///
/// 1. *Batches.* There is one answer for each request, in order, as if the requests had been made
///    one after the other: of two marks of one id in one batch, the first is fresh and the second a
///    duplicate. `Err` for a request concerns it alone; `Err` for the batch means that each of its
///    requests may or may not have been done. An empty batch has an empty answer, and causes no
///    request.
/// 2. *Atomicity.* Of any number of marks and claims of one id, in any number of processes, one
///    gets it.
/// 3. *Durability.* Once a call has answered, its changes are as durable as the backend was
///    configured to make them, which its documentation states.
/// 4. *Tokens* grow: a claim of an id gets a larger token than every earlier claim of it, and none
///    is given twice. That holds however the earlier claim ended (completed, released, failed,
///    expired, recorded over, forgotten), whether or not [`expire`](Store::expire) has removed what
///    was left, while a clock stands, and for a durable store after a restart. By convention a
///    token is the time in microseconds since 1970, or one more than the largest token that the
///    store has given, whichever is larger. A server's clock does not stand, so its time alone is
///    enough, as long as it is not set back; a backend that relies on that says so.
/// 5. *Fencing.* A caller that does not hold an unexpired lease under its token changes nothing,
///    and gets [`Held::Lost`]: also if nobody else has taken the id since. An expired claim is not
///    revived by a renewal, nor is one that has failed. A completion that is repeated with its
///    token gets [`Held::Done`] again as long as it is retained, and changes nothing: the first
///    result and the first retention stay.
/// 6. *Attempts.* A mark or claim that is repeated with the same attempt number gets the answer
///    that it had: a caller that got no answer in time may therefore ask again. A repeated claim
///    has a whole lease again; nothing else about it changes, and its fingerprint is the first
///    one's. Other callers that find a mark are told the attempt that made it, and only its own
///    attempt can [take a mark back](Store::unmark). A backend that cannot do that says so at the
///    beginning of its documentation.
/// 7. *Ids* are any bytes. Different ids and scopes have different records, whatever bytes they
///    contain. *Results* are any bytes, too, of a mebibyte at least, unless the backend's
///    documentation says how large.
/// 8. *Time* is the server's, where there is one, and otherwise that of a clock that the backend is
///    given; its documentation says which. A record of duration `d` made at `t` holds at each time
///    before `t + d`, and is over at `t + d`: nothing is forgotten before its time. It may be
///    remembered longer by less than the unit in which the backend counts, a second at most.
/// 9. *Doubt.* For [`doubt`](ClaimRequest::doubt) after the end of its lease, a claim that was
///    neither completed nor released, nor has failed, is in doubt: its work may have been done. The
///    claim that takes the id over is told ([`Before`](crate::Before)), and so is each further one,
///    with the first that is in doubt, until one is completed, or the id is marked, recorded or
///    forgotten: a release or a failure of a later claim ends no doubt. A claim that is refused is
///    told who has the id. A backend that cannot do that says so at the beginning of its
///    documentation.
/// 10. *Clean-up* is bounded work, each time that [`expire`](Store::expire) is called. Only the use
///     of memory or disk depends on it.
/// 11. *Cancellation.* A future that is dropped leaves the store as if each of its requests had
///     been done or not.
///
/// The suite in `hapax_testing::store` checks all of that; run it on a new backend.
///
/// # Cost
///
/// One round trip a call, for up to [`limits`](Store::limits) requests: the engine puts batches
/// together and never sends larger ones.
///
/// Ideas: the idempotency table of the transactional inbox; leases, Gray and Cheriton, SOSP 1989;
/// fencing tokens, Burrows, OSDI 2006.
pub trait Store: Send + Sync + 'static {
    /// Returns the backend's name, for errors and metrics.
    fn backend(&self) -> &'static str;

    /// Returns the batch size and the number of batches under way that suit the store best.
    fn limits(&self) -> Limits {
        Limits { batch: 1_024, under_way: 2 }
    }

    /// Returns true if no other process can have this store open at the same time.
    fn is_private(&self) -> bool {
        false
    }

    /// Returns true if every call finishes when it is polled for the first time, because it never
    /// waits. Then each caller makes its calls itself, and nothing is gathered into batches. (A
    /// caller that is dropped while such a call is under way all the same may leave a claim behind,
    /// until its lease expires.)
    fn answers_at_once(&self) -> bool {
        false
    }

    /// Returns the number of the node that answers for a key, for a store whose nodes answer
    /// independently: one may hang while the others work. By default all keys are on one node.
    ///
    /// ```
    /// use hapax_store::{InMemoryStore, RecordKey, Scope, Store};
    ///
    /// let key = RecordKey::new(&Scope::default(), "order-17");
    /// assert_eq!(InMemoryStore::new().node_of(&key), 0);
    /// ```
    ///
    /// The engine never mixes keys of two nodes in one call, and has a queue, time-outs and a
    /// circuit breaker for each node: a node that hangs delays and fails its own keys only. A node
    /// keeps its number as long as it exists. The set of its keys may change at any time, and a
    /// call that was sent to the previous node must still be answered. Numbers should be small and
    /// be used again: the engine tells [`MAX_NODES`] nodes apart, and nodes whose numbers differ by
    /// a multiple of that share one queue, time-outs and circuit breaker.
    ///
    /// The engine calls it at least once for every request: it should take nanoseconds, and not
    /// wait.
    fn node_of(&self, _key: &RecordKey) -> u32 {
        0
    }

    /// Marks ids as completed, unless they are completed or in progress.
    fn mark(&self, marks: &[Mark]) -> impl Future<Output = Answers<Marked>> + Send;

    /// Takes back the marks of these attempts, and nothing else: neither marks of others, nor ids
    /// that are claimed, completed or recorded.
    fn unmark(&self, marks: &[Unmark]) -> impl Future<Output = Answers<Unmarked>> + Send;

    /// Claims ids, unless they are completed or in progress.
    fn claim(&self, claims: &[ClaimRequest]) -> impl Future<Output = Answers<Claimed>> + Send;

    /// Completes claims. Their fingerprints are kept. A claim that is completed already, under the
    /// same token, stays as it is: [`Held::Done`].
    fn complete(&self, completions: &[Completion]) -> impl Future<Output = Answers<Held>> + Send;

    /// Ends claims and removes their records.
    fn release(&self, holds: &[Hold]) -> impl Future<Output = Answers<Held>> + Send;

    /// Ends claims: their ids are in progress for a while, for the claims' holders as well. Their
    /// fingerprints are kept meanwhile. A failure for no time is a release.
    fn fail(&self, failures: &[ClaimFailure]) -> impl Future<Output = Answers<Held>> + Send;

    /// Gives claims another lease, from now on, which may end earlier than the one before. A claim
    /// that has expired, failed or ended is [`Held::Lost`], and stays so.
    fn renew(&self, renewals: &[Renewal]) -> impl Future<Output = Answers<Held>> + Send;

    /// Returns what is known of ids. Changes nothing.
    fn look_up(&self, keys: &[RecordKey]) -> impl Future<Output = Answers<Known>> + Send;

    /// Makes ids completed, whatever they were: for callers that know that the ids are new, or do
    /// not care. Nothing of an earlier record stays: a record without a result or a fingerprint has
    /// none, the retention is the new one, also if it is shorter, a claim is lost, and a mark
    /// cannot be taken back.
    fn record(&self, records: &[Record]) -> impl Future<Output = Answers<()>> + Send;

    /// Forgets ids, also those in progress. Returns true for each id that had anything to forget,
    /// which what has expired is not, unless it is in doubt.
    fn forget(&self, keys: &[RecordKey]) -> impl Future<Output = Answers<bool>> + Send;

    /// Removes expired records: about `limit` of them, or one unit of removal of the backend.
    fn expire(&self, limit: usize) -> impl Future<Output = Result<Expired, StoreError>> + Send;

    /// Returns completed ids, about `limit` at a time, in no particular order, from the beginning
    /// or from the end of an earlier page. A caller that follows the cursor to its end has seen, at
    /// least once, each id that was completed before the scan and had not expired after it.
    fn scan(&self, from: Option<&Cursor>, limit: usize) -> impl Future<Output = Result<Page, StoreError>> + Send;
}
