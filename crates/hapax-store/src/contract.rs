//! The contract between the engine and whatever keeps its records.

use super::error::StoreError;
use super::key::RecordKey;
use super::request::*;
use std::sync::Arc;

/// The most nodes of a store that an engine tells apart; see [`Store::node_of`].
pub const MAX_NODES: u32 = 1_024;

/// A durable, authoritative memory of ids: what a backend implements.
///
/// ```
/// use hapax_store::{ClaimRequest, Claimed, Completion, Hold, InMemoryStore, RecordKey, Scope, Store};
/// use std::time::Duration;
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let store = InMemoryStore::new();
/// let key = RecordKey::new(&Scope::new("orders")?, "order-17");
/// let claim = ClaimRequest { key: key.clone(), attempt: 4711, lease: Duration::from_secs(30), fingerprint: None };
/// let Claimed::Claimed { token } = store.claim(&[claim.clone()]).await?.remove(0)? else { panic!("nobody else has it") };
/// let done = Completion { hold: Hold { key, token }, retention: Duration::from_secs(3600), result: Some(b"paid".into()) };
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
/// There is at most one record of a [`RecordKey`]. It is *in progress* (an attempt, a token, a lease), *failed* (in progress for everybody,
/// until a time), or *completed* (until a time; perhaps with a fingerprint and a result). A lease that has expired, a failure that is over,
/// and a completion whose retention is over count as no record, whether or not something is still kept.
///
/// # What a backend promises
///
/// 1. *Batches.* There is one answer for each request, in order, as if they had been made one after the other: of two marks of one id in
///    one batch, the first is fresh and the second a duplicate. `Err` for a request concerns it alone; `Err` for the batch says that each of its
///    requests may or may not have been done. An empty batch has an empty answer, and asks nobody.
/// 2. *Atomicity.* Of any number of marks and claims of one id, in any number of processes, one gets it.
/// 3. *Durability.* Once a call has answered, what it did is as durable as the backend was told to make it, which its documentation says.
/// 4. *Tokens* grow: a later claim of an id gets a larger one. By convention a token is the time in microseconds since 1970, or one more than
///    the token before, whichever is larger, so that it also grows when nothing is left of earlier claims.
/// 5. *Fencing.* Whoever does not hold an unexpired lease under its token changes nothing, and is told [`Held::Lost`]. A completion that
///    is asked for again with its token is [`Held::Done`] again.
/// 6. *Attempts.* A mark or claim that is asked for again with the same attempt number gets the
///    answer that it had: whoever got none in time may therefore ask again. (A claim then has a
///    whole lease again.) Others who meet a mark are told which attempt has made it, and a mark is
///    [taken back](Store::unmark) by its attempt only. A backend that cannot do that says so at the
///    beginning of its documentation.
/// 7. *Ids* are any bytes, and different ids and scopes have different records, whatever is in them.
/// 8. *Time* is the server's, where there is one, and otherwise a clock's that the backend is given; its documentation says which. Nothing is
///    forgotten before its time. It may be remembered longer by the unit in which the backend counts, a second at most.
/// 9. *Clean-up* is bounded work, whenever [`expire`](Store::expire) is called, and nothing but the memory or disk that is used depends on it.
/// 10. *Cancellation.* A future that is dropped leaves the store as if each of its requests had been done or not.
///
/// The suite `hapax_testing::store` (feature `testing`) checks all that; run it on a new backend.
///
/// # Cost
///
/// One round trip a call, for up to [`limits`](Store::limits) requests: the engine puts batches together and never sends larger ones.
///
/// Ideas: the idempotency table of the transactional inbox; leases, Gray and Cheriton, SOSP 1989; fencing tokens, Burrows, OSDI 2006.
pub trait Store: Send + Sync + 'static {
    /// The backend's name, for errors and metrics.
    fn backend(&self) -> &'static str;

    /// How it is served best.
    fn limits(&self) -> Limits {
        Limits { batch: 1_024, under_way: 2 }
    }

    /// Whether no other process can have this store open at the same time.
    fn is_private(&self) -> bool {
        false
    }

    /// Whether every call is over when it is polled for the first time, since nothing is waited for. Then it is called by each caller itself, and nothing
    /// is gathered into batches. (A caller that is dropped while such a call is under way all the same may leave a claim behind, for its lease.)
    fn answers_at_once(&self) -> bool {
        false
    }

    /// Returns the number of the node that answers for a key, for a store whose nodes answer apart:
    /// one may hang while the others work. All are one node unless the store says otherwise.
    ///
    /// ```
    /// use hapax_store::{InMemoryStore, RecordKey, Scope, Store};
    ///
    /// let key = RecordKey::new(&Scope::default(), "order-17");
    /// assert_eq!(InMemoryStore::new().node_of(&key), 0);
    /// ```
    ///
    /// The engine never mixes keys of two nodes in one call, and has a queue, time-outs and a
    /// circuit breaker for each: a node that hangs delays and fails its own keys only. A node keeps
    /// its number as long as it is there; which keys are its own may change at any time, and a call
    /// that was sent to the node before must still be answered. Numbers should be small and not be
    /// used up: the engine tells [`MAX_NODES`] apart, and those whose numbers differ by a multiple
    /// of that share what each would have.
    ///
    /// It is asked once or more for every request: it should cost nanoseconds, and not wait.
    fn node_of(&self, _key: &RecordKey) -> u32 {
        0
    }

    /// Marks ids as completed, those that are not, nor in progress.
    fn mark(&self, marks: &[Mark]) -> impl Future<Output = Answers<Marked>> + Send;

    /// Takes back the marks of these attempts, and nothing else: neither what others have marked,
    /// nor what is claimed, completed or recorded.
    fn unmark(&self, marks: &[Unmark]) -> impl Future<Output = Answers<Unmarked>> + Send;

    /// Claims ids, those that are not completed, nor in progress.
    fn claim(&self, claims: &[ClaimRequest]) -> impl Future<Output = Answers<Claimed>> + Send;

    /// Completes claims. Their fingerprints are kept.
    fn complete(&self, completions: &[Completion]) -> impl Future<Output = Answers<Held>> + Send;

    /// Ends claims: nothing is kept of them.
    fn release(&self, holds: &[Hold]) -> impl Future<Output = Answers<Held>> + Send;

    /// Ends claims: their ids are in progress for a while.
    fn fail(&self, failures: &[Failure]) -> impl Future<Output = Answers<Held>> + Send;

    /// Extends claims.
    fn renew(&self, renewals: &[Renewal]) -> impl Future<Output = Answers<Held>> + Send;

    /// What is known of ids. Changes nothing.
    fn look_up(&self, keys: &[RecordKey]) -> impl Future<Output = Answers<Known>> + Send;

    /// Makes ids completed, whatever they were: for whoever knows that they are new, or does not care.
    fn record(&self, records: &[Record]) -> impl Future<Output = Answers<()>> + Send;

    /// Forgets ids, also those in progress. Says of each whether there was anything to forget.
    fn forget(&self, keys: &[RecordKey]) -> impl Future<Output = Answers<bool>> + Send;

    /// Removes what has expired: about `limit` records, or whatever unit the backend removes at a time.
    fn expire(&self, limit: usize) -> impl Future<Output = Result<Expired, StoreError>> + Send;

    /// Ids that are completed, about `limit` at a time, in no particular order, from the beginning or where an earlier page ended. Whoever
    /// follows the cursor to its end has seen each one at least once that was completed before, and is not expired after.
    fn scan(&self, from: Option<&Cursor>, limit: usize) -> impl Future<Output = Result<Page, StoreError>> + Send;
}

/// A store that is shared, say with whoever injects its faults.
impl<S: Store> Store for Arc<S> {
    fn backend(&self) -> &'static str {
        S::backend(self)
    }

    fn limits(&self) -> Limits {
        S::limits(self)
    }

    fn is_private(&self) -> bool {
        S::is_private(self)
    }

    fn answers_at_once(&self) -> bool {
        S::answers_at_once(self)
    }

    fn node_of(&self, key: &RecordKey) -> u32 {
        S::node_of(self, key)
    }

    fn mark(&self, marks: &[Mark]) -> impl Future<Output = Answers<Marked>> + Send {
        S::mark(self, marks)
    }

    fn unmark(&self, marks: &[Unmark]) -> impl Future<Output = Answers<Unmarked>> + Send {
        S::unmark(self, marks)
    }

    fn claim(&self, claims: &[ClaimRequest]) -> impl Future<Output = Answers<Claimed>> + Send {
        S::claim(self, claims)
    }

    fn complete(&self, completions: &[Completion]) -> impl Future<Output = Answers<Held>> + Send {
        S::complete(self, completions)
    }

    fn release(&self, holds: &[Hold]) -> impl Future<Output = Answers<Held>> + Send {
        S::release(self, holds)
    }

    fn fail(&self, failures: &[Failure]) -> impl Future<Output = Answers<Held>> + Send {
        S::fail(self, failures)
    }

    fn renew(&self, renewals: &[Renewal]) -> impl Future<Output = Answers<Held>> + Send {
        S::renew(self, renewals)
    }

    fn look_up(&self, keys: &[RecordKey]) -> impl Future<Output = Answers<Known>> + Send {
        S::look_up(self, keys)
    }

    fn record(&self, records: &[Record]) -> impl Future<Output = Answers<()>> + Send {
        S::record(self, records)
    }

    fn forget(&self, keys: &[RecordKey]) -> impl Future<Output = Answers<bool>> + Send {
        S::forget(self, keys)
    }

    fn expire(&self, limit: usize) -> impl Future<Output = Result<Expired, StoreError>> + Send {
        S::expire(self, limit)
    }

    fn scan(&self, from: Option<&Cursor>, limit: usize) -> impl Future<Output = Result<Page, StoreError>> + Send {
        S::scan(self, from, limit)
    }
}
