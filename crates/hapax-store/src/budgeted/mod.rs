//! Records in this process's memory, within a budget of bytes.

mod done;

use super::error::{ErrorKind, StoreError};
use super::expiring::Expiring;
use super::inspect::{Listed, Listing};
use super::key::RecordKey;
use super::request::*;
use crate::backend::decided::{Decided, Request};
use crate::backend::record::{Change, Moment, State, StoredRecord};
use crate::sync::{Mutex, MutexGuard, lock};
use done::Done;
use hapax::seam::MonotonicClock;
use hapax::{Clock, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;

/// Records in this process's memory, within a budget of bytes: completed records make room for
/// later completed ones, of the same account first.
///
/// ```
/// use hapax_store::TieredDedup;
/// use hapax_store::BudgetStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let dedup = TieredDedup::builder(BudgetStore::new(64 << 20)?).build().await?;
/// assert!(dedup.check("order-17").await?.is_fresh());
/// assert!(dedup.check("order-17").await?.is_duplicate());
/// # Ok::<(), hapax_store::StoreError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Guarantees
///
/// - A record that is in progress or has failed is never removed before its time. Such records have
///   a quarter of the budget; when that is full, a claim of another id is an error
///   ([`ErrorKind::Unavailable`]), and the claims that are held go on. (8 MiB are enough for the
///   4,096 requests that an HTTP layer has in flight by default.)
/// - Completed records have the rest. When that is full, ids are forgotten before their time: *a
///   message with such an id is handled again*. [`evicted`](BudgetStore::evicted) counts them. A
///   budget that never evicts holds all ids that are completed within the retention.
/// - An *account* that has at most an equal share (the bytes in use, divided by the accounts that
///   have records) loses nothing to others, unless one record is larger than such a share. Accounts
///   are scopes, and within a scope the groups of its ids
///   ([`StoredId::of_group`](super::StoredId::of_group)): for an HTTP layer, the tenants. Accounts
///   above their share lose the ids that have not been asked about for the longest time. The record
///   that was completed last is never evicted.
/// - Tokens also grow over ids that were forgotten, so a holder that comes late changes nothing.
/// - Nothing survives the process, nor does a claim in doubt its lease: whoever takes it over is
///   not told. Several engines of one process may share the store through an
///   [`Arc`](std::sync::Arc).
///
/// # Errors
///
/// A completion whose result alone is larger than the budget of completed records:
/// [`ErrorKind::Misconfigured`], and the claim stays as it was.
///
/// # Cost
///
/// One lock; time logarithmic in the number of records. A completed record counts as 896 bytes plus
/// its result and its scope's name, a record in progress as 512. A [`scan`](super::Store::scan)
/// visits every record for each page.
///
/// Idea: an idempotency cache with least-recently-used eviction, and max-min fairness among the
/// accounts that share it.
pub struct BudgetStore {
    clock: Box<dyn Clock>,
    records: Mutex<Records>,
}

/// The records. An id is in at most one of the two maps.
struct Records {
    /// Those that are in progress or have failed.
    active: Expiring,
    max_active: usize,
    done: Done,
    evicted: u64,
}

/// The bytes of a record besides its result and its scope's name: three copies of its key, of 72
/// bytes each, the record, and its entries in the maps. (Measured with 300,000 records: 715 bytes
/// of resident memory each if one account has all of them, 834 if each has an account of its own.)
const RECORD_BYTES: u64 = 896;
/// The bytes of a record in progress, of which there are two copies of the key.
const CLAIM_BYTES: u64 = 512;
const MIN_BUDGET_BYTES: u64 = 64 << 10;

impl BudgetStore {
    /// Creates an empty store with a budget, on the system's clock.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if the budget is below 64 KiB.
    pub fn new(budget_bytes: u64) -> Result<Self, StoreError> {
        Self::with_clock(budget_bytes, MonotonicClock::since_epoch(Duration::ZERO))
    }

    /// Creates an empty store with a budget, on the given clock.
    ///
    /// # Errors
    ///
    /// Those of [`new`](BudgetStore::new).
    pub fn with_clock(budget_bytes: u64, clock: impl Clock) -> Result<Self, StoreError> {
        if budget_bytes < MIN_BUDGET_BYTES {
            let wrong = format!("option `budget_bytes`: got {budget_bytes}, expected at least {MIN_BUDGET_BYTES}");
            return Err(StoreError::new(ErrorKind::Misconfigured, BACKEND, wrong));
        }
        let active_bytes = budget_bytes / 4;
        let (max_active, done) = ((active_bytes / CLAIM_BYTES) as usize, Done::new(budget_bytes - active_bytes));
        let records = Records { active: Expiring::default(), max_active, done, evicted: 0 };
        Ok(BudgetStore { clock: Box::new(clock), records: Mutex::new(records) })
    }

    /// Returns the number of completed ids that were forgotten before their time for lack of room.
    pub fn evicted(&self) -> u64 {
        self.lock().evicted
    }

    /// Returns the number of bytes of the budget that the records count as.
    pub fn used_bytes(&self) -> u64 {
        let records = self.lock();
        records.done.bytes() + records.active.len() as u64 * CLAIM_BYTES
    }

    fn lock(&self) -> MutexGuard<'_, Records> {
        // Each change is a few calls to maps, which panic only when memory runs out.
        lock(&self.records)
    }
}

impl Records {
    /// Keeps a record, or returns an error and changes nothing.
    fn put(&mut self, key: &RecordKey, mut stored: StoredRecord, now: Timestamp) -> Result<(), StoreError> {
        if !matches!(stored.state, State::Completed { .. }) {
            // Claims that have ended leave their room to others.
            stored.trail.iter_mut().for_each(|trail| trail.doubt = Duration::ZERO);
            // Removes two expired records for each one written, so that expired records never pile
            // up.
            self.active.expire(now, 2);
            if stored.until <= now {
                self.active.remove(key); // it was given back
            } else if self.active.len() >= self.max_active && self.active.get(key).is_none() {
                let full = format!("{} ids are in progress, which is what the budget has room for", self.max_active);
                return Err(StoreError::new(ErrorKind::Unavailable, BACKEND, full));
            } else {
                self.active.put(key, stored);
            }
            self.done.remove(key);
            return Ok(());
        }
        let (weight, max) = (done::weight(key, &stored), self.done.max_bytes());
        if weight > max {
            let wrong = format!("a record of {weight} bytes, expected at most {max}");
            return Err(StoreError::new(ErrorKind::Misconfigured, BACKEND, wrong));
        }
        self.active.remove(key);
        self.evicted += self.done.put(key, stored, now);
        Ok(())
    }
}

const BACKEND: &str = "budget";

impl std::fmt::Debug for BudgetStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (records, mut debug) = (self.lock(), f.debug_struct("BudgetStore"));
        debug.field("done", &records.done.len()).field("active", &records.active.len()).finish_non_exhaustive()
    }
}

impl Decided for BudgetStore {
    const BACKEND: &'static str = BACKEND;
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
            let key = key(request);
            let Records { active, done, .. } = &mut *records;
            let at = Moment { now, spent: active.last_token() };
            let stored = active.get(key).or_else(|| done.get(key));
            let (answer, change) = decide(stored, request, at);
            if let Change::Put(stored) = change {
                records.put(key, stored, now)?;
            }
            Ok(answer)
        });
        Ok(answers.collect())
    }

    async fn remove_expired(&self, limit: usize) -> Result<Expired, StoreError> {
        let (now, mut records) = (self.clock.now(), self.lock());
        let active = records.active.expire(now, limit);
        let done = records.done.expire(now, (limit as u64).saturating_sub(active.records));
        Ok(Expired::new(active.records + done.records, active.more || done.more))
    }

    async fn page(&self, from: Option<&Cursor>, limit: usize) -> Result<Listing, StoreError> {
        let after = from.map(|cursor| RecordKey::from_stored(&cursor.0)).transpose()?;
        let (now, limit) = (self.clock.now(), limit.max(1));
        let mut first: BTreeMap<RecordKey, Listed> = BTreeMap::new();
        let records = self.lock();
        let done = records.done.iter().filter(|(key, _)| after.as_ref().is_none_or(|after| *key > after));
        for (key, stored) in done.chain(records.active.after(after.as_ref())) {
            first.extend(stored.listed(key.clone(), now).map(|listed| (key.clone(), listed)));
            if first.len() > limit {
                first.pop_last();
            }
        }
        drop(records);
        let next = first.last_key_value().filter(|_| first.len() == limit).map(|(key, _)| Cursor(key.to_stored()));
        Ok(Listing { listed: first.into_values().collect(), next })
    }
}

#[cfg(test)]
mod tests;
