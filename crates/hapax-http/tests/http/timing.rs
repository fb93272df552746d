//! Leases, time-outs and patience, by a runtime's clock that is stopped and jumps: against the
//! service itself.

use crate::running::Inner;
use crate::world::*;
use bytes::Bytes;
use hapax_http::{IdempotencyLayer, IdempotencyService};
use http::{Method, StatusCode};
use http_body_util::Full;
use std::convert::Infallible;
use std::time::Duration;
use tower_layer::Layer;
use tower_service::Service;

/// Moves the store's clock along with the runtime's, which is stopped and jumps.
fn go_along(world: &World) -> tokio::task::JoinHandle<()> {
    let clock = world.clock.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            clock.advance(Duration::from_secs(1));
        }
    })
}

/// A handler that takes this long.
#[derive(Clone)]
struct Slow(Runs, Duration);

impl<B> Service<http::Request<B>> for Slow {
    type Response = http::Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = std::pin::Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: http::Request<B>) -> Self::Future {
        self.0.begin();
        let takes = self.1;
        Box::pin(async move {
            tokio::time::sleep(takes).await;
            Ok(http::Response::new(Full::from("done")))
        })
    }
}

fn slow(world: &World, layer: &IdempotencyLayer<Faulty>, takes: Duration) -> IdempotencyService<Slow, Faulty> {
    layer.layer(Slow(world.runs.clone(), takes))
}

pub fn keyed() -> http::Request<Full<Bytes>> {
    request(Method::POST, "/", &[("idempotency-key", "k")], "")
}

#[tokio::test(start_paused = true)]
async fn a_long_run_keeps_its_lease() {
    let world = World::new();
    let _clock = go_along(&world);
    let layer = world.layer().await.build().unwrap();
    let mut service = slow(&world, &layer, 10 * LEASE);
    let first = tokio::spawn(service.call(keyed()));
    for _ in 0..9 {
        tokio::time::sleep(LEASE).await;
        let meanwhile = service.call(keyed()).await.unwrap();
        assert_eq!(meanwhile.status(), StatusCode::CONFLICT);
        let left: u64 = meanwhile.headers()["retry-after"].to_str().unwrap().parse().unwrap();
        assert!((1..=LEASE.as_secs()).contains(&left), "{left}");
    }
    assert_eq!(first.await.unwrap().unwrap().status(), StatusCode::OK);
    assert_eq!((world.runs.count(), layer.stats().executed, layer.stats().unrecorded), (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_lost_is_taken_over_once_and_the_late_one_is_not_recorded() {
    let world = World::new();
    let layer = world.layer().await.build().unwrap();
    let mut service = slow(&world, &layer, Duration::from_secs(5));
    let first = tokio::spawn(service.call(keyed()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    // As if the process had stood still for this long.
    world.clock.advance(2 * LEASE);
    let second = tokio::spawn(service.call(keyed()));
    assert_eq!(first.await.unwrap().unwrap().status(), StatusCode::OK, "what was done was done");
    assert_eq!(layer.stats().unrecorded, 1);
    assert_eq!(second.await.unwrap().unwrap().status(), StatusCode::OK);
    assert_eq!((world.runs.count(), layer.stats().executed), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_hangs_is_stopped_and_its_key_is_free() {
    let world = World::new();
    let _clock = go_along(&world);
    let layer = world.layer().await.handler_timeout(Duration::from_secs(300)).build().unwrap();
    let mut service = slow(&world, &layer, Duration::from_secs(1_000_000));
    for run in 1..=2 {
        let late = service.call(keyed()).await.unwrap();
        assert_eq!((late.status(), world.runs.count()), (StatusCode::GATEWAY_TIMEOUT, run));
    }
}

struct Grenade;

impl Drop for Grenade {
    fn drop(&mut self) {
        panic!("this panic belongs to the test");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_when_it_is_stopped_releases_its_key() {
    let world = World::new();
    let _clock = go_along(&world);
    let layer = world.layer().await.handler_timeout(Duration::from_secs(5)).build().unwrap();
    let runs = world.runs.clone();
    let mut service = layer.layer(Inner(move |_: http::Request<hapax_http::Body<Full<Bytes>>>| {
        let run = runs.begin();
        async move {
            let _grenade = (run == 1).then(|| Grenade);
            std::future::pending().await
        }
    }));
    // As any panic of a handler: it goes on.
    assert!(tokio::spawn(service.call(keyed())).await.unwrap_err().is_panic());
    assert_eq!(layer.stats().released, 1);
    let second = service.call(keyed()).await.unwrap();
    assert_eq!((second.status(), world.runs.count()), (StatusCode::GATEWAY_TIMEOUT, 2));
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_with_the_first_request_or_with_patience() {
    let world = World::new();
    let _clock = go_along(&world);
    let layer = world.layer().await.wait(Duration::from_secs(10)).build().unwrap();
    for (takes, status) in [(Duration::from_secs(8), StatusCode::OK), (Duration::from_secs(60), StatusCode::CONFLICT)] {
        let world = World { runs: Runs::default(), ..world.clone() };
        let mut service = slow(&world, &layer, takes);
        let key = takes.as_secs().to_string();
        let sent = || request(Method::POST, "/", &[("idempotency-key", &key)], "");
        let first = tokio::spawn(service.call(sent()));
        tokio::time::sleep(Duration::from_secs(1)).await;
        let began = tokio::time::Instant::now();
        let second = service.call(sent()).await.unwrap();
        assert_eq!(second.status(), status);
        assert_eq!(second.headers().contains_key("idempotency-replayed"), status == StatusCode::OK);
        let waited = began.elapsed();
        assert!(waited >= Duration::from_secs(7) && waited <= Duration::from_millis(10_260), "{waited:?}");
        assert!(first.await.unwrap().is_ok());
        assert_eq!(world.runs.count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_given_up() {
    let world = World::new();
    let layer = world.layer().await.max_body_bytes((1 << 20) + 1).build().unwrap();
    let mut service = layer.layer(Inner(|_: http::Request<hapax_http::Body<Never>>| {
        std::future::ready(http::Response::new(Full::from("not reached")))
    }));
    let asked_before = world.store.calls();
    let began = tokio::time::Instant::now();
    let sent = http::Request::post("/").header("idempotency-key", "k").body(Never).unwrap();
    let late = service.call(sent).await.unwrap();
    assert_eq!((late.status(), began.elapsed()), (StatusCode::REQUEST_TIMEOUT, Duration::from_secs(60)));
    assert_eq!(world.store.calls(), asked_before);
}

/// A body that never comes.
struct Never;

impl http_body::Body for Never {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        std::task::Poll::Pending
    }
}

#[tokio::test(start_paused = true)]
async fn a_conflict_says_how_long_such_requests_take_not_what_is_left_of_the_lease() {
    let world = World::new();
    let _clock = go_along(&world);
    let layer = world.layer().await.build().unwrap();
    for (takes, said) in [(400, "1"), (3_200, "4"), (500_000, "30")] {
        let mut service = slow(&world, &layer, Duration::from_millis(takes));
        let path = format!("/takes/{}", "x".repeat(takes as usize % 97));
        let sent = |key: &str| request(Method::POST, &path, &[("idempotency-key", key)], "");
        assert_eq!(service.call(sent(&format!("{takes}"))).await.unwrap().status(), StatusCode::OK);
        let first = tokio::spawn(service.call(sent(&format!("{takes}-again"))));
        tokio::time::sleep(Duration::from_millis(100)).await;
        let conflict = service.call(sent(&format!("{takes}-again"))).await.unwrap();
        assert_eq!(conflict.status(), StatusCode::CONFLICT);
        // (No more than the rest of the lease, of which a moment may be over.)
        let header = conflict.headers()["retry-after"].to_str().unwrap();
        assert!(header == said || (said == "30" && header == "29"), "takes {takes} ms, said {header}");
        first.await.unwrap().unwrap();
    }
}
