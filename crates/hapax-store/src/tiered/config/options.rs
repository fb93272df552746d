//! The construction of an engine from its options, for any store, and the checks of the options.

use crate::backend::option;
use crate::backend::times::{self, HUNDRED_YEARS};
use crate::dyn_store::{Answering, Erased};
use crate::tiered::background::{expiry, ownership, taking_back};
use crate::tiered::batching::{Caller, Client, NodeOptions, Nodes, QueueOptions};
use crate::tiered::breaker::BreakerOptions;
use crate::tiered::engine::{EVERYWHERE, Engine, Ownership, OwnershipState, Policy, PolicyState};
use crate::tiered::lost_answers::{LostMarks, Pace};
use crate::tiered::observe::Verdicts;
use crate::tiered::random::Random;
use crate::{ErrorKind, HeldBy, Limits, Scope, StoreError};
use hapax::seam::{DigestKey, Memory, WantedKey, random};
use hapax::{Clock, Dedup, Error, History, Unconfirmed};
use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

/// The window, unless it is set or the store remembers for less.
const WINDOW: Duration = Duration::from_secs(600);

/// The shortest lease.
const LEASE_MIN: Duration = Duration::from_millis(1);

/// The shortest time for which a mark is in doubt by default. A server that stands still for a
/// second or two carries out what was given up long before, if time-outs are short.
const IN_DOUBT_MIN: Duration = Duration::from_secs(5);

/// The size of a filter over the ids that a store remembers; see
/// [`TieredBuilder::history`](super::TieredBuilder::history).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HistoryOptions {
    /// The most ids that are completed within the retention: what it has room for.
    pub ids: usize,
    /// The share of new ids that are looked up nevertheless: above 0, below 1.
    pub false_positive_rate: f64,
}

/// The options that [`TieredBuilder`](super::TieredBuilder) configures.
pub(super) struct Options {
    pub(super) ownership: Ownership,
    pub(super) window: Option<Duration>,
    pub(super) capacity: Option<usize>,
    pub(super) max_memory_bytes: Option<usize>,
    pub(super) retention: Duration,
    pub(super) history: Option<HistoryOptions>,
    pub(super) lease: Duration,
    pub(super) held_by: Option<HeldBy>,
    pub(super) policies: Vec<(String, Policy)>,
    pub(super) clock: Option<Arc<dyn Clock>>,
    pub(super) key: WantedKey,
    pub(super) attempt_seed: Option<u64>,
    pub(super) scope: String,
    pub(super) timeout: Duration,
    pub(super) retries: u32,
    pub(super) in_doubt: Option<Duration>,
    pub(super) breaker: BreakerOptions,
    pub(super) max_waiting: usize,
    pub(super) expiry: Option<(Duration, usize)>,
}

/// The state of each policy, by the scope that it is for.
type Policies = HashMap<String, Arc<PolicyState>>;

impl Default for Options {
    fn default() -> Self {
        Options {
            ownership: Ownership::Shared,
            window: None,
            capacity: None,
            max_memory_bytes: None,
            retention: Duration::from_secs(24 * 3600),
            history: None,
            lease: Duration::from_secs(30),
            held_by: None,
            policies: Vec::new(),
            clock: None,
            key: WantedKey::default(),
            attempt_seed: None,
            scope: String::new(),
            timeout: Duration::from_secs(1),
            retries: 3,
            in_doubt: None,
            breaker: BreakerOptions { failures: 5, rest: Duration::from_secs(1) },
            max_waiting: 65_536,
            expiry: Some((Duration::from_secs(10), 10_000)),
        }
    }
}

impl Options {
    pub(super) fn build(self, store: Arc<dyn Erased>) -> Answering<'static, Result<Engine, StoreError>> {
        Box::pin(async move {
            self.validate()?;
            let key = self.key.or_random().map_err(unbuilt)?;
            let ownership = Arc::new(OwnershipState::new(self.is_exclusive(), store.backend()));
            let in_doubt = self.in_doubt(&*store);
            let policies = self.policies(key, &ownership, in_doubt)?;
            let seed = self.attempt_seed.unwrap_or_else(random::any);
            let random = Arc::new(Random::new(seed));
            let nodes = Nodes::new(Arc::clone(&store), self.node_options(store.limits()));
            let caller = Caller::new(store, self.timeout, self.retries, Arc::clone(&random));
            let pace = Pace::new(in_doubt, caller.patience());
            let (lost_marks, some_lost) = LostMarks::new(random::mix(!seed), random, self.timeout, in_doubt, pace);
            let client = Arc::new(Client::new(caller, nodes, lost_marks, self.max_waiting));
            self.settle_ownership(&client, &ownership, &policies).await?;
            if let Some(policy) = policies.get(EVERYWHERE) {
                taking_back::start(&client, Arc::clone(&policy.memory), some_lost);
            }
            if ownership.owner_lease().is_some() {
                ownership::start(&client, &ownership);
            }
            if let Some((every, limit)) = self.expiry {
                expiry::start(&client, &ownership, every, limit);
            }
            #[cfg(feature = "metrics")]
            crate::tiered::background::gauges::start(&client, &ownership, &policies);
            Engine::new(client, Arc::new(policies), &self.scope)
        })
    }

    /// Claims the store for an exclusive engine, and makes sure for a shared one that it may use
    /// it, or finds that out in the background.
    async fn settle_ownership(
        &self,
        client: &Arc<Client>,
        ownership: &Arc<OwnershipState>,
        policies: &Policies,
    ) -> Result<(), StoreError> {
        let claimed = ownership::claim(client, &self.ownership);
        match client.caller.patiently(claimed).await {
            Ok(Some(lease)) => ownership.own(lease),
            Ok(None) => {}
            // A failed part of the store must not keep engines from the rest of it.
            Err(error) if self.may_begin_without(&error) && ownership::others_answer(client).await => {
                ownership::find_owner(client, ownership);
            }
            // The store does not answer, and messages are admitted then: until it does.
            Err(error) if self.may_begin_without(&error) && policies.values().any(|policy| policy.admits()) => {
                client.caller.await_owner();
                ownership::find_owner(client, ownership);
            }
            Err(error) if error.kind().is_transient() && self.is_exclusive() => {
                let unowned = "an exclusive engine does not start before it owns the store, whatever its policy is to \
                               admit: what it says is certain without asking";
                return Err(StoreError::caused(error.kind(), client.caller.store.backend(), unowned, error));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn is_exclusive(&self) -> bool {
        self.ownership != Ownership::Shared
    }

    /// Returns true if an engine may begin before it knows the owner of the store.
    fn may_begin_without(&self, error: &StoreError) -> bool {
        !self.is_exclusive() && error.kind().is_transient()
    }

    /// Returns the options of each node.
    fn node_options(&self, limits: Limits) -> NodeOptions {
        NodeOptions {
            queues: QueueOptions {
                max_waiting: self.max_waiting,
                max_waiting_bytes: self.max_waiting.saturating_mul(1_024),
                batch: limits.batch.max(1),
                under_way: limits.under_way.max(1),
            },
            breaker: self.breaker,
            max_behind: self.max_waiting.saturating_mul(16),
        }
    }

    /// Returns the time for which a mark of another engine is in doubt: the time until its maker
    /// knows that it has no answer, and the same again until it has taken the mark back; some
    /// seconds at least, and half of the shortest retention at most, or it would be in doubt until
    /// it is gone. Zero where no answer can be lost on its way to another engine.
    fn in_doubt(&self, store: &dyn Erased) -> Duration {
        let usual = if store.is_private() || store.answers_at_once() {
            Duration::ZERO
        } else {
            self.timeout.saturating_mul(2 * (self.retries + 1)).max(IN_DOUBT_MIN)
        };
        let retentions = self.policies.iter().filter_map(|(_, policy)| policy.retention);
        let shortest = retentions.fold(self.retention, Duration::min);
        self.in_doubt.unwrap_or(usual.min(shortest / 2))
    }

    fn validate(&self) -> Result<(), StoreError> {
        let check =
            |valid, option: &str, got: &dyn Debug, expected| option::check("hapax", valid, option, got, expected);
        times::check("timeout", self.timeout)?;
        check(self.retries <= 100, "retries", &self.retries, "at most 100")?;
        self.in_doubt.map_or(Ok(()), |grace| times::check_or_none("in_doubt", grace))?;
        check(self.breaker.failures > 0, "circuit_breaker.failures", &self.breaker.failures, "at least 1")?;
        times::check("circuit_breaker.rest", self.breaker.rest)?;
        check((1..=1 << 28).contains(&self.max_waiting), "max_waiting", &self.max_waiting, "1 to 2^28")?;
        if let Some((every, limit)) = self.expiry {
            let is_valid = !every.is_zero() && every <= HUNDRED_YEARS && limit > 0;
            check(is_valid, "expiry", &(every, limit), "a duration, and at least one record")?;
        }
        check(
            self.is_exclusive() || self.history.is_none(),
            "history",
            &self.history,
            "none: what others have done, it cannot know",
        )
    }

    /// Returns the state of each policy; that of all other scopes has no name.
    fn policies(
        &self,
        key: DigestKey,
        ownership: &Arc<OwnershipState>,
        in_doubt: Duration,
    ) -> Result<Policies, StoreError> {
        let everywhere = self.policies.iter().rfind(|(name, _)| name == EVERYWHERE);
        let everywhere = everywhere.map_or_else(Policy::new, |(_, policy)| policy.clone());
        let policy = |policy: &Policy| {
            let resolved = Policy {
                window: policy.window.or(everywhere.window).or(self.window),
                retention: policy.retention.or(everywhere.retention),
                lease: policy.lease.or(everywhere.lease).or(Some(self.lease)),
                on_store_error: policy.on_store_error.or(everywhere.on_store_error),
                shadow: policy.shadow.or(everywhere.shadow),
            };
            let retention = resolved.retention.unwrap_or(self.retention);
            let shortest = Duration::from_nanos(100);
            (resolved.window.unwrap_or(WINDOW.min(retention).max(shortest)), retention, resolved)
        };
        let named = self.policies.iter().filter(|(name, _)| name != EVERYWHERE);
        let all: Vec<(&str, &Policy)> = std::iter::once((EVERYWHERE, &everywhere))
            .chain(named.map(|(name, policy)| (name.as_str(), policy)))
            .collect();
        let (mut memories, mut states): (HashMap<Duration, Arc<Memory>>, _) = (HashMap::new(), HashMap::new());
        for &(name, given) in &all {
            let (window, retention, resolved) = policy(given);
            let lease = resolved.lease.unwrap_or(self.lease);
            times::check(&format!("lease of scope {name:?}"), lease)?;
            let expected = "at least a millisecond: it is renewed over the network";
            option::check("hapax", lease >= LEASE_MIN, &format!("lease of scope {name:?}"), &lease, expected)?;
            let expected = format!("at least the window, {window:?}, and at most 100 years");
            let is_valid = (window..=HUNDRED_YEARS).contains(&retention);
            option::check("hapax", is_valid, &format!("retention of scope {name:?}"), &retention, &expected)?;
            // Otherwise a mark would be in doubt until it is gone, and its message handled again.
            let expected = format!("less than the retention of scope {name:?}, {retention:?}");
            option::check("hapax", in_doubt < retention, "in_doubt", &in_doubt, &expected)?;
            let longest =
                all.iter().map(|(_, given)| policy(given)).filter(|other| other.0 == window).map(|other| other.1).max();
            let memory = match memories.get(&window) {
                Some(memory) => Arc::clone(memory),
                None => Arc::new(self.memory(window, longest.unwrap_or(retention), key)?),
            };
            memories.insert(window, Arc::clone(&memory));
            let state = PolicyState {
                ownership: Arc::clone(ownership),
                memory,
                retention,
                lease,
                held_by: self.held_by.clone(),
                on_store_error: resolved.on_store_error.unwrap_or_default(),
                shadow: resolved.shadow.unwrap_or_default(),
                verdicts: Verdicts::new(name),
            };
            if name != EVERYWHERE {
                Scope::new(name)?;
            }
            states.insert(name.to_owned(), Arc::new(state));
        }
        Ok(states)
    }

    /// Returns the memory of the scopes with this window, whose ids the store keeps for up to
    /// `retention`.
    fn memory(&self, window: Duration, retention: Duration, key: DigestKey) -> Result<Memory, StoreError> {
        let mut builder = Dedup::builder().window(window).lease(self.lease).digest_key(key);
        if let Some(ids) = self.capacity {
            builder = builder.capacity(ids);
        }
        if let Some(bytes) = self.max_memory_bytes {
            builder = builder.max_memory_bytes(bytes);
        }
        if let Some(HistoryOptions { ids, false_positive_rate }) = self.history {
            // What it guesses, the store confirms.
            let unconfirmed = Unconfirmed::Duplicate;
            builder = builder.history(History { horizon: retention, ids, false_positive_rate, unconfirmed });
        }
        if let Some(clock) = &self.clock {
            builder = builder.clock(SharedClock(Arc::clone(clock)));
        }
        let dedup = builder.build().map_err(unbuilt)?;
        Memory::new(&dedup, self.capacity, self.max_memory_bytes).map_err(unbuilt)
    }
}

fn unbuilt(error: Error) -> StoreError {
    StoreError::caused(ErrorKind::Misconfigured, "hapax", "the memory tiers cannot be built", error)
}

/// One clock for the memories of all policies.
struct SharedClock(Arc<dyn Clock>);

impl Clock for SharedClock {
    fn now(&self) -> hapax::Timestamp {
        self.0.now()
    }

    fn lag(&self) -> Duration {
        self.0.lag()
    }
}
