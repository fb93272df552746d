//! Measures the cost of the layer: a trivial handler with and without it, at a rate that does not
//! depend on how fast it answers.
//!
//! ```sh
//! cargo run --release --manifest-path benches/http/Cargo.toml            # 10,000 requests/s for 10 s, in turns
//! cargo run --release --manifest-path benches/http/Cargo.toml -- 5000 20
//! ```
//!
//! *In process*: the service is called as a server would call it. The latency is that of the call,
//! from when it was due, so that a call that had to wait counts as late (no coordinated omission).
//! *Loopback*: server and client share the machine. The client, a thread of its own, sends over 32
//! connections. Cases take turns, a second each, so that noise of the machine affects all alike.

mod loopback;

use bytes::Bytes;
use hapax_http::{Body, IdempotencyLayer};
use hapax_store::{BudgetStore, InMemoryStore, Store, TieredDedup};
use hdrhistogram::Histogram;
use http::{Request, Response};
use http_body_util::Full;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tower_layer::Layer;
use tower_service::Service;

#[derive(Clone)]
struct Trivial;

impl<B> Service<Request<B>> for Trivial {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Full<Bytes>>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<B>) -> Self::Future {
        ready(Ok(Response::new(Full::from("charged"))))
    }
}

/// The measurements of a case.
struct Case {
    name: &'static str,
    latencies: Histogram<u64>,
    replays: bool,
}

impl Case {
    fn new(name: &'static str) -> Self {
        let latencies = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds that hold");
        Case { name, latencies, replays: false }
    }

    fn print(&self) {
        let micros = |quantile| self.latencies.value_at_quantile(quantile) as f64 / 1_000.0;
        let [p50, p90, p99] = [0.5, 0.9, 0.99].map(micros);
        println!("{:<34} {:>9} {p50:>10.1} {p90:>10.1} {p99:>10.1}", self.name, self.latencies.len());
    }
}

pub async fn layer_over<S: Store>(store: S) -> IdempotencyLayer<S> {
    let dedup = TieredDedup::builder(store).scope("bench").build().await.expect("an engine");
    IdempotencyLayer::builder(dedup).global_scope().build().expect("a layer")
}

/// Makes a request with a new key, or with the one that is replayed.
fn request(is_new: bool) -> Request<Full<Bytes>> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = if is_new { NEXT.fetch_add(1, Ordering::Relaxed) } else { u64::MAX };
    let key = format!("\"00000000-0000-4000-8000-{number:020}\"");
    let sent = Request::post("/charges").header("host", "bench").header("idempotency-key", key);
    sent.header("content-type", "application/json")
        .body(Full::from(r#"{"amount":1999,"currency":"EUR"}"#))
        .expect("valid")
}

/// Calls a service at a fixed rate for a second.
async fn drive<A, R>(case: &mut Case, service: &mut A, rate: u32)
where
    A: Service<Request<Full<Bytes>>, Response = Response<R>, Error = Infallible>,
{
    let (began, pause) = (Instant::now(), Duration::from_secs(1) / rate);
    for i in 0..rate {
        let due = began + pause * i;
        while Instant::now() < due {
            // Timers are too coarse for a tenth of a millisecond; other tasks go on.
            tokio::task::yield_now().await;
        }
        let Ok(response) = service.call(request(!case.replays)).await;
        case.latencies.saturating_record(due.elapsed().as_nanos() as u64);
        // A wrong answer must not be fast.
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers().contains_key("idempotency-replayed"), case.replays);
    }
}

/// Measures without a layer, and with one over either store.
async fn in_process<M, B>(rate: u32, seconds: u32, mut map: M, mut budget: B)
where
    M: Service<Request<Full<Bytes>>, Response = Response<Body<Full<Bytes>>>, Error = Infallible>,
    B: Service<Request<Full<Bytes>>, Response = Response<Body<Full<Bytes>>>, Error = Infallible>,
{
    let [mut none, mut handled, mut budgeted] =
        ["no layer", "layer, map, handled", "layer, budget, handled"].map(Case::new);
    let mut replayed = Case { replays: true, ..Case::new("layer, map, replayed") };
    // This is the key that is replayed.
    map.call(request(false)).await.unwrap_or_else(|never| match never {});
    for _ in 0..seconds {
        drive(&mut none, &mut Trivial, rate).await;
        drive(&mut handled, &mut map, rate).await;
        drive(&mut replayed, &mut map, rate).await;
        drive(&mut budgeted, &mut budget, rate).await;
    }
    [none, handled, replayed, budgeted].iter().for_each(Case::print);
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse().expect("a number"));
    let rate = arguments.next().unwrap_or(10_000);
    let seconds = arguments.next().unwrap_or(10);
    println!("{rate} requests/s, {seconds} s for each case; microseconds\n");
    println!("{:<34} {:>9} {:>10} {:>10} {:>10}", "in process", "requests", "p50", "p90", "p99");
    let map = layer_over(InMemoryStore::new()).await.layer(Trivial);
    let budget = layer_over(BudgetStore::new(256 << 20).expect("a budget")).await.layer(Trivial);
    // As in a server: on a worker, not on the thread that waits for them.
    tokio::spawn(in_process(rate, seconds, map, budget)).await.expect("no panic");
    println!("\n{:<34} {:>9} {:>10} {:>10} {:>10}", "loopback", "requests", "p50", "p90", "p99");
    loopback::run(rate, seconds).await;
}
