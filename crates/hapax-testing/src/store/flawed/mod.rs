//! Stores that break one promise each.

mod flaw;
mod requests;

pub(super) use flaw::Flaw;

use super::fixture::LEASE;
use hapax::{Clock, ManualClock, Timestamp};
use hapax_store::backend::times::Timed;
use hapax_store::sync::{Mutex, MutexGuard, Ordering, StdAtomicU64};
use hapax_store::*;
use std::collections::HashMap;
use std::time::Duration;

/// The reference with a flaw.
pub(super) struct Flawed {
    inner: InMemoryStore,
    clock: ManualClock,
    flaw: Flaw,
    numbers: StdAtomicU64,
    seen: Mutex<Seen>,
}

/// The knowledge that it needs to be wrong in its own way only.
#[derive(Default)]
struct Seen {
    /// The keys of the kept records, as they were given.
    names: HashMap<RecordKey, RecordKey>,
    /// The last attempts that got ids, and their tokens.
    granted: HashMap<RecordKey, (u64, u64)>,
    /// The ends of the last leases of ids.
    leases: HashMap<RecordKey, Timestamp>,
    /// The tokens of claims that have not ended but by time.
    open: HashMap<RecordKey, u64>,
    /// The tokens that the next claims of ids get again.
    again: HashMap<RecordKey, u64>,
    /// The tokens that ids got, and those that they really have.
    renamed: HashMap<RecordKey, (u64, u64)>,
    /// The tokens of claims that have failed.
    failed: HashMap<RecordKey, u64>,
}

/// Returns the answers of the reference, which has no errors.
fn all<A>(answers: Answers<A>) -> Vec<A> {
    answers.unwrap().into_iter().map(Result::unwrap).collect()
}

fn one<A>(answers: Answers<A>) -> A {
    all(answers).remove(0)
}

impl Flawed {
    pub(super) fn new(clock: ManualClock, flaw: Flaw) -> Self {
        let inner = InMemoryStore::with_clock(clock.clone());
        Flawed { inner, clock, flaw, numbers: StdAtomicU64::new(1 << 40), seen: Mutex::default() }
    }

    fn is(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    fn granted(&self, key: &RecordKey) -> Option<(u64, u64)> {
        self.seen().granted.get(key).copied()
    }

    /// Returns the key under which it keeps the record of this one.
    fn kept_as(&self, key: &RecordKey) -> RecordKey {
        let (scope, id) = (key.scope.as_str(), key.id.as_bytes());
        let with_id = |id: &[u8]| RecordKey::new(&key.scope, id);
        let kept = match self.flaw {
            Flaw::ScopesAreIgnored => RecordKey::new(&Scope::default(), id),
            Flaw::ScopesAndIdsAreJoined => RecordKey::new(&Scope::default(), [scope.as_bytes(), id].concat()),
            Flaw::ScopesIgnoreCase => RecordKey::new(&Scope::from_stored(&scope.to_lowercase()).unwrap(), id),
            Flaw::IdsIgnoreCase => with_id(&id.to_ascii_lowercase()),
            Flaw::IdsAreText => with_id(String::from_utf8_lossy(id).as_bytes()),
            Flaw::IdsEndAtZero => with_id(id.split(|&byte| byte == 0).next().unwrap_or_default()),
            Flaw::IdsAreTrimmed => with_id(id.trim_ascii()),
            Flaw::NotesAreRecords => noted_key(key).unwrap_or_else(|| key.clone()),
            Flaw::LongIdsAreCut => with_id(&id[..id.len().min(40)]),
            _ => key.clone(),
        };
        self.seen().names.insert(kept.clone(), key.clone());
        kept
    }

    fn hold(&self, hold: &Hold) -> Hold {
        let key = self.kept_as(&hold.key);
        let token = match self.flaw {
            Flaw::AskedAgainClaimsLoseTheirFingerprints => match self.seen().renamed.get(&key) {
                Some(&(token, real)) if token == hold.token => real,
                _ => hold.token,
            },
            Flaw::TokensStartAnew => self.granted(&key).map_or(hold.token, |(_, token)| token),
            Flaw::TokensAreTooLarge => hold.token & !(1 << 63),
            _ => hold.token,
        };
        Hold { key, token }
    }

    async fn known(&self, key: &RecordKey) -> Known {
        one(self.inner.look_up(std::slice::from_ref(key)).await)
    }

    async fn is_unknown(&self, key: &RecordKey) -> bool {
        self.known(key).await == Known::Unknown
    }

    async fn is_in_progress(&self, key: &RecordKey) -> bool {
        matches!(self.known(key).await, Known::InProgress { .. })
    }

    async fn drop_record(&self, key: &RecordKey) {
        one(self.inner.forget(std::slice::from_ref(key)).await);
    }

    /// Looks, lets others go first, and writes as if none had.
    async fn race_for(&self, key: &RecordKey) {
        if self.is_unknown(key).await {
            // Every other time for so long that another caller does, even on a busy machine. (Not
            // every time, or large batches would take minutes.)
            match self.numbers.fetch_add(1, Ordering::Relaxed) % 2 {
                0 => tokio::time::sleep(Duration::from_millis(1)).await,
                _ => tokio::task::yield_now().await,
            }
            self.drop_record(key).await;
        }
    }
}

impl Flawed {
    /// Refuses an invalid time.
    fn refuses(&self, request: &impl Timed) -> Option<StoreError> {
        request.check().err().filter(|_| !self.is(Flaw::TimesAreClamped))
    }

    /// Answers request after request.
    async fn each<'r, R, A, F>(&'r self, requests: &'r [R], answer: impl Fn(&'r R) -> F) -> Answers<A>
    where
        F: Future<Output = Result<A, StoreError>>,
    {
        if requests.is_empty() && self.is(Flaw::EmptyBatchesFail) {
            return Err(StoreError::new(ErrorKind::Corrupt, "flawed", "nothing was asked"));
        }
        let mut answers = Vec::new();
        for request in requests {
            answers.push(answer(request).await);
        }
        match self.flaw {
            Flaw::AnswersAreOutOfOrder => answers.reverse(),
            Flaw::AnswersAreMissing => drop(answers.pop()),
            _ => {}
        }
        Ok(answers)
    }

    /// Answers a request, unless its time is invalid.
    async fn timed<A>(&self, request: &impl Timed, answer: impl Future<Output = A>) -> Result<A, StoreError> {
        match self.refuses(request) {
            Some(error) => Err(error),
            None => Ok(answer.await),
        }
    }
}

impl Store for Flawed {
    fn backend(&self) -> &'static str {
        "flawed"
    }

    async fn mark(&self, marks: &[Mark]) -> Answers<Marked> {
        if self.is(Flaw::BatchesSeeOnlyWhatWasBefore) {
            let keys: Vec<RecordKey> = marks.iter().map(|mark| mark.key.clone()).collect();
            let known = all(self.inner.look_up(&keys).await);
            let mut answers = all(self.inner.mark(marks).await);
            let seen = answers.iter_mut().zip(known).filter(|(_, known)| *known == Known::Unknown);
            seen.for_each(|(marked, _)| *marked = Marked::Fresh);
            return Ok(answers.into_iter().map(Ok).collect());
        }
        self.each(marks, |mark| self.timed(mark, self.mark_one(mark))).await
    }

    async fn unmark(&self, marks: &[Unmark]) -> Answers<Unmarked> {
        self.each(marks, |mark| async move { Ok(self.unmark_one(mark).await) }).await
    }

    async fn claim(&self, claims: &[ClaimRequest]) -> Answers<Claimed> {
        self.each(claims, |claim| self.timed(claim, self.claim_one(claim))).await
    }

    async fn complete(&self, completions: &[Completion]) -> Answers<Held> {
        self.each(completions, |completion| self.timed(completion, self.complete_one(completion))).await
    }

    async fn release(&self, holds: &[Hold]) -> Answers<Held> {
        self.each(holds, |hold| async move { Ok(self.release_one(hold).await) }).await
    }

    async fn fail(&self, failures: &[ClaimFailure]) -> Answers<Held> {
        self.each(failures, |failure| self.timed(failure, self.fail_one(failure))).await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Answers<Held> {
        self.each(renewals, |renewal| self.timed(renewal, self.renew_one(renewal))).await
    }

    async fn look_up(&self, keys: &[RecordKey]) -> Answers<Known> {
        self.each(keys, |key| async move { Ok(self.look_up_one(key).await) }).await
    }

    async fn record(&self, records: &[Record]) -> Answers<()> {
        self.each(records, |record| self.timed(record, self.record_one(record))).await
    }

    async fn forget(&self, keys: &[RecordKey]) -> Answers<bool> {
        self.each(keys, |key| async move { Ok(self.forget_one(key).await) }).await
    }

    async fn expire(&self, limit: usize) -> Result<Expired, StoreError> {
        if self.is(Flaw::TokensComeAgainAfterTheCleanUp) {
            let mut seen = self.seen();
            let tokens: Vec<_> = seen.granted.iter().map(|(key, (_, token))| (key.clone(), *token)).collect();
            seen.again.extend(tokens);
        }
        match self.flaw {
            Flaw::ExpiryRemovesNothing => Ok(Expired::default()),
            Flaw::ExpiryEndsDoubt => {
                let keys: Vec<_> = self.seen().granted.keys().cloned().collect();
                for key in keys {
                    if self.is_unknown(&key).await {
                        self.drop_record(&key).await;
                    }
                }
                self.inner.expire(limit).await
            }
            Flaw::ExpiryHasNoLimit => self.inner.expire(usize::MAX).await,
            Flaw::ExpiryDoesNotEnd => Ok(Expired::new(self.inner.expire(limit).await?.records, true)),
            Flaw::ExpiryRemovesWhatIsLive => {
                if let Some(found) = self.inner.scan(None, usize::MAX).await?.found.first() {
                    self.drop_record(&found.key).await;
                }
                self.inner.expire(limit).await
            }
            _ => self.inner.expire(limit).await,
        }
    }

    async fn scan(&self, from: Option<&Cursor>, limit: usize) -> Result<Page, StoreError> {
        let limit = if self.is(Flaw::ScansHaveNoLimit) { usize::MAX } else { limit };
        let mut page = self.inner.scan(from, limit).await?;
        for found in &mut page.found {
            if let Some(name) = self.seen().names.get(&found.key) {
                found.key = name.clone();
            }
        }
        if page.next.is_none() {
            page.found.extend(self.hidden().await);
        }
        match self.flaw {
            Flaw::ScansMissSome => drop(page.found.pop()),
            // The key of no id in no scope: where a scan begins.
            Flaw::ScansDoNotEnd => page.next = page.next.or(Some(Cursor(vec![0]))),
            _ => {}
        }
        Ok(page)
    }
}
