//! The implementation of `Store` for those that decide request after request on a record that they
//! have.

use super::record::{self, Change, Moment, StoredRecord};
use super::times::Timed;
use crate::contract::Store;
use crate::error::StoreError;
use crate::inspect::{Inspect, Inspected, Listing};
use crate::key::RecordKey;
use crate::request::*;

/// A place of records. What becomes of a record, [`record`] decides.
pub trait Decided: Send + Sync + 'static {
    const BACKEND: &'static str;
    const LIMITS: Limits = Limits { batch: 1_024, under_way: 2 };
    /// True if no other process can have it open at the same time.
    const IS_PRIVATE: bool = false;
    /// True if every call finishes when it is polled for the first time.
    const ANSWERS_AT_ONCE: bool = false;

    /// Decides each request on the record of its key, and keeps the decided record. A request whose
    /// [time is invalid](Timed::check) has an error instead.
    fn change<R: Request, A: Send + 'static>(
        &self,
        requests: &[R],
        key: fn(&R) -> &RecordKey,
        decide: impl Fn(Option<&StoredRecord>, &R, Moment) -> (A, Change) + Send + Sync + 'static,
    ) -> impl Future<Output = Answers<A>> + Send;

    /// Looks at the record of each key: unless a store has a shorter way, as changes that change
    /// nothing.
    fn look<A: Send + 'static>(
        &self,
        keys: &[RecordKey],
        decide: fn(Option<&StoredRecord>, Moment) -> A,
    ) -> impl Future<Output = Answers<A>> + Send {
        self.change(keys, |key| key, move |stored, _, at| (decide(stored, at), Change::None))
    }

    /// Keeps a record for each request, whatever the earlier record is.
    fn put<R: Request>(
        &self,
        requests: &[R],
        key: fn(&R) -> &RecordKey,
        stored: fn(&R, Moment) -> StoredRecord,
    ) -> impl Future<Output = Answers<()>> + Send {
        self.change(requests, key, move |_, request, at| ((), Change::Put(stored(request, at))))
    }

    /// Removes expired records.
    fn remove_expired(&self, limit: usize) -> impl Future<Output = Result<Expired, StoreError>> + Send;

    /// Returns a page of a list of records.
    fn page(&self, from: Option<&Cursor>, limit: usize) -> impl Future<Output = Result<Listing, StoreError>> + Send;
}

/// A request that another thread may decide.
pub trait Request: Timed + Send + Sync + 'static {}

impl<R: Timed + Send + Sync + 'static> Request for R {}

impl<D: Decided> Store for D {
    fn backend(&self) -> &'static str {
        D::BACKEND
    }

    fn limits(&self) -> Limits {
        D::LIMITS
    }

    fn is_private(&self) -> bool {
        D::IS_PRIVATE
    }

    fn answers_at_once(&self) -> bool {
        D::ANSWERS_AT_ONCE
    }

    async fn mark(&self, marks: &[Mark]) -> Answers<Marked> {
        self.change(marks, |mark| &mark.key, record::mark).await
    }

    async fn unmark(&self, marks: &[Unmark]) -> Answers<Unmarked> {
        self.change(marks, |mark| &mark.key, record::unmark).await
    }

    async fn claim(&self, claims: &[ClaimRequest]) -> Answers<Claimed> {
        self.change(claims, |claim| &claim.key, record::claim).await
    }

    async fn complete(&self, completions: &[Completion]) -> Answers<Held> {
        self.change(completions, |completion| &completion.hold.key, record::complete).await
    }

    async fn release(&self, holds: &[Hold]) -> Answers<Held> {
        self.change(holds, |hold| &hold.key, record::release).await
    }

    async fn fail(&self, failures: &[ClaimFailure]) -> Answers<Held> {
        self.change(failures, |failure| &failure.hold.key, record::fail).await
    }

    async fn renew(&self, renewals: &[Renewal]) -> Answers<Held> {
        self.change(renewals, |renewal| &renewal.hold.key, record::renew).await
    }

    async fn look_up(&self, keys: &[RecordKey]) -> Answers<Known> {
        self.look(keys, record::look_up).await
    }

    async fn record(&self, records: &[Record]) -> Answers<()> {
        self.put(records, |record| &record.key, |record, at| StoredRecord::recorded(None, record, at)).await
    }

    async fn forget(&self, keys: &[RecordKey]) -> Answers<bool> {
        self.change(keys, |key| key, |stored, _, at| record::forget(stored, at)).await
    }

    async fn expire(&self, limit: usize) -> Result<Expired, StoreError> {
        self.remove_expired(limit).await
    }

    async fn scan(&self, from: Option<&Cursor>, limit: usize) -> Result<Page, StoreError> {
        self.page(from, limit).await.map(Page::of)
    }
}

impl<D: Decided> Inspect for D {
    async fn inspect(&self, keys: &[RecordKey]) -> Answers<Option<Inspected>> {
        self.look(keys, record::inspect).await
    }

    async fn list(&self, from: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        self.page(from, limit).await
    }
}
