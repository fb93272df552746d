//! The configuration of an asynchronous engine.

use super::options::{HistoryOptions, Options};
use crate::dyn_store::Erased;
use crate::tiered::breaker::BreakerOptions;
use crate::tiered::dedup::TieredDedup;
use crate::tiered::engine::{Ownership, Policy};
use crate::{HeldBy, Store, StoreError};
use hapax::Clock;
use std::sync::Arc;
use std::time::Duration;

/// A builder of a [`TieredDedup`].
///
/// ```
/// use hapax_store::{HistoryOptions, InMemoryStore, Ownership, TieredDedup};
/// use std::time::Duration;
///
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// let dedup = TieredDedup::builder(InMemoryStore::new())
///     .ownership(Ownership::Exclusive)
///     .window(Duration::from_secs(600))
///     .retention(Duration::from_secs(7 * 24 * 3600))
///     .history(HistoryOptions { ids: 50_000, false_positive_rate: 1e-4 })
///     .build()
///     .await?;
/// # Ok::<(), hapax_store::StoreError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a builder does nothing until `build` is called"]
pub struct TieredBuilder<S> {
    store: S,
    options: Options,
}

impl<S: Store> TieredDedup<S> {
    /// Starts configuring an engine over a store.
    pub fn builder(store: S) -> TieredBuilder<S> {
        TieredBuilder { store, options: Options::default() }
    }
}

impl<S: Store> TieredBuilder<S> {
    /// Returns a builder with the same options over another store: for options that are read before
    /// there is a store.
    #[doc(hidden)]
    pub fn over<T: Store>(self, store: T) -> TieredBuilder<T> {
        TieredBuilder { store, options: self.options }
    }

    /// Sets the ownership of the ids. Default: shared with other instances.
    pub fn ownership(mut self, ownership: Ownership) -> Self {
        self.options.ownership = ownership;
        self
    }

    /// Sets the time for which memory remembers exactly; see
    /// [`Builder::window`](hapax::Builder::window). Default: 10 minutes, or the
    /// [retention](Self::retention) if that is shorter.
    pub fn window(mut self, window: Duration) -> Self {
        self.options.window = Some(window);
        self
    }

    /// Sets the number of live ids that the window has room for to begin with; see
    /// [`Builder::capacity`](hapax::Builder::capacity). Default: a million, or as many as
    /// [`max_memory_bytes`](Self::max_memory_bytes) has room for.
    ///
    /// They take 42 bytes each, twice as much as in an engine without a store: memory answers
    /// "duplicate" only if two tables over different bits of an id's digest know it, so that no id
    /// is dropped because another one looks like it.
    pub fn capacity(mut self, ids: usize) -> Self {
        self.options.capacity = Some(ids);
        self
    }

    /// Sets the memory that the window may grow to, and its witness as well (so count it twice);
    /// see [`Builder::max_memory_bytes`](hapax::Builder::max_memory_bytes). Default: 1 GiB.
    pub fn max_memory_bytes(mut self, bytes: usize) -> Self {
        self.options.max_memory_bytes = Some(bytes);
        self
    }

    /// Sets the time for which the store remembers completed ids: at least as long as the window.
    /// Default: a day.
    pub fn retention(mut self, retention: Duration) -> Self {
        self.options.retention = retention;
        self
    }

    /// Adds a Bloom filter over the ids that the store remembers. An id that the filter does not
    /// know is new and need not be looked up. Only for an exclusive engine. Default: none, so that
    /// every id that the window does not know is looked up.
    pub fn history(mut self, history: HistoryOptions) -> Self {
        self.options.history = Some(history);
        self
    }

    /// Sets the time for which a claim is its holder's; see
    /// [`Builder::lease`](hapax::Builder::lease). Default: 30 seconds.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.options.lease = lease;
        self
    }

    /// Sets the name of this process, which the store keeps with its claims: whoever is refused
    /// because of one is told, and whoever takes one over. Default: none.
    pub fn held_by(mut self, name: HeldBy) -> Self {
        self.options.held_by = Some(name);
        self
    }

    /// Sets the policy of a scope, and of those [beneath](crate::Scope::beneath) it that have none
    /// of their own: `shop` is also that of `shop/billing`. A consumer's scope is its name, beneath
    /// the [engine's](Self::scope). `*` is the policy of all other scopes, and what the others do
    /// not set is what it says.
    ///
    /// ```
    /// use hapax_store::{InMemoryStore, Policy, TieredDedup};
    ///
    /// # let _ =
    /// TieredDedup::builder(InMemoryStore::new()).policy("*", Policy::new().shadow(true));
    /// ```
    pub fn policy(mut self, scope: impl Into<String>, policy: Policy) -> Self {
        self.options.policies.push((scope.into(), policy));
        self
    }

    /// Sets the clock of memory. (The store has its own.) Default: see
    /// [`Builder::clock`](hapax::Builder::clock).
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.options.clock = Some(Arc::new(clock));
        self
    }

    /// Sets the key of the digests in memory, of 64 bits, for runs that are to be repeatable; see
    /// [`Builder::seed`](hapax::Builder::seed). Default: 16 bytes from the operating system.
    pub fn seed(mut self, seed: u64) -> Self {
        self.options.key.bits = Some(seed.into());
        self
    }

    /// Sets the seed of the numbers by which the store tells attempts apart, and of the pauses
    /// between tries: for simulations of hapax itself. No two engines on a store may have
    /// the same one, also not one after the other: they would be taken for each other, and both be
    /// told that an id is fresh. Default: random.
    #[doc(hidden)]
    pub fn attempt_seed(mut self, seed: u64) -> Self {
        self.options.attempt_seed = Some(seed);
        self
    }

    /// Sets the namespace of the ids. Callers with equal ids that must not take them for the same
    /// one, such as two services on one store, have different ones. (A consumer of hapax-stream
    /// adds its name by itself.) Default: the one without a name.
    pub fn scope(mut self, scope: impl Into<String>) -> Self {
        self.options.scope = scope.into();
        self
    }

    /// Sets the time-out of each call of the store. Default: a second. With a shorter one, see
    /// [`in_doubt`](TieredBuilder::in_doubt): a server may carry out later what was given up.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = timeout;
        self
    }

    /// Sets the number of retries when the store could not be reached or did not answer. Default: 3
    /// times, after 10 ms, twice that, and so on. After 5 failures in a row the store is not called
    /// for a second; of a store of several [nodes](Store::node_of), this concerns the one that
    /// fails.
    pub fn retries(mut self, retries: u32) -> Self {
        self.options.retries = retries;
        self
    }

    /// Sets the time for which a mark that another engine has made is *in doubt*: until it is that
    /// old, a [`check`](TieredDedup::check) that meets it answers that the id is in progress, not
    /// that it is a duplicate. Default: twice as long as a call may take with its retries, 8
    /// seconds; at least 5 seconds, and at most half of the shortest retention. Zero: no mark is in
    /// doubt. It must be less than the retention.
    ///
    /// The store may have marked an id and its answer may have been lost. Then no caller was told
    /// that the id is fresh, and its message comes again, perhaps to another instance. It must not
    /// be dropped because of that mark. Its maker takes the mark back as soon as the store answers
    /// again, and again for as long as this time: what was given up may be carried out later.
    /// Until then, other engines do not answer "duplicate". Make it longer than a server may stand
    /// still, or a network may hold a request back.
    ///
    /// # Guarantees
    ///
    /// No message is lost to a lost answer, if the process that asked lives until it has taken the
    /// mark back, and the store answers it within this time. If the process dies before, its mark
    /// is a duplicate when the time is over, as it is when a process dies between a check and the
    /// work: a [`claim`](TieredDedup::claim) has no such gap.
    ///
    /// All engines of a scope must have one retention: a mark's age is computed from its remaining
    /// time. (Where the store's clock was set back by up to an hour, marks stay in doubt for as
    /// long as that; so do marks of an engine whose retention is longer by up to an hour.) A store
    /// that does not keep attempts believes all marks at once.
    ///
    /// # Cost
    ///
    /// Duplicates that come to another instance within this time come again. Duplicates that come
    /// to the same instance are answered by its memory, at once.
    pub fn in_doubt(mut self, grace: Duration) -> Self {
        self.options.in_doubt = Some(grace);
        self
    }

    /// Sets the number of failures in a row after which the store is not called, and the time for
    /// which it is not called: for tests of what comes before and after.
    #[doc(hidden)]
    pub fn circuit_breaker(mut self, failures: u32, rest: Duration) -> Self {
        self.options.breaker = BreakerOptions { failures, rest };
        self
    }

    /// Sets the number of requests of a kind that may wait for the store or be under way, for each
    /// of its [nodes](Store::node_of), with a KiB of results for each; further callers wait for
    /// room. Of an exclusive engine 16 times as many ids may be completed and not yet durable.
    /// Default: 65,536; so 64 MiB, and a million ids, which take about 160 MB.
    pub fn max_waiting(mut self, requests: usize) -> Self {
        self.options.max_waiting = requests;
        self
    }

    /// Sets the interval at which expired records are removed from the store, and the number of
    /// records removed at a time. `None`: this engine never removes them. Default: every 10
    /// seconds, 10,000 at a time until all are removed.
    pub fn expiry(mut self, expiry: impl Into<Option<(Duration, usize)>>) -> Self {
        self.options.expiry = expiry.into();
        self
    }

    /// Builds the engine, on the tokio runtime on which this is called. An exclusive one claims the
    /// store.
    ///
    /// A shared engine makes sure that no other engine has claimed the store. Where only the
    /// [node](Store::node_of) that knows the owner does not answer, it begins without, and asks
    /// again until it knows: if another engine has claimed the store, it then refuses everything.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Misconfigured`](crate::ErrorKind::Misconfigured) names the wrong option.
    /// [`ErrorKind::Conflict`](crate::ErrorKind::Conflict): another engine has claimed the
    /// store for itself.
    pub async fn build(self) -> Result<TieredDedup<S>, StoreError> {
        let store = Arc::new(self.store);
        let engine = self.options.build(Arc::clone(&store) as Arc<dyn Erased>).await?;
        Ok(TieredDedup::new(store, engine))
    }
}

impl<S: std::fmt::Debug> std::fmt::Debug for TieredBuilder<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Not the key: it is a secret.
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
