//! How an asynchronous engine is configured.

use super::background;
use super::behind::Behind;
use super::breaker::Breaker;
use super::dedup::TieredDedup;
use super::engine::{Engine, PolicyState};
use super::inner::{CallOptions, Inner, Ownership};
use super::lane::Lane;
use super::memory::Memory;
use super::observe::{Observer, Verdicts};
use super::operation::Lanes;
use super::owner;
use super::policy::{OnStoreError, Policy};
use super::unresolved::Unresolved;
use crate::digest::Digester;
use crate::store::erased::{Answering, Erased};
use crate::store::{ErrorKind, Scope, Store, StoreError};
use crate::sync::{Mutex, StdAtomicBool, StdAtomicU64};
use crate::{Clock, Dedup, Error};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Configures a [`TieredDedup`].
///
/// ```
/// use hapax::{Ownership, TieredDedup};
/// use hapax::store::InMemoryStore;
/// use std::time::Duration;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let dedup = TieredDedup::builder(InMemoryStore::new())
///     .ownership(Ownership::Exclusive)
///     .window(Duration::from_secs(600))
///     .retention(Duration::from_secs(7 * 24 * 3600))
///     .history(1e-4, 50_000)
///     .build()
///     .await?;
/// # Ok::<(), hapax::store::StoreError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a builder does nothing until `build` is called"]
pub struct TieredBuilder<S> {
    store: S,
    options: Options,
}

/// What is configured, whatever the store.
struct Options {
    ownership: Ownership,
    owner: Option<String>,
    window: Duration,
    capacity: usize,
    max_memory_bytes: Option<usize>,
    retention: Duration,
    history: Option<(f64, usize)>,
    lease: Duration,
    on_store_error: OnStoreError,
    shadow: bool,
    policies: Vec<(String, Policy)>,
    clock: Option<Arc<dyn Clock>>,
    seed: Option<u64>,
    attempt_seed: Option<u64>,
    scope: String,
    calls: CallOptions,
    breaker: (u32, Duration),
    max_waiting: usize,
    max_waiting_bytes: usize,
    max_behind: usize,
    expiry: Option<(Duration, usize)>,
}

impl<S: Store> TieredBuilder<S> {
    pub(super) fn new(store: S) -> Self {
        let options = Options {
            ownership: Ownership::Shared,
            owner: None,
            window: Duration::from_secs(600),
            capacity: 1_000_000,
            max_memory_bytes: None,
            retention: Duration::from_secs(24 * 3600),
            history: None,
            lease: Duration::from_secs(30),
            on_store_error: OnStoreError::Fail,
            shadow: false,
            policies: Vec::new(),
            clock: None,
            seed: None,
            attempt_seed: None,
            scope: String::new(),
            calls: CallOptions { timeout: Duration::from_secs(1), retries: 3 },
            breaker: (5, Duration::from_secs(1)),
            max_waiting: 65_536,
            max_waiting_bytes: 64 << 20,
            max_behind: 1 << 20,
            expiry: Some((Duration::from_secs(10), 10_000)),
        };
        TieredBuilder { store, options }
    }

    /// Whose the ids are. Default: shared with other instances.
    pub fn ownership(mut self, ownership: Ownership) -> Self {
        self.options.ownership = ownership;
        self
    }

    /// The name under which an exclusive engine claims the store: another one of the same name is taken for this one after a restart, and takes
    /// over at once. Default: a random one, so that a successor waits for up to 15 seconds if this process dies.
    pub fn owner(mut self, name: impl Into<String>) -> Self {
        self.options.owner = Some(name.into());
        self
    }

    /// How long memory remembers exactly; see [`Builder::window`](crate::Builder::window). Default: 10 minutes.
    pub fn window(mut self, window: Duration) -> Self {
        self.options.window = window;
        self
    }

    /// How many live ids the window has room for to begin with; see [`Builder::capacity`](crate::Builder::capacity). Default: a million.
    pub fn capacity(mut self, ids: usize) -> Self {
        self.options.capacity = ids;
        self
    }

    /// How far the window may grow; see [`Builder::max_memory_bytes`](crate::Builder::max_memory_bytes). Default: 1 GiB.
    pub fn max_memory_bytes(mut self, bytes: usize) -> Self {
        self.options.max_memory_bytes = Some(bytes);
        self
    }

    /// How long the store remembers what is completed: at least as long as the window. Default: a day.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.options.retention = retention;
        self
    }

    /// A Bloom filter over what the store remembers, of up to `ids` ids within the retention: what it does not know is new, and need not be looked up, but for
    /// a rate of `false_positive_rate`. Only for an exclusive engine. Default: none, so that whatever the window does not know is looked up.
    pub fn history(mut self, false_positive_rate: f64, ids: usize) -> Self {
        self.options.history = Some((false_positive_rate, ids));
        self
    }

    /// How long a claim is its holder's; see [`Builder::lease`](crate::Builder::lease). Default: 30 seconds.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = lease;
        self
    }

    /// What to do when the store cannot be asked. Default: the caller gets the error.
    pub fn on_store_error(mut self, on_store_error: OnStoreError) -> Self {
        self.options.on_store_error = on_store_error;
        self
    }

    /// Whether nothing is dropped; see [`Policy::shadow`]. Default: it is.
    pub fn shadow(mut self, shadow: bool) -> Self {
        self.options.shadow = shadow;
        self
    }

    /// What is different in a scope.
    pub fn policy(mut self, scope: impl Into<String>, policy: Policy) -> Self {
        self.options.policies.push((scope.into(), policy));
        self
    }

    /// Where memory reads the time. (The store has its own.) Default: [`MonotonicClock::since_epoch`](crate::MonotonicClock::since_epoch).
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.options.clock = Some(Arc::new(clock));
        self
    }

    /// The seed of the digests; see [`Builder::seed`](crate::Builder::seed). Default: random.
    pub fn seed(mut self, seed: u64) -> Self {
        self.options.seed = Some(seed);
        self
    }

    /// The seed of the numbers by which the store tells attempts apart, and of the pauses between tries: for simulations that are to be repeatable.
    /// No two engines on a store may have the same one, also not one after the other: they would be taken for each other, and both be told that
    /// an id is fresh. Default: random.
    pub fn attempt_seed(mut self, seed: u64) -> Self {
        self.options.attempt_seed = Some(seed);
        self
    }

    /// The namespace of the ids. Default: the one without a name.
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.options.scope = scope.into();
        self
    }

    /// How long to wait for an answer of the store, each time it is asked. Default: a second.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.calls.timeout = timeout;
        self
    }

    /// How often to ask again when the store could not be reached or did not answer. Default: 3 times, after 10 ms, twice that, and so on.
    pub fn retries(mut self, retries: u32) -> Self {
        self.options.calls.retries = retries;
        self
    }

    /// After how many failures in a row the store is left alone, and for how long. Default: 5, a second.
    pub fn circuit_breaker(mut self, failures: u32, rest: Duration) -> Self {
        self.options.breaker = (failures, rest);
        self
    }

    /// How many requests of a kind may wait for the store or be under way; whoever comes then waits for room. Default: 65,536.
    pub fn max_waiting(mut self, requests: usize) -> Self {
        self.options.max_waiting = requests;
        self
    }

    /// How many bytes of results may be with them. Default: 64 MiB.
    pub fn max_waiting_bytes(mut self, bytes: usize) -> Self {
        self.options.max_waiting_bytes = bytes;
        self
    }

    /// How many ids of an exclusive engine may be completed and not yet durable; whoever comes then waits for room. Default: a million, about 160 MB.
    pub fn max_behind(mut self, ids: usize) -> Self {
        self.options.max_behind = ids;
        self
    }

    /// How often what has expired is removed from the store, and how many records at a time. `None`: by this engine, never. Default: every 10
    /// seconds, 10,000 at a time until all is removed.
    pub fn expiry(mut self, expiry: impl Into<Option<(Duration, usize)>>) -> Self {
        self.options.expiry = expiry.into();
        self
    }

    /// Builds the engine, on the tokio runtime on which this is called. An exclusive one claims the store.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`] says which option is wrong. [`ErrorKind::Conflict`]: another engine has claimed the store for itself.
    pub async fn build(self) -> Result<TieredDedup<S>, StoreError> {
        let store = Arc::new(self.store);
        let engine = self.options.build(Arc::clone(&store) as Arc<dyn Erased>).await?;
        Ok(TieredDedup::new(store, engine))
    }
}

impl Options {
    fn build(self, store: Arc<dyn Erased>) -> Answering<'static, Result<Engine, StoreError>> {
        Box::pin(self.build_over(store))
    }

    async fn build_over(self, store: Arc<dyn Erased>) -> Result<Engine, StoreError> {
        self.validate()?;
        let seed = self.seed.unwrap_or_else(Digester::random_seed);
        let policies = self.policies(seed)?;
        let limits = store.limits();
        let inner = Arc::new(Inner {
            lanes: self.lanes(limits.batch.max(1), limits.under_way.max(1)),
            behind: Behind::new(self.max_behind),
            calls: self.calls,
            breaker: Mutex::new(Breaker::new(self.breaker.0, self.breaker.1)),
            unresolved: Mutex::new(Unresolved::default()),
            unresolved_ids: StdAtomicU64::new(0),
            dropped: Arc::new(tokio::sync::Semaphore::new(self.max_waiting)),
            observer: Observer::new(store.backend()),
            owned: OnceLock::new(),
            runtime: tokio::runtime::Handle::current(),
            ownership: self.ownership,
            is_warm: StdAtomicBool::new(false),
            refused: Mutex::new(None),
            is_refused: StdAtomicBool::new(false),
            numbers: StdAtomicU64::new(self.attempt_seed.unwrap_or_else(Digester::random_seed)),
            answers_at_once: store.answers_at_once(),
            store,
        });
        if let Some(owned) = inner.patiently(owner::claim(&inner, self.owner.as_deref())).await? {
            // Nobody else has set it.
            let _ = inner.owned.set(owned);
        }
        background::start(&inner, inner.owned.get().is_some(), self.expiry);
        #[cfg(feature = "metrics")]
        background::show(&inner, &policies);
        Engine::new(inner, Arc::new(policies), &self.scope)
    }

    fn lanes(&self, batch: usize, under_way: usize) -> Lanes {
        let (max, bytes) = (self.max_waiting, self.max_waiting_bytes);
        Lanes {
            marks: Lane::new(max, bytes, batch, under_way),
            claims: Lane::new(max, bytes, batch, under_way),
            completions: Lane::new(max, bytes, batch, under_way),
            releases: Lane::new(max, bytes, batch, under_way),
            failures: Lane::new(max, bytes, batch, under_way),
            renewals: Lane::new(max, bytes, batch, under_way),
            looks: Lane::new(max, bytes, batch, under_way),
            records: Lane::new(max, bytes, batch, under_way),
            forgets: Lane::new(max, bytes, batch, under_way),
        }
    }

    fn validate(&self) -> Result<(), StoreError> {
        let check = |valid: bool, option: &str, got: &dyn std::fmt::Debug, expected: &str| match valid {
            true => Ok(()),
            false => Err(misconfigured(format!("option `{option}`: got {got:?}, expected {expected}"))),
        };
        let sane = |time: Duration| !time.is_zero() && time <= MAX;
        check(sane(self.calls.timeout), "timeout", &self.calls.timeout, "a duration of up to 100 years, not none")?;
        check(self.calls.retries <= 100, "retries", &self.calls.retries, "at most 100")?;
        check(self.breaker.0 > 0, "circuit_breaker.failures", &self.breaker.0, "at least 1")?;
        check(
            sane(self.breaker.1),
            "circuit_breaker.rest",
            &self.breaker.1,
            "a duration of up to 100 years, not none",
        )?;
        let queue = 1..=1 << 28;
        check(queue.contains(&self.max_waiting), "max_waiting", &self.max_waiting, "1 to 2^28")?;
        check(queue.contains(&self.max_behind), "max_behind", &self.max_behind, "1 to 2^28")?;
        check(self.max_waiting_bytes >= 1_024, "max_waiting_bytes", &self.max_waiting_bytes, "at least 1024")?;
        if let Some((every, limit)) = self.expiry {
            check(sane(every) && limit > 0, "expiry", &(every, limit), "a duration, and at least one record")?;
        }
        let exclusive = self.ownership == Ownership::Exclusive;
        check(
            exclusive || self.history.is_none(),
            "history",
            &self.history,
            "none: what others have done, it cannot know",
        )?;
        check(exclusive || self.owner.is_none(), "owner", &self.owner, "none: the store is shared")
    }

    /// The state of each policy; that of all other scopes has no name.
    fn policies(&self, seed: u64) -> Result<HashMap<String, Arc<PolicyState>>, StoreError> {
        let policy = |policy: &Policy| {
            let resolved = Policy {
                window: policy.window.or(Some(self.window)),
                retention: policy.retention.or(Some(self.retention)),
                lease: policy.lease.or(Some(self.lease)),
                on_store_error: policy.on_store_error.or(Some(self.on_store_error)),
                shadow: policy.shadow.or(Some(self.shadow)),
            };
            (resolved.window.unwrap_or(self.window), resolved.retention.unwrap_or(self.retention), resolved)
        };
        let everywhere = ("*".to_owned(), Policy::new());
        let all: Vec<(&String, &Policy)> = std::iter::once((&everywhere.0, &everywhere.1))
            .chain(self.policies.iter().map(|(name, policy)| (name, policy)))
            .collect();
        let (mut memories, mut states): (HashMap<Duration, Arc<Memory>>, _) = (HashMap::new(), HashMap::new());
        for &(name, given) in &all {
            let (window, retention, resolved) = policy(given);
            let lease = resolved.lease.unwrap_or(self.lease);
            if lease.is_zero() || lease > MAX {
                let expected = "a duration of up to 100 years, not none";
                return Err(misconfigured(format!(
                    "option `lease` of scope {name:?}: got {lease:?}, expected {expected}"
                )));
            }
            if retention < window || retention > MAX {
                let expected = format!("at least the window, {window:?}, and at most 100 years");
                return Err(misconfigured(format!(
                    "option `retention` of scope {name:?}: got {retention:?}, expected {expected}"
                )));
            }
            let longest =
                all.iter().map(|(_, given)| policy(given)).filter(|other| other.0 == window).map(|other| other.1).max();
            let memory = match memories.get(&window) {
                Some(memory) => Arc::clone(memory),
                None => Arc::new(self.memory(window, longest.unwrap_or(retention), seed)?),
            };
            memories.insert(window, Arc::clone(&memory));
            let state = PolicyState {
                memory,
                retention,
                lease,
                on_store_error: resolved.on_store_error.unwrap_or_default(),
                shadow: resolved.shadow.unwrap_or_default(),
                verdicts: Verdicts::new(name),
            };
            if name != "*" {
                Scope::new(name)?;
            }
            states.insert(name.clone(), Arc::new(state));
        }
        Ok(states)
    }

    /// The memory of the scopes with this window, whose ids the store keeps for up to `retention`.
    fn memory(&self, window: Duration, retention: Duration, seed: u64) -> Result<Memory, StoreError> {
        let mut builder = Dedup::builder().window(window).capacity(self.capacity).lease(self.lease).seed(seed);
        if let Some(bytes) = self.max_memory_bytes {
            builder = builder.max_memory_bytes(bytes);
        }
        if let Some((rate, ids)) = self.history {
            builder = builder.history(retention, rate, ids);
        }
        if let Some(clock) = &self.clock {
            builder = builder.clock(SharedClock(Arc::clone(clock)));
        }
        let invalid = |error: Error| {
            StoreError::caused(ErrorKind::Misconfigured, "hapax", "the memory tiers cannot be built", error)
        };
        Ok(Memory::new(&builder.build().map_err(invalid)?))
    }
}

const MAX: Duration = Duration::from_secs(100 * 366 * 24 * 3600);

fn misconfigured(what: String) -> StoreError {
    StoreError::new(ErrorKind::Misconfigured, "hapax", what)
}

/// One clock for the memories of all policies.
struct SharedClock(Arc<dyn Clock>);

impl Clock for SharedClock {
    fn now(&self) -> crate::Timestamp {
        self.0.now()
    }

    fn lag(&self) -> Duration {
        self.0.lag()
    }
}

impl<S: std::fmt::Debug> std::fmt::Debug for TieredBuilder<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the seed: it is a secret.
        f.debug_struct("TieredBuilder")
            .field("store", &self.store)
            .field("ownership", &self.options.ownership)
            .field("window", &self.options.window)
            .field("retention", &self.options.retention)
            .field("history", &self.options.history)
            .field("policies", &self.options.policies)
            .finish_non_exhaustive()
    }
}
