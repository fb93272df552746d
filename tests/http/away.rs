//! A store that is away for a moment when a handler has ended.

use crate::running::Inner;
use crate::world::*;
use hapax::http::IdempotencyLayer;
use hapax::store::ErrorKind;
use hapax::testing::store::Fault;
use http::{Method, StatusCode};
use http_body_util::Full;
use std::sync::Arc;
use std::time::Duration;
use tower_layer::Layer;
use tower_service::Service;

const DOWN: Fault = Fault::Fails(ErrorKind::Unavailable);

fn keyed(key: &str) -> http::Request<Full<bytes::Bytes>> {
    request(Method::POST, "/", &[("idempotency-key", key)], "")
}

/// The store goes away while the handler runs, for so long.
#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_when_the_handler_ends_repeats_nothing() {
    for away in [Duration::from_millis(300), Duration::from_secs(1)] {
        let world = World::new();
        let dedup = engine(Arc::clone(&world.store)).clock(world.clock.clone()).build().await.unwrap();
        let layer = IdempotencyLayer::builder(dedup).global_scope().lease(LEASE).build().unwrap();
        let (runs, store) = (world.runs.clone(), Arc::clone(&world.store));
        let mut service = layer.layer(Inner(move |_: http::Request<_>| {
            let (run, store) = (runs.begin(), Arc::clone(&store));
            async move {
                store.always(DOWN);
                tokio::spawn(async move {
                    tokio::time::sleep(away).await;
                    store.always(Fault::None);
                });
                http::Response::builder().status(201).body(Full::from(format!("run {run}"))).unwrap()
            }
        }));
        assert_eq!(service.call(keyed("k")).await.unwrap().status(), StatusCode::CREATED);
        tokio::time::sleep(2 * away).await;
        let again = service.call(keyed("k")).await.unwrap();
        assert_eq!(again.status(), StatusCode::CREATED, "after {away:?}");
        assert!(again.headers().contains_key("idempotency-replayed"));
        let stats = layer.stats();
        assert_eq!((world.runs.count(), stats.executed, stats.unrecorded), (1, 1, 0));
    }
}
