//! Bodies that come in pieces, are too large, too slow, or break off.

use crate::world::*;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use hapax_http::Problem;
use http::{Method, StatusCode};
use http_body::Frame;
use http_body_util::BodyExt;
use std::io::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Semaphore, mpsc};

/// A body of these frames, of unknown length.
pub struct Frames<I>(pub I);

impl<I: Iterator<Item = Result<Frame<Bytes>, Error>> + Unpin> http_body::Body for Frames<I> {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<I::Item>> {
        Poll::Ready(self.0.next())
    }
}

fn pieces(count: usize, bytes: usize) -> Frames<impl Iterator<Item = Result<Frame<Bytes>, Error>> + Unpin> {
    Frames((0..count).map(move |i| Ok(Frame::data(Bytes::from(vec![b'a' + (i % 26) as u8; bytes])))))
}

/// A body whose frames a test sends.
struct Sent(mpsc::Receiver<Result<Frame<Bytes>, Error>>);

impl http_body::Body for Sent {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        self.0.poll_recv(context)
    }
}

fn streamed<B>(key: &str, body: B) -> http::Request<B> {
    http::Request::post("/").header("host", "test").header("idempotency-key", key).body(body).unwrap()
}

#[tokio::test]
async fn a_request_in_pieces_is_one_request() {
    let world = World::new();
    let server = world.counting(world.layer().await).await;
    let first = server.send(streamed("k", pieces(100, 1_000))).await;
    assert_eq!(first.body.len(), 100_000 + "run 1: ".len());
    // In other pieces, and of known length.
    let again = server.send(streamed("k", pieces(100, 1_000).collect().await.unwrap())).await;
    assert!(again.is_replayed());
    assert_eq!(again.body, first.body);
    server.send(streamed("k", pieces(99, 1_000))).await.is_problem(Problem::FingerprintMismatch);
}

#[tokio::test]
async fn a_request_that_is_too_large_is_refused_and_does_not_burn_its_key() {
    let world = World::new();
    let server = world.counting(world.layer().await.max_body_bytes(10_000)).await;
    let asked_before = world.store.calls();
    // It is refused in pieces, so that it is noticed on the way; and announced, so that nothing is
    // read.
    let refused = server.send(streamed("k", pieces(11, 1_000))).await;
    refused.is_problem(Problem::BodyTooLarge);
    assert_eq!(refused.status, StatusCode::PAYLOAD_TOO_LARGE);
    let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    stream
        .write_all(b"POST / HTTP/1.1\r\nhost: x\r\nidempotency-key: k\r\ncontent-length: 10001\r\n\r\n")
        .await
        .unwrap();
    let mut answer = vec![0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 413");
    assert_eq!((world.runs.count(), world.store.calls()), (0, asked_before));
    assert_eq!(server.send(streamed("k", pieces(10, 1_000))).await.status, StatusCode::CREATED);
}

#[tokio::test]
async fn a_request_that_breaks_off_claims_nothing() {
    let world = World::new();
    let server = world.counting(world.layer().await).await;
    let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
    stream
        .write_all(b"POST / HTTP/1.1\r\nhost: x\r\nidempotency-key: k\r\ncontent-length: 10\r\n\r\nhalf")
        .await
        .unwrap();
    drop(stream);
    server.post("k", "whole").await.is_run(1, "whole");
    assert_eq!(world.runs.count(), 1);
}

#[tokio::test]
async fn a_streamed_response_is_stored_when_it_is_whole() {
    let world = World::new();
    let (runs, gate) = (world.runs.clone(), Arc::new(Semaphore::new(0)));
    let opens = Arc::clone(&gate);
    let server = Server::start(world.layer().await.build().unwrap(), move |_: Request| {
        runs.begin();
        let (sender, receiver) = mpsc::channel(1);
        let gate = Arc::clone(&opens);
        tokio::spawn(async move {
            for piece in ["a", "b", "c"] {
                gate.acquire().await.unwrap().forget();
                sender.send(Ok(Frame::data(Bytes::from(piece)))).await.unwrap();
            }
        });
        std::future::ready(Response::new(Body::new(Sent(receiver))))
    })
    .await;
    let server = Arc::new(server);
    let of_task = Arc::clone(&server);
    let first = tokio::spawn(async move { of_task.post("k", "").await });
    gate.add_permits(2);
    until("the handler runs", || world.runs.count() == 1).await;
    // It is not done while the body is not.
    server.post("k", "").await.is_problem(Problem::InProgress);
    gate.add_permits(1);
    assert_eq!(first.await.unwrap().text(), "abc");
    let again = server.post("k", "").await;
    assert_eq!((again.text(), again.is_replayed(), world.runs.count()), ("abc", true, 1));
}

#[tokio::test]
async fn a_response_that_is_too_large_is_passed_on_whole_and_its_request_not_run_again() {
    for announces in [false, true] {
        let world = World::new();
        let runs = world.runs.clone();
        let layer = world.layer().await.max_body_bytes(10_000).build().unwrap();
        let server = Server::start(layer.clone(), move |_: Request| {
            runs.begin();
            let body = if announces { Body::from(vec![b'x'; 50_000]) } else { Body::new(pieces(50, 1_000)) };
            std::future::ready(Response::builder().status(201).body(body).unwrap())
        })
        .await;
        let first = server.post("k", "").await;
        assert_eq!((first.status, first.body.len()), (StatusCode::CREATED, 50_000));
        let again = server.post("k", "").await;
        again.is_problem(Problem::ResponseNotKept);
        assert_eq!(again.status, StatusCode::GONE);
        assert!(again.text().contains("201"), "{}", again.text());
        assert_eq!(world.runs.count(), 1);
        assert_eq!((layer.stats().not_kept, layer.stats().executed), (1, 1));
    }
}

#[tokio::test]
async fn a_response_that_breaks_off_releases_the_key() {
    let world = World::new();
    let runs = world.runs.clone();
    let server = Server::start(world.layer().await.build().unwrap(), move |_: Request| {
        let run = runs.begin();
        let end = if run == 1 { Err(Error::other("broken")) } else { Ok(Frame::data(Bytes::from("whole"))) };
        let frames = [Ok(Frame::data(Bytes::from("half "))), end];
        std::future::ready(Response::new(Body::new(Frames(frames.into_iter()))))
    })
    .await;
    let broken = server.try_send(request(Method::POST, "/", &[("idempotency-key", "k")], "")).await;
    assert!(broken.is_err(), "{broken:?}");
    let retried = server.send(request(Method::POST, "/", &[("idempotency-key", "k")], "")).await;
    assert_eq!((retried.text(), retried.is_replayed(), world.runs.count()), ("half whole", false, 2));
}

#[tokio::test]
async fn server_sent_events_pass_at_once_and_their_request_is_not_run_again() {
    let world = World::new();
    let (runs, gate) = (world.runs.clone(), Arc::new(Semaphore::new(0)));
    let opens = Arc::clone(&gate);
    let layer = world.layer().await.build().unwrap();
    let server = Server::start(layer.clone(), move |_: Request| {
        runs.begin();
        let (sender, receiver) = mpsc::channel(1);
        let gate = Arc::clone(&opens);
        tokio::spawn(async move {
            gate.acquire().await.unwrap().forget();
            sender.send(Ok(Frame::data(Bytes::from("data: 1\n\n")))).await.unwrap();
        });
        let events = Response::builder().header("content-type", "Text/Event-Stream; charset=utf-8");
        std::future::ready(events.body(Body::new(Sent(receiver))).unwrap())
    })
    .await;
    let server = Arc::new(server);
    let of_task = Arc::clone(&server);
    let first = tokio::spawn(async move { of_task.post("k", "").await });
    // The request is done before the first event.
    until("it is recorded", || layer.stats().executed == 1).await;
    server.post("k", "").await.is_problem(Problem::ResponseNotKept);
    gate.add_permits(1);
    assert_eq!(first.await.unwrap().text(), "data: 1\n\n");
    assert_eq!((world.runs.count(), layer.stats().not_kept), (1, 1));
}

#[tokio::test]
async fn a_form_that_is_sent_again_with_another_boundary_is_the_same_request() {
    let world = World::new();
    let server = world.counting(world.layer().await).await;
    let form = |boundary: &str, file: &str| {
        let disposition = "content-disposition: form-data; name=\"file\"; filename=\"a\"";
        let body = format!("--{boundary}\r\n{disposition}\r\n\r\n{file}\r\n--{boundary}--\r\n");
        let content_type = format!("multipart/form-data; boundary={boundary}");
        let request = streamed("k", http_body_util::Full::from(body));
        let (mut parts, body) = request.into_parts();
        parts.headers.insert("content-type", content_type.parse().unwrap());
        http::Request::from_parts(parts, body)
    };
    let first = server.send(form("----one", "content")).await;
    let again = server.send(form("----another", "content")).await;
    assert_eq!((again.is_replayed(), &again.body), (true, &first.body));
    server.send(form("----one", "another")).await.is_problem(Problem::FingerprintMismatch);
}

#[tokio::test]
async fn a_response_is_replayed_only_in_an_encoding_that_is_asked_for() {
    let world = World::new();
    let runs = world.runs.clone();
    let server = Server::start(world.layer().await.build().unwrap(), move |_: Request| {
        runs.begin();
        let zipped = Response::builder().header("content-encoding", "gzip").body(Body::from("zipped"));
        std::future::ready(zipped.unwrap())
    })
    .await;
    let asking = |asked: &[(&'static str, &'static str)]| {
        let headers = [&[("idempotency-key", "k")], asked].concat();
        server.send(request(Method::POST, "/", &headers, ""))
    };
    assert_eq!(asking(&[("accept-encoding", "gzip, br")]).await.text(), "zipped");
    assert!(asking(&[("accept-encoding", "br, gzip;q=0.1")]).await.is_replayed());
    for asked in [&[][..], &[("accept-encoding", "br")], &[("accept-encoding", "gzip;q=0, *")]] {
        asking(asked).await.is_problem(Problem::ResponseNotKept);
    }
    assert_eq!(world.runs.count(), 1);
}
