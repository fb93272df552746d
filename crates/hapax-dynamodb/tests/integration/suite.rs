//! The suite for stores.

use crate::client::Table;
use hapax_dynamodb::DynamoDbStore;
use hapax_testing::store::{Fixture, StoreTime, verify_store};
use std::time::Duration;

impl Fixture for Table {
    type Store = DynamoDbStore;

    async fn open(&self) -> DynamoDbStore {
        self.store()
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    fn time(&self) -> StoreTime {
        StoreTime::EXACT
    }

    /// The server counts bytes as they are sent, in Base64; the service, as they are.
    fn result_bytes_max(&self) -> usize {
        256 << 10
    }

    fn is_slow(&self) -> bool {
        true
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_what_stores_promise() {
    let Some(table) = Table::start().await else { return };
    println!("{}", verify_store(&table).await.unwrap());
}
