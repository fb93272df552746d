//! The same cases over servers.

use crate::world::*;
use hapax_http::{IdempotencyLayer, Problem};
use hapax_postgres::{PostgresOptions, PostgresStore};
use hapax_redis::{RedisOptions, RedisStore};
use hapax_store::{DynStore, Store};
use std::sync::Arc;
use std::time::Duration;

/// Runs the cases: first request, replay, mismatch, a large result, a failure, and forty callers of
/// one key.
async fn cases(store: impl Store) {
    cases_over(DynStore::new(store)).await;
}

async fn cases_over(store: DynStore) {
    let dedup = engine(store).timeout(Duration::from_secs(20)).build().await.unwrap();
    expires(dedup.clone()).await;
    let layer = IdempotencyLayer::builder(dedup).global_scope().wait(Duration::from_secs(30)).build().unwrap();
    let (runs, counts) = (Runs::default(), Runs::default());
    let (of_handler, fails) = (runs.clone(), counts.clone());
    let server = Server::start(layer, move |request: axum::extract::Request| {
        let run = of_handler.begin();
        let is_failure = request.uri().path() == "/fails-once" && fails.begin() == 1;
        async move {
            tokio::task::yield_now().await;
            let (status, body) = match request.uri().path() {
                _ if is_failure => (500, b"failed".to_vec()),
                "/large" => (200, vec![run as u8; 300_000]),
                _ => (201, format!("run {run}: ").into_bytes()),
            };
            axum::response::Response::builder().status(status).body(body.into()).unwrap()
        }
    })
    .await;
    let post = |path: &'static str, key: &'static str| {
        server.send(request(http::Method::POST, path, &[("idempotency-key", key)], ""))
    };
    post("/", "a").await.is_run(1, "");
    let again = post("/", "a").await;
    again.is_run(1, "");
    assert!(again.is_replayed());
    post("/other", "a").await.is_problem(Problem::FingerprintMismatch);
    for is_replayed in [false, true] {
        let large = post("/large", "b").await;
        assert_eq!((large.is_replayed(), large.body.len()), (is_replayed, 300_000));
        assert!(large.body.iter().all(|&byte| byte == 2));
    }
    assert_eq!(post("/fails-once", "c").await.status, 500);
    post("/fails-once", "c").await.is_run(4, "");
    assert!(post("/fails-once", "c").await.is_replayed());

    let server = Arc::new(server);
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..40 {
        let server = Arc::clone(&server);
        callers.spawn(async move { server.post("d", "").await });
    }
    let answers = callers.join_all().await;
    answers.iter().for_each(|answer| answer.is_run(5, ""));
    assert_eq!(answers.iter().filter(|answer| !answer.is_replayed()).count(), 1);
    assert_eq!(runs.count(), 5);
}

/// Checks a key of a tenant that is replayed for a moment only, and then expires, by the store's
/// own time.
async fn expires(dedup: hapax_store::TieredDedup<DynStore>) {
    let layer = IdempotencyLayer::builder(dedup)
        .scope(|_| Some("tenant".to_owned()))
        .retention(|_| Some(Duration::from_millis(1)))
        .gone_for(Duration::from_secs(3_600))
        .build()
        .unwrap();
    let runs = Runs::default();
    let (of_handler, stats) = (runs.clone(), layer.clone());
    let server = Server::start(layer, move |_: axum::extract::Request| {
        of_handler.begin();
        std::future::ready(axum::response::Response::new("done".into()))
    })
    .await;
    assert_eq!(server.post("e", "").await.text(), "done");
    // Stores remember for longer by the unit in which they count, a second at most.
    let gone = async {
        while server.post("e", "").await.is_replayed() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.expect("it expires");
    server.post("e", "").await.is_problem(Problem::KeyExpired);
    assert_eq!((runs.count(), stats.stats().expired), (1, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_redis() {
    if crate::redis_server::is_missing() {
        return;
    }
    let server = crate::redis_server::Server::start(&[]);
    let store = RedisStore::connect(RedisOptions::single(server.url(), "http")).await.unwrap();
    cases(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_postgres() {
    let Some(server) = crate::postgres_server::Server::start(&["fsync=off"]) else { return };
    let store = PostgresStore::new(PostgresOptions::parse(&server.address()).unwrap(), "http").unwrap();
    store.migrate().await.unwrap();
    cases(store).await;
}
