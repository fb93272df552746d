//! A store that is away for a moment when a handler has ended.

use crate::running::Inner;
use crate::world::*;
use hapax_http::{IdempotencyLayer, LayerBuilder};
use hapax_store::ErrorKind;
use hapax_testing::store::Fault;
use http::{Method, StatusCode};
use http_body_util::Full;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tower_layer::Layer;
use tower_service::Service;

const DOWN: Fault = Fault::Fails(ErrorKind::Unavailable);

fn keyed(key: &str) -> http::Request<Full<bytes::Bytes>> {
    request(Method::POST, "/", &[("idempotency-key", key)], "")
}

fn layer(engine: hapax_store::TieredDedup<Faulty>) -> LayerBuilder<Faulty> {
    IdempotencyLayer::builder(engine).global_scope()
}

type Sent = http::Request<hapax_http::Body<Full<bytes::Bytes>>>;

/// Makes a handler during whose first run the store goes away, for this long.
fn loses(
    world: &World,
    away: Duration,
) -> impl FnMut(Sent) -> std::future::Ready<http::Response<Full<bytes::Bytes>>> + Clone + use<> {
    let (runs, store) = (world.runs.clone(), Arc::clone(&world.store));
    move |_| {
        let run = runs.begin();
        if run == 1 {
            goes_away(&store, away);
        }
        std::future::ready(http::Response::builder().status(201).body(Full::from(format!("run {run}"))).unwrap())
    }
}

fn goes_away(store: &Faulty, away: Duration) {
    store.always(DOWN);
    let store = Arc::clone(store);
    tokio::spawn(async move {
        tokio::time::sleep(away).await;
        store.always(Fault::None);
    });
}

/// Builds an engine that retries as by default.
async fn trying(world: &World) -> hapax_store::TieredDedup<Faulty> {
    engine(Arc::clone(&world.store)).clock(world.clock.clone()).build().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_when_the_handler_ends_repeats_nothing() {
    for away in [Duration::from_millis(300), Duration::from_secs(1)] {
        let world = World::new();
        let layer = layer(trying(&world).await).build().unwrap();
        let mut service = layer.layer(Inner(loses(&world, away)));
        assert_eq!(service.call(keyed("k")).await.unwrap().status(), StatusCode::CREATED);
        tokio::time::sleep(2 * away).await;
        let again = service.call(keyed("k")).await.unwrap();
        assert_eq!(again.status(), StatusCode::CREATED, "after {away:?}");
        assert!(again.headers().contains_key("idempotency-replayed"));
        let stats = layer.stats();
        assert_eq!((world.runs.count(), stats.executed, stats.unrecorded), (1, 1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_waits_for_its_record_no_longer_than_it_may() {
    let world = World::new();
    let (away, within) = (Duration::from_secs(10), Duration::from_secs(1));
    let layer = layer(trying(&world).await).build().unwrap();
    let mut service = layer.layer(Inner(loses(&world, away)));
    let began = Instant::now();
    assert_eq!(service.call(keyed("k")).await.unwrap().status(), StatusCode::CREATED);
    assert!(began.elapsed() >= within && began.elapsed() < within + Duration::from_millis(50), "{:?}", began.elapsed());
    let stats = layer.stats();
    assert_eq!((stats.answered_early, stats.executed, stats.unrecorded, stats.in_flight), (1, 0, 0, 1));
    // Meanwhile nobody gets an answer about it, and nothing runs.
    assert_eq!(service.call(keyed("k")).await.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
    // A server that ends waits for the record.
    layer.idle().await;
    assert!(began.elapsed() >= away, "{:?}", began.elapsed());
    let again = service.call(keyed("k")).await.unwrap();
    assert!(again.headers().contains_key("idempotency-replayed"));
    let stats = layer.stats();
    assert_eq!((world.runs.count(), stats.executed, stats.unrecorded, stats.in_flight), (1, 1, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn what_is_still_to_be_recorded_counts_as_bytes() {
    let world = World::new();
    let layer = layer(trying(&world).await).max_body_bytes(5_000).max_buffered_bytes(5_000).build().unwrap();
    let store = Arc::clone(&world.store);
    let mut service = layer.layer(Inner(move |_: Sent| {
        goes_away(&store, Duration::from_secs(5));
        std::future::ready(http::Response::new(Full::from(vec![7; 5_000])))
    }));
    drop(service.call(keyed("k")).await.unwrap());
    assert!((5_000..5_100).contains(&layer.stats().buffered_bytes), "{:?}", layer.stats());
    assert_eq!(service.call(keyed("l")).await.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
    layer.idle().await;
    assert_eq!((layer.stats().buffered_bytes, layer.stats().executed), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_told_although_its_key_cannot_be_released() {
    let world = World::new();
    let layer = layer(trying(&world).await).build().unwrap();
    let store = Arc::clone(&world.store);
    let mut service = layer.layer(Inner(move |_: Sent| {
        store.always(Fault::Hangs);
        std::future::ready(http::Response::builder().status(500).body(Full::from("failed")).unwrap())
    }));
    let began = Instant::now();
    assert_eq!(service.call(keyed("k")).await.unwrap().status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert!(began.elapsed() <= Duration::from_millis(1_050), "{:?}", began.elapsed());
    assert_eq!((layer.stats().answered_early, layer.stats().in_flight), (1, 1));
    layer.idle().await;
    assert_eq!(layer.stats().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_while_its_response_is_recorded_changes_nothing() {
    let world = World::new();
    let layer = layer(trying(&world).await).build().unwrap();
    let mut service = layer.layer(Inner(loses(&world, Duration::from_millis(500))));
    let call = tokio::spawn(service.call(keyed("k")));
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(world.runs.count(), 1);
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    layer.idle().await;
    let again = service.call(keyed("k")).await.unwrap();
    assert!(again.headers().contains_key("idempotency-replayed"));
    assert_eq!((world.runs.count(), layer.stats().executed), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn two_requests_with_one_key_while_the_store_is_away_run_once_when_it_is_back() {
    let world = World::new();
    let layer = layer(trying(&world).await).wait(Duration::from_secs(5)).build().unwrap();
    let service = layer.layer(Inner(loses(&world, Duration::ZERO)));
    goes_away(&world.store, Duration::from_secs(30));
    let ask = || {
        let mut service = service.clone();
        tokio::spawn(async move { service.call(keyed("k")).await.unwrap().status() })
    };
    let both = [ask(), ask()];
    for refused in both {
        assert_eq!(refused.await.unwrap(), StatusCode::SERVICE_UNAVAILABLE);
    }
    assert_eq!(world.runs.count(), 0);
    tokio::time::sleep(Duration::from_secs(40)).await;
    for answered in [ask(), ask()] {
        assert_eq!(answered.await.unwrap(), StatusCode::CREATED);
    }
    assert_eq!(world.runs.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_retry_while_the_first_runs_without_a_store_is_not_handled() {
    let world = World::new();
    let layer = layer(trying(&world).await).build().unwrap();
    let runs = world.runs.clone();
    let mut service = layer.layer(Inner(move |_: Sent| {
        runs.begin();
        async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            http::Response::builder().status(201).body(Full::from("done")).unwrap()
        }
    }));
    let first = tokio::spawn(service.call(keyed("k")));
    tokio::time::sleep(Duration::from_secs(1)).await;
    goes_away(&world.store, Duration::from_secs(3));
    let retry = service.call(keyed("k")).await.unwrap();
    assert_eq!(retry.status(), StatusCode::SERVICE_UNAVAILABLE);
    let another = request(Method::POST, "/", &[("idempotency-key", "k")], "another body");
    assert_eq!(service.call(another).await.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(first.await.unwrap().unwrap().status(), StatusCode::CREATED);
    let another = request(Method::POST, "/", &[("idempotency-key", "k")], "another body");
    assert_eq!(service.call(another).await.unwrap().status(), StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!((world.runs.count(), layer.stats().executed), (1, 1));
}
