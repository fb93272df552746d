//! The interface of a backend to the suite, and the equipment of each case.

use super::outcome::{Checked, Failure, Report, Wrong, ensure};
pub(super) use super::time::{NANOSECOND, StoreTime};
use hapax_store::sync::{Mutex, Ordering, StdAtomicU64, lock};
use hapax_store::*;
use std::pin::Pin;
use std::time::{Duration, Instant};

/// A backend under test.
pub trait Fixture: Sync {
    /// The store.
    type Store: Store;

    /// Opens a handle to the same records, as another process would. (For a store that only one
    /// process can open: returns the same handle, in an `Arc`, or opens it again if it has no other
    /// user.)
    fn open(&self) -> impl Future<Output = Self::Store> + Send;

    /// Lets this much time pass for the store, without sleeping: by a manual clock, or by making
    /// all records older.
    fn advance(&self, by: Duration) -> impl Future<Output = ()> + Send;

    /// Returns the way in which time passes for the store. Default: by itself as well, as for a
    /// server, with a slack of 5 seconds. A store that is given a manual clock should return
    /// [`StoreTime::EXACT`]: then nothing is tolerated.
    fn time(&self) -> StoreTime {
        StoreTime::Passes { slack: SLACK }
    }

    /// Returns true if the store removes single records when it is told to [expire](Store::expire)
    /// some, and counts them, so that the suite can see that it removes expired records, and never
    /// more than it was told to. A server that removes them by itself has nothing to show; a store
    /// of buckets has another unit. Default: false.
    fn expires_by_record(&self) -> bool {
        false
    }

    /// Returns the size of the largest result that the suite stores, for a store that takes none of
    /// 1 MiB. Default: 1 MiB, which it is at most.
    fn result_bytes_max(&self) -> usize {
        RESULT_BYTES
    }

    /// Returns true if the store keeps claims in doubt after their leases, as a [`Store`] does
    /// unless its documentation says otherwise. Default: true.
    fn keeps_doubt(&self) -> bool {
        true
    }

    /// Returns true if each id takes a request of its own, to a server that answers one after the
    /// other: then batches of 64 overlap once, rather than ten times of 256. Default: false.
    fn is_slow(&self) -> bool {
        false
    }
}

/// A call that is under way.
type Answering<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The calls to a [`Fixture`] of any type.
pub(super) trait AnyFixture: Sync {
    fn open(&self) -> Answering<'_, DynStore>;
    fn advance(&self, by: Duration) -> Answering<'_, ()>;
}

impl<F: Fixture> AnyFixture for F {
    fn open(&self) -> Answering<'_, DynStore> {
        Box::pin(async { DynStore::new(Fixture::open(self).await) })
    }

    fn advance(&self, by: Duration) -> Answering<'_, ()> {
        Box::pin(Fixture::advance(self, by))
    }
}

pub(super) const LEASE: Duration = Duration::from_secs(30);
pub(super) const RETENTION: Duration = Duration::from_secs(3_600);
/// The size of the largest result, unless the fixture says otherwise.
const RESULT_BYTES: usize = 1 << 20;
/// The tolerance for servers, unless the fixture says otherwise.
const SLACK: Duration = Duration::from_secs(5);

/// The backend, and names that are used nowhere else.
pub(super) struct Bench<'f> {
    pub(super) fixture: &'f dyn AnyFixture,
    pub(super) time: StoreTime,
    pub(super) expires_by_record: bool,
    pub(super) result_bytes_max: usize,
    pub(super) is_slow: bool,
    pub(super) keeps_doubt: bool,
    prefix: String,
    attempts: StdAtomicU64,
    /// The number of times that the running cases were run before.
    again: StdAtomicU64,
    /// The names of the cases so far; the last one is the running one, which began then.
    cases: Mutex<(Vec<String>, Instant)>,
}

impl<'f> Bench<'f> {
    pub(super) fn new<F: Fixture>(fixture: &'f F) -> Self {
        let random = hapax::seam::random::any();
        Bench {
            fixture,
            time: fixture.time().limited(),
            expires_by_record: fixture.expires_by_record(),
            result_bytes_max: fixture.result_bytes_max().min(RESULT_BYTES),
            is_slow: fixture.is_slow(),
            keeps_doubt: fixture.keeps_doubt(),
            prefix: format!("{:08x}", random >> 32),
            attempts: StdAtomicU64::new(random >> 2),
            again: StdAtomicU64::new(0),
            cases: Mutex::new((Vec::new(), Instant::now())),
        }
    }

    /// Returns the running case.
    fn current(&self) -> String {
        lock(&self.cases).0.last().cloned().unwrap_or_default()
    }

    /// Runs cases about ends; again, ten times in all, if an answer is wrong and its case took
    /// longer than the distance to such an end.
    pub(super) async fn in_time(&self, cases: impl AsyncFn(&Bench<'f>) -> Checked) -> Checked {
        let before = lock(&self.cases).0.len();
        loop {
            let checked = cases(self).await;
            let is_late = matches!(self.time, StoreTime::Passes { slack } if lock(&self.cases).1.elapsed() > slack);
            let again = self.again.load(Ordering::Relaxed);
            if checked.is_ok() || !is_late || again == 9 {
                self.again.store(0, Ordering::Relaxed);
                return checked;
            }
            self.again.store(again + 1, Ordering::Relaxed);
            lock(&self.cases).0.truncate(before);
        }
    }

    pub(super) fn outcome(&self, checked: Checked) -> Result<Report, Failure> {
        match checked {
            Ok(()) => Ok(Report::new(lock(&self.cases).0.clone(), self.time)),
            Err(wrong) => Err(Failure::new(wrong, self.current(), self.prefix.clone())),
        }
    }

    /// Returns a store, and a scope of the case's own.
    pub(super) async fn case(&self, name: &str) -> Case {
        {
            let mut cases = lock(&self.cases);
            cases.0.push(name.to_owned());
            cases.1 = Instant::now();
        }
        let first_attempt = self.attempts.fetch_add(1 << 24, Ordering::Relaxed);
        // Another one each time that the case is run. (Of a long one a note has a digest.)
        let again = "'".repeat(self.again.load(Ordering::Relaxed) as usize);
        let scope = Scope::new(&format!("{} {name}{again}", self.prefix)).expect("a valid name");
        let store = self.fixture.open().await;
        Case { store, scope, first_attempt, slack: self.slack(), asked: Mutex::default() }
    }

    /// Returns the distance to ends in the cases that are about something else.
    pub(super) fn slack(&self) -> Duration {
        match self.time {
            StoreTime::Stands { .. } => SLACK,
            StoreTime::Passes { slack } => slack,
        }
    }

    pub(super) async fn advance(&self, by: Duration) {
        self.fixture.advance(by).await;
    }

    /// Returns how much later something of this duration must still hold.
    pub(super) fn before(&self, duration: Duration) -> Duration {
        match self.time {
            StoreTime::Stands { .. } => duration - NANOSECOND,
            StoreTime::Passes { slack } => duration - slack,
        }
    }

    /// Returns how much later something of this duration must be over.
    pub(super) fn after(&self, duration: Duration) -> Duration {
        match self.time {
            StoreTime::Stands { unit } => duration + unit - NANOSECOND,
            StoreTime::Passes { slack } => duration + slack,
        }
    }

    /// Checks a remaining time.
    pub(super) fn is_left(&self, what: &str, left: Duration, expected: Duration) -> Checked {
        match self.time {
            StoreTime::Stands { unit } => {
                ensure(what, left.abs_diff(expected) < unit, format!("{expected:?}, or less than {unit:?} off"), left)
            }
            StoreTime::Passes { slack } => about(what, left, expected, slack),
        }
    }
}

/// A store, and short names for its requests.
pub(super) struct Case {
    pub(super) store: DynStore,
    pub(super) scope: Scope,
    first_attempt: u64,
    slack: Duration,
    /// The last request.
    asked: Mutex<String>,
}

impl Case {
    /// Returns the same case with another handle.
    pub(super) fn with(&self, store: DynStore) -> Self {
        let Case { first_attempt, slack, .. } = *self;
        Case { store, scope: self.scope.clone(), first_attempt, slack, asked: Mutex::default() }
    }

    /// Closes this handle, and opens another.
    pub(super) async fn reopened(self, bench: &Bench<'_>) -> Self {
        drop(self.store);
        Case { store: bench.fixture.open().await, ..self }
    }

    pub(super) fn key(&self, id: impl AsRef<[u8]>) -> RecordKey {
        RecordKey::new(&self.scope, id)
    }

    pub(super) fn mark_of(&self, id: impl AsRef<[u8]>, attempt: u64) -> Mark {
        Mark { key: self.key(id), attempt: self.first_attempt + attempt, retention: RETENTION }
    }

    pub(super) fn claim_of(&self, id: impl AsRef<[u8]>, attempt: u64) -> ClaimRequest {
        let (attempt, doubt) = (self.first_attempt + attempt, Duration::ZERO);
        ClaimRequest { key: self.key(id), attempt, lease: LEASE, fingerprint: None, held_by: None, doubt }
    }

    pub(super) fn hold(&self, id: impl AsRef<[u8]>, token: u64) -> Hold {
        Hold { key: self.key(id), token }
    }

    pub(super) fn completion(&self, id: impl AsRef<[u8]>, token: u64) -> Completion {
        Completion { hold: self.hold(id, token), retention: RETENTION, result: None }
    }

    pub(super) fn record_of(&self, id: impl AsRef<[u8]>, result: Option<&[u8]>) -> Record {
        Record { key: self.key(id), retention: RETENTION, fingerprint: None, result: result.map(Into::into) }
    }

    /// Returns the attempt that other callers are told when they meet its mark.
    pub(super) fn attempt(&self, attempt: u64) -> Option<u64> {
        Some(self.first_attempt + attempt)
    }

    /// Returns the last request, for messages.
    pub(super) fn asked(&self) -> String {
        lock(&self.asked).clone()
    }

    /// Checks the answer to the last request.
    pub(super) fn is<T: PartialEq + std::fmt::Debug>(&self, got: T, expected: T) -> Checked {
        super::outcome::is(self.asked(), got, expected)
    }

    /// Checks an answer that has more than one right value.
    pub(super) fn ensure(&self, is_right: bool, expected: &str, got: impl std::fmt::Debug) -> Checked {
        ensure(self.asked(), is_right, expected, got)
    }

    /// Returns the answers to a batch, all of which must be there.
    pub(super) fn all<A>(&self, asked: &str, answers: Answers<A>) -> Checked<Vec<A>> {
        *lock(&self.asked) = asked.to_owned();
        let failed = |what: &str, error| Wrong::new(asked, what, error);
        let answers = answers.map_err(|error| failed("answers", error))?;
        answers.into_iter().map(|answer| answer.map_err(|error| failed("an answer to each", error))).collect()
    }

    /// Returns the answer to a single request.
    pub(super) fn one<A>(&self, asked: impl Into<String>, answers: Answers<A>) -> Checked<A> {
        let mut answers = self.all(&asked.into(), answers)?;
        self.ensure(answers.len() == 1, "one answer to one request", answers.len())?;
        answers.pop().ok_or_else(|| Wrong::new(self.asked(), "an answer", format_args!("none")))
    }

    pub(super) async fn mark(&self, id: &str, attempt: u64) -> Checked<Marked> {
        let marks = [self.mark_of(id, attempt)];
        self.one(format!("mark of {id:?} by attempt {attempt}"), self.store.mark(&marks).await)
    }

    pub(super) async fn unmark(&self, id: &str, attempt: u64) -> Checked<Unmarked> {
        let unmarks = [Unmark { key: self.key(id), attempt: self.first_attempt + attempt }];
        self.one(format!("unmark of {id:?} by attempt {attempt}"), self.store.unmark(&unmarks).await)
    }

    pub(super) async fn claim(&self, id: &str, attempt: u64) -> Checked<Claimed> {
        self.claim_with(id, attempt, LEASE, None).await
    }

    pub(super) async fn claim_with(
        &self,
        id: &str,
        attempt: u64,
        lease: Duration,
        fingerprint: Option<Fingerprint>,
    ) -> Checked<Claimed> {
        let claims = [ClaimRequest { lease, fingerprint, ..self.claim_of(id, attempt) }];
        self.one(format!("claim of {id:?} by attempt {attempt}"), self.store.claim(&claims).await)
    }

    /// Claims an id that is free.
    pub(super) async fn token(&self, id: &str, attempt: u64) -> Checked<u64> {
        self.is_claimed(self.claim(id, attempt).await?)
    }

    pub(super) async fn complete(&self, id: &str, token: u64) -> Checked<Held> {
        self.complete_as(self.completion(id, token)).await
    }

    pub(super) async fn complete_as(&self, completion: Completion) -> Checked<Held> {
        let asked = format!("completion of {} under token {}", completion.hold.key, completion.hold.token);
        self.one(asked, self.store.complete(&[completion]).await)
    }

    pub(super) async fn release(&self, id: &str, token: u64) -> Checked<Held> {
        let holds = [self.hold(id, token)];
        self.one(format!("release of {id:?} under token {token}"), self.store.release(&holds).await)
    }

    pub(super) async fn renew(&self, id: &str, token: u64) -> Checked<Held> {
        self.renew_for(id, token, LEASE).await
    }

    pub(super) async fn renew_for(&self, id: &str, token: u64, lease: Duration) -> Checked<Held> {
        let renewals = [Renewal { hold: self.hold(id, token), lease }];
        self.one(format!("renewal of {id:?} under token {token} for {lease:?}"), self.store.renew(&renewals).await)
    }

    pub(super) async fn fail(&self, id: &str, token: u64, retry_after: Duration) -> Checked<Held> {
        let failures = [ClaimFailure { hold: self.hold(id, token), retry_after }];
        self.one(format!("failure of {id:?} under token {token}"), self.store.fail(&failures).await)
    }

    pub(super) async fn look_up(&self, id: &str) -> Checked<Known> {
        let keys = [self.key(id)];
        self.one(format!("look-up of {id:?}"), self.store.look_up(&keys).await)
    }

    pub(super) async fn forget(&self, id: &str) -> Checked<bool> {
        let keys = [self.key(id)];
        self.one(format!("forget of {id:?}"), self.store.forget(&keys).await)
    }

    pub(super) async fn record(&self, id: &str, result: Option<&[u8]>) -> Checked {
        self.record_as(self.record_of(id, result)).await
    }

    pub(super) async fn record_as(&self, record: Record) -> Checked {
        self.one(format!("record of {}", record.key), self.store.record(&[record]).await)
    }

    pub(super) fn is_claimed(&self, claimed: Claimed) -> Checked<u64> {
        match claimed {
            Claimed::Claimed { token, .. } => Ok(token),
            other => Err(Wrong::new(self.asked(), "a claim, as the id is free", other)),
        }
    }

    /// Checks the answer to a claim of an id in progress, and about how long it remains so.
    pub(super) fn is_in_progress(&self, claimed: Claimed, expected: Duration) -> Checked {
        match claimed {
            Claimed::InProgress { lease_left, .. } => about(&self.asked(), lease_left, expected, self.slack),
            other => Err(Wrong::new(self.asked(), "InProgress", other)),
        }
    }

    pub(super) fn is_duplicate(&self, claimed: Claimed) -> Checked<Completed> {
        match claimed {
            Claimed::Duplicate(completed) => Ok(completed),
            other => Err(Wrong::new(self.asked(), "Duplicate", other)),
        }
    }

    pub(super) fn is_completed(&self, known: Known) -> Checked<Completed> {
        match known {
            Known::Completed(completed) => Ok(completed),
            other => Err(Wrong::new(self.asked(), "Completed", other)),
        }
    }

    /// Checks the answer to a mark of an id that is done. Returns the remaining time, and who has
    /// marked it.
    pub(super) fn is_marked(&self, marked: Marked) -> Checked<(Duration, Option<u64>)> {
        match marked {
            Marked::Duplicate { expires_in, attempt } => Ok((expires_in, attempt)),
            other => Err(Wrong::new(self.asked(), "Duplicate", other)),
        }
    }

    /// Checks a remaining time, with tolerance.
    pub(super) fn is_about(&self, left: Duration, expected: Duration) -> Checked {
        about(&self.asked(), left, expected, self.slack)
    }
}

fn about(what: &str, left: Duration, expected: Duration, slack: Duration) -> Checked {
    let is_right = left <= expected + Duration::from_secs(1) && left + slack >= expected;
    ensure(what, is_right, format!("about {expected:?} left"), left)
}
