//! One hostile tenant among ordinary ones, over a real server and real connections.
//!
//! `HAPAX_HOSTILE=9500` opens that many connections, by the layer's own limits (it takes as many
//! file descriptors twice); the default is few of everything. With `--nocapture` it says what the
//! others have waited, which it does not judge.

use crate::tenants::{FOR_EVER, Tenant};
use crate::world::*;
use axum::Router;
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use hapax_http::{IdempotencyLayer, LayerBuilder};
use http::{Method, StatusCode};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

const OTHERS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
/// The requests of each of the others.
const REQUESTS: usize = 30;
const TAKES: Duration = Duration::from_millis(5);

fn hostile() -> usize {
    std::env::var("HAPAX_HOSTILE").ok().and_then(|count| count.parse().ok()).unwrap_or(400)
}

/// Sets the default limits, or less where there are fewer connections than that.
fn limited(layer: LayerBuilder<Faulty>) -> LayerBuilder<Faulty> {
    let max = (hostile() * 2 / 3).min(4_096);
    layer.max_in_flight(max)
}

/// Counts of the requests that the handler has got.
#[derive(Clone, Default)]
struct Handled {
    of_others: Arc<AtomicUsize>,
    of_hostile: Arc<AtomicUsize>,
    hostile_ended: Arc<AtomicUsize>,
}

async fn server(layer: IdempotencyLayer<Faulty>, handled: Handled) -> Server {
    let handler = move |request: Request| {
        let handled = handled.clone();
        async move {
            let is_hostile = request.extensions().get::<Tenant>().is_some_and(|tenant| tenant.0 == "hostile");
            let count = if is_hostile { &handled.of_hostile } else { &handled.of_others };
            count.fetch_add(1, Relaxed);
            if request.headers().contains_key("x-hang") {
                std::future::pending::<()>().await;
            }
            tokio::time::sleep(TAKES).await;
            handled.hostile_ended.fetch_add(usize::from(is_hostile), Relaxed);
            (StatusCode::CREATED, "done")
        }
    };
    let authenticate = async |mut request: Request, next: Next| -> Response {
        let token = request.headers().get("authorization").and_then(|value| value.to_str().ok());
        let tenant =
            ["hostile"].into_iter().chain(OTHERS).find(|name| token == Some(format!("Bearer {name}'s").as_str()));
        let Some(tenant) = tenant else { return StatusCode::UNAUTHORIZED.into_response() };
        request.extensions_mut().insert(Tenant(tenant));
        next.run(request).await
    };
    Server::of(Router::new().fallback(handler).layer(layer).layer(from_fn(authenticate))).await
}

/// The request that the hostile tenant sends on each of its connections, again and again.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Attack {
    /// Half a body, and no more.
    Idle,
    /// A body of 64 KiB with a key of its own, 20 a second (475 of 9,500 connections).
    Large,
    /// A request whose handler hangs.
    Hang,
}

fn attack(attack: Attack, address: SocketAddr) -> JoinSet<()> {
    let mut attackers = JoinSet::new();
    let count = match attack {
        Attack::Idle | Attack::Hang => hostile(),
        Attack::Large => hostile() / 40,
    };
    for i in 0..count {
        // They do not start at the same moment, nor more than 800 a second: connections a second
        // are for the server to limit, and this process has their other ends, too.
        let scale = if attack == Attack::Large { 1.0 } else { (count as f64 / 400.0).max(1.0) };
        let pause = Duration::from_millis(500).mul_f64(scale);
        let begins = pause.mul_f64(i as f64 / count as f64);
        attackers.spawn(async move {
            tokio::time::sleep(begins).await;
            for n in 0_u64.. {
                let Ok(mut stream) = TcpStream::connect(address).await else { continue };
                let (header, announced, sent) = match attack {
                    Attack::Idle => ("", 10, 5),
                    Attack::Large => ("", 64 << 10, 64 << 10),
                    _ => ("x-hang: 1\r\n", 1, 1),
                };
                let head = format!(
                    "POST / HTTP/1.1\r\nhost: x\r\nauthorization: Bearer hostile's\r\nidempotency-key: {i}-{n}\r\n\
                     {header}connection: close\r\ncontent-length: {announced}\r\n\r\n"
                );
                let _ = stream.write_all(head.as_bytes()).await;
                let _ = stream.write_all(&vec![b'x'; sent]).await;
                let _ = stream.read_to_end(&mut Vec::new()).await;
                tokio::time::sleep(pause).await;
            }
        });
    }
    attackers
}

/// Returns the 99th percentile of the others' waits, in milliseconds, and how many of them were
/// refused.
async fn ordinary(address: SocketAddr, round: u32) -> (f64, usize) {
    let mut tenants = JoinSet::new();
    for tenant in OTHERS {
        tenants.spawn(async move {
            let stream = TcpStream::connect(address).await.unwrap();
            let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
            tokio::spawn(connection);
            let (token, mut waits, mut refused) = (format!("Bearer {tenant}'s"), Vec::new(), 0);
            for n in 0..REQUESTS {
                let key = format!("{round}-{n}");
                let headers = [("idempotency-key", key.as_str()), ("authorization", token.as_str())];
                let began = Instant::now();
                sender.ready().await.unwrap();
                let answer = sender.send_request(request(Method::POST, "/", &headers, "10")).await.unwrap();
                refused += usize::from(answer.status() != StatusCode::CREATED);
                http_body_util::BodyExt::collect(answer.into_body()).await.unwrap();
                waits.push(began.elapsed());
            }
            (waits, refused)
        });
    }
    let seen = tenants.join_all().await;
    let refused = seen.iter().map(|(_, refused)| refused).sum();
    let mut waits: Vec<Duration> = seen.into_iter().flat_map(|(waits, _)| waits).collect();
    waits.sort_unstable();
    (waits[waits.len() * 99 / 100].as_secs_f64() * 1_000.0, refused)
}

/// Checks that no ordinary tenant is refused, nor waits for the hostile one: while the share of the
/// latter is full of requests that never end, all of the others' are handled. Nothing is judged by
/// its time, which depends on what else the machine does; that an attack at most doubles what
/// others wait is shown in simulated time (`tenants.rs`).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_sockets_one_hostile_tenant_is_refused_alone_and_keeps_nobody_else_waiting() {
    for kind in [Attack::Idle, Attack::Large, Attack::Hang] {
        let world = World::new();
        // (Times that only end what would hang.)
        let engine = world.engine().timeout(FOR_EVER).build().await.unwrap();
        let builder = IdempotencyLayer::builder(engine)
            .scope(|request| request.extensions.get::<Tenant>().map(|tenant| tenant.0.to_owned()));
        let layer = limited(builder).build().unwrap();
        let handled = Handled::default();
        let server = server(layer.clone(), handled.clone()).await;
        let (alone, _) = ordinary(server.address, 0).await;
        assert_eq!(handled.of_others.load(Relaxed), REQUESTS * OTHERS.len(), "without an attack");

        let attackers = attack(kind, server.address);
        match kind {
            Attack::Large => until("it is served", || handled.of_hostile.load(Relaxed) > 10).await,
            Attack::Idle | Attack::Hang => until("its share is full", || layer.stats().over_quota > 0).await,
        }
        let of_hostile = handled.of_hostile.load(Relaxed);
        let (attacked, refused) = ordinary(server.address, 1).await;
        println!("{kind:?}: p99 alone {alone:.1} ms, under attack {attacked:.1} ms; {:?}", layer.stats());
        assert_eq!(refused, 0, "{kind:?}: none of the others is refused");
        assert_eq!(handled.of_others.load(Relaxed), 2 * REQUESTS * OTHERS.len(), "{kind:?}: each is handled once");
        // So nobody has waited for the end of a request of the hostile tenant: there was none.
        let ended = handled.hostile_ended.load(Relaxed);
        match kind {
            Attack::Idle => assert_eq!(of_hostile, 0, "of half a body nothing is handled"),
            Attack::Hang => assert!(of_hostile > 0 && ended == 0, "{of_hostile} hang, and {ended} have ended"),
            Attack::Large => assert!(ended > 0),
        }
        drop(attackers);
        until("they are gone", || layer.stats().reading == 0).await;
    }
}
