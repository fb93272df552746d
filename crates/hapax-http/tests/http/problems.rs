//! Problems in the form that an application configures.

use crate::world::*;
use bytes::Bytes;
use hapax_http::Problem;
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
async fn the_response_can_be_made_by_the_application() {
    let world = World::new();
    let layer = world.layer().await.problem_response(|problem| {
        let mut response = problem.response();
        if problem.problem == Problem::KeyMissing {
            *response.status_mut() = StatusCode::PRECONDITION_REQUIRED;
        }
        let code = HeaderValue::try_from(format!("{:?}", problem.problem)).unwrap();
        response.headers_mut().insert("x-error", code);
        response.headers_mut().insert("content-type", HeaderValue::from_static("text/plain"));
        *response.body_mut() = Bytes::from(format!("{}: {}", problem.problem.title(), problem.detail));
        response
    });
    let server = world.counting(layer).await;
    let answer = server.send(missing()).await;
    assert_eq!((answer.status.as_u16(), answer.header("x-error")), (428, Some("KeyMissing")));
    assert_eq!(answer.header("content-type"), Some("text/plain"));
    assert!(answer.text().starts_with("Idempotency key missing: idempotency-key: "), "{}", answer.text());
    world.store.next(hapax_testing::store::Fault::Fails(ErrorKind::Unavailable));
    let answer = server.post("k", "").await;
    assert_eq!((answer.status.as_u16(), answer.header("retry-after")), (503, Some("1")));
}
