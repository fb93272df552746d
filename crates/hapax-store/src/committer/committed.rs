//! The implementation of `Store` for a store that leaves everything to the committer's thread.

use super::{Committer, Database};
use crate::contract::Store;
use crate::error::StoreError;
use crate::inspect::{Inspect, Inspected, Listing};
use crate::key::RecordKey;
use crate::record::{self, StoredRecord};
use crate::request::*;
use crate::times::Sound;

/// A store over a committer.
pub trait Committed: Send + Sync + 'static {
    type Database: Database;
    const LIMITS: Limits;
    const IS_PRIVATE: bool;

    fn committer(&self) -> &Committer<Self::Database>;
}

impl<C: Committed> Store for C {
    fn backend(&self) -> &'static str {
        C::Database::BACKEND
    }

    fn limits(&self) -> Limits {
        C::LIMITS
    }

    fn is_private(&self) -> bool {
        C::IS_PRIVATE
    }

    async fn mark(&self, marks: &[Mark]) -> Answers<Marked> {
        let asked = Sound::of(marks);
        let marks = asked.requests();
        let answers = self.committer().change(marks, |mark| &mark.key, record::mark).await;
        asked.answers(answers)
    }

    async fn unmark(&self, marks: &[Unmark]) -> Answers<Unmarked> {
        self.committer().change(marks, |mark| &mark.key, record::unmark).await
    }

    async fn claim(&self, claims: &[ClaimRequest]) -> Answers<Claimed> {
        let asked = Sound::of(claims);
        let claims = asked.requests();
        let answers = self.committer().change(claims, |claim| &claim.key, record::claim).await;
        asked.answers(answers)
    }

    async fn complete(&self, completions: &[Completion]) -> Answers<Held> {
        let asked = Sound::of(completions);
        let completions = asked.requests();
        let answers = self.committer().change(completions, |completion| &completion.hold.key, record::complete).await;
        asked.answers(answers)
    }

    async fn release(&self, holds: &[Hold]) -> Answers<Held> {
        self.committer().change(holds, |hold| &hold.key, record::release).await
    }

    async fn fail(&self, failures: &[ClaimFailure]) -> Answers<Held> {
        let asked = Sound::of(failures);
        let failures = asked.requests();
        let answers = self.committer().change(failures, |failure| &failure.hold.key, record::fail).await;
        asked.answers(answers)
    }

    async fn renew(&self, renewals: &[Renewal]) -> Answers<Held> {
        let asked = Sound::of(renewals);
        let renewals = asked.requests();
        let answers = self.committer().change(renewals, |renewal| &renewal.hold.key, record::renew).await;
        asked.answers(answers)
    }

    async fn look_up(&self, keys: &[RecordKey]) -> Answers<Known> {
        self.committer().look(keys, record::look_up).await
    }

    async fn record(&self, records: &[Record]) -> Answers<()> {
        let asked = Sound::of(records);
        let records = asked.requests();
        let answers = self
            .committer()
            .put(records, |record| &record.key, |record, at| StoredRecord::recorded(None, record, at))
            .await;
        asked.answers(answers)
    }

    async fn forget(&self, keys: &[RecordKey]) -> Answers<bool> {
        self.committer().change(keys, |key| key, |stored, _, at| record::forget(stored, at)).await
    }

    async fn expire(&self, limit: usize) -> Result<Expired, StoreError> {
        self.committer().expire(limit).await
    }

    async fn scan(&self, from: Option<&Cursor>, limit: usize) -> Result<Page, StoreError> {
        self.committer().list(from, limit).await.map(Page::of)
    }
}

impl<C: Committed> Inspect for C {
    async fn inspect(&self, keys: &[RecordKey]) -> Answers<Option<Inspected>> {
        self.committer().look(keys, record::inspect).await
    }

    async fn list(&self, from: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        self.committer().list(from, limit).await
    }
}
