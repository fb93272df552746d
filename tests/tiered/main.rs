//! The asynchronous engine, over a store in memory that fails when it is told to. What the stores do themselves: `tests/stores`.

mod batching;
mod cancelling;
mod claims;
mod exclusive;
mod failing;
mod memory;
mod policies;
mod shared;

use hapax::store::InMemoryStore;
use hapax::testing::store::FaultyStore;
use hapax::{ManualClock, TieredBuilder, TieredDedup};
use std::sync::Arc;
use std::time::Duration;

type Store = Arc<FaultyStore<InMemoryStore>>;
type Engine = TieredDedup<Store>;

const WINDOW: Duration = Duration::from_secs(60);
const RETENTION: Duration = Duration::from_secs(3_600);

/// A store, and the clock of it and of all engines.
struct World {
    clock: ManualClock,
    store: Store,
}

impl World {
    fn new() -> Self {
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(1_000_000));
        let store = Arc::new(FaultyStore::new(InMemoryStore::with_clock(clock.clone())));
        World { clock, store }
    }

    fn engine(&self) -> TieredBuilder<Store> {
        TieredDedup::builder(Arc::clone(&self.store))
            .window(WINDOW)
            .retention(RETENTION)
            .capacity(10_000)
            .clock(self.clock.clone())
            .expiry(None)
    }

    async fn shared(&self) -> Engine {
        self.engine().build().await.unwrap()
    }

    /// With a history that is complete.
    async fn exclusive(&self) -> Engine {
        let engine = self
            .engine()
            .ownership(hapax::Ownership::Exclusive)
            .owner("test")
            .history(1e-6, 100_000)
            .build()
            .await
            .unwrap();
        engine.warm().await.unwrap();
        engine
    }
}

/// Is it fresh? An error is none of the answers.
async fn is_fresh(engine: &Engine, id: &str) -> bool {
    let verdict = engine.check(id).await.unwrap();
    assert!(verdict.is_fresh() != verdict.is_duplicate());
    verdict.is_fresh()
}
