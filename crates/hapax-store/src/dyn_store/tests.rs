//! A store speaks for itself through the pointer, also what it need not say. (Its answers are
//! tested by the store suite, in `hapax-testing`.)

use crate::*;
use std::sync::Arc;

/// A store unlike the defaults, which has nothing.
struct Unusual;

/// Implements calls for batches, which nobody makes.
macro_rules! answer_nothing {
    ($($call:ident: $request:ty => $answer:ty,)*) => {
        $(async fn $call(&self, _: &[$request]) -> Answers<$answer> {
            Ok(Vec::new())
        })*
    };
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

    calls!(answer_nothing);

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
