//! A real server and a real client on one machine.

use crate::{Case, layer_over, request};
use axum::Router;
use axum::routing::post;
use bytes::Bytes;
use hapax_store::InMemoryStore;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinError;

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

type Idle = Vec<SendRequest<Full<Bytes>>>;

/// Sends at a fixed rate for a second, on any idle connection, and returns the connections. A
/// request that finds none idle waits, and its wait counts.
async fn drive(case: &mut Case, idle: &mut Idle, rate: u32) {
    let (began, pause) = (Instant::now(), Duration::from_secs(1) / rate);
    let mut under_way = tokio::task::JoinSet::new();
    for i in 0..rate {
        let due = began + pause * i;
        while Instant::now() < due {
            // This thread does nothing else. Timers are too coarse, and would send in bursts.
            tokio::task::yield_now().await;
        }
        while let Some(done) = under_way.try_join_next() {
            take(done, case, idle);
        }
        if idle.is_empty()
            && let Some(done) = under_way.join_next().await
        {
            take(done, case, idle);
        }
        let mut sender = idle.pop().expect("one that is idle, or was joined");
        under_way.spawn(async move {
            let response = sender.send_request(request(true)).await.expect("an answer");
            assert_eq!(response.status(), 200);
            response.into_body().collect().await.expect("a body");
            (sender, due.elapsed())
        });
    }
    while let Some(done) = under_way.join_next().await {
        take(done, case, idle);
    }
}

fn take(done: Result<(SendRequest<Full<Bytes>>, Duration), JoinError>, case: &mut Case, idle: &mut Idle) {
    let (sender, took) = done.expect("no panic");
    case.latencies.saturating_record(took.as_nanos() as u64);
    idle.push(sender);
}

/// Runs the server on a runtime's workers, and the client on a thread of its own.
pub async fn run(rate: u32, seconds: u32) {
    let bare = Router::new().route("/charges", post(async || "charged"));
    let layered = bare.clone().layer(layer_over(InMemoryStore::new()).await);
    let addresses = [serve(bare).await, serve(layered).await];
    let client = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async move {
            let mut cases = ["no layer", "layer, map, handled"].map(Case::new);
            let mut idle: [Idle; 2] = [Vec::new(), Vec::new()];
            for (address, idle) in addresses.iter().zip(&mut idle) {
                for _ in 0..CONNECTIONS {
                    idle.push(connect(*address).await);
                }
            }
            for _ in 0..seconds {
                for (case, idle) in cases.iter_mut().zip(&mut idle) {
                    drive(case, idle, rate).await;
                }
            }
            cases.iter().for_each(Case::print);
        });
    };
    tokio::task::spawn_blocking(client).await.expect("no panic");
}
