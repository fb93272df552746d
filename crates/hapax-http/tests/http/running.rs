//! Handlers at work: retries that come meanwhile, clients that go, panics, long runs.

use crate::world::*;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use hapax_http::{IdempotencyKey, IdempotencyLayer, Problem};
use hapax_store::{HeldBy, HistoryOptions, InMemoryStore};
use http::{Method, StatusCode};
use http_body_util::Full;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;
use tower_layer::Layer;
use tower_service::Service;

/// Starts a server whose handler waits for a permit, then counts itself as done.
async fn gated(world: &World, layer: IdempotencyLayer<Faulty>) -> (Arc<Server>, Arc<Semaphore>, Runs) {
    let (gate, done, runs) = (Arc::new(Semaphore::new(0)), Runs::default(), world.runs.clone());
    let (of_handler, ends) = (Arc::clone(&gate), done.clone());
    let server = Server::start(layer, move |_: Request| {
        let run = runs.begin();
        let (gate, ends) = (Arc::clone(&of_handler), ends.clone());
        async move {
            gate.acquire().await.unwrap().forget();
            ends.begin();
            Response::builder().status(201).body(Body::from(format!("run {run}"))).unwrap()
        }
    })
    .await;
    (Arc::new(server), gate, done)
}

fn post(server: &Arc<Server>, key: &'static str) -> tokio::task::JoinHandle<Answer> {
    let server = Arc::clone(server);
    tokio::spawn(async move { server.post(key, "").await })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_thousand_callers_with_one_key_one_is_handled_and_all_are_answered() {
    const CONNECTIONS: usize = 200;
    let world = World::new();
    let layer = world.layer().await.wait(Duration::from_secs(60)).build().unwrap();
    let (server, gate, _) = gated(&world, layer.clone()).await;
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..CONNECTIONS {
        let server = Arc::clone(&server);
        // Each of its requests waits for the one that is handled, or is a retry after it.
        callers.spawn(async move {
            let mut answers = Vec::new();
            for _ in 0..1_000 / CONNECTIONS {
                answers.push(server.post("k", "").await);
            }
            answers
        });
    }
    until("the handler runs", || world.runs.count() == 1).await;
    gate.add_permits(1_000);
    let answers: Vec<Answer> = callers.join_all().await.into_iter().flatten().collect();
    assert!(answers.iter().all(|answer| (answer.status, answer.text()) == (StatusCode::CREATED, "run 1")));
    let replayed = answers.iter().filter(|answer| answer.is_replayed()).count();
    assert_eq!((answers.len(), replayed, world.runs.count()), (1_000, 999, 1));
    let stats = layer.stats();
    assert_eq!((stats.executed, stats.replayed, stats.refused), (1, 999, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_at_the_same_moment_run_once_also_without_waiting() {
    let world = World::new();
    let layer = world.layer().await.build().unwrap();
    let runs = world.runs.clone();
    let gate = Arc::new(Semaphore::new(0));
    let opens = Arc::clone(&gate);
    let service = layer.layer(Inner(move |_: http::Request<hapax_http::Body<Full<Bytes>>>| {
        runs.begin();
        let gate = Arc::clone(&opens);
        async move {
            gate.acquire().await.unwrap().forget();
            http::Response::new(Full::from("done"))
        }
    }));
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..1_000 {
        let mut service = service.clone();
        callers.spawn(async move {
            let request = request(Method::POST, "/", &[("idempotency-key", "k")], "");
            service.call(request).await.unwrap().status()
        });
    }
    // All requests but the one that is handled are refused while it is.
    until("the others are told", || layer.stats().refused == 999).await;
    gate.add_permits(1_000);
    let statuses = callers.join_all().await;
    let count = |status| statuses.iter().filter(|&&it| it == status).count();
    assert_eq!((count(StatusCode::OK), count(StatusCode::CONFLICT), world.runs.count()), (1, 999, 1));
}

#[tokio::test]
async fn a_request_in_progress_is_a_conflict_and_says_when_to_ask_again() {
    let world = World::new();
    let layer = world.layer().await.build().unwrap();
    let (server, gate, _) = gated(&world, layer).await;
    let first = post(&server, "k");
    until("the handler runs", || world.runs.count() == 1).await;
    let conflict = server.post("k", "").await;
    conflict.is_problem(Problem::InProgress);
    assert_eq!(
        (conflict.status, conflict.header("retry-after")),
        (StatusCode::CONFLICT, Some("1")),
        "while nothing is known"
    );
    // Another request with the key of one in progress, too, is a mismatch.
    server.post("k", "other").await.is_problem(Problem::FingerprintMismatch);
    gate.add_permits(1);
    assert_eq!(first.await.unwrap().text(), "run 1");
    assert!(server.post("k", "").await.is_replayed());
}

#[tokio::test]
async fn a_conflict_names_the_holder_only_where_that_was_chosen_and_it_has_a_name() {
    let names = HeldBy::of("worker-7 \"4bf92f35\"");
    for (name, is_named) in [(Some(&names), false), (Some(&names), true), (None, true)] {
        let world = World::new();
        let engine = name.into_iter().fold(world.engine(), |engine, name| engine.held_by(name.clone()));
        let layer = IdempotencyLayer::builder(engine.build().await.unwrap()).global_scope();
        let layer = if is_named { layer.names_holder(true) } else { layer };
        let (server, gate, _) = gated(&world, layer.build().unwrap()).await;
        let first = post(&server, "k");
        until("the handler runs", || world.runs.count() == 1).await;
        let conflict = server.post("k", "").await;
        conflict.is_problem(Problem::InProgress);
        let body: serde_json::Value = serde_json::from_slice(&conflict.body).unwrap();
        let expected = name.filter(|_| is_named).map(HeldBy::as_str);
        assert_eq!(body.get("held_by").map(|it| it.as_str().unwrap()), expected, "{body}");
        gate.add_permits(1);
        assert_eq!(first.await.unwrap().text(), "run 1");
    }
}

#[tokio::test]
async fn a_client_that_goes_stops_neither_the_handler_nor_the_record() {
    let world = World::new();
    let layer = world.layer().await.build().unwrap();
    let (gate, gone, runs) = (Arc::new(Semaphore::new(0)), Runs::default(), world.runs.clone());
    let (opens, goes) = (Arc::clone(&gate), gone.clone());
    let handler = move |_: Request| {
        let (run, gate) = (runs.begin(), Arc::clone(&opens));
        async move {
            gate.acquire().await.unwrap().forget();
            Response::new(Body::from(format!("run {run}")))
        }
    };
    // This is outside of the layer: it notices when the server drops a request.
    let noticing = axum::middleware::from_fn(move |request: Request, next: axum::middleware::Next| {
        let unless_done = Gone(Some(goes.clone()));
        async move {
            let response = next.run(request).await;
            unless_done.forget();
            response
        }
    });
    let server = Server::of(axum::Router::new().fallback(handler).layer(layer.clone()).layer(noticing)).await;
    let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    stream
        .write_all(b"POST /charges HTTP/1.1\r\nhost: test\r\nidempotency-key: k\r\ncontent-length: 0\r\n\r\n")
        .await
        .unwrap();
    until("the handler runs", || world.runs.count() == 1).await;
    drop(stream);
    until("the server gives the request up", || gone.count() == 1).await;
    server.post("k", "").await.is_problem(Problem::InProgress);
    // A server that ends waits for it.
    let ending = layer.clone();
    let idle = tokio::spawn(async move { ending.idle().await });
    while server.post("k", "").await.status != StatusCode::SERVICE_UNAVAILABLE {
        tokio::task::yield_now().await;
    }
    assert!(!idle.is_finished());
    gate.add_permits(1);
    idle.await.unwrap();
    let again = server.post("k", "").await;
    assert_eq!((again.text(), again.is_replayed(), world.runs.count()), ("run 1", true, 1));
}

/// A counter that counts when it is dropped, unless it is empty.
struct Gone(Option<Runs>);

impl Gone {
    fn forget(mut self) {
        self.0 = None;
    }
}

impl Drop for Gone {
    fn drop(&mut self) {
        if let Some(gone) = &self.0 {
            gone.begin();
        }
    }
}

#[tokio::test]
async fn a_panic_goes_on_and_releases_the_key() {
    let world = World::new();
    let runs = world.runs.clone();
    let layer = world.layer().await.build().unwrap();
    let server = Server::start(layer.clone(), move |request: Request| {
        let (run, key) = (runs.begin(), request.extensions().get::<IdempotencyKey>().unwrap().clone());
        async move {
            if run == 2 {
                key.begin(); // it makes no difference
            }
            assert!(run > 2, "this panic belongs to the test");
            Response::new(Body::from("at last"))
        }
    })
    .await;
    for _ in 0..2 {
        // As without the layer: the connection ends.
        assert!(server.try_send(request(Method::POST, "/", &[("idempotency-key", "k")], "")).await.is_err());
    }
    let third = server.send(request(Method::POST, "/", &[("idempotency-key", "k")], "")).await;
    assert_eq!((third.text(), third.is_replayed(), world.runs.count()), ("at last", false, 3));
    assert_eq!((layer.stats().released, layer.stats().executed), (2, 1));
}

#[tokio::test]
async fn an_error_of_the_service_goes_on_and_releases_the_key() {
    let world = World::new();
    let runs = world.runs.clone();
    let mut service = world.layer().await.build().unwrap().layer(Failing(runs));
    let mut call = || service.call(request(Method::POST, "/", &[("idempotency-key", "k")], ""));
    assert_eq!(call().await.unwrap_err(), "run 1");
    assert!(call().await.is_ok());
    assert_eq!(call().await.unwrap().headers()["idempotency-replayed"], "true");
}

#[derive(Clone)]
struct Failing(Runs);

impl<B> Service<http::Request<B>> for Failing {
    type Response = http::Response<Full<Bytes>>;
    type Error = String;
    type Future = std::future::Ready<Result<Self::Response, String>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), String>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Request<B>) -> Self::Future {
        std::future::ready(match self.0.begin() {
            1 => Err("run 1".to_owned()),
            _ => Ok(http::Response::new(Full::from("done"))),
        })
    }
}

#[tokio::test]
async fn no_more_requests_are_in_flight_than_may_be() {
    let world = World::new();
    let layer = world.layer().await.max_in_flight(2).build().unwrap();
    let (server, gate, _) = gated(&world, layer).await;
    let two = [post(&server, "a"), post(&server, "b")];
    until("two run", || world.runs.count() == 2).await;
    let third = server.post("c", "").await;
    third.is_problem(Problem::Busy);
    assert_eq!((third.status, third.header("retry-after")), (StatusCode::SERVICE_UNAVAILABLE, Some("1")));
    gate.add_permits(3);
    for one in two {
        assert_eq!(one.await.unwrap().status, StatusCode::CREATED);
    }
    assert_eq!(server.post("c", "").await.status, StatusCode::CREATED);
}

#[tokio::test]
async fn a_handler_is_told_the_key_and_a_token_that_grows() {
    let world = World::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let dedup = world.engine().build().await.unwrap();
    let layer = IdempotencyLayer::builder(dedup).scope(|_| Some("tenant".to_owned())).build().unwrap();
    let server = Server::start(layer, move |request: Request| {
        told.lock().unwrap().push(request.extensions().get::<IdempotencyKey>().unwrap().clone());
        std::future::ready(Response::builder().status(500).body(Body::empty()).unwrap())
    })
    .await;
    for _ in 0..2 {
        server.post("\"a \\\"key\\\"\"", "").await;
    }
    let seen = seen.lock().unwrap();
    let [first, second] = &seen[..] else { panic!("two runs") };
    assert_eq!((first.as_str(), first.scope(), first.is_verified()), ("a \"key\"", Some("tenant"), true));
    assert!(first.token() < second.token());
    assert_eq!(first.step("shop", "charge"), second.step("shop", "charge"));
    assert_ne!(first.step("shop", "charge"), first.step("shop", "refund"));
    assert_ne!(first.step("shop", "charge"), first.step("stock", "charge"));
}

/// A service made of a function.
#[derive(Clone)]
pub struct Inner<F>(pub F);

impl<B, F, A> Service<http::Request<B>> for Inner<F>
where
    F: FnMut(http::Request<B>) -> A,
    A: Future<Output = http::Response<Full<Bytes>>> + Send + 'static,
{
    type Response = http::Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let answer = (self.0)(request);
        Box::pin(async move { Ok(answer.await) })
    }
}

#[tokio::test]
async fn an_exclusive_engine_answers_retries_with_what_was_kept() {
    let store = InMemoryStore::new();
    let dedup = engine(store)
        .ownership(hapax_store::Ownership::Exclusive)
        .history(HistoryOptions { ids: 10_000, false_positive_rate: 1e-4 })
        .build()
        .await
        .unwrap();
    dedup.warm().await.unwrap();
    let runs = Runs::default();
    let counts = runs.clone();
    let layer = IdempotencyLayer::builder(dedup).global_scope().wait(Duration::from_secs(20)).build().unwrap();
    let service = layer.layer(Inner(move |_: http::Request<hapax_http::Body<Full<Bytes>>>| {
        let run = counts.begin();
        async move {
            tokio::task::yield_now().await;
            http::Response::new(Full::from(format!("run {run}")))
        }
    }));
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let mut service = service.clone();
        callers.spawn(async move { service.call(crate::timing::keyed()).await.unwrap().status() });
    }
    assert!(callers.join_all().await.iter().all(|status| *status == StatusCode::OK));
    assert_eq!((runs.count(), layer.stats().replayed), (1, 99));
}
