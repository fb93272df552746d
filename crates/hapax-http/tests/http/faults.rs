//! Stores that fail at each step.

use crate::world::*;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use hapax_http::{IdempotencyKey, IdempotencyLayer, Problem};
use hapax_store::{ErrorKind, OnStoreError};
use hapax_testing::store::Fault;
use http::StatusCode;
use std::sync::Arc;
use std::time::Duration;

const DOWN: Fault = Fault::Fails(ErrorKind::Unavailable);

#[tokio::test]
async fn a_store_that_is_down_is_503_and_nothing_is_handled() {
    let world = World::new();
    let server = world.counting(world.layer().await).await;
    world.store.always(DOWN);
    let down = server.post("k", "").await;
    down.is_problem(Problem::StoreUnavailable);
    assert_eq!((down.status, down.header("retry-after")), (StatusCode::SERVICE_UNAVAILABLE, Some("1")));
    assert!(!down.text().contains("faulty"), "what the store says is not for clients: {}", down.text());
    assert_eq!(world.runs.count(), 0);
    world.store.always(Fault::None);
    server.post("k", "").await.is_run(1, "");
    // A replay needs it, too.
    world.store.next(DOWN);
    server.post("k", "").await.is_problem(Problem::StoreUnavailable);
    assert!(server.post("k", "").await.is_replayed());
}

#[tokio::test]
async fn a_store_that_is_wrong_is_500() {
    let world = World::new();
    let server = world.counting(world.layer().await).await;
    for kind in [ErrorKind::Corrupt, ErrorKind::Misconfigured] {
        world.store.next(Fault::Fails(kind));
        let wrong = server.post("k", "").await;
        wrong.is_problem(Problem::StoreFailed);
        assert_eq!((wrong.status, wrong.header("retry-after")), (StatusCode::INTERNAL_SERVER_ERROR, None));
    }
    assert_eq!(world.runs.count(), 0);
}

#[tokio::test]
async fn a_lost_answer_to_a_claim_does_not_lock_the_key() {
    let world = World::new();
    let server = world.counting(world.layer().await).await;
    world.store.next(Fault::LosesAnswer(ErrorKind::Unavailable));
    server.post("k", "").await.is_problem(Problem::StoreUnavailable);
    server.post("k", "").await.is_run(1, "");
    assert_eq!(world.runs.count(), 1);
}

#[tokio::test]
async fn a_policy_may_admit_while_the_store_is_down() {
    let world = World::new();
    let dedup = world
        .engine()
        .policy("*", hapax_store::Policy::new().on_store_error(OnStoreError::Admit))
        .build()
        .await
        .unwrap();
    let layer = IdempotencyLayer::builder(dedup).global_scope().build().unwrap();
    let (runs, stats) = (world.runs.clone(), layer.clone());
    let server = Server::start(layer, move |request: Request| {
        let run = runs.begin();
        assert!(!request.extensions().get::<IdempotencyKey>().unwrap().is_verified());
        std::future::ready(Response::new(Body::from(format!("run {run}"))))
    })
    .await;
    world.store.always(DOWN);
    for run in ["run 1", "run 2"] {
        assert_eq!(server.post("k", "").await.text(), run);
    }
    assert_eq!(stats.stats().unrecorded, 2);
    // The store comes back while it is handled: then it is recorded.
    world.store.always(Fault::None);
    world.store.next(DOWN);
    assert_eq!(server.post("k", "").await.text(), "run 3");
    let again = server.post("k", "").await;
    assert_eq!((again.text(), again.is_replayed()), ("run 3", true));
}

#[tokio::test]
async fn a_completion_that_fails_does_not_take_the_response_away_and_ends_with_the_lease() {
    let (never, lost) = (Fault::Fails(ErrorKind::Corrupt), Fault::LosesAnswer(ErrorKind::Timeout));
    for (fault, is_recorded) in [(never, false), (lost, true), (DOWN, true)] {
        let world = World::new();
        let layer = world.layer().await.build().unwrap();
        let (runs, store) = (world.runs.clone(), Arc::clone(&world.store));
        let server = Server::start(layer.clone(), move |_: Request| {
            let run = runs.begin();
            if run == 1 {
                store.next(fault);
            }
            std::future::ready(Response::new(Body::from(format!("run {run}"))))
        })
        .await;
        let first = server.post("k", "").await;
        assert_eq!((first.status, first.text()), (StatusCode::OK, "run 1"));
        let counts = (layer.stats().unrecorded, layer.stats().executed);
        assert_eq!(counts, if is_recorded { (0, 1) } else { (1, 0) }, "what may be mended is tried again");
        let again = server.post("k", "").await;
        if is_recorded {
            assert_eq!((again.text(), again.is_replayed()), ("run 1", true))
        } else {
            again.is_problem(Problem::InProgress);
            world.clock.advance(LEASE);
            assert_eq!(server.post("k", "").await.text(), "run 2");
            assert!(server.post("k", "").await.is_replayed());
        }
    }
}

#[tokio::test]
async fn a_release_that_fails_ends_with_the_lease() {
    let world = World::new();
    let (runs, store) = (world.runs.clone(), Arc::clone(&world.store));
    let server = Server::start(world.layer().await.build().unwrap(), move |_: Request| {
        let run = runs.begin();
        if run == 1 {
            store.next(DOWN);
        }
        std::future::ready(Response::builder().status(if run == 1 { 500 } else { 200 }).body(Body::empty()).unwrap())
    })
    .await;
    assert_eq!(server.post("k", "").await.status, StatusCode::INTERNAL_SERVER_ERROR);
    server.post("k", "").await.is_problem(Problem::InProgress);
    world.clock.advance(LEASE);
    assert_eq!(server.post("k", "").await.status, StatusCode::OK);
    assert_eq!(world.runs.count(), 2);
}

#[tokio::test]
async fn a_store_that_hangs_is_503_in_time() {
    let world = World::new();
    let dedup = world.engine().timeout(Duration::from_millis(50)).build().await.unwrap();
    let impatient = world.counting(IdempotencyLayer::builder(dedup).global_scope()).await;
    world.store.next(Fault::Hangs);
    impatient.post("k", "").await.is_problem(Problem::StoreUnavailable);
    // (By a server that waits for longer: what a busy machine has in 50 ms is no matter.)
    world.counting(world.layer().await).await.post("k", "").await.is_run(1, "");
}
