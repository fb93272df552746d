//! The interface of a backend to the suite, and the equipment of each case.

use hapax_store::erased::{Answering, Erased};
use hapax_store::sync::{Mutex, Ordering, StdAtomicU64, lock};
use hapax_store::*;
use std::time::Duration;

/// A backend under test.
pub trait Fixture: Sync {
    /// The store.
    type Store: Store;

    /// Opens a handle to the same records, as another process would. (For a store that only one
    /// process can open: returns the same handle, in an `Arc`.)
    fn open(&self) -> impl Future<Output = Self::Store> + Send;

    /// Lets this much time pass for the store, without sleeping: by a manual clock, or by making
    /// all records older.
    fn advance(&self, by: Duration) -> impl Future<Output = ()> + Send;

    /// Returns true if the store removes single records when it is told to [expire](Store::expire)
    /// some, and counts them, so that the suite can see that it removes expired records, and never
    /// more than it was told to. A server that removes them by itself has nothing to show; a store
    /// of buckets has another unit. Default: false.
    fn expires_by_record(&self) -> bool {
        false
    }
}

/// A [`Fixture`] of any type.
pub(super) trait AnyFixture: Sync {
    fn open(&self) -> Answering<'_, Box<dyn Erased>>;
    fn advance(&self, by: Duration) -> Answering<'_, ()>;
    fn expires_by_record(&self) -> bool;
}

impl<F: Fixture> AnyFixture for F {
    fn open(&self) -> Answering<'_, Box<dyn Erased>> {
        Box::pin(async { Box::new(Fixture::open(self).await) as Box<dyn Erased> })
    }

    fn advance(&self, by: Duration) -> Answering<'_, ()> {
        Box::pin(Fixture::advance(self, by))
    }

    fn expires_by_record(&self) -> bool {
        Fixture::expires_by_record(self)
    }
}

pub(super) const LEASE: Duration = Duration::from_secs(30);
pub(super) const RETENTION: Duration = Duration::from_secs(3_600);
/// The tolerance for a store that counts coarsely, or for a slow test.
pub(super) const SLACK: Duration = Duration::from_secs(5);

/// The backend, and names that are used nowhere else.
pub(super) struct Bench<'f> {
    pub(super) fixture: &'f dyn AnyFixture,
    prefix: String,
    attempts: StdAtomicU64,
    case: Mutex<String>,
}

impl<'f> Bench<'f> {
    pub(super) fn new(fixture: &'f dyn AnyFixture) -> Self {
        let random = hapax::tier::random::any();
        Bench {
            fixture,
            prefix: format!("{:08x}", random >> 32),
            attempts: StdAtomicU64::new(random >> 2),
            case: Mutex::default(),
        }
    }

    /// Returns the running case.
    #[cfg(test)]
    pub(super) fn current(&self) -> String {
        lock(&self.case).clone()
    }

    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Returns a store, and a scope of the case's own.
    pub(super) async fn case(&self, name: &str) -> Case {
        println!("  {name}");
        *lock(&self.case) = name.to_owned();
        let scope = Scope::new(&format!("{} {name}", self.prefix)).expect("a valid name");
        Case {
            store: self.fixture.open().await,
            scope,
            first_attempt: self.attempts.fetch_add(1 << 24, Ordering::Relaxed),
        }
    }
}

/// A store, and short names for its requests.
pub(super) struct Case {
    pub(super) store: Box<dyn Erased>,
    pub(super) scope: Scope,
    first_attempt: u64,
}

impl Case {
    /// Returns the same case with another handle.
    pub(super) fn with(&self, store: Box<dyn Erased>) -> Self {
        Case { store, scope: self.scope.clone(), first_attempt: self.first_attempt }
    }

    pub(super) fn key(&self, id: impl AsRef<[u8]>) -> RecordKey {
        RecordKey::new(&self.scope, id)
    }

    pub(super) fn mark_of(&self, id: impl AsRef<[u8]>, attempt: u64) -> Mark {
        Mark { key: self.key(id), attempt: self.first_attempt + attempt, retention: RETENTION }
    }

    pub(super) fn claim_of(&self, id: impl AsRef<[u8]>, attempt: u64) -> ClaimRequest {
        ClaimRequest { key: self.key(id), attempt: self.first_attempt + attempt, lease: LEASE, fingerprint: None }
    }

    pub(super) fn hold(&self, id: impl AsRef<[u8]>, token: u64) -> Hold {
        Hold { key: self.key(id), token }
    }

    pub(super) fn completion(&self, id: impl AsRef<[u8]>, token: u64) -> Completion {
        Completion { hold: self.hold(id, token), retention: RETENTION, result: None }
    }

    pub(super) async fn mark(&self, id: &str, attempt: u64) -> Marked {
        one(self.store.mark(&[self.mark_of(id, attempt)]).await)
    }

    pub(super) async fn unmark(&self, id: &str, attempt: u64) -> Unmarked {
        one(self.store.unmark(&[Unmark { key: self.key(id), attempt: self.first_attempt + attempt }]).await)
    }

    /// Returns the attempt that other callers are told when they meet its mark.
    pub(super) fn attempt(&self, attempt: u64) -> Option<u64> {
        Some(self.first_attempt + attempt)
    }

    pub(super) async fn claim(&self, id: &str, attempt: u64) -> Claimed {
        one(self.store.claim(&[self.claim_of(id, attempt)]).await)
    }

    /// Claims an id that is free.
    pub(super) async fn token(&self, id: &str, attempt: u64) -> u64 {
        match self.claim(id, attempt).await {
            Claimed::Claimed { token } => token,
            other => panic!("{id} can be had, but a claim says {other:?}"),
        }
    }

    pub(super) async fn complete(&self, id: &str, token: u64) -> Held {
        one(self.store.complete(&[self.completion(id, token)]).await)
    }

    pub(super) async fn release(&self, id: &str, token: u64) -> Held {
        one(self.store.release(&[self.hold(id, token)]).await)
    }

    pub(super) async fn renew(&self, id: &str, token: u64) -> Held {
        one(self.store.renew(&[Renewal { hold: self.hold(id, token), lease: LEASE }]).await)
    }

    pub(super) async fn fail(&self, id: &str, token: u64, retry_after: Duration) -> Held {
        one(self.store.fail(&[ClaimFailure { hold: self.hold(id, token), retry_after }]).await)
    }

    pub(super) async fn look_up(&self, id: &str) -> Known {
        one(self.store.look_up(&[self.key(id)]).await)
    }

    pub(super) async fn forget(&self, id: &str) -> bool {
        one(self.store.forget(&[self.key(id)]).await)
    }

    pub(super) async fn record(&self, id: &str, result: Option<&[u8]>) {
        let result = result.map(Into::into);
        one(self.store.record(&[Record { key: self.key(id), retention: RETENTION, fingerprint: None, result }]).await)
    }
}

/// Returns the answers to a batch, all of which must be there.
pub(super) fn all<A>(answers: Answers<A>) -> Vec<A> {
    let answers = answers.unwrap_or_else(|error| panic!("a batch came to nothing: {error}"));
    answers
        .into_iter()
        .map(|answer| answer.unwrap_or_else(|error| panic!("a request came to nothing: {error}")))
        .collect()
}

/// Returns the answer to a single request.
pub(super) fn one<A>(answers: Answers<A>) -> A {
    let mut answers = all(answers);
    assert_eq!(answers.len(), 1, "one request has one answer");
    answers.remove(0)
}

/// Checks a remaining time.
#[track_caller]
pub(super) fn about(left: Duration, expected: Duration) {
    assert!(
        left <= expected + Duration::from_secs(1) && left + SLACK >= expected,
        "{left:?} are left, not {expected:?}"
    );
}

#[track_caller]
pub(super) fn is_in_progress(claimed: Claimed, expected: Duration) {
    match claimed {
        Claimed::InProgress { lease_left } => about(lease_left, expected),
        other => panic!("the id is in progress, but a claim says {other:?}"),
    }
}

#[track_caller]
pub(super) fn is_duplicate(claimed: Claimed) -> Completed {
    match claimed {
        Claimed::Duplicate(completed) => completed,
        other => panic!("the id is done, but a claim says {other:?}"),
    }
}
