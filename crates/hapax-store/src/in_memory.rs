//! The reference: a map in this process.

use super::error::StoreError;
use super::expiring::Expiring;
use super::inspect::Listing;
use super::key::RecordKey;
use super::request::*;
use crate::backend::decided::{Decided, Request};
use crate::backend::record::{Change, Moment, StoredRecord};
use crate::sync::{Mutex, MutexGuard, lock};
use hapax::Clock;
use hapax::seam::MonotonicClock;
use std::time::Duration;

/// Records in this process's memory: the reference for the behaviour of a [`Store`](super::Store),
/// and the store for tests.
///
/// ```
/// use hapax::ManualClock;
/// use hapax_store::InMemoryStore;
///
/// let clock = ManualClock::new();
/// let store = InMemoryStore::with_clock(clock.clone()); // expires when the test says so
/// assert_eq!(store.len(), 0);
/// ```
///
/// Several engines of one process may share it through an [`Arc`](std::sync::Arc). Nothing survives
/// the process. It has one lock, and uses memory for every record until
/// [`expire`](super::Store::expire) has removed it: about 200 bytes each. Time is the given
/// clock's.
pub struct InMemoryStore {
    clock: Box<dyn Clock>,
    records: Mutex<Expiring>,
}

impl InMemoryStore {
    /// Creates an empty store, on the system's clock.
    pub fn new() -> Self {
        Self::with_clock(MonotonicClock::since_epoch(Duration::ZERO))
    }

    /// Creates an empty store, on the given clock.
    pub fn with_clock(clock: impl Clock) -> Self {
        InMemoryStore { clock: Box::new(clock), records: Mutex::default() }
    }

    /// Returns the number of records, including those that have expired and are not yet removed.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Returns true if there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Expiring> {
        // A panic elsewhere leaves no record half changed: each change is one call to a map.
        lock(&self.records)
    }
}

impl Default for InMemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for InMemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InMemoryStore").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Decided for InMemoryStore {
    const BACKEND: &'static str = "in memory";
    const ANSWERS_AT_ONCE: bool = true;

    async fn change<R: Request, A: Send + 'static>(
        &self,
        requests: &[R],
        key: fn(&R) -> &RecordKey,
        decide: impl Fn(Option<&StoredRecord>, &R, Moment) -> (A, Change) + Send + Sync + 'static,
    ) -> Answers<A> {
        let (now, mut records) = (self.clock.now(), self.lock());
        let answers = requests.iter().map(|request| {
            request.check()?;
            let at = Moment { now, spent: records.last_token() };
            let (answer, change) = decide(records.get(key(request)), request, at);
            if let Change::Put(stored) = change {
                records.put(key(request), stored);
            }
            Ok(answer)
        });
        Ok(answers.collect())
    }

    async fn remove_expired(&self, limit: usize) -> Result<Expired, StoreError> {
        let (now, mut records) = (self.clock.now(), self.lock());
        Ok(records.expire(now, limit))
    }

    async fn page(&self, from: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        let (now, records) = (self.clock.now(), self.lock());
        let after = from.map(|cursor| RecordKey::from_stored(&cursor.0)).transpose()?;
        let mut listing = Listing::default();
        for (visited, (key, stored)) in records.after(after.as_ref()).enumerate() {
            listing.listed.extend(stored.listed(key.clone(), now));
            if visited + 1 >= limit {
                listing.next = Some(Cursor(key.to_stored()));
                break;
            }
        }
        Ok(listing)
    }
}
