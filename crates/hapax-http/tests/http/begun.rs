//! Refusals before the handler began: an extractor, a router. Nothing is remembered of them.

use crate::world::*;
use axum::Router;
use axum::extract::{FromRequest, Request};
use axum::routing::post;
use hapax_http::{IdempotencyKey, LayerBuilder};
use http::{Method, StatusCode};
use http_body_util::BodyExt;

/// An order, which an extractor makes of a body: with the statuses of axum's `Json`.
struct Order(u64);

impl<S: Send + Sync> FromRequest<S> for Order {
    type Rejection = StatusCode;

    async fn from_request(request: Request, _: &S) -> Result<Self, StatusCode> {
        if request.headers().get("content-type").is_none_or(|it| it != "text/plain") {
            return Err(StatusCode::UNSUPPORTED_MEDIA_TYPE);
        }
        let body = request.into_body().collect().await.map_err(|_| StatusCode::BAD_REQUEST)?.to_bytes();
        let text = std::str::from_utf8(&body).map_err(|_| StatusCode::BAD_REQUEST)?;
        Ok(Order(text.parse().map_err(|_| StatusCode::UNPROCESSABLE_ENTITY)?))
    }
}

async fn orders(world: &World, layer: LayerBuilder<Faulty>) -> Server {
    let runs = world.runs.clone();
    let handler = move |Order(amount): Order| {
        let run = runs.begin();
        async move { (StatusCode::CREATED, format!("run {run}: {amount}")) }
    };
    Server::of(Router::new().route("/orders", post(handler)).layer(layer.build().unwrap())).await
}

async fn order(server: &Server, content_type: &'static str, body: &'static str) -> Answer {
    let headers = [("idempotency-key", "k"), ("content-type", content_type)];
    server.send(request(Method::POST, "/orders", &headers, body)).await
}

#[tokio::test]
async fn what_an_extractor_refuses_is_not_remembered() {
    let world = World::new();
    let server = orders(&world, world.layer().await).await;
    assert_eq!(order(&server, "text/html", "10").await.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert_eq!(order(&server, "text/plain", "ten").await.status, StatusCode::UNPROCESSABLE_ENTITY);
    // The client has corrected its request, and keeps its key.
    order(&server, "text/plain", "10").await.is_run(1, "10");
    assert!(order(&server, "text/plain", "10").await.is_replayed());
    // Nor is a refusal of the router, which has no such method there.
    let put = |path: &'static str| request(Method::PATCH, path, &[("idempotency-key", "p")], "");
    assert_eq!(server.send(put("/orders")).await.status, StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(server.send(put("/order")).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_handler_says_when_it_has_begun_and_then_its_refusals_are_remembered() {
    let world = World::new();
    let layer = world.layer().await.build().unwrap();
    let runs = world.runs.clone();
    let server = Server::start(layer.clone(), move |request: Request| {
        let (run, key) = (runs.begin(), request.extensions().get::<IdempotencyKey>().unwrap().clone());
        async move {
            if run > 1 {
                // Also by a clone, somewhere else.
                tokio::spawn(async move { key.begin() }).await.unwrap();
            }
            axum::response::Response::builder().status(422).body(format!("run {run}").into()).unwrap()
        }
    })
    .await;
    assert_eq!(server.post("k", "").await.text(), "run 1");
    assert_eq!((layer.stats().not_begun, layer.stats().released, layer.stats().executed), (1, 1, 0));
    for is_replayed in [false, true] {
        let answer = server.post("k", "").await;
        assert_eq!((answer.text(), answer.is_replayed()), ("run 2", is_replayed));
    }
    assert_eq!((layer.stats().not_begun, layer.stats().released, layer.stats().executed), (1, 1, 1));
}
