//! A store speaks for itself through the pointer, also what it need not say. (Its answers are
//! tested by the store suite, in `hapax-testing`.)

use crate::*;
use std::sync::Arc;

/// A store unlike the defaults, which has nothing.
struct Unusual;

fn none<T>() -> Answers<T> {
    Ok(Vec::new())
}

impl Store for Unusual {
    fn backend(&self) -> &'static str {
        "unusual"
    }

    fn limits(&self) -> Limits {
        Limits::batches_of(7).under_way(3)
    }

    fn is_private(&self) -> bool {
        true
    }

    fn answers_at_once(&self) -> bool {
        true
    }

    fn node_of(&self, key: &RecordKey) -> u32 {
        key.id.as_bytes().len() as u32
    }

    async fn mark(&self, _: &[Mark]) -> Answers<Marked> {
        none()
    }

    async fn unmark(&self, _: &[Unmark]) -> Answers<Unmarked> {
        none()
    }

    async fn claim(&self, _: &[ClaimRequest]) -> Answers<Claimed> {
        none()
    }

    async fn complete(&self, _: &[Completion]) -> Answers<Held> {
        none()
    }

    async fn release(&self, _: &[Hold]) -> Answers<Held> {
        none()
    }

    async fn fail(&self, _: &[ClaimFailure]) -> Answers<Held> {
        none()
    }

    async fn renew(&self, _: &[Renewal]) -> Answers<Held> {
        none()
    }

    async fn look_up(&self, _: &[RecordKey]) -> Answers<Known> {
        none()
    }

    async fn record(&self, _: &[Record]) -> Answers<()> {
        none()
    }

    async fn forget(&self, _: &[RecordKey]) -> Answers<bool> {
        none()
    }

    async fn expire(&self, limit: usize) -> Result<Expired, StoreError> {
        Ok(Expired::new(limit as u64, true))
    }

    async fn scan(&self, _: Option<&Cursor>, _: usize) -> Result<Page, StoreError> {
        Ok(Page::default())
    }
}

#[test]
fn what_a_store_says_of_itself_gets_through() {
    for store in [DynStore::new(Unusual), DynStore::from(Arc::new(Unusual)), DynStore::new(DynStore::new(Unusual))] {
        assert_eq!((store.backend(), store.limits()), ("unusual", Unusual.limits()));
        assert!(store.is_private() && store.answers_at_once());
        assert_eq!(store.node_of(&RecordKey::new(&Scope::default(), "four+")), 5);
        assert_eq!(format!("{store:?}"), r#"DynStore("unusual")"#);
    }
}

#[tokio::test]
async fn clones_are_one_store() {
    let store = DynStore::new(InMemoryStore::new());
    let engine = async |store: &DynStore| TieredDedup::builder(store.clone()).build().await.unwrap();
    let (one, another) = (engine(&store).await, engine(&store).await);
    assert!(one.check("a").await.unwrap().is_fresh());
    assert!(another.check("a").await.unwrap().is_duplicate());
}
