//! What stores promise.

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
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_what_stores_promise() {
    let Some(table) = Table::start("it_is_what_stores_promise").await else { return };
    println!("{}", verify_store(&table).await.unwrap());
}
