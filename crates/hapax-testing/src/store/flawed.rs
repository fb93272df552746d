//! Stores that break one promise each.

use super::fixture::{LEASE, all, one};
use super::flaw::Flaw;
use hapax_store::sync::{Mutex, MutexGuard, Ordering, StdAtomicU64};
use hapax_store::times::Timed;
use hapax_store::*;
use std::collections::HashMap;
use std::time::Duration;

/// The reference with a flaw.
pub(super) struct Flawed {
    inner: InMemoryStore,
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
}

impl Flawed {
    pub(super) fn new(inner: InMemoryStore, flaw: Flaw) -> Self {
        Flawed { inner, flaw, numbers: StdAtomicU64::new(1 << 40), seen: Mutex::default() }
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
            Flaw::ScopesIgnoreCase => RecordKey::new(&Scope::new(&scope.to_lowercase()).unwrap(), id),
            Flaw::IdsIgnoreCase => with_id(&id.to_ascii_lowercase()),
            Flaw::IdsAreText => with_id(String::from_utf8_lossy(id).as_bytes()),
            Flaw::IdsEndAtZero => with_id(id.split(|&byte| byte == 0).next().unwrap_or_default()),
            Flaw::IdsAreTrimmed => with_id(id.trim_ascii()),
            Flaw::LongIdsAreCut => with_id(&id[..id.len().min(40)]),
            _ => key.clone(),
        };
        self.seen().names.insert(kept.clone(), key.clone());
        kept
    }

    fn hold(&self, hold: &Hold) -> Hold {
        let key = self.kept_as(&hold.key);
        let token = match self.flaw {
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

    async fn mark_one(&self, mark: &Mark) -> Marked {
        let mut mark = Mark { key: self.kept_as(&mark.key), ..mark.clone() };
        match self.flaw {
            Flaw::MarksAreAlwaysFresh => self.drop_record(&mark.key).await,
            Flaw::MarksRace => self.race_for(&mark.key).await,
            Flaw::MarksIgnoreClaims if self.is_in_progress(&mark.key).await => self.drop_record(&mark.key).await,
            Flaw::MarksForgetAttempts => mark.attempt = self.numbers.fetch_add(1, Ordering::Relaxed),
            Flaw::MarksDoNotEnd => mark.retention *= 1_000,
            Flaw::TimesAreClamped => mark.retention = mark.retention.clamp(LEASE, Duration::from_secs(1 << 30)),
            _ => {}
        }
        let asker = mark.attempt;
        match one(self.inner.mark(&[mark]).await) {
            Marked::Duplicate { expires_in, attempt } => match self.flaw {
                Flaw::NoTimeIsLeft => Marked::Duplicate { expires_in: Duration::ZERO, attempt },
                Flaw::DuplicatesDoNotSayWho => Marked::Duplicate { expires_in, attempt: None },
                Flaw::DuplicatesNameTheAsker => Marked::Duplicate { expires_in, attempt: attempt.map(|_| asker) },
                _ => Marked::Duplicate { expires_in, attempt },
            },
            marked => marked,
        }
    }

    async fn unmark_one(&self, unmark: &Unmark) -> Unmarked {
        let mut unmark = Unmark { key: self.kept_as(&unmark.key), ..unmark.clone() };
        let known = self.known(&unmark.key).await;
        // Finds the attempt that has marked it, if it is a mark.
        let asked = Mark { key: unmark.key.clone(), attempt: 0, retention: LEASE };
        let marked_by = match known {
            Known::Completed(_) => match one(self.inner.mark(&[asked]).await) {
                Marked::Duplicate { attempt, .. } => attempt,
                _ => None,
            },
            _ => None,
        };
        match (self.flaw, marked_by, known) {
            (Flaw::AnybodyUnmarks, Some(attempt), _) => unmark.attempt = attempt,
            (Flaw::UnmarkingDoesNothing, Some(attempt), _) if attempt == unmark.attempt => return Unmarked::Done,
            (Flaw::UnmarkingEndsClaims, None, Known::InProgress { .. })
            | (Flaw::UnmarkingForgetsWhatIsDone, None, Known::Completed(_)) => {
                self.drop_record(&unmark.key).await;
                return Unmarked::Done;
            }
            _ => {}
        }
        one(self.inner.unmark(&[unmark]).await)
    }

    async fn claim_one(&self, claim: &ClaimRequest) -> Claimed {
        let mut claim = ClaimRequest { key: self.kept_as(&claim.key), ..claim.clone() };
        let (key, granted) = (claim.key.clone(), self.granted(&claim.key));
        let again = granted.filter(|(attempt, _)| *attempt == claim.attempt);
        let known = self.known(&key).await;
        let (is_claimed, is_done) =
            (matches!(known, Known::InProgress { .. }), matches!(known, Known::Completed { .. }));
        match self.flaw {
            Flaw::ClaimsRace => self.race_for(&key).await,
            Flaw::TakeoversRace if granted.is_some() => self.race_for(&key).await,
            Flaw::ClaimsIgnoreClaims if is_claimed && again.is_none() => self.drop_record(&key).await,
            Flaw::ClaimsIgnoreWhatIsDone if is_done => self.drop_record(&key).await,
            Flaw::ClaimsForgetAttempts => claim.attempt = self.numbers.fetch_add(1, Ordering::Relaxed),
            Flaw::AskedAgainTokensAreOthers if again.is_some() && is_claimed => self.drop_record(&key).await,
            Flaw::AskedAgainLeasesAreAsBefore if is_claimed => {
                if let Some((_, token)) = again {
                    return Claimed::Claimed { token };
                }
            }
            Flaw::CancelledClaimsAreNobodys if known == Known::Unknown => {
                one(self.inner.claim(&[ClaimRequest { attempt: 0, ..claim.clone() }]).await);
                tokio::time::sleep(Duration::from_millis(3)).await;
                self.drop_record(&key).await;
            }
            Flaw::LeasesDoNotEnd => claim.lease *= 1_000,
            Flaw::FingerprintsAreNotKept => claim.fingerprint = None,
            _ => {}
        }
        let attempt = claim.attempt;
        let claimed = one(self.inner.claim(&[claim.clone()]).await);
        if let Claimed::Claimed { token } = claimed {
            self.seen().granted.insert(key, (attempt, token));
        }
        match (self.flaw, claimed) {
            (Flaw::TokensStartAnew, Claimed::Claimed { .. }) => Claimed::Claimed { token: 1 },
            (Flaw::TokensAreTooLarge, Claimed::Claimed { token }) => Claimed::Claimed { token: token | 1 << 63 },
            (Flaw::NoTimeIsLeft, Claimed::InProgress { .. }) => Claimed::InProgress { lease_left: Duration::ZERO },
            (Flaw::FingerprintsAreNotComparedInProgress, Claimed::Mismatch) if is_claimed => {
                Claimed::InProgress { lease_left: claim.lease }
            }
            (Flaw::FingerprintsAreNotComparedWhenDone, Claimed::Mismatch) if is_done => {
                one(self.inner.claim(&[ClaimRequest { fingerprint: None, ..claim }]).await)
            }
            (_, claimed) => claimed,
        }
    }

    async fn complete_one(&self, completion: &Completion) -> Held {
        let hold = self.hold(&completion.hold);
        let mut completion = Completion { hold: hold.clone(), ..completion.clone() };
        match self.flaw {
            Flaw::CompletionsLastForALease => completion.retention = LEASE,
            Flaw::EmptyResultsAreNone => completion.result = completion.result.filter(|result| !result.is_empty()),
            Flaw::ResultsAreCut => completion.result.iter_mut().for_each(|result| result.truncate(64 << 10)),
            Flaw::ResultsAreText => {
                completion.result = completion.result.map(|result| String::from_utf8_lossy(&result).as_bytes().to_vec())
            }
            _ => {}
        }
        let was_claimed = self.is_in_progress(&hold.key).await;
        let held = one(self.inner.complete(std::slice::from_ref(&completion)).await);
        let was_granted = self.granted(&hold.key).is_some_and(|(_, token)| token == hold.token);
        match (self.flaw, held) {
            (Flaw::CompletionsAreDoneOnce, Held::Done) if !was_claimed => Held::Lost,
            (Flaw::AnybodyCompletes, Held::Lost) if was_claimed => self.complete_anyway(&completion).await,
            (Flaw::LateHoldersComplete, Held::Lost) if was_granted && self.is_unknown(&hold.key).await => {
                self.complete_anyway(&completion).await
            }
            (_, held) => held,
        }
    }

    async fn complete_anyway(&self, completion: &Completion) -> Held {
        let (key, result) = (completion.hold.key.clone(), completion.result.clone());
        one(self.inner.record(&[Record { key, retention: completion.retention, fingerprint: None, result }]).await);
        Held::Done
    }

    /// Returns the hold with the token of the real holder, if this flaw lets any caller act.
    fn held_by_anybody(&self, flaw: Flaw, hold: &Hold) -> Hold {
        let hold = self.hold(hold);
        match self.granted(&hold.key) {
            Some((_, token)) if self.is(flaw) => Hold { token, ..hold },
            _ => hold,
        }
    }

    async fn release_one(&self, hold: &Hold) -> Held {
        let hold = self.held_by_anybody(Flaw::AnybodyReleases, hold);
        match self.flaw {
            Flaw::ReleasesDoNothing => one(self.inner.renew(&[Renewal { hold, lease: LEASE }]).await),
            _ => one(self.inner.release(&[hold]).await),
        }
    }

    async fn fail_one(&self, failure: &ClaimFailure) -> Held {
        let hold = self.held_by_anybody(Flaw::AnybodyFails, &failure.hold);
        let retry_after = failure.retry_after;
        match self.flaw {
            Flaw::FailuresAreForgotten => one(self.inner.release(&[hold]).await),
            Flaw::FailuresEndNothing => one(self.inner.renew(&[Renewal { hold, lease: retry_after }]).await),
            _ => one(self.inner.fail(&[ClaimFailure { hold, retry_after }]).await),
        }
    }

    async fn renew_one(&self, renewal: &Renewal) -> Held {
        let hold = self.held_by_anybody(Flaw::AnybodyRenews, &renewal.hold);
        let lease = match self.known(&hold.key).await {
            Known::InProgress { lease_left, .. } if self.is(Flaw::RenewalsDoNothing) => lease_left,
            _ => renewal.lease,
        };
        one(self.inner.renew(&[Renewal { hold, lease }]).await)
    }

    async fn look_up_one(&self, key: &RecordKey) -> Known {
        let key = self.kept_as(key);
        let known = self.known(&key).await;
        if known == Known::Unknown && self.is(Flaw::LookingMarks) {
            one(self.inner.mark(&[Mark { key, attempt: 0, retention: LEASE }]).await);
        }
        known
    }

    async fn record_one(&self, record: &Record) {
        let record = Record { key: self.kept_as(&record.key), ..record.clone() };
        let skips = match self.known(&record.key).await {
            Known::Completed(_) => self.is(Flaw::RecordsDoNotOverwrite),
            Known::InProgress { .. } => self.is(Flaw::RecordsSpareClaims),
            Known::Unknown => false,
        };
        if !skips {
            one(self.inner.record(&[record]).await);
        }
    }

    async fn forget_one(&self, key: &RecordKey) -> bool {
        let key = self.kept_as(key);
        let spares = match self.known(&key).await {
            Known::Unknown => return false,
            Known::InProgress { .. } => self.is(Flaw::ForgettingSparesClaims) || self.is(Flaw::ForgettingDoesNothing),
            Known::Completed(_) => self.is(Flaw::ForgettingDoesNothing),
        };
        if !spares {
            self.drop_record(&key).await;
        }
        true
    }

    /// Returns the records that no scan should show.
    async fn hidden(&self) -> Vec<Found> {
        let names: Vec<(RecordKey, RecordKey)> = self.seen().names.clone().into_iter().collect();
        let mut hidden = Vec::new();
        for (kept, key) in names {
            let (flaw, expires_in) = match self.known(&kept).await {
                Known::Unknown => (Flaw::ScansShowWhatIsOver, Duration::from_secs(3_600)),
                Known::InProgress { .. } => (Flaw::ScansShowClaims, Duration::from_secs(3_600)),
                Known::Completed(_) => continue,
            };
            if self.is(flaw) {
                hidden.push(Found::new(key, expires_in));
            }
        }
        hidden
    }
}

impl Flawed {
    /// Refuses an invalid time.
    fn refuses(&self, request: &impl Timed) -> Option<StoreError> {
        request.check().err().filter(|_| !self.is(Flaw::TimesAreClamped))
    }

    fn begin(&self, requests: usize) -> Result<(), StoreError> {
        match requests {
            0 if self.is(Flaw::EmptyBatchesFail) => {
                Err(StoreError::new(ErrorKind::Corrupt, "flawed", "nothing was asked"))
            }
            _ => Ok(()),
        }
    }

    fn end<A>(&self, mut answers: Vec<Result<A, StoreError>>) -> Answers<A> {
        match self.flaw {
            Flaw::AnswersAreOutOfOrder => answers.reverse(),
            Flaw::AnswersAreMissing => drop(answers.pop()),
            _ => {}
        }
        Ok(answers)
    }
}

impl Store for Flawed {
    fn backend(&self) -> &'static str {
        "flawed"
    }

    async fn mark(&self, marks: &[Mark]) -> Answers<Marked> {
        self.begin(marks.len())?;
        if self.is(Flaw::BatchesSeeOnlyWhatWasBefore) {
            let keys: Vec<RecordKey> = marks.iter().map(|mark| mark.key.clone()).collect();
            let known = all(self.inner.look_up(&keys).await);
            let mut answers = all(self.inner.mark(marks).await);
            let seen = answers.iter_mut().zip(known).filter(|(_, known)| *known == Known::Unknown);
            seen.for_each(|(marked, _)| *marked = Marked::Fresh);
            return self.end(answers.into_iter().map(Ok).collect());
        }
        let mut answers = Vec::new();
        for mark in marks {
            answers.push(match self.refuses(mark) {
                Some(error) => Err(error),
                None => Ok(self.mark_one(mark).await),
            });
        }
        self.end(answers)
    }

    async fn unmark(&self, marks: &[Unmark]) -> Answers<Unmarked> {
        self.begin(marks.len())?;
        let mut answers = Vec::new();
        for mark in marks {
            answers.push(Ok(self.unmark_one(mark).await));
        }
        self.end(answers)
    }

    async fn claim(&self, claims: &[ClaimRequest]) -> Answers<Claimed> {
        self.begin(claims.len())?;
        let mut answers = Vec::new();
        for claim in claims {
            answers.push(match self.refuses(claim) {
                Some(error) => Err(error),
                None => Ok(self.claim_one(claim).await),
            });
        }
        self.end(answers)
    }

    async fn complete(&self, completions: &[Completion]) -> Answers<Held> {
        self.begin(completions.len())?;
        let mut answers = Vec::new();
        for completion in completions {
            answers.push(match self.refuses(completion) {
                Some(error) => Err(error),
                None => Ok(self.complete_one(completion).await),
            });
        }
        self.end(answers)
    }

    async fn release(&self, holds: &[Hold]) -> Answers<Held> {
        self.begin(holds.len())?;
        let mut answers = Vec::new();
        for hold in holds {
            answers.push(Ok(self.release_one(hold).await));
        }
        self.end(answers)
    }

    async fn fail(&self, failures: &[ClaimFailure]) -> Answers<Held> {
        self.begin(failures.len())?;
        let mut answers = Vec::new();
        for failure in failures {
            answers.push(match self.refuses(failure) {
                Some(error) => Err(error),
                None => Ok(self.fail_one(failure).await),
            });
        }
        self.end(answers)
    }

    async fn renew(&self, renewals: &[Renewal]) -> Answers<Held> {
        self.begin(renewals.len())?;
        let mut answers = Vec::new();
        for renewal in renewals {
            answers.push(match self.refuses(renewal) {
                Some(error) => Err(error),
                None => Ok(self.renew_one(renewal).await),
            });
        }
        self.end(answers)
    }

    async fn look_up(&self, keys: &[RecordKey]) -> Answers<Known> {
        self.begin(keys.len())?;
        let mut answers = Vec::new();
        for key in keys {
            answers.push(Ok(self.look_up_one(key).await));
        }
        self.end(answers)
    }

    async fn record(&self, records: &[Record]) -> Answers<()> {
        self.begin(records.len())?;
        let mut answers = Vec::new();
        for record in records {
            let refusal = self.refuses(record);
            if refusal.is_none() {
                self.record_one(record).await;
            }
            answers.push(refusal.map_or(Ok(()), Err));
        }
        self.end(answers)
    }

    async fn forget(&self, keys: &[RecordKey]) -> Answers<bool> {
        self.begin(keys.len())?;
        let mut answers = Vec::new();
        for key in keys {
            answers.push(Ok(self.forget_one(key).await));
        }
        self.end(answers)
    }

    async fn expire(&self, limit: usize) -> Result<Expired, StoreError> {
        match self.flaw {
            Flaw::ExpiryRemovesNothing => Ok(Expired::default()),
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
