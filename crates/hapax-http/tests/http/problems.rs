//! Problems in the form that an application configures.

use crate::world::*;
use bytes::Bytes;
use hapax_http::{IdempotencyLayer, Problem};
use hapax_store::ErrorKind;
use http::{HeaderValue, StatusCode};

#[tokio::test]
async fn a_problem_links_to_what_describes_it() {
    let world = World::new();
    let server = world.counting(world.layer().await).await;
    let missing = server.send(request(http::Method::POST, "/", &[], "")).await;
    missing.is_problem(Problem::KeyMissing);
    let expected = format!("<{}>; rel=\"describedby\"; type=\"text/html\"", Problem::KeyMissing.type_uri());
    assert_eq!(missing.header("link"), Some(expected.as_str()));
}

fn missing() -> http::Request<http_body_util::Full<Bytes>> {
    request(http::Method::POST, "/", &[], "")
}

#[tokio::test]
async fn type_and_page_can_be_set() {
    let world = World::new();
    let of_api = |problem: Problem| format!("https://api.example/problems/{}", problem.slug());
    let layer = world.layer().await.problem_type(of_api).status(Problem::KeyMissing, StatusCode::PRECONDITION_REQUIRED);
    let server = world.counting(layer).await;
    let answer = server.send(missing()).await;
    let body: serde_json::Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!((&body["type"], &body["status"]), (&"https://api.example/problems/key-missing".into(), &428.into()));
    let link = "<https://api.example/problems/key-missing>; rel=\"describedby\"; type=\"text/html\"";
    assert_eq!((answer.status.as_u16(), answer.header("link")), (428, Some(link)));

    let layer = world.layer().await.problem_type(|_| "about:blank".to_owned());
    let answer = world.counting(layer).await.send(missing()).await;
    assert_eq!(answer.header("link"), None, "that is no page");

    let layer = world.layer().await.documentation("/docs/idempotency");
    let answer = world.counting(layer).await.send(missing()).await;
    answer.is_problem(Problem::KeyMissing);
    assert_eq!(answer.header("link"), Some("</docs/idempotency>; rel=\"describedby\"; type=\"text/html\""));
}

#[tokio::test]
async fn the_response_can_be_made_by_the_application() {
    let world = World::new();
    let layer = world.layer().await.problem_response(|problem| {
        let mut response = problem.response();
        let code = HeaderValue::try_from(problem.problem.slug()).unwrap();
        response.headers_mut().insert("x-error", code);
        response.headers_mut().insert("content-type", HeaderValue::from_static("text/plain"));
        *response.body_mut() = Bytes::from(format!("{}: {}", problem.problem.title(), problem.detail));
        response
    });
    let server = world.counting(layer.retry_after(std::time::Duration::from_secs(3))).await;
    let answer = server.send(missing()).await;
    assert_eq!((answer.status.as_u16(), answer.header("x-error")), (400, Some("key-missing")));
    assert_eq!(answer.header("content-type"), Some("text/plain"));
    assert!(answer.text().starts_with("Idempotency key missing: idempotency-key: "), "{}", answer.text());
    world.store.next(hapax_testing::store::Fault::Fails(ErrorKind::Unavailable));
    let answer = server.post("k", "").await;
    assert_eq!((answer.status.as_u16(), answer.header("retry-after")), (503, Some("3")));
}

#[tokio::test]
async fn a_page_that_is_no_address_is_refused() {
    let world = World::new();
    for wrong in ["", "two words", "a>; rel=\"next\"", "a\r\nx: y"] {
        let layer = IdempotencyLayer::builder(world.engine().build().await.unwrap()).global_scope();
        let error = layer.documentation(wrong).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Misconfigured);
        assert!(error.to_string().contains("documentation"), "{error}");
    }
}
