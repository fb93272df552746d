//! A real server and a real client on one machine.

use crate::{Case, layer_over, request};
use axum::Router;
use axum::routing::post;
use bytes::Bytes;
use hapax::store::InMemoryStore;
use hdrhistogram::Histogram;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};

const CONNECTIONS: u32 = 32;

async fn serve(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

async fn connect(address: SocketAddr) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(address).await.expect("a connection");
    stream.set_nodelay(true).expect("no delay");
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("a handshake");
    tokio::spawn(connection);
    sender
}

/// A connection's share of the rate for a second.
async fn one(
    mut sender: SendRequest<Full<Bytes>>,
    rate: u32,
    offset: Duration,
) -> (SendRequest<Full<Bytes>>, Histogram<u64>) {
    let mut latencies = Case::new("").latencies;
    let (began, pause) = (Instant::now() + offset, Duration::from_secs(1) * CONNECTIONS / rate);
    for i in 0..rate / CONNECTIONS {
        let due = began + pause * i;
        // A millisecond coarse: it is not counted as lateness of the server's.
        tokio::time::sleep_until(due.into()).await;
        let sent = Instant::now();
        let response = sender.send_request(request(true)).await.expect("an answer");
        assert_eq!(response.status(), 200);
        response.into_body().collect().await.expect("a body");
        latencies.saturating_record(sent.elapsed().as_nanos() as u64);
    }
    (sender, latencies)
}

pub async fn run(rate: u32, seconds: u32) {
    let bare = Router::new().route("/charges", post(async || "charged"));
    let layered = bare.clone().layer(layer_over(InMemoryStore::new()).await);
    let addresses = [serve(bare).await, serve(layered).await];
    let mut cases = ["no layer", "layer, map, handled"].map(Case::new);
    let mut senders = [Vec::new(), Vec::new()];
    for (address, senders) in addresses.iter().zip(&mut senders) {
        for _ in 0..CONNECTIONS {
            senders.push(connect(*address).await);
        }
    }
    for _ in 0..seconds {
        for (case, senders) in cases.iter_mut().zip(&mut senders) {
            let mut tasks = tokio::task::JoinSet::new();
            for (i, sender) in (0..).zip(senders.drain(..)) {
                tasks.spawn(one(sender, rate, Duration::from_secs(1) * i / rate));
            }
            for (sender, latencies) in tasks.join_all().await {
                senders.push(sender);
                case.latencies.add(latencies).expect("the same bounds");
            }
        }
    }
    cases.iter().for_each(Case::print);
}
