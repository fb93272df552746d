//! Stores of several services in one database.

use crate::*;
use hapax_store::TieredDedup;

async fn engine(place: &Place, namespace: &str) -> TieredDedup<PostgresStore> {
    let store = PostgresStore::new(place.options(), namespace).unwrap();
    store.migrate().await.unwrap();
    TieredDedup::builder(store).retention(HOUR).build().await.unwrap()
}

#[test]
fn services_with_different_namespaces_do_not_know_each_others_ids() {
    Place::run(async |place| {
        let (orders, billing) = (format!("{}_orders", place.prefix), format!("{}_billing", place.prefix));
        let client = place.client().await;
        place.execute(&client, "CREATE SCHEMA {p}_app").await;
        let elsewhere = format!("{}_app.{orders}", place.prefix);
        for namespace in [&orders, &billing, &elsewhere] {
            let (first, second) = (engine(&place, namespace).await, engine(&place, namespace).await);
            assert!(first.check("order-17").await.unwrap().is_fresh(), "{namespace}");
            assert!(!second.check("order-17").await.unwrap().is_fresh(), "{namespace}");
        }
    });
}
