//! A directory that is removed while it is open.

use hapax_fjall::FjallStore;
use hapax_store::{ErrorKind, Marked, Store, StoreError};
use testkit::directory::Directory;
use testkit::stores::{DAY, mark_of};

async fn mark(store: &FjallStore, id: &str) -> Result<Marked, StoreError> {
    store.mark(&[mark_of(id, DAY)]).await?.remove(0)
}

#[tokio::test]
async fn who_has_a_directory_that_was_removed_is_told() {
    let directory = Directory::new("fjall");
    let path = directory.file("ids");
    let here = FjallStore::open(&path).await.unwrap();
    assert_eq!(mark(&here, "before").await.unwrap(), Marked::Fresh);
    std::fs::remove_dir_all(&path).unwrap();
    let there = FjallStore::open(&path).await.unwrap();
    assert_eq!(mark(&there, "a").await.unwrap(), Marked::Fresh);
    let error = mark(&here, "a").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    let text = error.to_string();
    assert!(text.contains(&path) && text.contains("while it was open"), "{text}");
    assert!(mark(&here, "a").await.is_err());
}
