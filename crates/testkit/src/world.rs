//! A store that fails when it is told to, and engines over it.

use hapax::ManualClock;
use hapax_store::{InMemoryStore, TieredBuilder, TieredDedup};
use hapax_testing::store::FaultyStore;
use std::sync::Arc;
use std::time::Duration;

pub type Store = Arc<FaultyStore<InMemoryStore>>;

pub const WINDOW: Duration = Duration::from_secs(60);
pub const RETENTION: Duration = Duration::from_secs(3_600);

/// A store, and the clock of it and of all engines.
pub struct World {
    pub clock: ManualClock,
    pub store: Store,
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl World {
    pub fn new() -> Self {
        let clock = ManualClock::new();
        clock.advance(Duration::from_secs(1_000_000));
        let store = Arc::new(FaultyStore::new(InMemoryStore::with_clock(clock.clone())));
        World { clock, store }
    }

    pub fn engine(&self) -> TieredBuilder<Store> {
        TieredDedup::builder(Arc::clone(&self.store))
            .window(WINDOW)
            .retention(RETENTION)
            .capacity(10_000)
            .clock(self.clock.clone())
            // Each engine believes the marks of the others at once; otherwise:
            // crates/hapax-store/tests/integration/tiered/doubt.rs.
            .in_doubt(Duration::ZERO)
            .expiry(None)
    }
}
