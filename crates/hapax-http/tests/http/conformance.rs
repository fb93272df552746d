//! The cases of HTTP in `docs/conformance.json`, which every language runs.

use crate::world::{Answer, Runs, Server, engine};
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use hapax_http::IdempotencyLayer;
use hapax_store::InMemoryStore;
use http_body_util::{BodyExt, Full};
use serde_json::Value;

/// Starts a server as the file describes its handler.
async fn server(has_owners: bool) -> Server {
    let layer = IdempotencyLayer::builder(engine(InMemoryStore::new()).build().await.unwrap());
    let layer = if has_owners {
        layer.scope(|parts| Some(parts.headers.get("x-owner")?.to_str().ok()?.to_owned()))
    } else {
        layer.global_scope()
    };
    let runs = Runs::default();
    Server::start(layer.build().unwrap(), move |request: Request| {
        let run = runs.begin();
        async move {
            let status = request.headers().get("x-status").map_or("201", |status| status.to_str().unwrap());
            let response = Response::builder().status(status).header("x-run", run);
            let body = request.into_body().collect().await.unwrap().to_bytes();
            response.body(format!("run {run}: {}", String::from_utf8_lossy(&body)).into()).unwrap()
        }
    })
    .await
}

async fn answer(server: &Server, step: &Value) -> Answer {
    let text = |name: &str, other: &str| step[name].as_str().unwrap_or(other).to_owned();
    let mut request = http::Request::builder().header("host", "test");
    request = request.method(&*text("method", "POST")).uri(text("target", "/charges"));
    for (name, value) in [("idempotency-key", &step["key"]), ("x-owner", &step["owner"]), ("x-status", &step["answer"])]
    {
        if !value.is_null() {
            request = request.header(name, value.as_str().map_or_else(|| value.to_string(), str::to_owned));
        }
    }
    server.send(request.body(Full::from(Bytes::from(text("body", "")))).unwrap()).await
}

#[tokio::test]
async fn requests_are_answered_so() {
    let cases: Value = serde_json::from_str(include_str!("../../../../docs/conformance.json")).unwrap();
    for case in cases["http"].as_array().unwrap() {
        let steps = case["requests"].as_array().unwrap();
        let server = server(steps[0]["owner"].is_string()).await;
        for step in steps {
            let (name, answer) = (&case["name"], answer(&server, step).await);
            assert_eq!(u64::from(answer.status.as_u16()), step["status"], "{name}: {step}");
            assert_eq!(answer.is_replayed(), step["replayed"] == true, "{name}: {step}");
            match step["run"].as_u64() {
                Some(run) => {
                    assert_eq!(
                        answer.text(),
                        format!("run {run}: {}", step["body"].as_str().unwrap()),
                        "{name}: {step}"
                    );
                    assert_eq!(answer.header("x-run"), Some(&*run.to_string()), "{name}: {step}");
                }
                None => assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{name}: {step}"),
            }
        }
    }
}
