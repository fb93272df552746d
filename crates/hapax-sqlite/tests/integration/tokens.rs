//! Tokens: none is given twice, over processes and clocks.

use hapax::ManualClock;
use hapax_sqlite::{SqliteOptions, SqliteStore};
use hapax_store::*;
use std::path::Path;
use testkit::directory::Directory;
use testkit::stores::*;

pub async fn open(path: &Path, clock: &ManualClock) -> SqliteStore {
    let options = SqliteOptions::new().clock(clock.clone()).durability(Durability::System);
    options.open(path).await.unwrap()
}

/// The clock of one process is a minute behind that of the other.
#[test]
fn tokens_of_a_file_grow_over_processes_whose_clocks_differ() {
    let directory = Directory::new("tokens");
    let path = directory.path().join("ids.db");
    runtime().block_on(async {
        let (ahead, behind) = (clock_at(60_000_000_000), clock_at(0));
        let stores = [open(&path, &ahead).await, open(&path, &behind).await];
        let (mut last, mut given) = (0, Vec::new());
        for round in 0..8 {
            let (store, other) = (&stores[round % 2], &stores[(round + 1) % 2]);
            let next = claim(store, "a").await;
            assert!(next > last, "{next} after {last}");
            last = next;
            for &earlier in &given {
                assert!(is_lost(store, "a", earlier).await);
            }
            given.push(last);
            wipe(other, "a").await;
            if round % 3 == 2 {
                expire_all(other).await;
            }
        }
        drop(stores);
        let next = claim(&open(&path, &behind).await, "a").await;
        assert!(next > last, "{next} after {last}, after it was closed");
    });
}
