//! A store that fails when it is told to.

use hapax::seam::random::Random;
use hapax_store::sync::{Mutex, Ordering, StdAtomicBool, StdAtomicU64, lock};
use hapax_store::*;
use std::collections::VecDeque;
use std::time::Duration;

/// The fate of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    /// The call is passed on.
    #[default]
    None,
    /// It fails, and the store has done nothing.
    Fails(ErrorKind),
    /// It fails, and the store has carried out the request: the answer was lost.
    LosesAnswer(ErrorKind),
    /// One request of the batch fails, and the store has not carried that one out.
    FailsOne(ErrorKind),
    /// It arrives late.
    Delays(Duration),
    /// It is carried out at once, and answered late.
    AnswersLate(Duration),
    /// It never arrives, and is never answered.
    Hangs,
}

/// A store whose calls fail, are delayed, or hang, as a test demands.
///
/// ```
/// use hapax_store::{ErrorKind, InMemoryStore, RecordKey, Scope, Store};
/// use hapax_testing::store::{Fault, FaultyStore};
///
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let store = FaultyStore::new(InMemoryStore::new());
/// store.next(Fault::Fails(ErrorKind::Unavailable));
/// let key = RecordKey::new(&Scope::default(), "a");
/// assert_eq!(store.look_up(&[key.clone()]).await.unwrap_err().kind(), ErrorKind::Unavailable);
/// assert!(store.look_up(&[key]).await.is_ok());
/// assert_eq!(store.calls(), 2);
/// # });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct FaultyStore<S> {
    inner: S,
    script: Mutex<Script>,
    calls: StdAtomicU64,
    requests: StdAtomicU64,
    is_private: StdAtomicBool,
}

#[derive(Debug, Default)]
struct Script {
    next: VecDeque<Fault>,
    otherwise: Fault,
    random: Option<(Random, Vec<(u64, Fault)>)>,
    damaged: Vec<RecordKey>,
}

impl<S: Store> FaultyStore<S> {
    /// Creates a store that does not fail yet.
    pub fn new(inner: S) -> Self {
        let zero = || StdAtomicU64::new(0);
        let is_private = StdAtomicBool::new(inner.is_private());
        FaultyStore { inner, script: Mutex::default(), calls: zero(), requests: zero(), is_private }
    }

    /// Sets the fate of the next call that has none yet.
    pub fn next(&self, fault: Fault) {
        self.script().next.push_back(fault);
    }

    /// Sets the fate of all calls that have no other one, from now on.
    pub fn always(&self, fault: Fault) {
        self.script().otherwise = fault;
    }

    /// Sets the fates of this many of a thousand calls, from now on, the same for the same seed.
    pub fn at_random(&self, seed: u64, per_thousand: impl Into<Vec<(u64, Fault)>>) {
        self.script().random = Some((Random::new(seed), per_thousand.into()));
    }

    /// Damages the record of an id: from now on each claim of it is [`ErrorKind::Corrupt`].
    pub fn damage(&self, key: RecordKey) {
        self.script().damaged.push(key);
    }

    /// Makes the store private from now on: as if no other process could have it open.
    pub fn be_private(&self) {
        self.is_private.store(true, Ordering::Relaxed);
    }

    /// Returns the number of calls so far.
    pub fn calls(&self) -> u64 {
        // Relaxed: a thread that counts calls has seen them end.
        self.calls.load(Ordering::Relaxed)
    }

    /// Returns the number of requests in these calls.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Returns the store that does not fail.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    fn script(&self) -> hapax_store::sync::MutexGuard<'_, Script> {
        lock(&self.script)
    }

    fn fault(&self) -> Fault {
        let mut script = self.script();
        if let Some(fault) = script.next.pop_front() {
            return fault;
        }
        let otherwise = script.otherwise;
        let Some((random, faults)) = &mut script.random else {
            return otherwise;
        };
        let mut left = random.below(1_000);
        for (per_thousand, fault) in faults {
            match left.checked_sub(*per_thousand) {
                Some(rest) => left = rest,
                None => return *fault,
            }
        }
        otherwise
    }

    fn error(kind: ErrorKind) -> StoreError {
        StoreError::new(kind, "faulty", "a fault that was asked for")
    }

    async fn call<'r, R, A, D>(&'r self, requests: &'r [R], done: impl FnOnce(&'r [R]) -> D) -> Answers<A>
    where
        R: Sync,
        A: Send,
        D: Future<Output = Answers<A>>,
    {
        self.requests.fetch_add(requests.len() as u64, Ordering::Relaxed);
        let (fault, _) = (self.fault(), self.calls.fetch_add(1, Ordering::Relaxed));
        match fault {
            Fault::None => done(requests).await,
            Fault::Fails(kind) => Err(Self::error(kind)),
            Fault::LosesAnswer(kind) => {
                // Its own error is lost as well.
                let _ = done(requests).await;
                Err(Self::error(kind))
            }
            Fault::FailsOne(kind) => match requests.split_first() {
                None => done(requests).await,
                Some((_, rest)) => {
                    let mut answers = done(rest).await?;
                    answers.insert(0, Err(Self::error(kind)));
                    Ok(answers)
                }
            },
            Fault::Delays(by) => {
                tokio::time::sleep(by).await;
                done(requests).await
            }
            Fault::AnswersLate(by) => {
                let answers = done(requests).await;
                tokio::time::sleep(by).await;
                answers
            }
            Fault::Hangs => std::future::pending().await,
        }
    }
}

impl<S: Store> Store for FaultyStore<S> {
    fn backend(&self) -> &'static str {
        self.inner.backend()
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn is_private(&self) -> bool {
        self.is_private.load(Ordering::Relaxed)
    }

    fn node_of(&self, key: &RecordKey) -> u32 {
        self.inner.node_of(key)
    }

    async fn mark(&self, marks: &[Mark]) -> Answers<Marked> {
        self.call(marks, |marks| self.inner.mark(marks)).await
    }

    async fn unmark(&self, marks: &[Unmark]) -> Answers<Unmarked> {
        self.call(marks, |marks| self.inner.unmark(marks)).await
    }

    async fn claim(&self, claims: &[ClaimRequest]) -> Answers<Claimed> {
        let is_damaged: Vec<bool> = {
            let script = self.script();
            claims.iter().map(|claim| script.damaged.contains(&claim.key)).collect()
        };
        if !is_damaged.contains(&true) {
            return self.call(claims, |claims| self.inner.claim(claims)).await;
        }
        let whole = claims.iter().zip(&is_damaged).filter(|(_, is_damaged)| !**is_damaged);
        let whole: Vec<ClaimRequest> = whole.map(|(claim, _)| claim.clone()).collect();
        let mut answers = self.call(&whole, |claims| self.inner.claim(claims)).await?.into_iter();
        let corrupt = || Err(Self::error(ErrorKind::Corrupt));
        let answer = |is_damaged: bool| if is_damaged { None } else { answers.next() };
        Ok(is_damaged.into_iter().map(answer).map(|answer| answer.unwrap_or_else(corrupt)).collect())
    }

    async fn complete(&self, completions: &[Completion]) -> Answers<Held> {
        self.call(completions, |completions| self.inner.complete(completions)).await
    }

    async fn release(&self, holds: &[Hold]) -> Answers<Held> {
        self.call(holds, |holds| self.inner.release(holds)).await
    }

    async fn fail(&self, failures: &[ClaimFailure]) -> Answers<Held> {
        self.call(failures, |failures| self.inner.fail(failures)).await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Answers<Held> {
        self.call(renewals, |renewals| self.inner.renew(renewals)).await
    }

    async fn look_up(&self, keys: &[RecordKey]) -> Answers<Known> {
        self.call(keys, |keys| self.inner.look_up(keys)).await
    }

    async fn record(&self, records: &[Record]) -> Answers<()> {
        self.call(records, |records| self.inner.record(records)).await
    }

    async fn forget(&self, keys: &[RecordKey]) -> Answers<bool> {
        self.call(keys, |keys| self.inner.forget(keys)).await
    }

    async fn expire(&self, limit: usize) -> Result<Expired, StoreError> {
        let expire = async |limit: usize| Ok(vec![self.inner.expire(limit).await]);
        // (If its only request is the one that fails, there is nothing to do.)
        self.call(&[limit], async |limit| if let [limit] = limit { expire(*limit).await } else { Ok(Vec::new()) })
            .await?
            .remove(0)
    }

    async fn scan(&self, from: Option<&Cursor>, limit: usize) -> Result<Page, StoreError> {
        let scan = async |limit: usize| Ok(vec![self.inner.scan(from, limit).await]);
        self.call(&[limit], async |limit| if let [limit] = limit { scan(*limit).await } else { Ok(Vec::new()) })
            .await?
            .remove(0)
    }
}
