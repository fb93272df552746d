//! What an engine does unasked: it stays the owner, removes what has expired, and shows how it is.

use super::inner::Inner;
use super::owner;
use crate::store::{ErrorKind, Held, Store, StoreError};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// Starts it. It ends when the last handle of the engine is dropped, or it is shut down.
pub(super) fn start<S: Store>(inner: &Arc<Inner<S>>, owned: bool, expiry: Option<(Duration, usize)>) {
    if owned {
        inner.runtime.spawn(stay_owner(Arc::downgrade(inner)));
    }
    if let Some((every, limit)) = expiry {
        inner.runtime.spawn(expire(Arc::downgrade(inner), every, limit));
    }
    if cfg!(feature = "metrics") {
        inner.runtime.spawn(sample(Arc::downgrade(inner)));
    }
}

/// Calls something every so often, as long as there is an engine.
async fn every<S: Store>(
    period: Duration,
    engine: &Weak<Inner<S>>,
    ticks: &mut Option<tokio::time::Interval>,
) -> Option<Arc<Inner<S>>> {
    let ticks = ticks.get_or_insert_with(|| {
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks
    });
    ticks.tick().await;
    engine.upgrade().filter(|inner| inner.admit().is_ok())
}

async fn stay_owner<S: Store>(engine: Weak<Inner<S>>) {
    let (mut ticks, mut renewed) = (None, Instant::now());
    while let Some(inner) = every(owner::LEASE / 5, &engine, &mut ticks).await {
        let (begun, Some(owned)) = (Instant::now(), inner.owned.get()) else { return };
        match tokio::time::timeout(inner.calls.timeout, owned.renew(&inner.store)).await {
            Ok(Ok(Held::Done)) => renewed = begun,
            Ok(Ok(Held::Lost)) => inner.refuse(lost(inner.store.backend(), "another engine may have taken it over")),
            // It is unknown whether it still is the owner; it certainly is not when the lease has passed.
            _ if renewed.elapsed() >= owner::LEASE => {
                inner.refuse(lost(inner.store.backend(), "it could not be renewed in time"));
            }
            _ => {}
        }
    }
}

fn lost(backend: &'static str, why: &str) -> StoreError {
    let what = format!("this engine is no longer the owner of the store: {why}. Build another one");
    StoreError::new(ErrorKind::Conflict, backend, what)
}

async fn expire<S: Store>(engine: Weak<Inner<S>>, period: Duration, limit: usize) {
    let mut ticks = None;
    while let Some(inner) = every(period, &engine, &mut ticks).await {
        // What fails is tried again at the next tick.
        while let Ok(Ok(expired)) = tokio::time::timeout(inner.calls.timeout, inner.store.expire(limit)).await
            && expired.more
        {
            tokio::task::yield_now().await;
        }
    }
}

async fn sample<S: Store>(engine: Weak<Inner<S>>) {
    let mut ticks = None;
    while let Some(inner) = every(Duration::from_secs(1), &engine, &mut ticks).await {
        inner.observer.sample(inner.breaker_state(), inner.lanes.len(), inner.behind.len());
    }
}
