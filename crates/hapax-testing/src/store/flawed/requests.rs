//! The answers to single requests, each with its own flaws.

use super::*;

impl Flawed {
    /// Notes that a claim has ended. With this flaw, its token comes again.
    fn has_ended(&self, key: &RecordKey, held: Held, flaw: Flaw) {
        if held == Held::Done {
            let mut seen = self.seen();
            let open = seen.open.remove(key);
            if let Some(token) = open.filter(|_| self.is(flaw)) {
                seen.again.insert(key.clone(), token);
            }
        }
    }

    fn shifts_leases(&self) -> bool {
        use Flaw::*;
        matches!(self.flaw, LeasesEndASecondEarly | LeasesEndANanosecondEarly | LeasesLastANanosecondLonger)
    }

    fn shifts_retentions(&self) -> bool {
        use Flaw::*;
        matches!(
            self.flaw,
            RetentionsEndASecondEarly
                | RetentionsEndANanosecondEarly
                | RetentionsLastTwoSecondsLonger
                | RetentionsLastANanosecondLonger
        )
    }

    /// Returns a duration that is wrong by as much as the flaw says.
    fn shifted(&self, duration: Duration) -> Duration {
        use Flaw::*;
        let (second, nanosecond) = (Duration::from_secs(1), Duration::from_nanos(1));
        let earlier = |by| duration.saturating_sub(by).max(nanosecond);
        match self.flaw {
            LeasesEndASecondEarly | RetentionsEndASecondEarly => earlier(second),
            LeasesEndANanosecondEarly | RetentionsEndANanosecondEarly => earlier(nanosecond),
            LeasesLastANanosecondLonger | RetentionsLastANanosecondLonger => duration + nanosecond,
            RetentionsLastTwoSecondsLonger => duration + 2 * second,
            _ => duration,
        }
    }

    async fn is_held(&self, hold: &Hold) -> bool {
        let has_failed = self.seen().failed.contains_key(&hold.key);
        !has_failed
            && self.is_in_progress(&hold.key).await
            && self.granted(&hold.key).is_some_and(|(_, token)| token == hold.token)
    }

    /// Returns true if the lease of this claim ended less than four seconds ago, and nothing else
    /// ended it.
    async fn has_just_expired(&self, hold: &Hold) -> bool {
        let is_unknown = self.is_unknown(&hold.key).await;
        let seen = self.seen();
        let end = seen.leases.get(&hold.key).copied().unwrap_or_default();
        is_unknown && seen.open.get(&hold.key) == Some(&hold.token) && self.clock.now() < end + Duration::from_secs(4)
    }

    pub(super) async fn mark_one(&self, mark: &Mark) -> Marked {
        let mut mark = Mark { key: self.kept_as(&mark.key), ..mark.clone() };
        match self.flaw {
            Flaw::MarksAreAlwaysFresh => self.drop_record(&mark.key).await,
            Flaw::MarksRace => self.race_for(&mark.key).await,
            Flaw::MarksIgnoreClaims if self.is_in_progress(&mark.key).await => self.drop_record(&mark.key).await,
            Flaw::MarksForgetAttempts => mark.attempt = self.numbers.fetch_add(1, Ordering::Relaxed),
            Flaw::MarksDoNotEnd => mark.retention *= 1_000,
            _ if self.shifts_retentions() => mark.retention = self.shifted(mark.retention),
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

    pub(super) async fn unmark_one(&self, unmark: &Unmark) -> Unmarked {
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

    pub(super) async fn claim_one(&self, claim: &ClaimRequest) -> Claimed {
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
                    return Claimed::Claimed { token, before: None };
                }
            }
            Flaw::CancelledClaimsAreNobodys if known == Known::Unknown => {
                one(self.inner.claim(&[ClaimRequest { attempt: 0, ..claim.clone() }]).await);
                tokio::time::sleep(Duration::from_millis(3)).await;
                self.drop_record(&key).await;
            }
            Flaw::LeasesDoNotEnd => claim.lease *= 1_000,
            Flaw::DoubtDoesNotEnd => claim.doubt *= 1_000,
            Flaw::DoubtEndsASecondEarly => claim.doubt = claim.doubt.saturating_sub(Duration::from_secs(1)),
            Flaw::AskedAgainClaimsLoseTheirFingerprints if again.is_some() && is_claimed => {
                self.drop_record(&key).await;
                claim.fingerprint = None;
            }
            _ if self.shifts_leases() => claim.lease = self.shifted(claim.lease),
            Flaw::FingerprintsAreNotKept => claim.fingerprint = None,
            _ => {}
        }
        let attempt = claim.attempt;
        let claimed = one(self.inner.claim(&[claim.clone()]).await);
        let mut comes_again = None;
        if let Claimed::Claimed { token, .. } = claimed {
            let mut seen = self.seen();
            let is_open = seen.open.insert(key.clone(), token);
            comes_again = seen
                .again
                .remove(&key)
                .or(is_open.filter(|_| self.is(Flaw::TokensComeAgainAfterTheEndOfALease) && known == Known::Unknown));
            seen.leases.insert(key.clone(), self.clock.now() + claim.lease);
            seen.failed.remove(&key);
            seen.granted.insert(key, (attempt, token));
        }
        if let (Some(token), Claimed::Claimed { .. }) = (comes_again, &claimed) {
            return Claimed::Claimed { token, before: None };
        }
        match (self.flaw, claimed) {
            (Flaw::AskedAgainClaimsLoseTheirFingerprints, Claimed::Claimed { token: real, .. }) => {
                let token = again.filter(|_| is_claimed).map_or(real, |(_, token)| token);
                self.seen().renamed.insert(claim.key.clone(), (token, real));
                Claimed::Claimed { token, before: None }
            }
            (Flaw::TokensStartAnew, Claimed::Claimed { before, .. }) => Claimed::Claimed { token: 1, before },
            (Flaw::TokensAreTooLarge, Claimed::Claimed { token, before }) => {
                Claimed::Claimed { token: token | 1 << 63, before }
            }
            (Flaw::RefusalsNameNobody, Claimed::InProgress { lease_left, .. }) => {
                Claimed::InProgress { lease_left, held_by: None }
            }
            (Flaw::TakeoversAreNotTold, Claimed::Claimed { token, .. }) => Claimed::Claimed { token, before: None },
            (Flaw::TakeoversNameTheLast, Claimed::Claimed { token, before: Some(before) }) if again.is_none() => {
                let (last, held_by) = (granted.map_or(0, |(_, token)| token), before.held_by().cloned());
                Claimed::Claimed { token, before: Some(Before::new(last, held_by)) }
            }
            (Flaw::TakeoversNameNobody, Claimed::Claimed { token, before: Some(before) }) => {
                Claimed::Claimed { token, before: Some(Before::new(before.store_token(), None)) }
            }
            (Flaw::ReportedEndsAreDoubted, Claimed::Claimed { token, before: None }) if !claim.doubt.is_zero() => {
                let failed = granted.filter(|_| again.is_none() && known == Known::Unknown);
                let held_by = claim.held_by.clone();
                Claimed::Claimed { token, before: failed.map(|(_, token)| Before::new(token, held_by)) }
            }
            (Flaw::NoTimeIsLeft, Claimed::InProgress { .. }) => {
                Claimed::InProgress { lease_left: Duration::ZERO, held_by: None }
            }
            (Flaw::FingerprintsAreNotComparedInProgress, Claimed::Mismatch) if is_claimed => {
                Claimed::InProgress { lease_left: claim.lease, held_by: None }
            }
            (Flaw::FingerprintsAreNotComparedWhenDone, Claimed::Mismatch) if is_done => {
                one(self.inner.claim(&[ClaimRequest { fingerprint: None, ..claim }]).await)
            }
            (_, claimed) => claimed,
        }
    }

    pub(super) async fn complete_one(&self, completion: &Completion) -> Held {
        let hold = self.hold(&completion.hold);
        let mut completion = Completion { hold: hold.clone(), ..completion.clone() };
        match self.flaw {
            Flaw::CompletionsLastForALease => completion.retention = LEASE,
            _ if self.shifts_retentions() => completion.retention = self.shifted(completion.retention),
            Flaw::EmptyResultsAreNone => completion.result = completion.result.filter(|result| !result.is_empty()),
            Flaw::ResultsAreCut => completion.result.iter_mut().for_each(|result| result.truncate(64 << 10)),
            Flaw::ResultsAreText => {
                completion.result = completion.result.map(|result| String::from_utf8_lossy(&result).as_bytes().to_vec())
            }
            _ => {}
        }
        let before = self.known(&hold.key).await;
        let was_claimed = matches!(before, Known::InProgress { .. });
        let held = one(self.inner.complete(std::slice::from_ref(&completion)).await);
        let was_granted = self.granted(&hold.key).is_some_and(|(_, token)| token == hold.token);
        self.has_ended(&hold.key, held, Flaw::TokensComeAgainAfterACompletion);
        match (self.flaw, held, before) {
            (Flaw::CompletionsAskedAgainOverwrite, Held::Done, Known::Completed(before)) => {
                let result = completion.result.clone();
                let retention = before.expires_in;
                self.complete_anyway(&Completion { result, retention, ..completion }).await
            }
            (Flaw::CompletionsAskedAgainExtend, Held::Done, Known::Completed(Completed { result, .. })) => {
                self.complete_anyway(&Completion { result, ..completion }).await
            }
            (Flaw::CompletionsAreDoneOnce, Held::Done, _) if !was_claimed => Held::Lost,
            (Flaw::AnybodyCompletes, Held::Lost, _) if was_claimed => self.complete_anyway(&completion).await,
            (Flaw::LateHoldersComplete, Held::Lost, _) if was_granted && self.is_unknown(&hold.key).await => {
                self.complete_anyway(&completion).await
            }
            (_, held, _) => held,
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

    pub(super) async fn release_one(&self, hold: &Hold) -> Held {
        let hold = self.held_by_anybody(Flaw::AnybodyReleases, hold);
        match self.flaw {
            Flaw::ReleasesDoNothing => one(self.inner.renew(&[Renewal { hold, lease: LEASE }]).await),
            _ => {
                let held = one(self.inner.release(std::slice::from_ref(&hold)).await);
                if self.is(Flaw::ReleasesEndDoubt) && held == Held::Done {
                    self.drop_record(&hold.key).await;
                }
                self.has_ended(&hold.key, held, Flaw::TokensComeAgainAfterARelease);
                held
            }
        }
    }

    pub(super) async fn fail_one(&self, failure: &ClaimFailure) -> Held {
        let hold = self.held_by_anybody(Flaw::AnybodyFails, &failure.hold);
        let mut retry_after = failure.retry_after;
        match self.flaw {
            Flaw::FailuresEndASecondEarly => retry_after = retry_after.saturating_sub(Duration::from_secs(1)),
            Flaw::FailuresForgetFingerprints if self.is_held(&hold).await => {
                self.drop_record(&hold.key).await;
                let key = hold.key.clone();
                let anew = ClaimRequest {
                    key,
                    attempt: 0,
                    lease: LEASE,
                    fingerprint: None,
                    held_by: None,
                    doubt: Duration::ZERO,
                };
                if let Claimed::Claimed { token, .. } = one(self.inner.claim(&[anew]).await) {
                    self.seen().failed.insert(hold.key.clone(), hold.token);
                    let failure = ClaimFailure { hold: Hold { token, ..hold }, retry_after };
                    return one(self.inner.fail(&[failure]).await);
                }
            }
            _ => {}
        }
        match self.flaw {
            Flaw::FailuresAreForgotten => one(self.inner.release(&[hold]).await),
            Flaw::FailuresEndNothing if !retry_after.is_zero() => {
                one(self.inner.renew(&[Renewal { hold, lease: retry_after }]).await)
            }
            _ => {
                let held = one(self.inner.fail(&[ClaimFailure { hold: hold.clone(), retry_after }]).await);
                if held == Held::Done {
                    let mut seen = self.seen();
                    seen.open.remove(&hold.key);
                    seen.failed.insert(hold.key, hold.token);
                }
                held
            }
        }
    }

    pub(super) async fn renew_one(&self, renewal: &Renewal) -> Held {
        let hold = self.held_by_anybody(Flaw::AnybodyRenews, &renewal.hold);
        let lease = match self.known(&hold.key).await {
            Known::InProgress { lease_left, .. } if self.is(Flaw::RenewalsDoNothing) => lease_left,
            Known::InProgress { lease_left, .. } if self.is(Flaw::RenewalsOnlyLengthen) => {
                lease_left.max(renewal.lease)
            }
            _ if self.shifts_leases() => self.shifted(renewal.lease),
            _ => renewal.lease,
        };
        let held = one(self.inner.renew(&[Renewal { hold: hold.clone(), lease }]).await);
        match (self.flaw, held) {
            (Flaw::RenewalsRevive, Held::Lost) if self.has_just_expired(&hold).await => Held::Done,
            (Flaw::FailedClaimsAreRenewed, Held::Lost) if self.seen().failed.get(&hold.key) == Some(&hold.token) => {
                Held::Done
            }
            (_, held) => held,
        }
    }

    pub(super) async fn look_up_one(&self, key: &RecordKey) -> Known {
        let key = self.kept_as(key);
        let known = self.known(&key).await;
        if known == Known::Unknown && self.is(Flaw::LookingMarks) {
            one(self.inner.mark(&[Mark { key, attempt: 0, retention: LEASE }]).await);
        }
        known
    }

    pub(super) async fn record_one(&self, record: &Record) {
        let mut record = Record { key: self.kept_as(&record.key), ..record.clone() };
        if self.shifts_retentions() {
            record.retention = self.shifted(record.retention);
        }
        let known = self.known(&record.key).await;
        if let Known::Completed(before) = &known {
            match self.flaw {
                Flaw::RecordsKeepResults => record.result = record.result.or(before.result.clone()),
                Flaw::RecordsKeepFingerprints => record.fingerprint = record.fingerprint.or(before.fingerprint),
                Flaw::RecordsKeepLongerRetentions => record.retention = record.retention.max(before.expires_in),
                _ => {}
            }
        }
        self.has_ended(&record.key, Held::Done, Flaw::TokensComeAgainAfterARecord);
        let skips = match known {
            Known::Completed(_) => self.is(Flaw::RecordsDoNotOverwrite),
            Known::InProgress { .. } => self.is(Flaw::RecordsSpareClaims),
            Known::Unknown => false,
        };
        if !skips {
            one(self.inner.record(&[record]).await);
        }
    }

    pub(super) async fn forget_one(&self, key: &RecordKey) -> bool {
        let key = self.kept_as(key);
        let spares = match self.known(&key).await {
            Known::Unknown if self.is(Flaw::ForgettingFindsWhatIsOver) => return self.seen().leases.contains_key(&key),
            Known::Unknown if self.is(Flaw::ForgettingSparesDoubt) => return false,
            Known::Unknown => return one(self.inner.forget(&[key]).await),
            Known::InProgress { .. } => self.is(Flaw::ForgettingSparesClaims) || self.is(Flaw::ForgettingDoesNothing),
            Known::Completed(_) => self.is(Flaw::ForgettingDoesNothing),
        };
        self.has_ended(&key, Held::Done, Flaw::TokensComeAgainAfterAForget);
        if !spares {
            self.drop_record(&key).await;
        }
        true
    }

    /// Returns the records that no scan should show.
    pub(super) async fn hidden(&self) -> Vec<Found> {
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
