//! What is different in a scope.

use std::time::Duration;

/// What to do with a message when the store cannot be asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStoreError {
    /// Say so: the caller gets the error, and the message comes again.
    #[default]
    Fail,
    /// Let it through: fresh, and [unverified](hapax::Certainty::Unverified). A duplicate, perhaps, unless this process knows it.
    ///
    /// An engine with a policy like this starts while its store is down, and asks nothing of it
    /// before it knows that no other engine owns it. An exclusive one does not start without its
    /// store.
    Admit,
}

/// What is different in a scope: each option that is not given is as the engine has it.
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
    pub(super) window: Option<Duration>,
    pub(super) retention: Option<Duration>,
    pub(super) lease: Option<Duration>,
    pub(super) on_store_error: Option<OnStoreError>,
    pub(super) shadow: Option<bool>,
}

impl Policy {
    /// Everything as the engine has it.
    pub fn new() -> Self {
        Self::default()
    }

    /// How long memory remembers exactly. A window that other scopes do not have takes memory of its own.
    #[must_use]
    pub fn window(self, window: Duration) -> Self {
        Policy { window: Some(window), ..self }
    }

    /// How long the store remembers.
    #[must_use]
    pub fn retention(self, retention: Duration) -> Self {
        Policy { retention: Some(retention), ..self }
    }

    /// How long a claim is its holder's.
    #[must_use]
    pub fn lease(self, lease: Duration) -> Self {
        Policy { lease: Some(lease), ..self }
    }

    /// What to do when the store cannot be asked.
    #[must_use]
    pub fn on_store_error(self, on_store_error: OnStoreError) -> Self {
        Policy { on_store_error: Some(on_store_error), ..self }
    }

    /// Whether everything is decided and counted, and nothing is dropped: every check is fresh, and
    /// [`decided`](hapax::Verdict::decided) says what it would have been. For trying hapax on a stream that must not lose anything.
    #[must_use]
    pub fn shadow(self, shadow: bool) -> Self {
        Policy { shadow: Some(shadow), ..self }
    }
}
