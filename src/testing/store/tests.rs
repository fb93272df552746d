//! The suite passes what is right, and notices what is not.

use super::*;
use crate::ManualClock;
use crate::store::*;
use std::sync::Arc;
use std::time::Duration;

struct InMemory<S> {
    clock: ManualClock,
    store: Arc<S>,
}

impl<S: Store> Fixture for InMemory<S> {
    type Store = Arc<S>;

    async fn open(&self) -> Arc<S> {
        Arc::clone(&self.store)
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

#[test]
fn the_reference_passes() {
    let clock = ManualClock::new();
    let store = Arc::new(InMemoryStore::with_clock(clock.clone()));
    runtime().block_on(verify_store(&InMemory { clock, store }));
}
