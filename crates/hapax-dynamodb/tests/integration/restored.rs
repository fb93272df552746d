//! A table that is put back.

use crate::network::client;
use hapax_dynamodb::{DynamoDbOptions, DynamoDbStore};
use std::cell::{Cell, RefCell};
use std::time::Duration;
use testkit::moto_server::MotoServer;
use testkit::processes::PATIENCE;
use testkit::stores::restored::{Backup, Place};
use testkit::stores::{clock_at, runtime};

/// A table that is restored has another name.
#[test]
fn a_table_that_was_put_back() {
    let Some(server) = MotoServer::start_without_threads() else { return };
    let client = client(([127, 0, 0, 1], server.port()).into());
    let (clock, table, items) = (clock_at(0), Cell::new(0), RefCell::default());
    let name = || format!("table-{}", table.get());
    let open = async || {
        let options = DynamoDbOptions::new(name()).timeout(PATIENCE).try_timeout(PATIENCE);
        let store = DynamoDbStore::new(&client, options).unwrap().with_clock(clock.clone());
        store.create_table().await.unwrap();
        store
    };
    let handle = async |backup| match backup {
        Backup::Take => drop(items.replace(client.scan().table_name(name()).send().await.unwrap().items.unwrap())),
        Backup::PutBack => {
            table.set(table.get() + 1);
            open().await;
            for item in items.take() {
                client.put_item().table_name(name()).set_item(Some(item)).send().await.unwrap();
            }
        }
    };
    runtime().block_on(async {
        let place = Place { open, handle, clock: clock.clone() };
        place.is_put_back().await;
        place.draws_again_only_if_the_clock_is_behind(Duration::ZERO).await;
    });
}
