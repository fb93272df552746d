//! Stores behind pointers, so that the code that uses them is compiled once and not for each
//! backend.

use super::contract::Store;
use super::error::StoreError;
use super::key::RecordKey;
use super::request::*;
use std::pin::Pin;

/// A call that is under way.
pub type Answering<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A [`Store`] of any type.
pub trait Erased: Send + Sync + 'static {
    fn backend(&self) -> &'static str;
    fn limits(&self) -> Limits;
    fn is_private(&self) -> bool;
    fn answers_at_once(&self) -> bool;
    fn node_of(&self, key: &RecordKey) -> u32;
    fn mark<'a>(&'a self, marks: &'a [Mark]) -> Answering<'a, Answers<Marked>>;
    fn unmark<'a>(&'a self, marks: &'a [Unmark]) -> Answering<'a, Answers<Unmarked>>;
    fn claim<'a>(&'a self, claims: &'a [ClaimRequest]) -> Answering<'a, Answers<Claimed>>;
    fn complete<'a>(&'a self, completions: &'a [Completion]) -> Answering<'a, Answers<Held>>;
    fn release<'a>(&'a self, holds: &'a [Hold]) -> Answering<'a, Answers<Held>>;
    fn fail<'a>(&'a self, failures: &'a [ClaimFailure]) -> Answering<'a, Answers<Held>>;
    fn renew<'a>(&'a self, renewals: &'a [Renewal]) -> Answering<'a, Answers<Held>>;
    fn look_up<'a>(&'a self, keys: &'a [RecordKey]) -> Answering<'a, Answers<Known>>;
    fn record<'a>(&'a self, records: &'a [Record]) -> Answering<'a, Answers<()>>;
    fn forget<'a>(&'a self, keys: &'a [RecordKey]) -> Answering<'a, Answers<bool>>;
    fn expire(&self, limit: usize) -> Answering<'_, Result<Expired, StoreError>>;
    fn scan<'a>(&'a self, from: Option<&'a Cursor>, limit: usize) -> Answering<'a, Result<Page, StoreError>>;
}

impl<S: Store> Erased for S {
    fn backend(&self) -> &'static str {
        Store::backend(self)
    }

    fn is_private(&self) -> bool {
        Store::is_private(self)
    }

    fn answers_at_once(&self) -> bool {
        Store::answers_at_once(self)
    }

    fn node_of(&self, key: &RecordKey) -> u32 {
        Store::node_of(self, key)
    }

    fn limits(&self) -> Limits {
        Store::limits(self)
    }

    fn mark<'a>(&'a self, marks: &'a [Mark]) -> Answering<'a, Answers<Marked>> {
        Box::pin(Store::mark(self, marks))
    }

    fn unmark<'a>(&'a self, marks: &'a [Unmark]) -> Answering<'a, Answers<Unmarked>> {
        Box::pin(Store::unmark(self, marks))
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

    fn fail<'a>(&'a self, failures: &'a [ClaimFailure]) -> Answering<'a, Answers<Held>> {
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
