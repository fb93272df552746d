//! The needs of a periodic task: ticks, and the engine as long as there is one.

use crate::tiered::batching::Client;
use crate::tiered::engine::OwnershipState;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

/// The engine of a task, which does not keep it alive.
pub(super) struct Served {
    pub(super) client: Weak<Client>,
    pub(super) ownership: Arc<OwnershipState>,
}

impl Served {
    pub(super) fn of(client: &Arc<Client>, ownership: &Arc<OwnershipState>) -> Self {
        Served { client: Arc::downgrade(client), ownership: Arc::clone(ownership) }
    }

    /// Returns the engine's client if the engine still exists, and may go on.
    pub(super) fn client(&self) -> Option<Arc<Client>> {
        self.client.upgrade().filter(|_| self.ownership.admit().is_ok())
    }

    /// Waits for the next tick, and returns the engine's [client](Self::client).
    pub(super) async fn at_next(&self, ticks: &mut Interval) -> Option<Arc<Client>> {
        ticks.tick().await;
        self.client()
    }
}

/// Returns the ticks of a periodic task. A late tick delays the ticks after it.
pub(super) fn ticks(first: Instant, period: Duration) -> Interval {
    let mut ticks = interval_at(first, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
