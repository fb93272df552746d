//! The reference: a map in this process.

use super::decided::{Decided, Request};
use super::error::StoreError;
use super::inspect::{Listed, Listing};
use super::key::RecordKey;
use super::record::{Change, Moment, StoredRecord};
use super::request::*;
use crate::sync::{Mutex, lock};
use hapax::seam::MonotonicClock;
use hapax::{Clock, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
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
    records: Mutex<Records>,
}

#[derive(Default)]
struct Records {
    stored: BTreeMap<RecordKey, StoredRecord>,
    expiries: BTreeSet<(Timestamp, RecordKey)>,
    /// The largest token of any claim so far.
    last_token: u64,
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
        self.lock().stored.len()
    }

    /// Returns true if there are no records.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> crate::sync::MutexGuard<'_, Records> {
        // A panic elsewhere leaves no record half changed: each change is one call to a map.
        lock(&self.records)
    }
}

impl Records {
    fn change(&mut self, key: &RecordKey, change: Change) {
        let before = match change {
            Change::None => return,
            Change::Put(stored) => {
                self.last_token = self.last_token.max(stored.token);
                self.expiries.insert((stored.until, key.clone()));
                let until = stored.until;
                self.stored.insert(key.clone(), stored).filter(|before| before.until != until)
            }
        };
        if let Some(before) = before {
            self.expiries.remove(&(before.until, key.clone()));
        }
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
        Ok(requests
            .iter()
            .map(|request| {
                let at = Moment { now, spent: records.last_token };
                let (answer, change) = decide(records.stored.get(key(request)), request, at);
                records.change(key(request), change);
                Ok(answer)
            })
            .collect())
    }

    async fn remove_expired(&self, limit: usize) -> Result<Expired, StoreError> {
        let (now, mut records) = (self.clock.now(), self.lock());
        let mut expired = Expired::default();
        while records.expiries.first().is_some_and(|(until, _)| *until <= now) {
            if expired.records == limit as u64 {
                expired.more = true;
                break;
            }
            if let Some((_, key)) = records.expiries.pop_first() {
                records.stored.remove(&key);
                expired.records += 1;
            }
        }
        Ok(expired)
    }

    async fn page(&self, from: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        let (now, records) = (self.clock.now(), self.lock());
        let after = from.map(|cursor| RecordKey::from_stored(&cursor.0)).transpose()?;
        let rest = records.stored.range((after.as_ref().map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded));
        let mut listing = Listing::default();
        for (visited, (key, stored)) in rest.enumerate() {
            if now < stored.until {
                listing.listed.push(Listed::new(key.clone(), stored.state(), stored.until.since(now)));
            }
            if visited + 1 >= limit {
                listing.next = Some(Cursor(key.to_stored()));
                break;
            }
        }
        Ok(listing)
    }
}
