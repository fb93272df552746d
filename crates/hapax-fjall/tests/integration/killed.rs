//! Processes that write to a store, and are killed.

use hapax_fjall::{FjallOptions, FjallStore};
use hapax_store::StoreError;
use std::path::Path;
use std::time::Duration;
use testkit::long;
use testkit::stores::{killed, runtime};

/// Opens a store that makes a new bucket every few milliseconds.
async fn open(path: &Path) -> Result<FjallStore, StoreError> {
    FjallOptions::new().bucket(Duration::from_millis(3)).open(path).await
}

/// Runs the child; this is no test.
#[test]
fn child() {
    killed::child(open);
}

#[test]
fn kill_9_loses_nothing_that_was_acknowledged() {
    runtime().block_on(killed::kill_9(killed::kills(long(8, 100)), open));
}
