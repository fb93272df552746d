//! Stores and fixtures behind pointers, so that the suite is compiled once and not for each backend.

use super::fixture::Fixture;
use crate::store::*;
use std::pin::Pin;
use std::time::Duration;

type Answering<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A [`Store`], whichever.
pub(super) trait AnyStore: Send + Sync {
    fn limits(&self) -> Limits;
    fn mark<'a>(&'a self, marks: &'a [Mark]) -> Answering<'a, Answers<Marked>>;
    fn claim<'a>(&'a self, claims: &'a [ClaimRequest]) -> Answering<'a, Answers<Claimed>>;
    fn complete<'a>(&'a self, completions: &'a [Completion]) -> Answering<'a, Answers<Held>>;
    fn release<'a>(&'a self, holds: &'a [Hold]) -> Answering<'a, Answers<Held>>;
    fn fail<'a>(&'a self, failures: &'a [Failure]) -> Answering<'a, Answers<Held>>;
    fn renew<'a>(&'a self, renewals: &'a [Renewal]) -> Answering<'a, Answers<Held>>;
    fn look_up<'a>(&'a self, keys: &'a [RecordKey]) -> Answering<'a, Answers<Known>>;
    fn record<'a>(&'a self, records: &'a [Record]) -> Answering<'a, Answers<()>>;
    fn forget<'a>(&'a self, keys: &'a [RecordKey]) -> Answering<'a, Answers<bool>>;
    fn expire(&self, limit: usize) -> Answering<'_, Result<Expired, StoreError>>;
    fn scan<'a>(&'a self, from: Option<&'a Cursor>, limit: usize) -> Answering<'a, Result<Page, StoreError>>;
}

impl<S: Store> AnyStore for S {
    fn limits(&self) -> Limits {
        Store::limits(self)
    }

    fn mark<'a>(&'a self, marks: &'a [Mark]) -> Answering<'a, Answers<Marked>> {
        Box::pin(Store::mark(self, marks))
    }

    fn claim<'a>(&'a self, claims: &'a [ClaimRequest]) -> Answering<'a, Answers<Claimed>> {
        Box::pin(Store::claim(self, claims))
    }

    fn complete<'a>(&'a self, completions: &'a [Completion]) -> Answering<'a, Answers<Held>> {
        Box::pin(Store::complete(self, completions))
    }

    fn release<'a>(&'a self, holds: &'a [Hold]) -> Answering<'a, Answers<Held>> {
        Box::pin(Store::release(self, holds))
    }

    fn fail<'a>(&'a self, failures: &'a [Failure]) -> Answering<'a, Answers<Held>> {
        Box::pin(Store::fail(self, failures))
    }

    fn renew<'a>(&'a self, renewals: &'a [Renewal]) -> Answering<'a, Answers<Held>> {
        Box::pin(Store::renew(self, renewals))
    }

    fn look_up<'a>(&'a self, keys: &'a [RecordKey]) -> Answering<'a, Answers<Known>> {
        Box::pin(Store::look_up(self, keys))
    }

    fn record<'a>(&'a self, records: &'a [Record]) -> Answering<'a, Answers<()>> {
        Box::pin(Store::record(self, records))
    }

    fn forget<'a>(&'a self, keys: &'a [RecordKey]) -> Answering<'a, Answers<bool>> {
        Box::pin(Store::forget(self, keys))
    }

    fn expire(&self, limit: usize) -> Answering<'_, Result<Expired, StoreError>> {
        Box::pin(Store::expire(self, limit))
    }

    fn scan<'a>(&'a self, from: Option<&'a Cursor>, limit: usize) -> Answering<'a, Result<Page, StoreError>> {
        Box::pin(Store::scan(self, from, limit))
    }
}

/// A [`Fixture`], whichever.
pub(super) trait AnyFixture: Sync {
    fn open(&self) -> Answering<'_, Box<dyn AnyStore>>;
    fn advance(&self, by: Duration) -> Answering<'_, ()>;
    fn expires_by_record(&self) -> bool;
}

impl<F: Fixture> AnyFixture for F {
    fn open(&self) -> Answering<'_, Box<dyn AnyStore>> {
        Box::pin(async { Box::new(Fixture::open(self).await) as Box<dyn AnyStore> })
    }

    fn advance(&self, by: Duration) -> Answering<'_, ()> {
        Box::pin(Fixture::advance(self, by))
    }

    fn expires_by_record(&self) -> bool {
        Fixture::expires_by_record(self)
    }
}
