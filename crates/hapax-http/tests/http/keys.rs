//! Keys, scopes and fingerprints.

use crate::world::*;
use hapax_http::{IdempotencyLayer, OnMissing, Problem, fingerprint};
use hapax_store::Fingerprint;
use http::{HeaderName, Method, StatusCode};

#[tokio::test]
async fn the_same_key_and_request_is_handled_once_and_answered_alike() {
    let world = World::new();
    let server = world.counting(world.layer().await).await;
    let first = server.post("\"k-1\"", "10 €").await;
    first.is_run(1, "10 €");
    assert!(!first.is_replayed());
    for key in ["\"k-1\"", "k-1", " \"k-1\" "] {
        let again = server.post(key, "10 €").await;
        assert_eq!((again.status, &again.body, again.is_replayed()), (first.status, &first.body, true));
        assert_eq!(again.header("x-run"), Some("1"));
    }
    server.post("\"k-2\"", "10 €").await.is_run(2, "10 €");
    assert_eq!(world.runs.count(), 2);
}

#[tokio::test]
async fn a_missing_or_malformed_key_is_refused_and_nothing_is_burned() {
    let world = World::new();
    let server = world.counting(world.layer().await).await;
    let asked_before = world.store.calls();
    let missing = server.send(request(Method::POST, "/", &[], "")).await;
    missing.is_problem(Problem::KeyMissing);
    assert_eq!(missing.status, StatusCode::BAD_REQUEST);
    let long = "x".repeat(256);
    for wrong in ["", "\"\"", "\"  \"", "a b", "\"a", "a,b", &long] {
        let refused = server.post(wrong, "").await;
        refused.is_problem(Problem::KeyMalformed);
        assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    }
    let twice = [("idempotency-key", "a"), ("idempotency-key", "a")];
    server.send(request(Method::POST, "/", &twice, "")).await.is_problem(Problem::KeyMalformed);
    assert_eq!((world.runs.count(), world.store.calls()), (0, asked_before));
    server.post("a", "").await.is_run(1, "");
    server.post(&"x".repeat(255), "").await.is_run(2, "");
}

#[tokio::test]
async fn a_missing_key_passes_where_it_may_a_malformed_one_never() {
    let world = World::new();
    let layer = world.layer().await.on_missing(OnMissing::Pass);
    let server = world.counting(layer).await;
    let asked_before = world.store.calls();
    for run in [1, 2] {
        server.send(request(Method::POST, "/", &[], "x")).await.is_run(run, "x");
    }
    server.post("\"\"", "").await.is_problem(Problem::KeyMalformed);
    assert_eq!(world.store.calls(), asked_before);
}

#[tokio::test]
async fn other_methods_go_through_untouched() {
    let world = World::new();
    let server = world.counting(world.layer().await).await;
    for (run, method) in [Method::PUT, Method::DELETE, Method::GET, Method::PUT].into_iter().enumerate() {
        let sent = request(method, "/", &[("idempotency-key", "not, a key")], "x");
        server.send(sent).await.is_run(run as u64 + 1, "x");
    }
    let patch = || request(Method::PATCH, "/", &[("idempotency-key", "a")], "x");
    server.send(patch()).await.is_run(5, "x");
    assert!(server.send(patch()).await.is_replayed());

    let world = World::new();
    let server = world.counting(world.layer().await.methods([Method::PUT])).await;
    server.send(request(Method::PUT, "/", &[], "x")).await.is_problem(Problem::KeyMissing);
    server.send(request(Method::POST, "/", &[], "x")).await.is_run(1, "x");
}

#[tokio::test]
async fn the_header_may_have_another_name() {
    let world = World::new();
    let layer = world.layer().await.header(HeaderName::from_static("x-request-id"));
    let server = world.counting(layer).await;
    server.post("a", "").await.is_problem(Problem::KeyMissing);
    server.send(request(Method::POST, "/", &[("x-request-id", "a")], "")).await.is_run(1, "");
}

#[tokio::test]
async fn the_same_key_of_two_scopes_is_two_keys_and_of_none_is_refused() {
    let world = World::new();
    let dedup = world.engine().build().await.unwrap();
    // (A test believes a header. A server takes what its authentication has verified:
    // `crates/hapax-http/examples/http_server.rs`.)
    let layer = IdempotencyLayer::builder(dedup).scope(|request| {
        let tenant = request.headers.get("x-tenant")?;
        tenant.to_str().ok().map(str::to_owned)
    });
    let server = world.counting(layer).await;
    let of = |tenant, key| request(Method::POST, "/", &[("x-tenant", tenant), ("idempotency-key", key)], "");
    server.send(of("a", "k")).await.is_run(1, "");
    server.send(of("b", "k")).await.is_run(2, "");
    // Put together without care, these would be the first one.
    server.send(of("", "ak")).await.is_run(3, "");
    server.send(of("ak", "\" \\\"\"")).await.is_run(4, "");
    assert!(server.send(of("a", "k")).await.is_replayed());
    let nobody = server.post("k", "").await;
    nobody.is_problem(Problem::ScopeMissing);
    assert_eq!((nobody.status, world.runs.count()), (StatusCode::BAD_REQUEST, 4));
}

#[tokio::test]
async fn another_request_with_the_same_key_is_a_mismatch_and_leaves_the_first_alone() {
    let world = World::new();
    let server = world.counting(world.layer().await).await;
    server.post("k", "10").await.is_run(1, "10");
    let key = ("idempotency-key", "k");
    let others = [
        request(Method::POST, "/charges", &[key], "99"),
        request(Method::POST, "/refunds", &[key], "10"),
        request(Method::POST, "/charges?x", &[key], "10"),
        request(Method::PATCH, "/charges", &[key], "10"),
        request(Method::POST, "/charges", &[key, ("content-type", "text/plain")], "10"),
    ];
    for other in others {
        let mismatch = server.send(other).await;
        mismatch.is_problem(Problem::FingerprintMismatch);
        assert_eq!(mismatch.status, StatusCode::UNPROCESSABLE_ENTITY);
    }
    let again = server.post("k", "10").await;
    assert!(again.is_replayed());
    again.is_run(1, "10");
}

#[tokio::test]
async fn a_fingerprint_may_be_of_json_or_a_function_of_ones_own() {
    let world = World::new();
    let server = world.counting(world.layer().await.fingerprint(fingerprint::json)).await;
    server.post("k", r#"{"amount":10,"to":"x"}"#).await.is_run(1, r#"{"amount":10,"to":"x"}"#);
    assert!(server.post("k", r#"{ "to": "x", "amount": 10 }"#).await.is_replayed());
    server.post("k", r#"{"amount":10.0,"to":"x"}"#).await.is_problem(Problem::FingerprintMismatch);

    let world = World::new();
    let by_length = |_: &http::request::Parts, body: &[u8]| Fingerprint::of(body.len().to_le_bytes());
    let server = world.counting(world.layer().await.fingerprint(by_length)).await;
    server.post("k", "abc").await.is_run(1, "abc");
    assert!(server.post("k", "xyz").await.is_replayed());
    server.post("k", "abcd").await.is_problem(Problem::FingerprintMismatch);
}

#[tokio::test]
async fn options_that_make_no_sense_are_refused_by_name() {
    use std::time::Duration;
    let world = World::new();
    for (option, layer) in [
        ("methods", world.layer().await.methods([])),
        ("handler_timeout", world.layer().await.handler_timeout(Duration::MAX)),
        ("wait", world.layer().await.wait(Duration::MAX)),
        ("max_in_flight", world.layer().await.max_in_flight(0)),
        ("max_buffered_bytes", world.layer().await.max_buffered_bytes((1 << 20) - 1)),
        ("max_body_bytes", world.layer().await.max_body_bytes(usize::MAX)),
    ] {
        let error = layer.build().unwrap_err();
        assert_eq!(error.kind(), hapax_store::ErrorKind::Misconfigured);
        assert!(error.to_string().contains(&format!("`{option}`")), "{option}: {error}");
    }
    let most = world.layer().await.max_in_flight(8).max_body_bytes(1 << 30);
    assert!(most.build().is_ok(), "the defaults follow what is set");
    let layer = world.layer().await;
    let without_runtime = std::thread::spawn(move || layer.build().map(|_| ())).join().unwrap();
    assert!(without_runtime.unwrap_err().to_string().contains("runtime"));
}
