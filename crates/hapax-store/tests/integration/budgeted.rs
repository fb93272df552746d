//! The suite for stores over the budgeted one. (`src/budgeted/tests.rs` has the budget.)

use hapax::ManualClock;
use hapax_store::BudgetStore;
use hapax_testing::store::{Fixture, StoreTime, verify_store};
use std::sync::Arc;
use std::time::Duration;

struct Budgeted(ManualClock, Arc<BudgetStore>);

impl Fixture for Budgeted {
    type Store = Arc<BudgetStore>;

    async fn open(&self) -> Arc<BudgetStore> {
        Arc::clone(&self.1)
    }

    async fn advance(&self, by: Duration) {
        self.0.advance(by);
    }

    fn time(&self) -> StoreTime {
        StoreTime::EXACT
    }

    fn keeps_doubt(&self) -> bool {
        false
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_budgeted_store_is_what_every_store_promises() {
    let clock = ManualClock::new();
    clock.advance(Duration::from_secs(1_000_000));
    let store = Arc::new(BudgetStore::with_clock(256 << 20, clock.clone()).unwrap());
    verify_store(&Budgeted(clock, store)).await.unwrap();
}
