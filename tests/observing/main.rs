//! What can be seen of an asynchronous engine: metrics and their documents, spans and events.

mod consumers;
mod documents;
mod metrics;
mod spans;

use hapax::store::InMemoryStore;
use hapax::testing::store::FaultyStore;
use hapax::{ManualClock, TieredBuilder, TieredDedup};
use std::sync::Arc;
use std::time::Duration;

type Store = Arc<FaultyStore<InMemoryStore>>;

const WINDOW: Duration = Duration::from_secs(60);

/// A store that fails when it is told to, and the clock of it and of all engines.
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
            .retention(2 * WINDOW)
            .capacity(10_000)
            .clock(self.clock.clone())
            .expiry(None)
            .retries(0)
    }
}

/// On one thread, whose recorder and subscriber are the test's own, with time that passes when nobody has anything to do.
fn run(work: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(work);
}
