//! Samples the engine's gauges.

use super::ticks::{Served, ticks};
use crate::engine_metrics::{EngineMetrics, SAMPLED_EVERY, sampled};
use crate::tiered::batching::Client;
use crate::tiered::engine::{OwnershipState, PolicyState};
use hapax::seam::Memory;
use metrics::{Gauge, gauge};
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::time::Instant;

/// Reads the value of a gauge.
type Sampled = fn(&Client, &OwnershipState) -> f64;

/// The gauges of an engine, with the values that they show.
const GAUGES: [(&str, Sampled); 6] = [
    ("hapax_breaker_state", |client, _| client.nodes.worst_breaker().severity().into()),
    ("hapax_waiting_ids", |client, _| client.nodes.len() as f64),
    ("hapax_behind_ids", |client, _| client.nodes.len_behind() as f64),
    ("hapax_unresolved_ids", |client, _| client.lost_attempts.len() as f64),
    ("hapax_warm", |_, ownership| u8::from(ownership.is_warm()).into()),
    ("hapax_refusing", |_, ownership| u8::from(ownership.admit().is_err()).into()),
];

/// Starts to sample the engine, and the memory of each policy, under the name of the first policy
/// that has it. It ends when the last handle of the engine is dropped.
pub(crate) fn start(
    client: &Arc<Client>,
    ownership: &Arc<OwnershipState>,
    policies: &HashMap<String, Arc<PolicyState>>,
) {
    let mut all: Vec<_> = policies.iter().collect();
    all.sort_by_key(|(name, _)| (name.as_str() != "*", *name));
    let mut shown: Vec<(&Arc<Memory>, EngineMetrics)> = Vec::new();
    for (name, PolicyState { memory, .. }) in all.into_iter().map(|(name, policy)| (name, &**policy)) {
        if shown.iter().all(|(other, _)| !Arc::ptr_eq(other, memory)) {
            shown.push((memory, EngineMetrics::of_memory(name)));
        }
    }
    let memories = shown.into_iter().map(|(memory, metrics)| (Arc::downgrade(memory), metrics)).collect();
    let backend = client.caller.store.backend();
    let gauges = GAUGES.map(|(name, _)| gauge!(name, "backend" => backend));
    client.runtime.spawn(sample(Served::of(client, ownership), gauges, memories));
}

/// Sets gauges, also those of an engine that refuses to go on.
async fn sample(engine: Served, gauges: [Gauge; GAUGES.len()], memories: Vec<(Weak<Memory>, EngineMetrics)>) {
    let count = |memories: &[(Weak<Memory>, EngineMetrics)]| {
        let alive = memories.iter().filter_map(|(memory, metrics)| Some((memory.upgrade()?, metrics)));
        alive.for_each(|(memory, metrics)| metrics.show(&memory.stats()));
    };
    let memories = Arc::new(memories);
    let mut ticks = ticks(Instant::now(), Duration::from_secs(1));
    for tick in 0_u64.. {
        ticks.tick().await;
        let Some(client) = engine.client.upgrade() else { return };
        gauges.iter().zip(GAUGES).for_each(|(gauge, (_, value))| gauge.set(value(&client, &engine.ownership)));
        drop(client);
        if tick % SAMPLED_EVERY.as_secs() == 0 {
            let alive = memories.iter().filter_map(|(memory, _)| memory.upgrade());
            let largest = alive.map(|memory| memory.bytes()).max().unwrap_or(0);
            let memories = Arc::clone(&memories);
            sampled(largest, move || count(&memories)).await;
        }
    }
}
