//! Measures the wait of a single caller.

use crate::load::{id, numbers, percentile, times};
use crate::table::row;
use hapax_store::{InMemoryStore, Ownership, TieredDedup};
use hapax_testing::store::{Fault, FaultyStore};
use std::time::Duration;

pub async fn run() {
    println!("\n== latency");
    let store = FaultyStore::new(InMemoryStore::new());
    let dedup = TieredDedup::builder(store)
        .ownership(Ownership::Exclusive)
        .history(1e-6, 1_000_000)
        .build()
        .await
        .expect("an engine");
    dedup.warm().await.expect("warm");
    dedup.store().always(Fault::Delays(Duration::from_millis(50)));
    let first = numbers(500_000);
    let exclusive = times(500_000, |i| {
        let dedup = dedup.clone();
        async move { assert!(dedup.check(id(first + i as u64)).await.expect("an answer").is_fresh()) }
    })
    .await;
    let p99 = percentile(&exclusive, 99.0);
    row("exclusive, the history says new, the store takes 50 ms: p99", p99, "us", None, "target: below 20 us");
    row("the same: median", percentile(&exclusive, 50.0), "us", None, "");
    row("the same: p99.9", percentile(&exclusive, 99.9), "us", None, "");
}
