//! The removal of expired records.

use super::ticks::{Served, ticks};
use crate::tiered::batching::Client;
use crate::tiered::engine::OwnershipState;
use crate::tiered::observe::RequestKind;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Starts to remove up to `limit` records at a time, until the last handle of the engine is
/// dropped, or the engine is shut down.
pub(crate) fn start(client: &Arc<Client>, ownership: &Arc<OwnershipState>, period: Duration, limit: usize) {
    client.runtime.spawn(expire(Served::of(client, ownership), period, limit));
}

async fn expire(engine: Served, period: Duration, limit: usize) {
    let mut ticks = ticks(Instant::now(), period);
    while let Some(client) = engine.at_next(&mut ticks).await {
        let caller = &client.caller;
        // A failure is tried again at the next tick.
        while let Ok(expired) = caller.in_time(RequestKind::Expire, limit, caller.store.expire(limit)).await {
            caller.observer.expired.add(expired.records);
            if !expired.more {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
}
