//! The asynchronous engine as its users see it: checks, and what concerns the engine as a whole.

use super::config::TieredBuilder;
use super::inner::{Inner, Ownership};
use super::memory::{Guess, Memory, digest};
use super::observe::{Asked, Verdicts};
use super::operation::{Forgets, Looks, Marks};
use super::stats::{ScopeStats, TieredStats};
use crate::digest::{Digest, Digester};
use crate::store::{ErrorKind, Known, Mark, Marked, Record, RecordKey, Scope, Store, StoreError};
use crate::sync::Ordering;
use crate::{OnStoreError, Outcome, Tier, Verdict};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Tells whether an id was seen before, also by other processes and before a restart: memory in front of a [`Store`].
///
/// ```
/// use hapax::TieredDedup;
/// use hapax::store::InMemoryStore;
/// use std::{sync::Arc, time::Duration};
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let store = Arc::new(InMemoryStore::new()); // a real one would be Redis, say
/// let here = TieredDedup::builder(Arc::clone(&store)).retention(Duration::from_secs(3600)).build().await?;
/// let there = TieredDedup::builder(store).retention(Duration::from_secs(3600)).build().await?;
///
/// assert!(here.check("order-17").await?.is_fresh());
/// assert!(there.check("order-17").await?.is_duplicate()); // by the store
/// assert!(there.check("order-17").await?.is_duplicate()); // by memory
/// assert_eq!(there.stats().store_requests, 1);
/// # Ok::<(), hapax::store::StoreError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A handle is cheap to clone, and its calls take `&self`, from any task of the runtime on which it was built, or another.
///
/// # Guarantees
///
/// - Of any number of callers that check one id within the retention, in any number of processes, one is told that it is fresh.
/// - An id is a duplicate for its retention, and longer by at most the window's two ticks and what the store counts in.
/// - If the store cannot be asked, the caller gets an error, unless the policy [admits](OnStoreError::Admit) the message; then its verdict says that
///   nobody verified it. Never a silent fresh, never a silent drop.
/// - Memory learns that an id is done only after the store has said so, and of what is in progress, nothing. (An exclusive engine's
///   [`check`](TieredDedup::check) is the exception: this process is the authority, and [`flush`](TieredDedup::flush) is its barrier.)
/// - A caller that is dropped while it waits harms no other, and the id that it may have been granted is given back.
///
/// # Cost
///
/// A window hit costs what it does in a [`Dedup`](crate::Dedup) and asks nobody. Anything else is a request to the store, unless the engine is
/// [exclusive](Ownership::Exclusive) and its history knows that the id is new. Requests that come while one is under way are the next batch: no timer, no delay when idle, one round
/// trip for up to a thousand ids when busy. Those of one id share one question. All queues are bounded.
#[cfg_attr(any(feature = "metrics", feature = "tracing"), doc = "")]
#[cfg_attr(any(feature = "metrics", feature = "tracing"), doc = include_str!("../../docs/metrics.md"))]
pub struct TieredDedup<S: Store> {
    pub(super) inner: Arc<Inner<S>>,
    policies: Arc<HashMap<String, Arc<PolicyState>>>,
    pub(super) scope: Scope,
    pub(super) digester: Digester,
    pub(super) policy: Arc<PolicyState>,
}

/// What the scopes of one policy share.
pub(super) struct PolicyState {
    pub(super) memory: Arc<Memory>,
    pub(super) retention: Duration,
    pub(super) lease: Duration,
    pub(super) on_store_error: OnStoreError,
    pub(super) shadow: bool,
    pub(super) verdicts: Verdicts,
}

impl<S: Store> Clone for TieredDedup<S> {
    fn clone(&self) -> Self {
        TieredDedup {
            inner: Arc::clone(&self.inner),
            policies: Arc::clone(&self.policies),
            scope: self.scope.clone(),
            digester: self.digester.clone(),
            policy: Arc::clone(&self.policy),
        }
    }
}

impl<S: Store> TieredDedup<S> {
    /// Starts configuring an engine over a store.
    pub fn builder(store: S) -> TieredBuilder<S> {
        TieredBuilder::new(store)
    }

    pub(super) fn new(
        inner: Arc<Inner<S>>,
        policies: Arc<HashMap<String, Arc<PolicyState>>>,
        scope: &str,
    ) -> Result<Self, StoreError> {
        let scope = Scope::new(scope)?;
        let policy = policies
            .get(scope.as_str())
            .or_else(|| policies.get("*"))
            .cloned()
            .ok_or_else(|| StoreError::new(ErrorKind::Misconfigured, "hapax", "an engine without policies"))?;
        let digester = policy.memory.digester(scope.as_str());
        Ok(TieredDedup { inner, policies, scope, digester, policy })
    }

    /// A handle to the same engine for another scope, with the policy that it was given: the same id there is another id.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] if the name cannot be that of a [`Scope`].
    pub fn with_scope(&self, scope: &str) -> Result<Self, StoreError> {
        Self::new(Arc::clone(&self.inner), Arc::clone(&self.policies), scope)
    }

    /// The id as the store knows it, and as memory does.
    pub(super) fn name(&self, id: impl AsRef<[u8]>) -> (RecordKey, Digest) {
        let key = RecordKey::new(&self.scope, id);
        let digest = digest(&self.digester, &key.id);
        (key, digest)
    }

    fn record(&self, key: RecordKey) -> Record {
        Record { key, retention: self.policy.retention, fingerprint: None, result: None }
    }

    /// Whether the id is fresh or a duplicate. A fresh one is remembered from now on.
    ///
    /// This marks the id at sight: if the process dies before the work is done, the message is lost, unless the engine is exclusive and was
    /// not [flushed](TieredDedup::flush). [`claim`](TieredDedup::claim) does not have that gap.
    ///
    /// # Errors
    ///
    /// The store's, unless the policy is to admit messages then. The message should come again.
    pub fn check(&self, id: impl AsRef<[u8]>) -> impl Future<Output = Result<Verdict, StoreError>> + Send {
        let (key, id) = self.name(id);
        async move {
            self.inner.admit()?;
            let verdict = match self.inner.ownership {
                Ownership::Shared => self.check_shared(key, id).await,
                Ownership::Exclusive => self.check_exclusive(key, id).await,
            };
            self.told(id, verdict)
        }
    }

    /// Checks many ids, in order: one verdict or error for each.
    ///
    /// ```
    /// # use hapax::{TieredDedup, store::InMemoryStore};
    /// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
    /// let dedup = TieredDedup::builder(InMemoryStore::new()).build().await?;
    /// let mut fresh = Vec::new();
    /// for verdict in dedup.check_batch(["a", "a", "b"]).await {
    ///     fresh.push(verdict?.is_fresh());
    /// }
    /// assert_eq!(fresh, [true, false, true]);
    /// # Ok::<(), hapax::store::StoreError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_batch<I>(&self, ids: I) -> impl Future<Output = Vec<Result<Verdict, StoreError>>> + Send
    where
        I: IntoIterator<Item: AsRef<[u8]>>,
    {
        let names: Vec<(RecordKey, Digest)> = ids.into_iter().map(|id| self.name(id)).collect();
        async move {
            if let Err(error) = self.inner.admit() {
                return names.iter().map(|_| Err(error.clone())).collect();
            }
            let ids: Vec<Digest> = names.iter().map(|name| name.1).collect();
            let verdicts = match self.inner.ownership {
                Ownership::Shared => self.check_batch_shared(names).await,
                Ownership::Exclusive => self.check_batch_exclusive(names).await,
            };
            ids.into_iter().zip(verdicts).map(|(id, verdict)| self.told(id, verdict)).collect()
        }
    }

    async fn check_shared(&self, key: RecordKey, id: Digest) -> Result<Verdict, StoreError> {
        if self.policy.memory.is_done(id) {
            return Ok(Verdict::exact(Outcome::Duplicate, Tier::Window));
        }
        let mark = Mark { key, attempt: self.inner.attempt(id), retention: self.policy.retention };
        let marked = self.inner.ask_one::<Marks>(&self.policy.memory, mark, id).await?;
        Ok(verdict_of(&marked))
    }

    async fn check_batch_shared(&self, names: Vec<(RecordKey, Digest)>) -> Vec<Result<Verdict, StoreError>> {
        let duplicate = Ok(Verdict::exact(Outcome::Duplicate, Tier::Window));
        let mut verdicts: Vec<_> = vec![duplicate; names.len()];
        let (mut places, mut marks) = (Vec::new(), Vec::new());
        for (place, (key, id)) in names.into_iter().enumerate() {
            if !self.policy.memory.is_done(id) {
                places.push(place);
                marks.push((Mark { key, attempt: self.inner.attempt(id), retention: self.policy.retention }, id));
            }
        }
        let marked = self.inner.ask::<Marks>(&self.policy.memory, marks).await;
        places.into_iter().zip(marked).for_each(|(place, marked)| verdicts[place] = marked.map(|it| verdict_of(&it)));
        verdicts
    }

    async fn check_exclusive(&self, key: RecordKey, id: Digest) -> Result<Verdict, StoreError> {
        let memory = &self.policy.memory;
        // Before anybody is told that it is fresh.
        let room = self.inner.room(1).await?;
        let verdict = match memory.check(id, self.inner.is_warm()) {
            Guess::Certain(verdict) => verdict,
            Guess::Maybe => match self.look(key.clone(), id).await? {
                Some(known) => known,
                None => memory.check_unknown(id),
            },
        };
        if verdict.is_fresh() {
            self.inner.behind.push(&self.inner, [(self.record(key), id)], room);
        }
        Ok(verdict)
    }

    async fn check_batch_exclusive(&self, names: Vec<(RecordKey, Digest)>) -> Vec<Result<Verdict, StoreError>> {
        let mut verdicts = Vec::with_capacity(names.len());
        for part in names.chunks(EXCLUSIVE_BATCH.min(self.inner.behind.max())) {
            self.check_part_exclusive(part, &mut verdicts).await;
        }
        verdicts
    }

    async fn check_part_exclusive(
        &self,
        names: &[(RecordKey, Digest)],
        verdicts: &mut Vec<Result<Verdict, StoreError>>,
    ) {
        let (memory, inner, start) = (&self.policy.memory, &self.inner, verdicts.len());
        let room = match inner.room(names.len()).await {
            Ok(room) => room,
            Err(error) => return verdicts.extend(names.iter().map(|_| Err(error.clone()))),
        };
        let ids: Vec<Digest> = names.iter().map(|name| name.1).collect();
        let guesses = memory.check_batch(&ids, inner.is_warm());
        let maybe: Vec<usize> = (0..names.len()).filter(|&i| guesses[i] == Guess::Maybe).collect();
        let mut known = self.look_batch(&maybe, names).await.into_iter();
        for (guess, (_, id)) in guesses.iter().zip(names) {
            verdicts.push(match guess {
                Guess::Certain(verdict) => Ok(*verdict),
                Guess::Maybe => match known.next() {
                    Some(Ok(Some(known))) => Ok(known),
                    Some(Err(error)) => Err(error),
                    _ => Ok(memory.check_unknown(*id)),
                },
            });
        }
        let fresh = names.iter().zip(&verdicts[start..]).filter(|(_, it)| it.as_ref().is_ok_and(|it| it.is_fresh()));
        inner.behind.push(inner, fresh.map(|((key, id), _)| (self.record(key.clone()), *id)), room);
    }

    /// What an exclusive engine's store knows of an id. Of what is not written yet it knows nothing, so that is written first.
    pub(super) async fn look_up(&self, key: RecordKey, id: Digest) -> Result<Known, StoreError> {
        self.settle().await?;
        self.inner.ask_one::<Looks>(&self.policy.memory, key, id).await
    }

    async fn look(&self, key: RecordKey, id: Digest) -> Result<Option<Verdict>, StoreError> {
        Ok(verdict_of_known(&self.look_up(key, id).await?))
    }

    async fn look_batch(
        &self,
        places: &[usize],
        names: &[(RecordKey, Digest)],
    ) -> Vec<Result<Option<Verdict>, StoreError>> {
        if places.is_empty() {
            return Vec::new();
        }
        if let Err(error) = self.settle().await {
            return places.iter().map(|_| Err(error.clone())).collect();
        }
        let asked = places.iter().map(|&place| names[place].clone()).collect();
        let known = self.inner.ask::<Looks>(&self.policy.memory, asked).await;
        known.into_iter().map(|known| known.map(|known| verdict_of_known(&known))).collect()
    }

    async fn settle(&self) -> Result<(), StoreError> {
        match self.inner.behind.len() {
            0 => Ok(()),
            _ => self.inner.patiently(self.inner.behind.settle()).await,
        }
    }

    /// What the caller is told, by the policy, and counts.
    fn told(&self, id: Digest, verdict: Result<Verdict, StoreError>) -> Result<Verdict, StoreError> {
        let verdict = match verdict {
            Err(error) if error.kind().is_transient() && self.policy.on_store_error == OnStoreError::Admit => {
                // This process at least knows it from now on.
                match self.policy.memory.check_unknown(id) {
                    verdict if verdict.is_fresh() => Verdict::unverified(),
                    known => known,
                }
            }
            verdict => verdict?,
        };
        let verdict = if self.policy.shadow { verdict.shadowed() } else { verdict };
        self.policy.verdicts.count(verdict);
        Ok(verdict)
    }

    /// Forgets an id, in memory and in the store, also if it is in progress; whether the store knew it. Other instances' memory remembers it
    /// until their window has passed.
    ///
    /// # Errors
    ///
    /// The store's. Memory has then forgotten it, and the store perhaps not.
    pub fn forget(&self, id: impl AsRef<[u8]>) -> impl Future<Output = Result<bool, StoreError>> + Send {
        let (key, id) = self.name(id);
        async move {
            self.inner.admit()?;
            self.settle().await?;
            let forgotten = self.inner.ask_one::<Forgets>(&self.policy.memory, key, id).await;
            // After the store, since somebody may have learned of it in between.
            self.policy.memory.forget(id);
            forgotten
        }
    }

    /// Returns when everything that was accepted before the call is durable in the store: what a consumer of an exclusive engine awaits
    /// before it acknowledges its messages. (A shared engine has asked the store already.)
    ///
    /// # Errors
    ///
    /// The store's, after one failed try, or when it has not answered in time. What is not durable is kept and tried again: flush again.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.inner.patiently(self.inner.behind.settle()).await
    }

    /// Reads what the store knows, so that an exclusive engine's history knows it as well, and need not ask about every id. Until then it does,
    /// and no answer is wrong. Says how many ids there were. (A shared engine's window learns them.)
    ///
    /// # Errors
    ///
    /// The store's; nothing is lost, and it may be called again.
    pub async fn warm(&self) -> Result<u64, StoreError> {
        const PAGE: usize = 10_000;
        let (mut ids, mut cursor) = (0, None);
        loop {
            self.inner.admit()?;
            let call = self.inner.observer.begin(Asked::Scan, PAGE);
            let page = self.inner.patiently(call.under_way(self.inner.store.scan(cursor.as_ref(), PAGE))).await;
            call.ended(page.as_ref().err().map(StoreError::kind));
            let page = page?;
            let before = ids;
            let mut digesters: HashMap<Scope, (Digester, Arc<PolicyState>)> = HashMap::new();
            for found in page.found {
                let scope = &found.key.scope;
                if scope.is_reserved() {
                    continue;
                }
                let (digester, policy) = match digesters.get(scope) {
                    Some(known) => known,
                    None => {
                        let handle = self.with_scope(scope.as_str())?;
                        digesters.entry(scope.clone()).or_insert((handle.digester, handle.policy))
                    }
                };
                let id = digest(digester, &found.key.id);
                if policy.memory.has_history() || policy.memory.may_learn(found.expires_in) {
                    policy.memory.warm(&[id]);
                }
                ids += 1;
            }
            self.inner.observer.meters.warmed(ids - before);
            cursor = page.next;
            if cursor.is_none() {
                // Release: pairs with the Acquire of `is_warm`: whoever sees it finds the histories complete.
                self.inner.is_warm.store(true, Ordering::Release);
                self.inner.observer.warm(ids);
                return Ok(ids);
            }
        }
    }

    /// Ends the engine: nothing new is accepted, what is under way is finished, what is not durable is written, the store is given up.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Timeout`] if that was not done by the deadline, with what is left; or why the last records could not be written.
    pub async fn shutdown(&self, deadline: Duration) -> Result<(), StoreError> {
        let until = Instant::now() + deadline;
        let shut = StoreError::new(ErrorKind::Unavailable, "hapax", "the engine was shut down");
        self.inner.refuse(shut);
        self.inner.lanes.close();
        let mut last = None;
        while self.inner.lanes.len() > 0 || self.inner.behind.len() > 0 {
            if Instant::now() >= until {
                let (waiting, behind) = (self.inner.lanes.len(), self.inner.behind.len());
                let left = format!(
                    "after {deadline:?}, {waiting} requests are under way, and {behind} records are not durable"
                );
                return Err(match last {
                    Some(error) => StoreError::caused(ErrorKind::Timeout, "hapax", left, error),
                    None => StoreError::new(ErrorKind::Timeout, "hapax", left),
                });
            }
            match tokio::time::timeout_at(until, self.inner.behind.settle()).await {
                Ok(Err(error)) => last = Some(error),
                _ => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
        self.inner.behind.close();
        if let Some(owned) = self.inner.owned.get() {
            let released = tokio::time::timeout_at(
                until.max(Instant::now() + self.inner.calls.timeout),
                owned.release(&self.inner.store),
            );
            if let Ok(released) = released.await {
                released?;
            }
        }
        Ok(())
    }

    /// What the engine has counted, and what it holds.
    pub fn stats(&self) -> TieredStats {
        TieredStats::of(&self.inner, self.policies.values())
    }

    /// What was decided in the scopes of this handle's policy.
    pub fn scope_stats(&self) -> ScopeStats {
        ScopeStats::of(&self.policy)
    }

    /// The store.
    pub fn store(&self) -> &S {
        &self.inner.store
    }
}

/// Ids that an exclusive engine checks at a time.
const EXCLUSIVE_BATCH: usize = 65_536;

fn verdict_of(marked: &Marked) -> Verdict {
    Verdict::exact(
        match marked {
            Marked::Fresh => Outcome::Fresh,
            Marked::Duplicate { .. } => Outcome::Duplicate,
            Marked::InProgress { .. } => Outcome::InProgress,
        },
        Tier::Store,
    )
}

/// What the store knows, if anything.
fn verdict_of_known(known: &Known) -> Option<Verdict> {
    let outcome = match known {
        Known::Unknown => return None,
        Known::InProgress { .. } => Outcome::InProgress,
        Known::Completed(_) => Outcome::Duplicate,
    };
    Some(Verdict::exact(outcome, Tier::Store))
}

impl<S: Store> std::fmt::Debug for TieredDedup<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TieredDedup")
            .field("backend", &self.inner.store.backend())
            .field("ownership", &self.inner.ownership)
            .field("scope", &self.scope.as_str())
            .finish_non_exhaustive()
    }
}
