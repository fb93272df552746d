//! The options of a scope, and the state that scopes with the same options share.

use super::ownership_state::OwnershipState;
use crate::HeldBy;
use crate::tiered::observe::Verdicts;
use hapax::seam::Memory;
use std::sync::Arc;
use std::time::Duration;

/// The reaction to a store that cannot be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStoreError {
    /// The caller gets the error, and the message comes again.
    #[default]
    Fail,
    /// The message is let through: fresh, and [unverified](hapax::Verdict::is_certain). It may be
    /// a duplicate, unless this process knows it.
    ///
    /// An engine with a policy like this starts while its store is down, and sends no request to it
    /// before it knows that no other engine owns it. An exclusive one does not start without its
    /// store.
    Admit,
}

/// The name of the policy of all scopes that have none of their own.
pub(crate) const EVERYWHERE: &str = "*";

/// Options of a scope: each option that is not set is that of the policy `*`, or the engine's.
///
/// ```
/// use hapax_store::{OnStoreError, Policy};
/// use std::time::Duration;
///
/// let payments = Policy::new().retention(Duration::from_secs(30 * 24 * 3600)).lease(Duration::from_secs(120));
/// let clicks = Policy::new().on_store_error(OnStoreError::Admit).shadow(true);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Policy {
    pub(crate) window: Option<Duration>,
    pub(crate) retention: Option<Duration>,
    pub(crate) lease: Option<Duration>,
    pub(crate) on_store_error: Option<OnStoreError>,
    pub(crate) shadow: Option<bool>,
}

impl Policy {
    /// Creates a policy with all options of the engine.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the time for which memory remembers exactly. A window that other scopes do not have
    /// takes memory of its own.
    #[must_use]
    pub fn window(self, window: Duration) -> Self {
        Policy { window: Some(window), ..self }
    }

    /// Sets the time for which the store remembers.
    #[must_use]
    pub fn retention(self, retention: Duration) -> Self {
        Policy { retention: Some(retention), ..self }
    }

    /// Sets the time for which a claim is its holder's.
    #[must_use]
    pub fn lease(self, lease: Duration) -> Self {
        Policy { lease: Some(lease), ..self }
    }

    /// Sets the reaction to a store that cannot be asked.
    #[must_use]
    pub fn on_store_error(self, on_store_error: OnStoreError) -> Self {
        Policy { on_store_error: Some(on_store_error), ..self }
    }

    /// Turns shadow mode on, in which everything is decided and counted, and nothing is dropped:
    /// every check is fresh, and [`decided`](hapax::Verdict::decided) returns what it would have
    /// been. For trying hapax on a stream that must not lose anything.
    #[must_use]
    pub fn shadow(self, shadow: bool) -> Self {
        Policy { shadow: Some(shadow), ..self }
    }
}

/// The state that the scopes of one policy share.
pub(crate) struct PolicyState {
    /// The engine's, which all policies share.
    pub(crate) ownership: Arc<OwnershipState>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) retention: Duration,
    pub(crate) lease: Duration,
    /// The name of those who have claims, where a claim has none of its own.
    pub(crate) held_by: Option<HeldBy>,
    pub(crate) on_store_error: OnStoreError,
    pub(crate) shadow: bool,
    pub(crate) verdicts: Verdicts,
}

impl PolicyState {
    /// Returns true if messages are let through when the store cannot be asked.
    pub(crate) fn admits(&self) -> bool {
        self.on_store_error == OnStoreError::Admit
    }
}
