//! A directory that is removed while it is open.

use hapax_fjall::FjallStore;
use hapax_store::{ErrorKind, Mark, Marked, RecordKey, Scope, Store, StoreError};
use std::time::Duration;
use testkit::directory::Directory;

async fn mark(store: &FjallStore, id: &str, attempt: u64) -> Result<Marked, StoreError> {
    let key = RecordKey::new(&Scope::new("test").unwrap(), id);
    store.mark(&[Mark { key, attempt, retention: Duration::from_secs(86_400) }]).await?.remove(0)
}

#[tokio::test]
async fn who_has_a_directory_that_was_removed_is_told() {
    let directory = Directory::new("fjall");
    let path = directory.file("ids");
    let here = FjallStore::open(&path).await.unwrap();
    assert_eq!(mark(&here, "before", 1).await.unwrap(), Marked::Fresh);
    std::fs::remove_dir_all(&path).unwrap();
    let there = FjallStore::open(&path).await.unwrap();
    assert_eq!(mark(&there, "a", 2).await.unwrap(), Marked::Fresh);
    let error = mark(&here, "a", 3).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    let text = error.to_string();
    assert!(text.contains(&path) && text.contains("while it was open"), "{text}");
    assert!(mark(&here, "a", 3).await.is_err());
}
