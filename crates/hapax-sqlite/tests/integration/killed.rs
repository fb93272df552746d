//! Processes that write to a store beside others, and are killed.

use hapax_sqlite::SqliteStore;
use hapax_store::{Marked, Store, StoreError};
use std::path::Path;
use testkit::directory::Directory;
use testkit::long;
use testkit::processes::PATIENCE;
use testkit::stores::{is_done, killed, mark, runtime};

async fn open(path: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(path).await
}

/// Runs the child; this is no test.
#[test]
fn child() {
    killed::child(open);
}

#[test]
fn kill_9_loses_nothing_that_was_acknowledged() {
    runtime().block_on(killed::kill_9(killed::kills(long(8, 25)), open));
}

/// Runs the other process, which is this program once more.
#[test]
fn another_process_shares_the_file() {
    let directory = Directory::new("sqlite");
    let path = directory.path().join("ids.db");
    runtime().block_on(async {
        let store = SqliteStore::open(&path).await.unwrap();
        assert!(!store.is_private());
        let child = killed::start(&path, 0);
        let began = std::time::Instant::now();
        for i in 0.. {
            assert_eq!(mark(&store, &format!("ours {i}")).await, Marked::Fresh);
            if i >= 50 && is_done(&store, "4/63").await {
                break;
            }
            assert!(began.elapsed() < PATIENCE, "the other process does not come to write");
        }
        drop(child);
        for n in 0..5 {
            for id in killed::batch(n) {
                assert!(is_done(&store, &id).await);
            }
        }
    });
}
