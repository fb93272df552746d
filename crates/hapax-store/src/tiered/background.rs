//! The engine's background tasks: they keep the ownership, remove expired records, and sample
//! gauges.

use super::breaker::back_off;
use super::inner::Inner;
use super::observe::Asked;
use super::owner;
#[cfg(feature = "metrics")]
use super::{engine::PolicyState, meters::MemoryMeters};
use crate::sync::Ordering;
use crate::{ErrorKind, Held, StoreError};
#[cfg(feature = "metrics")]
use hapax::tier::Memory;
#[cfg(feature = "metrics")]
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, timeout_at};

/// Starts the tasks. They end when the last handle of the engine is dropped, or the engine is shut
/// down.
pub(super) fn start(inner: &Arc<Inner>, owned: bool, expiry: Option<(Duration, usize)>) {
    if owned {
        inner.runtime.spawn(stay_owner(Arc::downgrade(inner)));
    }
    if let Some((every, limit)) = expiry {
        inner.runtime.spawn(expire(Arc::downgrade(inner), every, limit));
    }
}

/// Starts to sample the engine, and the memory of each policy, under the name of the first policy
/// that has it. It ends when the last handle of the engine is dropped.
#[cfg(feature = "metrics")]
pub(super) fn show(inner: &Arc<Inner>, policies: &HashMap<String, Arc<PolicyState>>) {
    let mut all: Vec<_> = policies.iter().collect();
    all.sort_by_key(|(name, _)| (name.as_str() != "*", *name));
    let mut shown: Vec<(&Arc<Memory>, MemoryMeters)> = Vec::new();
    for (name, PolicyState { memory, .. }) in all.into_iter().map(|(name, policy)| (name, &**policy)) {
        if shown.iter().all(|(other, _)| !Arc::ptr_eq(other, memory)) {
            shown.push((memory, MemoryMeters::new(name, memory.has_history())));
        }
    }
    let memories = shown.into_iter().map(|(memory, meters)| (Arc::downgrade(memory), meters)).collect();
    inner.runtime.spawn(sample(Arc::downgrade(inner), memories));
}

/// Returns the ticks of a periodic task. A late tick delays the ticks after it.
fn ticks(first: Instant, period: Duration) -> Interval {
    let mut ticks = interval_at(first, period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Waits for the next tick, and returns the engine if it still exists.
async fn at_next(ticks: &mut Interval, engine: &Weak<Inner>) -> Option<Arc<Inner>> {
    ticks.tick().await;
    engine.upgrade().filter(|inner| inner.admit().is_ok())
}

async fn stay_owner(engine: Weak<Inner>) {
    let Some(mut renewed) = engine.upgrade().and_then(|inner| Some(inner.owned.get()?.asked_at)) else { return };
    let period = owner::LEASE / 5;
    let mut ticks = ticks(renewed + period, period);
    loop {
        let lease_end = renewed + owner::LEASE;
        let Ok(tick) = timeout_at(lease_end, at_next(&mut ticks, &engine)).await else {
            // The ownership is unknown; from now on, another engine may be the owner.
            return engine.upgrade().iter().for_each(|inner| lost(inner, "it could not be renewed in time"));
        };
        let Some(inner) = tick else { return };
        let (begun, Some(owned)) = (Instant::now(), inner.owned.get()) else { return };
        match timeout_at(lease_end, inner.in_time(Asked::Own, 1, owned.renew(&*inner.store))).await {
            Ok(Ok(Held::Done)) => {
                renewed = begun;
                owned.renewed(begun);
            }
            Ok(Ok(Held::Lost)) => lost(&inner, "another engine may have taken it over"),
            // The next tick or the end of the lease comes first.
            Ok(Err(_)) | Err(_) => {}
        }
    }
}

/// Asks for the owner of the store until there is an answer, for a shared engine that was started
/// without one.
pub(super) fn find_owner(inner: &Arc<Inner>) {
    let engine = Arc::downgrade(inner);
    inner.runtime.spawn(async move {
        for tries in 0_u32.. {
            let Some(random) = engine.upgrade().map(|inner| inner.random()) else { return };
            tokio::time::sleep(back_off(tries, random)).await;
            let Some(inner) = engine.upgrade().filter(|inner| inner.admit().is_ok()) else { return };
            match inner.in_time(Asked::Own, 1, owner::nobody(&inner)).await {
                // Release: pairs with the Acquire of the callers that ask the store.
                Ok(()) => return inner.awaits_owner.store(false, Ordering::Release),
                Err(error) if error.kind().is_transient() => {}
                // Another engine has claimed the store for itself.
                Err(error) => return inner.refuse(error),
            }
        }
    });
}

fn lost(inner: &Inner, why: &str) {
    let what = format!("this engine is no longer the owner of the store: {why}. Build another one");
    inner.refuse(StoreError::new(ErrorKind::Conflict, inner.store.backend(), what));
    inner.observer.lost(why);
}

async fn expire(engine: Weak<Inner>, period: Duration, limit: usize) {
    let mut ticks = ticks(Instant::now(), period);
    while let Some(inner) = at_next(&mut ticks, &engine).await {
        // A failure is tried again at the next tick.
        while let Ok(expired) = inner.in_time(Asked::Expire, limit, inner.store.expire(limit)).await {
            inner.observer.meters.expired(expired.records);
            if !expired.more {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
}

/// Sets gauges, also those of an engine that refuses to go on.
#[cfg(feature = "metrics")]
async fn sample(engine: Weak<Inner>, memories: Vec<(Weak<Memory>, MemoryMeters)>) {
    const MEMORY_TICKS: u64 = 15;
    /// The size of a memory that is read in less time than a task should take.
    const SMALL_BYTES: usize = 1 << 20;
    let count = |memories: &[(Weak<Memory>, MemoryMeters)]| {
        let alive = memories.iter().filter_map(|(memory, meters)| Some((memory.upgrade()?, meters)));
        alive.for_each(|(memory, meters)| meters.sample(&memory.stats()));
    };
    let memories = Arc::new(memories);
    let mut ticks = ticks(Instant::now(), Duration::from_secs(1));
    for tick in 0_u64.. {
        ticks.tick().await;
        let Some(inner) = engine.upgrade() else { return };
        inner.observer.meters.sample(&inner.sample());
        drop(inner);
        if tick % MEMORY_TICKS == 0 {
            let alive = || memories.iter().filter_map(|(memory, _)| memory.upgrade());
            // (A further thread would be one more whose order a simulation cannot repeat.)
            if alive().all(|memory| memory.bytes() <= SMALL_BYTES) {
                count(&memories);
                continue;
            }
            let memories = Arc::clone(&memories);
            // Ids in a window are counted by reading all of it, which takes longer than a task may.
            let counted = tokio::task::spawn_blocking(move || count(&memories));
            // A panic there has been reported, and the next sample may succeed.
            let _ = counted.await;
        }
    }
}
