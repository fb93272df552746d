//! The parts of a response that are stored, and those that are not.

use crate::bodies::Frames;
use crate::world::*;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use hapax_http::{IdempotencyKey, Problem};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use http_body::Frame;
use hyper_util::rt::TokioIo;

#[tokio::test]
async fn a_response_comes_back_byte_for_byte_without_the_headers_of_its_connection() {
    let world = World::new();
    let runs = world.runs.clone();
    let every_byte: Vec<u8> = (0..=255).cycle().take(10_000).collect();
    let expected = Bytes::from(every_byte.clone());
    let server = Server::start(world.layer().await.build().unwrap(), move |_: Request| {
        runs.begin();
        let body = Body::from(every_byte.clone());
        let response = Response::builder()
            .status(418)
            .header("content-type", "application/x-any")
            .header("location", "/charges/17")
            .header("x-many", "1")
            .header("x-many", "2")
            .header("x-latin", HeaderValue::from_bytes(b"caf\xe9").unwrap())
            .header("connection", "x-hop")
            .header("x-hop", "1")
            .header("keep-alive", "timeout=5")
            .header("date", "Thu, 01 Jan 1970 00:00:00 GMT")
            .header("set-cookie", "session=secret")
            .header("idempotency-replayed", "false");
        std::future::ready(response.body(body).unwrap())
    })
    .await;
    let first = server.post("k", "").await;
    assert_eq!((first.status.as_u16(), &first.body), (418, &expected));
    assert_eq!(first.header("set-cookie"), Some("session=secret"));
    assert_eq!(first.header("x-hop"), Some("1"));
    let again = server.post("k", "").await;
    assert_eq!((again.status.as_u16(), &again.body, world.runs.count()), (418, &expected, 1));
    assert_eq!(again.header("content-type"), Some("application/x-any"));
    assert_eq!(again.header("location"), Some("/charges/17"));
    assert_eq!(again.headers.get_all("x-many").iter().collect::<Vec<_>>(), ["1", "2"]);
    assert_eq!(again.headers["x-latin"].as_bytes(), b"caf\xe9");
    assert_eq!(again.headers.get_all("idempotency-replayed").iter().collect::<Vec<_>>(), ["true"]);
    for gone in ["x-hop", "keep-alive", "connection", "set-cookie"] {
        assert_eq!(again.headers.get(gone), None);
    }
    assert_ne!(
        again.header("date"),
        Some("Thu, 01 Jan 1970 00:00:00 GMT"),
        "the server sets the date of what it sends"
    );
}

#[tokio::test]
async fn failures_are_not_stored_and_release_the_key() {
    let world = World::new();
    let runs = world.runs.clone();
    let server = Server::start(world.layer().await.build().unwrap(), move |request: Request| {
        runs.begin();
        let status: u16 = request.headers()["x-status"].to_str().unwrap().parse().unwrap();
        if request.headers().contains_key("x-begins") {
            request.extensions().get::<IdempotencyKey>().unwrap().begin();
        }
        std::future::ready(Response::builder().status(status).body(Body::from("as asked")).unwrap())
    })
    .await;
    let post = |key: String, status: u16| {
        let status = status.to_string();
        server.send(request(Method::POST, "/", &[("idempotency-key", &key), ("x-status", &status)], ""))
    };
    let begins = |key: &str, status: u16| {
        let status = status.to_string();
        let headers = [("idempotency-key", key), ("x-status", &status), ("x-begins", "1")];
        server.send(request(Method::POST, "/", &headers, ""))
    };
    for status in [500, 502, 503, 599, 401, 403, 408, 429, 400, 404, 405, 413, 415, 422] {
        let before = world.runs.count();
        for _ in 0..2 {
            let answer = post(format!("k-{status}"), status).await;
            assert_eq!((answer.status.as_u16(), answer.text(), answer.is_replayed()), (status, "as asked", false));
        }
        assert_eq!(world.runs.count(), before + 2, "{status} is not stored");
        // And then it succeeds.
        assert_eq!(post(format!("k-{status}"), 200).await.status, 200);
        assert!(post(format!("k-{status}"), 200).await.is_replayed());
    }
    for status in [500, 429] {
        for _ in 0..2 {
            assert!(!begins(&format!("b-{status}"), status).await.is_replayed(), "{status}, begun or not");
        }
    }
    for status in [400, 404, 405, 413, 415, 422] {
        let before = world.runs.count();
        assert!(!begins(&format!("b-{status}"), status).await.is_replayed());
        let again = begins(&format!("b-{status}"), status).await;
        assert_eq!((again.status.as_u16(), again.is_replayed(), world.runs.count()), (status, true, before + 1));
    }
    for status in [200, 201, 204, 303, 402, 409, 410, 451] {
        let before = world.runs.count();
        assert!(!post(format!("k-{status}"), status).await.is_replayed());
        let again = post(format!("k-{status}"), status).await;
        assert_eq!((again.status.as_u16(), again.is_replayed(), world.runs.count()), (status, true, before + 1));
    }
}

#[tokio::test]
async fn which_statuses_are_stored_can_be_chosen() {
    let world = World::new();
    let layer = world.layer().await.stores_status(|status| status == StatusCode::OK);
    let server = world.counting(layer).await;
    server.post("k", "").await.is_run(1, "");
    server.post("k", "").await.is_run(2, "");
}

#[tokio::test]
async fn trailers_are_kept() {
    let world = World::new();
    let server = Server::start(world.layer().await.build().unwrap(), |_: Request| {
        let trailers = HeaderMap::from_iter([(HeaderName::from_static("x-checksum"), HeaderValue::from_static("7"))]);
        let frames = [Ok::<_, std::io::Error>(Frame::data(Bytes::from("abc"))), Ok(Frame::trailers(trailers))];
        let response = Response::builder().header("trailer", "x-checksum");
        std::future::ready(response.body(Body::new(Frames(frames.into_iter()))).unwrap())
    })
    .await;
    for is_replayed in [false, true] {
        let answer = server.send(request(Method::POST, "/", &[("idempotency-key", "k"), ("te", "trailers")], "")).await;
        assert_eq!((answer.text(), answer.is_replayed()), ("abc", is_replayed));
        assert_eq!(answer.trailers.expect("trailers")["x-checksum"], "7");
    }
}

#[tokio::test]
async fn what_others_have_completed_or_damaged_is_answered_and_not_run_again() {
    let world = World::new();
    let server = world.counting(world.layer().await).await;
    let mut id = hapax::Key::new();
    id.null().text("k");
    // The records were written by another program: without a response, and with one that is
    // invalid.
    for (result, problem, status) in
        [(None, Problem::ResponseNotKept, 410), (Some(vec![9, 9, 9, 9]), Problem::ResponseUnreadable, 500)]
    {
        let engine = world.engine().build().await.unwrap();
        let claim = engine.claim(&id).await.unwrap().claimed().unwrap();
        match result {
            None => claim.complete().await.unwrap(),
            Some(result) => claim.complete_with(result).await.unwrap(),
        }
        let answer = server.post("k", "").await;
        answer.is_problem(problem);
        assert_eq!((answer.status.as_u16(), world.runs.count()), (status, 0));
        engine.forget(&id).await.unwrap();
    }
}

#[tokio::test]
async fn one_connection_carries_many_requests() {
    let world = World::new();
    let server = world.counting(world.layer().await).await;
    let stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    for key in ["a", "b", "a"] {
        let answer = sender.send_request(request(Method::POST, "/", &[("idempotency-key", key)], "")).await.unwrap();
        assert_eq!(answer.status(), StatusCode::CREATED);
        http_body_util::BodyExt::collect(answer.into_body()).await.unwrap();
    }
    assert_eq!(world.runs.count(), 2);
}

/// Fields that handlers, or other writers into the store, may put into headers and trailers, and
/// that must never be replayed.
const NEVER_AGAIN: [(&str, &str); 16] = [
    ("set-cookie", "session=secret"),
    ("set-cookie2", "session=secret"),
    ("www-authenticate", "Basic"),
    ("authentication-info", "nextnonce=1"),
    ("proxy-authenticate", "Basic"),
    ("access-control-allow-origin", "https://evil.example"),
    ("access-control-allow-credentials", "true"),
    ("transfer-encoding", "chunked"),
    ("te", "trailers"),
    ("upgrade", "h2c"),
    ("keep-alive", "timeout=5"),
    ("age", "17"),
    ("alt-svc", "h2=\"evil.example:443\""),
    ("clear-site-data", "\"*\""),
    ("x-accel-redirect", "/internal/secrets"),
    ("idempotency-replayed", "false"),
];

fn never_again() -> HeaderMap {
    let field = |(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
    HeaderMap::from_iter(NEVER_AGAIN.map(field))
}

/// Answers with the layer alone: a server would hide what it must not send.
fn answering(layer: &hapax_http::IdempotencyLayer<Faulty>, headers: HeaderMap, trailers: HeaderMap) -> Answering {
    tower_layer::Layer::layer(layer, Answers { headers, trailers })
}

type Answering = hapax_http::IdempotencyService<Answers, Faulty>;

#[derive(Clone)]
struct Answers {
    headers: HeaderMap,
    trailers: HeaderMap,
}

impl<B> tower_service::Service<http::Request<B>> for Answers {
    type Response = http::Response<Body>;
    type Error = std::convert::Infallible;
    type Future = std::future::Ready<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Self::Error>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Request<B>) -> Self::Future {
        let frames =
            [Ok::<_, std::io::Error>(Frame::data(Bytes::from("abc"))), Ok(Frame::trailers(self.trailers.clone()))];
        let mut response = http::Response::new(Body::new(Frames(frames.into_iter())));
        *response.headers_mut() = self.headers.clone();
        std::future::ready(Ok(response))
    }
}

async fn call(service: &mut Answering) -> Answer {
    use tower_service::Service;
    let (parts, body) =
        service.call(request(Method::POST, "/", &[("idempotency-key", "k")], "")).await.unwrap().into_parts();
    let body = http_body_util::BodyExt::collect(body).await.unwrap();
    let trailers = body.trailers().cloned();
    Answer { status: parts.status, headers: parts.headers, trailers, body: body.to_bytes() }
}

#[tokio::test]
async fn of_headers_and_trailers_only_what_is_safe_is_replayed() {
    let world = World::new();
    let layer = world.layer().await.build().unwrap();
    let mut fields = never_again();
    fields.insert("x-checksum", HeaderValue::from_static("7"));
    let mut service = answering(&layer, fields.clone(), fields.clone());
    let first = call(&mut service).await;
    assert_eq!(
        (&first.headers, first.trailers),
        (&fields, Some(fields.clone())),
        "the first is as the handler made it"
    );
    let again = call(&mut service).await;
    assert_eq!((again.text(), again.is_replayed()), ("abc", true));
    let kept = HeaderMap::from_iter([(HeaderName::from_static("x-checksum"), HeaderValue::from_static("7"))]);
    assert_eq!(again.trailers, Some(kept));
    for (name, _) in NEVER_AGAIN {
        let values: Vec<_> = again.headers.get_all(name).iter().collect();
        let expected: &[&str] = if name == "idempotency-replayed" { &["true"] } else { &[] };
        assert_eq!(values, expected, "{name}");
    }
    assert_eq!(again.header("x-checksum"), Some("7"));
}

/// Makes a record by hand, as any writer into the store could.
fn record(status: u16, headers: &HeaderMap, trailers: &HeaderMap, body: &[u8]) -> Vec<u8> {
    let mut record = vec![1, 0];
    record.extend_from_slice(&status.to_le_bytes());
    record.extend_from_slice(&[0; 8]);
    for fields in [headers, trailers] {
        record.extend_from_slice(&(fields.len() as u32).to_le_bytes());
        for (name, value) in fields {
            record.extend_from_slice(&(name.as_str().len() as u16).to_le_bytes());
            record.extend_from_slice(name.as_str().as_bytes());
            record.extend_from_slice(&(value.len() as u32).to_le_bytes());
            record.extend_from_slice(value.as_bytes());
        }
    }
    record.extend_from_slice(&(body.len() as u64).to_le_bytes());
    record.extend_from_slice(body);
    record
}

/// Returns the answer to a request whose record another program has written.
async fn answer_to(record: Vec<u8>) -> Answer {
    let world = World::new();
    let engine = world.engine().build().await.unwrap();
    let mut id = hapax::Key::new();
    id.null().text("k");
    let request = request(Method::POST, "/", &[], "").map(|_| ()).into_parts().0;
    let fingerprint = hapax_http::fingerprint::exact(&request, b"");
    let options = hapax_store::TieredClaimOptions::new().fingerprint(fingerprint.0);
    engine.claim_with(&id, options).await.unwrap().claimed().unwrap().complete_with(record).await.unwrap();
    let mut service = answering(&world.layer().await.build().unwrap(), HeaderMap::new(), HeaderMap::new());
    call(&mut service).await
}

#[tokio::test]
async fn what_somebody_else_has_written_into_the_store_is_filtered_again() {
    let mut fields = never_again();
    fields.insert("connection", HeaderValue::from_static("x-hop"));
    fields.insert("x-hop", HeaderValue::from_static("1"));
    fields.insert("content-length", HeaderValue::from_static("17"));
    let answer = answer_to(record(201, &fields, &fields, b"abc")).await;
    assert_eq!((answer.status.as_u16(), answer.text(), answer.is_replayed()), (201, "abc", true));
    let names: Vec<&str> = answer.headers.keys().map(HeaderName::as_str).collect();
    assert_eq!(names, ["idempotency-replayed"]);
    assert_eq!(answer.header("idempotency-replayed"), Some("true"));
    assert_eq!(answer.trailers, None);
}

#[tokio::test]
async fn a_record_of_no_possible_response_is_not_sent() {
    let none = HeaderMap::new();
    for (status, body) in [(100, ""), (101, ""), (103, ""), (199, ""), (204, "x"), (205, "x"), (304, "x")] {
        let answer = answer_to(record(status, &none, &none, body.as_bytes())).await;
        answer.is_problem(Problem::ResponseUnreadable);
    }
    assert_eq!(answer_to(record(204, &none, &none, b"")).await.status, 204);
    // More fields than any client takes.
    let many = HeaderMap::from_iter(
        (0..5_000).map(|i| (HeaderName::try_from(format!("x-{i}")).unwrap(), HeaderValue::from_static(""))),
    );
    answer_to(record(200, &many, &none, b"")).await.is_problem(Problem::ResponseUnreadable);
    answer_to(record(200, &none, &many, b"")).await.is_problem(Problem::ResponseUnreadable);
}

#[tokio::test]
async fn headers_and_trailers_count_for_what_is_stored() {
    let large = HeaderValue::try_from("x".repeat(60_000)).unwrap();
    let fields = HeaderMap::from_iter([(HeaderName::from_static("x-large"), large)]);
    for (headers, trailers) in [(fields.clone(), HeaderMap::new()), (HeaderMap::new(), fields)] {
        let world = World::new();
        let layer = world.layer().await.max_body_bytes(50_000).build().unwrap();
        let mut service = answering(&layer, headers.clone(), trailers.clone());
        let first = call(&mut service).await;
        assert_eq!((first.text(), &first.headers), ("abc", &headers), "the first is whole");
        assert_eq!(first.trailers.unwrap_or_default(), trailers);
        call(&mut service).await.is_problem(Problem::ResponseNotKept);
        assert_eq!((layer.stats().not_kept, layer.stats().executed), (1, 1));
    }
}
