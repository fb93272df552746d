//! Records in this process's memory, in as many bytes as it is given.

mod active;

use super::contract::Store;
use super::error::{ErrorKind, StoreError};
use super::key::RecordKey;
use super::record::{self, Change, Kept, State};
use super::request::*;
use super::times::Sound;
use crate::sync::{Mutex, MutexGuard, Ordering, StdAtomicU64};
use crate::{Clock, MonotonicClock, Timestamp};
use active::Active;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Records in this process's memory, within a budget of bytes: what is completed makes room for
/// what is completed later, *whoever completes it*. Where several tenants share one, any of them
/// can complete so much that another's ids are forgotten before their time, and handled again: it
/// is for callers that trust each other. Others have a store each, or one that forgets by time
/// only: Redis, PostgreSQL, fjall, SQLite.
///
/// ```
/// use hapax::TieredDedup;
/// use hapax::store::MokaStore;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let dedup = TieredDedup::builder(MokaStore::new(64 << 20)?).build().await?;
/// assert!(dedup.check("order-17").await?.is_fresh());
/// assert!(dedup.check("order-17").await?.is_duplicate());
/// # Ok::<(), hapax::store::StoreError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Guarantees
///
/// - What is in progress or has failed is never removed before its time. It has a quarter of the
///   budget; when that is full, a claim of another id is an error ([`ErrorKind::Unavailable`]),
///   and those that are held go on. (8 MiB are enough for the 4,096 requests that an HTTP layer has
///   in flight by default.)
/// - What is completed has the rest, which it may exceed for a moment by a sixty-fourth, and by its
///   largest record. When that is full, the ids that nobody has asked about for the longest time
///   are forgotten: *a message of such an id is handled again*. [`evicted`](MokaStore::evicted)
///   counts them. A budget that never evicts holds what is completed within the retention.
/// - Tokens grow also over ids that were forgotten, so a holder that comes late changes nothing.
/// - Nothing survives the process. Several engines of one process may share it, by an [`Arc`].
///
/// # Errors
///
/// A completion whose result alone is larger than the part of the budget for what is completed:
/// [`ErrorKind::Misconfigured`], and the claim is as it was.
///
/// # Cost
///
/// One lock. A record counts as 512 bytes, its result and its scope's name. A [`scan`](Store::scan)
/// visits every record for each page.
///
/// Idea: an idempotency cache with least-recently-used eviction, as moka (after Caffeine) has it.
/// Not its TinyLFU, which may turn away what is newest, and retries are about what is newest.
pub struct MokaStore {
    clock: Box<dyn Clock>,
    active: Mutex<Active>,
    /// Changed only while `active` is locked, so that no id is in both.
    done: Cache<RecordKey, Arc<Done>>,
    done_bytes: u64,
    /// What was put into `done` since it last made room. Changed only while `active` is locked.
    unsettled_bytes: StdAtomicU64,
    evicted: Arc<StdAtomicU64>,
}

struct Done {
    kept: Kept,
    /// From when it was put here.
    lasts: Duration,
}

/// What a record costs besides its result and its scope's name: key, value and what moka keeps for either.
const RECORD_BYTES: u64 = 512;
const MIN_BUDGET_BYTES: u64 = 64 << 10;

fn weight(key: &RecordKey, kept: &Kept) -> u64 {
    let result = match &kept.state {
        State::Completed { result: Some(result), .. } => result.len(),
        _ => 0,
    };
    RECORD_BYTES + (key.scope.as_str().len() + result) as u64
}

/// When moka removes what is over: never too early, since `lasts` began with or before moka's own time. (It is over for us by our own clock.)
struct WhenOver;

impl moka::Expiry<RecordKey, Arc<Done>> for WhenOver {
    fn expire_after_create(&self, _: &RecordKey, done: &Arc<Done>, _: Instant) -> Option<Duration> {
        const MAX: Duration = Duration::from_secs(100 * 366 * 24 * 3600);
        const SLACK: Duration = Duration::from_secs(1);
        Some(done.lasts.min(MAX) + SLACK)
    }

    fn expire_after_update(
        &self,
        key: &RecordKey,
        done: &Arc<Done>,
        now: Instant,
        _: Option<Duration>,
    ) -> Option<Duration> {
        self.expire_after_create(key, done, now)
    }
}

impl MokaStore {
    /// An empty store with a budget, by the system's clock.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if the budget is below 64 KiB.
    pub fn new(budget_bytes: u64) -> Result<Self, StoreError> {
        Self::with_clock(budget_bytes, MonotonicClock::since_epoch(Duration::ZERO))
    }

    /// An empty store with a budget, by this clock.
    ///
    /// # Errors
    ///
    /// As [`new`](MokaStore::new).
    pub fn with_clock(budget_bytes: u64, clock: impl Clock) -> Result<Self, StoreError> {
        if budget_bytes < MIN_BUDGET_BYTES {
            let wrong = format!("option `budget_bytes`: got {budget_bytes}, expected at least {MIN_BUDGET_BYTES}");
            return Err(StoreError::new(ErrorKind::Misconfigured, BACKEND, wrong));
        }
        let active_bytes = budget_bytes / 4;
        let done_bytes = budget_bytes - active_bytes;
        let evicted = Arc::new(StdAtomicU64::new(0));
        let counted = Arc::clone(&evicted);
        let done = Cache::builder()
            .max_capacity(done_bytes)
            .weigher(|key, done: &Arc<Done>| u32::try_from(weight(key, &done.kept)).unwrap_or(u32::MAX))
            .eviction_policy(EvictionPolicy::lru())
            .expire_after(WhenOver)
            .eviction_listener(move |_, _, cause| {
                if cause == moka::notification::RemovalCause::Size {
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            })
            .build();
        let active = Mutex::new(Active::new((active_bytes / RECORD_BYTES) as usize));
        let unsettled_bytes = StdAtomicU64::new(0);
        Ok(MokaStore { clock: Box::new(clock), active, done, done_bytes, unsettled_bytes, evicted })
    }

    /// How many completed ids were forgotten before their time, for want of room.
    pub fn evicted(&self) -> u64 {
        // Relaxed: a count that nothing is decided by.
        self.evicted.load(Ordering::Relaxed)
    }

    /// How many bytes of the budget the records count as.
    pub fn used_bytes(&self) -> u64 {
        self.done.run_pending_tasks();
        self.done.weighted_size() + self.lock().len() as u64 * RECORD_BYTES
    }

    fn lock(&self) -> MutexGuard<'_, Active> {
        // Each change is one call to a map and one to an index of it: what a panic between them leaves behind expires.
        self.active.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Decides request after request, and does what is decided.
    fn each<R, A>(
        &self,
        requests: &[R],
        key: impl Fn(&R) -> &RecordKey,
        decide: impl Fn(Option<&Kept>, &R, Timestamp) -> (A, Change),
    ) -> Answers<A> {
        let (now, mut active) = (self.clock.now(), self.lock());
        let answers = requests.iter().map(|request| {
            let key = key(request);
            let done = if active.get(key).is_none() { self.done.get(key) } else { None };
            let forgotten = active.forgotten(now);
            let kept = active.get(key).or(done.as_ref().map(|done| &done.kept)).unwrap_or(&forgotten);
            let (answer, change) = decide(Some(kept), request, now);
            if let Change::Put(kept) = change {
                let is_done = matches!(kept.state, State::Completed { .. });
                self.put(&mut active, key, kept, now)?;
                if done.is_some() && !is_done {
                    self.done.invalidate(key);
                }
            }
            Ok(answer)
        });
        Ok(answers.collect())
    }

    /// Keeps it, or says why that cannot be, and then nothing has changed.
    fn put(&self, active: &mut Active, key: &RecordKey, kept: Kept, now: Timestamp) -> Result<(), StoreError> {
        if matches!(kept.state, State::Completed { .. }) {
            let weight = weight(key, &kept);
            if weight > self.done_bytes.min(u32::MAX.into()) {
                let wrong = format!("a record of {weight} bytes, expected at most {}", self.done_bytes);
                return Err(StoreError::new(ErrorKind::Misconfigured, BACKEND, wrong));
            }
            active.remove(key);
            let lasts = kept.until.since(now);
            self.done.insert(key.clone(), Arc::new(Done { kept, lasts }));
            // Relaxed, both: under the lock. The cache makes room when it finds time, which may be late for large records.
            let unsettled = self.unsettled_bytes.load(Ordering::Relaxed) + weight;
            let is_late = unsettled > self.done_bytes / 64;
            if is_late {
                self.done.run_pending_tasks();
            }
            self.unsettled_bytes.store(if is_late { 0 } else { unsettled }, Ordering::Relaxed);
            return Ok(());
        }
        active.put(key, kept, now)
    }
}

const BACKEND: &str = "moka";

impl std::fmt::Debug for MokaStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (done, active) = (self.done.entry_count(), self.lock().len());
        f.debug_struct("MokaStore").field("done", &done).field("active", &active).finish_non_exhaustive()
    }
}

impl Store for MokaStore {
    fn backend(&self) -> &'static str {
        BACKEND
    }

    fn answers_at_once(&self) -> bool {
        true
    }

    async fn mark(&self, marks: &[Mark]) -> Answers<Marked> {
        let asked = Sound::of(marks);
        let marks = asked.requests();
        let answers = self.each(marks, |mark| &mark.key, record::mark);
        asked.answers(answers)
    }

    async fn unmark(&self, marks: &[Unmark]) -> Answers<Unmarked> {
        self.each(marks, |mark| &mark.key, record::unmark)
    }

    async fn claim(&self, claims: &[ClaimRequest]) -> Answers<Claimed> {
        let asked = Sound::of(claims);
        let claims = asked.requests();
        let answers = self.each(claims, |claim| &claim.key, record::claim);
        asked.answers(answers)
    }

    async fn complete(&self, completions: &[Completion]) -> Answers<Held> {
        let asked = Sound::of(completions);
        let completions = asked.requests();
        let answers = self.each(completions, |completion| &completion.hold.key, record::complete);
        asked.answers(answers)
    }

    async fn release(&self, holds: &[Hold]) -> Answers<Held> {
        self.each(holds, |hold| &hold.key, record::release)
    }

    async fn fail(&self, failures: &[Failure]) -> Answers<Held> {
        let asked = Sound::of(failures);
        let failures = asked.requests();
        let answers = self.each(failures, |failure| &failure.hold.key, record::fail);
        asked.answers(answers)
    }

    async fn renew(&self, renewals: &[Renewal]) -> Answers<Held> {
        let asked = Sound::of(renewals);
        let renewals = asked.requests();
        let answers = self.each(renewals, |renewal| &renewal.hold.key, record::renew);
        asked.answers(answers)
    }

    async fn look_up(&self, keys: &[RecordKey]) -> Answers<Known> {
        self.each(keys, |key| key, |kept, _, now| (record::look_up(kept, now), Change::None))
    }

    async fn record(&self, records: &[Record]) -> Answers<()> {
        let asked = Sound::of(records);
        let records = asked.requests();
        let answers =
            self.each(records, |record| &record.key, |_, record, now| ((), Change::Put(Kept::recorded(record, now))));
        asked.answers(answers)
    }

    async fn forget(&self, keys: &[RecordKey]) -> Answers<bool> {
        self.each(keys, |key| key, |kept, _, now| record::forget(kept, now))
    }

    async fn expire(&self, limit: usize) -> Result<Expired, StoreError> {
        let mut expired = self.lock().expire(self.clock.now(), limit);
        let before = self.done.entry_count();
        // A batch of bounded size; what is left is removed with later calls of any kind.
        self.done.run_pending_tasks();
        expired.records += before.saturating_sub(self.done.entry_count());
        Ok(expired)
    }

    async fn scan(&self, from: Option<&Cursor>, limit: usize) -> Result<Page, StoreError> {
        let after = from.map(|cursor| RecordKey::from_stored(&cursor.0)).transpose()?;
        let (now, limit) = (self.clock.now(), limit.max(1));
        let mut first: BTreeMap<RecordKey, Found> = BTreeMap::new();
        for (key, done) in &self.done {
            if now >= done.kept.until || after.as_ref().is_some_and(|after| *key <= *after) {
                continue;
            }
            let expires_in = done.kept.until.since(now);
            first.insert(key.as_ref().clone(), Found { key: key.as_ref().clone(), expires_in });
            if first.len() > limit {
                first.pop_last();
            }
        }
        let next = first.last_key_value().filter(|_| first.len() == limit).map(|(key, _)| Cursor(key.to_stored()));
        Ok(Page { found: first.into_values().collect(), next })
    }
}

#[cfg(test)]
mod tests;
